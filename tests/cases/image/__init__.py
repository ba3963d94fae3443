"""Cases: image."""
