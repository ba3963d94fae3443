"""Cases: vision."""
