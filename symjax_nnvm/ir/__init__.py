"""This package has the parts of a graph: operators, nodes, graphs, tables, and the registry of passes."""
