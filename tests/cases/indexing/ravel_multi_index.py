"""Cases of ravel_multi_index and unravel_index."""

from tests.cases import Case, T

OVERRUN = "MXNet writes beyond its result"

OUTSIDE = {"kind": "integers", "low": -3, "high": 9}

CASES = [
    Case("ravel_multi_index", (T(2, 5, kind="integers", low=0, high=6),), {"shape": (7, 6)}, wrt=()),
    Case("ravel_multi_index", (T(3, 4, **OUTSIDE, dtype="int64"),), {"shape": (-1, 3, 4)}),
    Case("ravel_multi_index", (T(1, 4, low=0, high=9),), {"shape": (9,)}, wrt=(), tag="fractions"),
    Case("unravel_index", (T(5, kind="integers", low=0, high=42),), {"shape": (7, 6)}, wrt=()),
    Case("unravel_index", (T(6, 1, kind="integers", low=-60, high=90, dtype="int32"),), {"shape": (-1, 3, 4)}),
    Case("unravel_index", (T(2, 3, kind="integers", low=0, high=42),), {"shape": (7, 6)}, wrt=(), no_mxnet=OVERRUN),
    Case("unravel_index", (T(4, 1, 1, kind="integers", low=0, high=42, dtype="int64"),), {"shape": (7, 6)}),
    Case("unravel_index", (T(4, low=-90, high=90, dtype="float16"),), {"shape": (5, 4)}, wrt=(), tag="fractions"),
]
