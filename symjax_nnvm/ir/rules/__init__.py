"""What the rules of operators are written with: axes, sizes, costs, layouts, adjoints."""
