"""JAX rules: updates of weights."""
