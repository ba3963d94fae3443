"""Detection, regions, sampling of images."""
