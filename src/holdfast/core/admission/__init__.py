"""Who asks, and may they: signatures, policies, rates."""
