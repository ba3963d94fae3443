"""The binary files of CIFAR: rows of labels, a byte each, and the 3072 bytes of an image, its red plane first."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.errors import TrainingError
from symjax_nnvm.io.files import StrPath, read_bounded
from symjax_nnvm.io.guess import require_file

_PIXELS = 3 * 32 * 32
_MOST = 1 << 30
"""Bytes of a file, at most; CIFAR's have 154 million."""


def read_cifar(path: StrPath, labels: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return (images uint8 (n, 32, 32, 3), labels uint8 (n, labels)) of a file.

    labels: how many are before each image: 1 in CIFAR-10; 2 in CIFAR-100, the coarse one first. Raises TrainingError
    for a file of another format, ModelNotFoundError, FileError, OSError.
    """
    require_file(path)
    values = np.frombuffer(read_bounded(path, _MOST, "a file of CIFAR", TrainingError), np.uint8)
    width = labels + _PIXELS
    if not len(values) or len(values) % width:
        raise TrainingError(f"{path} is not a CIFAR file", expected=f"rows of {width} bytes", got=f"{len(values)}")
    rows = values.reshape(-1, width)
    return np.ascontiguousarray(rows[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), rows[:, :labels]
