"""What the ledger says, as report tables: every stage is a pure DataFrame -> DataFrame."""
