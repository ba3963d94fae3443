"""Cases: updates of weights."""
