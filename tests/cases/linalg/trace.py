"""Cases of trace."""

from tests.cases import Case, T

CASES = [
    *[
        Case("_np_trace", (T(*shape),), params)
        for shape, params in (
            ((2, 3), {}),
            ((2, 3, 4), {"offset": 1, "axis1": -1, "axis2": 0}),
            ((3, 3), {"offset": -1}),
            ((2, 3, 2, 2), {"axis1": 1, "axis2": 2}),
        )
    ],
    Case("_np_trace", (T(2, 2, low=-9, high=9, kind="integers", dtype="int32"),)),
]
