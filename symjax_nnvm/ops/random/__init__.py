"""Random draws, and densities of what is drawn."""
