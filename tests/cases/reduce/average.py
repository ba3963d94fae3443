"""Cases of average and percentile."""

from tests.cases import Case, T

_WEIGHTS = {"low": 0.5, "high": 2.0}
_SUM = "no gradient passes through the sum of weights"
_WHOLE = {"kind": "integers", "low": 1, "high": 9, "dtype": "int32"}

CASES = [
    Case("_npi_average", (T(2, 3), T(2, 3, **_WEIGHTS))),
    *[Case("_npi_average", (T(2, 3, 4), T(2, 3, 4, **_WEIGHTS)), {"axis": axis}) for axis in (1, (0, -1))],
    Case("_npi_average", (T(2, 3, 4), T(4, **_WEIGHTS)), {"axis": -1}),
    Case("_npi_average", (T(2, 3), T(2, **_WEIGHTS)), {"axis": 0, "returned": True}, not_derivative=_SUM),
    *[Case("_npi_average", (T(2, 3),), {"weighted": False, **params}) for params in ({}, {"axis": 0})],
    Case("_npi_average", (T(2, 3),), {"weighted": False, "axis": 0, "returned": True}, not_derivative=_SUM),
    Case("_npi_average", (T(2, 3, **_WHOLE), T(2, 3, **_WHOLE)), {"axis": 1}),
    *[
        Case("_weights_like", (T(*shape), T(2, 3)), {"axis": 1}, wrt=(0,), no_mxnet="not an operator of MXNet")
        for shape in ((2, 3), (3,))
    ],
    *[
        Case("_npi_percentile", (T(2, 3, kind="spread"),), {"q_scalar": 30.0, "interpolation": how}, wrt=())
        for how in ("linear", "lower", "higher", "midpoint", "nearest")
    ],
    *[
        Case("_npi_percentile", (T(2, 3, 4, kind="spread"), T(3, low=0, high=100)), params, wrt=())
        for params in ({}, {"axis": 1}, {"axis": (0, -1), "keepdims": True})
    ],
    Case("_npi_percentile", (T(2, 3, **_WHOLE), T(low=0, high=100)), {"axis": 1, "interpolation": "nearest"}, wrt=()),
]
