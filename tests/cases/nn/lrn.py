"""Cases of LRN."""

from typing import Any

from tests.cases import Case, T

_LRN_IMAGES = "MXNet's LRN takes float32 images of 4 axes"


def _lrn(*shape: int, dtype: str = "float32", no_mxnet: str = "", **params: Any) -> Case:
    return Case("LRN", (T(*shape, dtype=dtype),), params, no_mxnet=no_mxnet)


CASES = [
    _lrn(2, 5, 2, 2, nsize=3, alpha=0.5, beta=0.6, knorm=1.5),
    _lrn(1, 4, 2, 3, nsize=5),
    _lrn(1, 3, 2, 2, nsize=1, alpha=2.0),
    _lrn(1, 2, 2, 2, nsize=17, alpha=2.0, beta=1.0),
    _lrn(2, 5, 3, nsize=3, alpha=0.5, no_mxnet=_LRN_IMAGES),
    *(_lrn(1, 5, 2, 2, nsize=3, alpha=0.5, dtype=dtype, no_mxnet=_LRN_IMAGES) for dtype in ("float64", "float16")),
]
