"""The back-end: the shell around the core's shards, and the disk under them."""
