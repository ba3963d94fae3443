"""Arithmetic of 8-bit networks: quantisation, layers of integers, and what MXNet fused for oneDNN."""
