"""Cases of L2Normalization, LRN and moments."""

from typing import Any

from tests.cases import Case, T

_LRN_IMAGES = "MXNet's LRN takes float32 images of 4 axes"
_HALF = {"rtol": 2e-3, "rtol_reason": "the gradient is rounded to float16 between operators"}


def _lrn(*shape: int, dtype: str = "float32", no_mxnet: str = "", **params: Any) -> Case:
    return Case("LRN", (T(*shape, dtype=dtype),), params, no_mxnet=no_mxnet)


CASES = [
    *[
        Case("L2Normalization", (T(2, 3, 4),), {"mode": mode, "eps": 0.1})
        for mode in ("instance", "channel", "spatial")
    ],
    Case("L2Normalization", (T(2, 2, 3, 2),), {"mode": "channel"}),
    Case("L2Normalization", (T(2, 2, 3, 2),), {"mode": "spatial"}),
    Case("L2Normalization", (T(3, 4),)),
    Case("L2Normalization", (T(5, kind="signs", low=0.5),), {"eps": 0.5}),
    Case("L2Normalization", (T(2, 3, 4, dtype="float64"),), {"mode": "channel"}),
    Case("L2Normalization", (T(2, 3, 4, dtype="float16"),), {"mode": "spatial"}, **_HALF),
    _lrn(2, 5, 2, 2, nsize=3, alpha=0.5, beta=0.6, knorm=1.5),
    _lrn(1, 4, 2, 3, nsize=5),
    _lrn(1, 3, 2, 2, nsize=1, alpha=2.0),
    _lrn(1, 2, 2, 2, nsize=17, alpha=2.0, beta=1.0),
    _lrn(2, 5, 3, nsize=3, alpha=0.5, no_mxnet=_LRN_IMAGES),
    _lrn(1, 5, 2, 2, nsize=3, alpha=0.5, dtype="float64", no_mxnet=_LRN_IMAGES),
    _lrn(1, 5, 2, 2, nsize=3, alpha=0.5, dtype="float16", no_mxnet=_LRN_IMAGES),
    *[
        Case("moments", (T(2, 3, 4),), {"axes": axes, "keepdims": keepdims})
        for axes, keepdims in (((0,), False), ((1, 2), True), ((-1, 0), False), ((0, 1, 2), False))
    ],
    Case("moments", (T(2, 3, 4, dtype="float64"),), {"axes": (1,)}),
    Case("moments", (T(2, 3, 4, dtype="float16"),), {"axes": (1, 2)}, **_HALF),
    Case("moments", (T(2, 3, 4, kind="integers", low=-9, high=9, dtype="int32"),), {"axes": (1,)}),
]
