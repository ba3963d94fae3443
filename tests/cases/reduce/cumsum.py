"""Cases of cumsum."""

from tests.cases import Case, T

HALF = "sums of float16 are rounded in another order"

WHOLE = "fractions are cut off before, but the gradient is passed on, as in MXNet"

NEGATIVE = "MXNet fails with negative axes"


CASES = [
    Case("cumsum", (T(2, 3),)),
    Case("cumsum", (T(2, 3, 2),), {"axis": 1}),
    Case("cumsum", (T(2, 3),), {"axis": -1}, no_mxnet=NEGATIVE),
    Case("cumsum", (T(2, 3),), {"axis": 0, "dtype": "float64"}),
    Case("cumsum", (T(2, 3, low=-9, high=9),), {"dtype": "int32"}, not_derivative=WHOLE),
    Case("cumsum", (T(6, kind="integers", low=50, high=90, dtype="int8"),)),
    Case("cumsum", (T(2, 8, dtype="float16"),), {"axis": 1}, rtol=2e-3, rtol_reason=HALF),
]
