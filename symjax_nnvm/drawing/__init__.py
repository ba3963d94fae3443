"""A drawing of boxes and arrows: what is in it, where it lies, as DOT, as SVG. Knows nothing of networks."""
