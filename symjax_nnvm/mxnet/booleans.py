"""Booleans in files: any byte but 0 is true, where NumPy takes 0 and 1 only, so they alone are copied."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.errors import ParamsFormatError
from symjax_nnvm.mxnet.sparse import MAX_DENSE_BYTES


def booleans(raw: np.ndarray) -> np.ndarray:
    """Return the truth of bytes, uint8 of any shape. Raises ParamsFormatError for more of them than fit into memory: a
    file of a few bytes on the disk may be as long as it likes."""
    if raw.nbytes <= MAX_DENSE_BYTES:
        try:
            return np.asarray(raw != 0)
        except MemoryError:
            pass
    raise ParamsFormatError(
        f"An array of {raw.nbytes} booleans is too large: they are copied, and at most {MAX_DENSE_BYTES} bytes that "
        "fit into memory can be. Store them as uint8, which stays in the file until it is used."
    )
