"""Shardings of arrays over a mesh of devices, for XLA, and conversion of explicit axes to auto axes."""
