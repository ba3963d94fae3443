"""MXNet's operators for sparse storage, on dense arrays."""
