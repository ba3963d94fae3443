"""Cases of the reductions."""

from tests.cases import OTHER_INPUTS, Case, T

AXES = [
    {},
    {"axis": 0},
    {"axis": (0, 2)},
    {"axis": -1, "keepdims": True},
    {"axis": 1, "exclude": True},
    {"axis": (1, -1), "keepdims": True, "exclude": True},
    {"keepdims": True},
    {"axis": (0, 1, 2)},
]
"""Every way to choose axes."""


def _reductions():
    for op in ("sum", "mean", "nansum"):
        yield from (Case(op, (T(2, 3, 4),), dict(params)) for params in AXES)
    for op in ("prod", "nanprod"):
        yield from (Case(op, (T(2, 3, 4, kind="signs", low=0.5, high=1.5),), dict(params)) for params in AXES)
    for op in ("max", "min"):
        yield from (Case(op, (T(2, 3, 4, kind="spread"),), dict(params)) for params in AXES)


NORMS = [{}, {"axis": 1}, {"axis": (0, -1)}, {"axis": 1, "keepdims": True}, {"keepdims": True}]
SEARCHES = [{}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True}, {"keepdims": True}]

TIES = "MXNet gives every element that ties the whole gradient, where the derivative does not exist"
HALF = "sums of float16 are rounded in another order"

CASES = [
    *_reductions(),
    *(Case("norm", (T(2, 3, 4),), {"ord": 2, **params}) for params in NORMS),
    *(Case("norm", (T(2, 3, 4, kind="signs", low=0.1, high=1.0),), {"ord": 1, **params}) for params in NORMS),
    *(Case(op, (T(2, 3, 4, kind="spread"),), dict(params)) for op in ("argmax", "argmin") for params in SEARCHES),
    Case("argmax_channel", (T(3, 4, kind="spread"),), wrt=()),
    Case("argmax_channel", (T(2, 3, 4, kind="spread"),), wrt=()),
    Case("argmax_channel", (T(2, 3, 1, 2, kind="spread"),), wrt=()),
    Case("argmax", (T(3, 4, kind="integers", low=0, high=3),), {"axis": 1}, wrt=(), tag="ties"),
    Case("argmin", (T(3, 4, kind="integers", low=0, high=3, dtype="int32"),), {"axis": 1}, tag="ties"),
    Case("argmax", (T(3, 4, kind="spread", dtype="float64"),), {"axis": 1}),
    Case("max", (T(3, 4, kind="integers", low=0, high=2),), {"axis": 1}, not_derivative=TIES, tag="ties"),
    Case("min", (T(3, 4, kind="integers", low=0, high=2),), not_derivative=TIES, tag="ties"),
    Case("sum", (T(5),)),
    Case("sum", (T(2, 3),), {"axis": ()}),
    Case("sum", (T(2, 3),), {"axis": (0, 1), "exclude": True}),
    Case("sum", (T(2, 3, kind="integers", low=40, high=60, dtype="int8"),), {"axis": 0}),
    Case("sum", (T(2, 3, kind="integers", low=-9, high=9, dtype="int64"),)),
    Case("sum", (T(2, 8, dtype="float16"),), {"axis": 1}, rtol=2e-3, rtol_reason=HALF),
    Case("sum", (T(2, 8, dtype="float64"),), {"axis": 1}),
    Case("mean", (T(3, 4, kind="integers", low=-9, high=9, dtype="int32"),), {"axis": 1}),
    Case("mean", (T(2, 8, dtype="float16"),), {"axis": 1}, rtol=2e-3, rtol_reason=HALF),
    Case("prod", (T(2, 3, kind="integers", low=-3, high=4, dtype="int32"),), {"axis": 0}),
    Case("max", (T(2, 3, kind="integers", low=-9, high=9, dtype="int32"),), {"axis": 0}),
    Case("min", (T(2, 6, kind="spread", dtype="float16"),), {"axis": 1}),
    Case("norm", (T(2, 8, dtype="float16"),), {"axis": 1}, rtol=2e-3, rtol_reason=HALF),
    Case("norm", (T(2, 3),), {"axis": 1, "out_dtype": "float64"}, no_mxnet="out_dtype fails in MXNet on a CPU"),
    Case("_backward_sum", (T(2), T(2, 3)), {"axis": 1}, no_mxnet=OTHER_INPUTS),
    Case("_backward_mean", (T(1), T(2, 3)), no_mxnet=OTHER_INPUTS),
]
