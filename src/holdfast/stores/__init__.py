"""Where metadata is kept."""
