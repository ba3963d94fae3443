"""A drawing of boxes and arrows: its contents, its layout, as DOT, as SVG. Knows nothing of networks."""
