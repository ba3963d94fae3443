"""What imitates MXNet and nothing else: its name, its places, its words."""
