"""Cases: random draws."""
