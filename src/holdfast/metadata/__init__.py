"""Metadata of queues, accounts, users and keys: typed views of one store, with a cache."""
