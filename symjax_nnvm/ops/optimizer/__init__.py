"""Updates of weights."""
