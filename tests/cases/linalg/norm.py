"""Cases of norm in the NumPy dialect."""

from tests.cases import Case, T

_SIGNS = {"kind": "signs", "low": 0.3, "high": 1.5}
_NOT_SQUARE = "MXNet's gradient of one singular value is wrong"
_DIGITS = "singular values of ill-conditioned matrices"

CASES = [
    *[
        Case("_npi_norm", (T(*shape, **_SIGNS),), params)
        for shape, params in (
            ((2, 3), {"flag": -2}),
            ((2, 3), {"flag": 1, "axis": (0, 1)}),
            ((2, 3), {"ord": 3.0, "axis": -1}),
            ((2, 3), {"ord": 1.0, "axis": 0, "keepdims": True}),
            ((2, 3), {"ord": 0.0, "axis": 1}),
            ((2, 3, 2), {"ord": 2.0, "axis": 1}),
        )
    ],
    *[
        Case("_npi_norm", (T(*shape, **_SIGNS),), params, smooth=False, rtol=1e-4, rtol_reason=_DIGITS)
        for shape, params in (
            ((3,), {}),
            ((2, 3), {"flag": 2, "axis": (0, 1)}),
            ((2, 3, 2), {"flag": 2, "axis": (0, 2), "keepdims": True}),
        )
    ],
    *[
        Case("_npi_norm", (T(2, 3, **_SIGNS),), params, wrt=(), rtol=1e-4, rtol_reason=_DIGITS, tag="value")
        for params in ({}, {"ord": -2.0, "flag": 0, "axis": (0, 1)})
    ],
    *[
        Case("_npi_norm", (T(2, 3, **_SIGNS),), params, no_mxnet=_NOT_SQUARE, smooth=False)
        for params in ({}, {"ord": -2.0, "flag": 0, "axis": (0, 1)})
    ],
    Case("_npi_norm", (T(0),), wrt=()),
    Case("_norm_direction", (T(2, 3),), {"flag": 2}, no_mxnet="not an operator of MXNet"),
]
