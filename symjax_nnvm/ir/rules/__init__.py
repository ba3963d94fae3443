"""The rules of operators are written with these: axes, sizes, costs, layouts, adjoints."""
