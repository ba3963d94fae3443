"""Cases of the operators that count and number."""

from tests.cases import Case, T

HALF = "sums of float16 are rounded in another order"
WHOLE = "fractions are cut off before, but the gradient is passed on, as in MXNet"
NEGATIVE = "MXNet fails with negative axes"
OVERRUN = "MXNet writes beyond its result"
OUTSIDE = {"kind": "integers", "low": -3, "high": 9}


CASES = [
    Case("_histogram", (T(3, 8),), {"bin_cnt": 4, "range": (-0.5, 0.75)}, wrt=()),
    Case("_histogram", (T(24, **OUTSIDE),), {"bin_cnt": 3, "range": (0, 6)}, wrt=(), tag="at the edges"),
    Case("_histogram", (T(24, **OUTSIDE, dtype="int32"),), {"bin_cnt": 3, "range": (0, 4)}),
    Case("_histogram", (T(24, **OUTSIDE, dtype="int64"),), {"bin_cnt": 5, "range": (0, 2)}, tag="empty bins"),
    Case("_histogram", (T(24, dtype="float64"),), {"bin_cnt": 7, "range": (-0.7, 0.7)}, wrt=()),
    Case("_histogram", (T(24, dtype="float16"),), {"bin_cnt": 10, "range": (-0.7, 0.7)}, wrt=()),
    Case("_histogram", (T(4, kind="integers", low=1, high=2),), {"bin_cnt": 2, "range": (1, 1)}, wrt=()),
    Case("_histogram", (T(24, **OUTSIDE), T(3, kind="integers", low=2, high=3)), wrt=(), tag="edges that are one"),
    Case("_histogram", (T(4, 6, **OUTSIDE, dtype="int32"), T(3, kind="integers", low=2, high=3, dtype="int32"))),
    Case("cumsum", (T(2, 3),)),
    Case("cumsum", (T(2, 3, 2),), {"axis": 1}),
    Case("cumsum", (T(2, 3),), {"axis": -1}, no_mxnet=NEGATIVE),
    Case("cumsum", (T(2, 3),), {"axis": 0, "dtype": "float64"}),
    Case("cumsum", (T(2, 3, low=-9, high=9),), {"dtype": "int32"}, not_derivative=WHOLE),
    Case("cumsum", (T(6, kind="integers", low=50, high=90, dtype="int8"),)),
    Case("cumsum", (T(2, 8, dtype="float16"),), {"axis": 1}, rtol=2e-3, rtol_reason=HALF),
    Case("ravel_multi_index", (T(2, 5, kind="integers", low=0, high=6),), {"shape": (7, 6)}, wrt=()),
    Case("ravel_multi_index", (T(3, 4, **OUTSIDE, dtype="int64"),), {"shape": (-1, 3, 4)}),
    Case("ravel_multi_index", (T(1, 4, low=0, high=9),), {"shape": (9,)}, wrt=(), tag="fractions"),
    Case("unravel_index", (T(5, kind="integers", low=0, high=42),), {"shape": (7, 6)}, wrt=()),
    Case("unravel_index", (T(6, 1, kind="integers", low=-60, high=90, dtype="int32"),), {"shape": (-1, 3, 4)}),
    Case("unravel_index", (T(2, 3, kind="integers", low=0, high=42),), {"shape": (7, 6)}, wrt=(), no_mxnet=OVERRUN),
    Case("unravel_index", (T(4, 1, 1, kind="integers", low=0, high=42, dtype="int64"),), {"shape": (7, 6)}),
    Case("unravel_index", (T(4, low=-90, high=90, dtype="float16"),), {"shape": (5, 4)}, wrt=(), tag="fractions"),
]
