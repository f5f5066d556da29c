"""What every process needs around the core: clocks, keys."""
