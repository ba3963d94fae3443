"""Cases: control flow."""
