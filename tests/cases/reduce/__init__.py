"""Cases: reductions."""
