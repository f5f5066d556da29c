"""Pure code: what a host decides. No sockets, disks, clocks, chance or logging in here."""
