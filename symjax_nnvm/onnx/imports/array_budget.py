"""One budget for the arrays that are made while an ONNX file is read: a number in a file does not decide what memory is
taken."""

from __future__ import annotations

import math

from symjax_nnvm.errors import OnnxError
from symjax_nnvm.ir.types import MAX_RANK

BASE = 2**28
"""Bytes of arrays that any file may make."""

GROWTH = 4
"""Bytes more for each byte of the file's weights: an honest network lays each of them out anew once or twice."""


class Budget:
    """Bytes of arrays that may still be made. weights: bytes of the file's own arrays."""

    def __init__(self, weights: int = 0):
        self._whole = self._left = BASE + GROWTH * weights

    def reserve(self, *sizes: int, itemsize: int = 8) -> None:
        """Reserve the bytes of an array before it is made. itemsize: bytes of an element. Raises OnnxError when the
        budget is spent, for a negative size and for too many sizes."""
        if len(sizes) > MAX_RANK:
            raise OnnxError(f"it makes an array of {len(sizes)} axes, more than {MAX_RANK}")
        if min(sizes, default=0) < 0:
            raise OnnxError(f"it makes an array with an axis of {min(sizes)} elements")
        nbytes = itemsize * math.prod(sizes)
        if nbytes > self._left:
            raise OnnxError(f"the arrays that the file asks for would take more than {self._whole} bytes")
        self._left -= nbytes
