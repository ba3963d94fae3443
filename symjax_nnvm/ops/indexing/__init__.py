"""Elements by index, by order, by mask."""
