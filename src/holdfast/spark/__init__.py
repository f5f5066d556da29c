"""Spark's side of the ledger: a source that reads the spool, and a sink that commits to its tables."""
