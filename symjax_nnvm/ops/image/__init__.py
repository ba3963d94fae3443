"""Images as they come from a file, (height, width, channels): tensors of them, sizes, flips, colours."""
