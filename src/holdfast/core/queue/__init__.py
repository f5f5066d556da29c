"""What a shard decides about messages: its lanes, the commands they are given, the records that come of them."""
