"""Cases: creation."""
