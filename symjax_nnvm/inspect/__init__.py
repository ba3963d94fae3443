"""What a network is: its layers, its cost, the roles of its variables, the difference of two."""
