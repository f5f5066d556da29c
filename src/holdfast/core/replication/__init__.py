"""One shard on several hosts: who leads, who follows, what is committed, how a copy catches up or is repaired."""
