"""What a graph is made of: operators, nodes, graphs, tables, and the registry of passes."""
