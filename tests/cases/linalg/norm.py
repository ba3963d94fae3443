"""Cases of norm in the NumPy dialect."""

import math

from tests.cases import Case, T

_SIGNS = {"kind": "signs", "low": 0.3, "high": 1.5}
_NOT_SQUARE = "MXNet's gradient of one singular value is wrong"
_TWICE = "MXNet multiplies the gradient of a sum by the head gradient twice"
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
        Case("_npi_norm", (T(*shape, **_SIGNS),), params, **how)
        for how in ({"wrt": (), "tag": "value"}, {"no_mxnet": _TWICE, "smooth": False})
        for shape, params in (
            ((2, 3), {"ord": 1.0}),
            ((2, 3), {"ord": -math.inf}),
            ((2, 3, 2), {"ord": -1.0, "axis": (2, 0), "keepdims": True}),
        )
    ],
    Case("_npi_norm", (T(3, **_SIGNS),), {"ord": math.inf, "axis": 0}, no_mxnet="refused there", smooth=False),
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
