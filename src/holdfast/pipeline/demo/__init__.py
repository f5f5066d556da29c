"""A made-up day for `holdfast pipeline demo`: four accounts, two nodes, and something of everything that goes wrong."""
