"""Cases of the reductions of the NumPy dialect."""

from tests.cases import Case, T
from tests.cases.reduce.reduction import HALF, TIES

AXES = [{}, {"axis": 0}, {"axis": (0, -1)}, {"axis": -1, "keepdims": True}, {"keepdims": True}, {"axis": ()}]
"""Every way to choose axes."""
_SIGNS = {"kind": "signs", "low": 0.5, "high": 1.5}
_WHOLE = {"kind": "integers", "low": 1, "high": 9}
_FAULTY = "MXNet gives no gradient"
_NUMBERS = ("_np_sum", "_np_prod", "_npi_mean")
_SPREADS = ("_npi_var", "_npi_std")

CASES = [
    *(Case(op, (T(2, 3, 4, **_SIGNS),), dict(params)) for op in _NUMBERS for params in AXES),
    *(Case(op, (T(2, 3, kind="spread"),), dict(params)) for op in ("_np_max", "_np_min") for params in AXES),
    *(Case(op, (T(**_SIGNS),)) for op in (*_NUMBERS, "_np_max")),
    *(Case(op, (T(0, 3),), {"axis": 0}, wrt=()) for op in ("_np_sum", "_npi_mean", "_np_all")),
    Case("_np_prod", (T(0, 3),), {"axis": 0}, wrt=(), no_mxnet="MXNet's product of no numbers is 0"),
    Case("_np_max", (T(2, 0),), {"axis": 0}, wrt=()),
    Case("_np_max", (T(3, 4, kind="integers", low=0, high=2),), {"axis": 1}, not_derivative=TIES, tag="ties"),
    # dtypes
    *(Case(op, (T(2, 3, dtype=dtype, **_WHOLE),), {"axis": 1}) for op in _NUMBERS for dtype in ("int32", "bool")),
    *(Case(op, (T(2, 3, **_WHOLE),), {"axis": 1, "dtype": "float64"}) for op in _NUMBERS),
    *(Case(op, (T(2, 3, dtype="int32", **_WHOLE),), {"axis": 1, "dtype": "float32"}) for op in _NUMBERS),
    *(Case(op, (T(2, 3),), {"axis": 1, "dtype": "int32"}, not_derivative="it is cut off") for op in _NUMBERS),
    *(Case(op, (T(2, 3, dtype="uint8", **_WHOLE),), {"axis": 1, "dtype": "int8"}) for op in _NUMBERS),
    *(Case(op, (T(2, 8, dtype="float16"),), {"axis": 1}, rtol=2e-3, rtol_reason=HALF) for op in _NUMBERS),
    Case("_np_min", (T(2, 3, dtype="int8", **_WHOLE),), {"axis": 0}),
    # truth
    *(
        Case(op, (T(3, 4, kind="integers", low=0, high=2, dtype=dtype),), dict(params))
        for op in ("_np_all", "_np_any")
        for dtype, params in (("float32", AXES[1]), ("int32", AXES[3]), ("bool", AXES[0]))
    ),
    # places
    *(
        Case(op, (T(2, 3, 4, kind="spread"),), dict(params))
        for op in ("_npi_argmax", "_npi_argmin")
        for params in ({}, {"axis": 1}, {"axis": -1, "keepdims": True}, {"keepdims": True})
    ),
    Case("_npi_argmax", (T(3, 4, kind="integers", low=0, high=3, dtype="int32"),), {"axis": 1}, tag="ties"),
    Case("_npi_argmin", (T(),)),
    # variance
    *(Case(op, (T(2, 3, 4),), dict(params), wrt=()) for op in _SPREADS for params in AXES[:5]),
    *(
        Case(op, (T(2, 3),), dict(params), no_mxnet=_FAULTY)
        for op in _SPREADS
        for params in ({"axis": 1, "ddof": 1}, {"keepdims": True}, {"axis": (0, 1)})
    ),
    *(Case(op, (T(2, 3, dtype="int32", **_WHOLE),), {"axis": 1}) for op in _SPREADS),
    *(Case(op, (T(2, 3, dtype="int32", **_WHOLE),), {"axis": 1, "dtype": "float32"}) for op in _SPREADS),
    *(Case(op, (T(2, 3),), {"dtype": "float64", "ddof": 2}, wrt=()) for op in _SPREADS),
    *(Case(op, (T(2, 3, dtype="float16"),), wrt=(), rtol=2e-3, rtol_reason=HALF) for op in _SPREADS),
]
