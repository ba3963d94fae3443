"""A function of a batch, computed in lanes: by every core for samples of its own, from end to end."""
