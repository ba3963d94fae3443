"""Networks of 8-bit integers in this library and in MXNet."""
