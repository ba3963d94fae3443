"""Cases: elementwise functions."""
