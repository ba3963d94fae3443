"""Cases of moments."""

from tests.cases import Case, T

_HALF = {"rtol": 2e-3, "rtol_reason": "the gradient is rounded to float16 between operators"}


CASES = [
    *[
        Case("moments", (T(2, 3, 4),), {"axes": axes, "keepdims": keepdims})
        for axes, keepdims in (((0,), False), ((1, 2), True), ((-1, 0), False), ((0, 1, 2), False))
    ],
    Case("moments", (T(2, 3, 4, dtype="float64"),), {"axes": (1,)}),
    Case("moments", (T(2, 3, 4, dtype="float16"),), {"axes": (1, 2)}, **_HALF),
    Case("moments", (T(2, 3, 4, kind="integers", low=-9, high=9, dtype="int32"),), {"axes": (1,)}),
]
