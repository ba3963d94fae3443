"""Linear algebra, matrix products, transforms."""
