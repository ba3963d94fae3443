"""Small networks that MXNet quantised, and the images that they were asked about."""

import numpy as np


def images(name: str, count: int = 256) -> np.ndarray:
    """Images of one colour each, with noise, for a network."""
    rng = np.random.RandomState(len(name))
    return (rng.uniform(-1, 1, (count, 3, 1, 1)) + rng.uniform(-0.5, 0.5, (count, 3, 8, 8))).astype(np.float32)
