"""Cases of Dropout: where nothing is random MXNet is the judge of the values."""

from tests.cases import Case, T

_RANDOM = "the two libraries draw different numbers"

CASES = [
    Case("Dropout", (T(4, 5),), no_mxnet=_RANDOM),
    Case("Dropout", (T(3, 4, 2),), {"p": 0.2}, no_mxnet=_RANDOM),
    Case("Dropout", (T(6, 5),), {"p": 0.3, "axes": (0,)}, no_mxnet=_RANDOM),
    Case("Dropout", (T(3, 4, 5),), {"axes": (1, -1)}, no_mxnet=_RANDOM),
    Case("Dropout", (T(4, 5),), {"mode": "always", "cudnn_off": True}, is_train=False, no_mxnet=_RANDOM),
    Case("Dropout", (T(4, 5),), {"p": 1.0}, no_mxnet="MXNet divides 0 by 0"),
    Case("Dropout", (T(4, 5),), {"p": 0.0}),
    Case("Dropout", (T(4, 5),), {"p": 0.0, "axes": (1, 1)}),
    Case("Dropout", (T(4, 5),), {"p": 0.0, "mode": "always"}, is_train=False),
    Case("Dropout", (T(4, 5),), {"p": 0.7}, is_train=False),
    Case("Dropout", (T(4, 5),), {"axes": (1,)}, is_train=False),
    *[Case("Dropout", (T(4, 5, dtype=dtype),), no_mxnet=_RANDOM) for dtype in ("float16", "float64")],
]
