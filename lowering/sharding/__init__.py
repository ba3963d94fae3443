"""This package tells XLA how arrays are split over a mesh of devices, and makes explicit axes auto ones."""
