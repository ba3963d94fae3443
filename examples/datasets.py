"""The data of the examples: nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from symjax_nnvm.errors import MissingExtraError

try:
    from sklearn.datasets import load_digits
except ImportError as error:
    raise MissingExtraError(f"{error}. The examples need: pip install -e '.[examples]'") from error

Digits = tuple[np.ndarray, np.ndarray]


def digits() -> tuple[Digits, Digits]:
    """(train images, labels), (test images, labels): the 1,797 handwritten digits that ship inside scikit-learn.

    Images (n, 1, 8, 8) float32 in [0, 1]; labels (n,) float32, as MXNet's losses take them.
    """
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    order = np.random.RandomState(0).permutation(len(images))
    images, labels = images[order], labels[order].astype(np.float32)
    return (images[:1400], labels[:1400]), (images[1400:], labels[1400:])


def licence() -> str:
    """The text of this repository's licence."""
    return (Path(__file__).parents[1] / "LICENSE").read_text()
