"""JAX rules: arithmetic of 8-bit networks."""
