"""The log under a shard: frames, segments, snapshots; what to write, sync and answer in which order; recovery."""
