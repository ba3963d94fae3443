"""Cases: indexing."""
