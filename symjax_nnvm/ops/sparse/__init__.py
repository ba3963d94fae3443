"""What MXNet made for sparse storage, on dense arrays."""
