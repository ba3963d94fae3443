"""Arrays out of nothing, or out of another array's shape."""
