"""The files of MNIST and its kin (idx): bytes of images or labels after their sizes, as they are or packed by gzip."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from math import prod
from typing import BinaryIO

import numpy as np

from symjax_nnvm.errors import TrainingError
from symjax_nnvm.io.files import StrPath, open_regular
from symjax_nnvm.io.guess import require_file

_MOST = 2 << 30
"""Bytes of the values in a file, at most; MNIST has 47 million."""

_GZIP = b"\x1f\x8b"


def read_idx(path: StrPath, ndim: int) -> np.ndarray:
    """Return the bytes of an idx file, uint8, with a number of axes: 3 of images (n, height, width), 1 of labels (n,).

    Raises TrainingError for a file of another format, ModelNotFoundError, FileError, OSError.
    """
    require_file(path)
    with open_regular(path) as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        try:
            if not packed:
                return _read(file, path, ndim)
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _read(unpacked, path, ndim)  # pyright: ignore[reportArgumentType]
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _not_idx(path, ndim, f"it cannot be unpacked: {error}") from None


def _read(file: BinaryIO, path: StrPath, ndim: int) -> np.ndarray:
    head = file.read(4 + 4 * ndim)
    if len(head) < 4 + 4 * ndim or head[:4] != bytes((0, 0, 8, ndim)):
        raise _not_idx(
            path, ndim, f"it begins with {head[:4].hex() or 'nothing'}, not with {bytes((0, 0, 8, ndim)).hex()}"
        )
    sizes = struct.unpack_from(f">{ndim}I", head, 4)
    count = prod(sizes)
    if count > _MOST:
        raise _not_idx(path, ndim, f"its sizes {sizes} are too large: expected at most {_MOST} bytes")
    values = file.read(count + 1)
    if len(values) != count:
        raise _not_idx(
            path, ndim, f"its sizes are {sizes}, and {'more' if len(values) > count else 'fewer'} bytes follow"
        )
    return np.frombuffer(values, np.uint8).reshape(sizes)


def _not_idx(path: StrPath, ndim: int, why: str) -> TrainingError:
    what = "images" if ndim == 3 else "labels"
    fix = "Copy it again: images are in *-images-idx3-ubyte, labels in *-labels-idx1-ubyte."
    return TrainingError(f"{os.fspath(path)} is not an idx file of {what}: {why}", fix=fix)
