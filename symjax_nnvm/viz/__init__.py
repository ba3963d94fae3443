"""Draw a network as boxes and arrows."""
