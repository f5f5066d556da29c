"""The managers' decisions and the way of a request through a cluster: membership, placement, lanes, routing."""
