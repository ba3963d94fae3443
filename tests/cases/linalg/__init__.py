"""Cases: linear algebra."""
