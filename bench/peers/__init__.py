"""Other servers, each optional: found at run time, installed by `make bench-peers`, reported as absent otherwise."""
