"""Cases of L2Normalization."""

from tests.cases import Case, T

_HALF = {"rtol": 2e-3, "rtol_reason": "the gradient is rounded to float16 between operators"}


CASES = [
    *[
        Case("L2Normalization", (T(2, 3, 4),), {"mode": mode, "eps": 0.1})
        for mode in ("instance", "channel", "spatial")
    ],
    *(Case("L2Normalization", (T(2, 2, 3, 2),), {"mode": mode}) for mode in ("channel", "spatial")),
    Case("L2Normalization", (T(3, 4),)),
    Case("L2Normalization", (T(5, kind="signs", low=0.5),), {"eps": 0.5}),
    Case("L2Normalization", (T(2, 3, 4, dtype="float64"),), {"mode": "channel"}),
    Case("L2Normalization", (T(2, 3, 4, dtype="float16"),), {"mode": "spatial"}, **_HALF),
]
