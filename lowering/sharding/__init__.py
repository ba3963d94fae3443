"""What XLA is told of arrays on a mesh of devices: how each is split, and how explicit axes become auto ones."""
