"""Cases of histogram."""

from tests.cases import Case, T

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
]
