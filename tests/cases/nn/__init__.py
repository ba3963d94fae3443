"""Cases: layers."""
