"""Facts about a network: its layers, its cost, the roles of its variables, its difference from another."""
