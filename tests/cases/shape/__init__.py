"""Cases: shapes."""
