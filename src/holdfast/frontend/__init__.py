"""The front-end: bytes from sockets become commands to lanes, answers become bytes."""
