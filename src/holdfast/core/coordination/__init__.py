"""What hosts, managers and front-ends share: the store, the records in it, and what hosts tell of themselves."""
