"""Cases: sparse storage."""
