"""Cases of polyval."""

from tests.cases import Case, T

CASES = [
    *[Case("_npi_polyval", (T(n), T(*shape))) for n, shape in ((3, (2, 2)), (4, ()), (1, (3,)))],
    Case("_npi_polyval", tuple(T(3, low=-3, high=4, kind="integers", dtype="int32") for _ in range(2))),
    Case("_npi_polyval", (T(0), T(2)), wrt=()),
    Case("_polynomial_derivative", (T(4),), no_mxnet="not an operator of MXNet"),
]
