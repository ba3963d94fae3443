"""Cases: losses."""
