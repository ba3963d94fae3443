"""Cases of the small functions of MXNet's contrib module."""

from tests.cases import Case, T

ABC = {"a": 1.5, "b": -2.0, "c": 0.25}


def ints(*shape: int, high: float = 9):
    return T(*shape, kind="integers", low=-4, high=high, dtype="int32")


CASES = [
    Case("_contrib_quadratic", (T(3, 4),), ABC),
    Case("_contrib_quadratic", (T(3),)),
    Case(
        "_contrib_quadratic",
        (T(7, dtype="float16"),),
        ABC,
        rtol=1e-3,
        rtol_reason="MXNet rounds after each operation; XLA may keep float32 between them",
    ),
    Case("_contrib_quadratic", (T(5, dtype="float64"),), ABC),
    Case("_contrib_quadratic", (ints(7),), ABC),
    Case("_contrib_div_sqrt_dim", (T(2, 5),)),
    Case("_contrib_div_sqrt_dim", (T(2, 2, 3, dtype="float64"),)),
    Case("_contrib_div_sqrt_dim", (T(2, 3, dtype="float16"),)),
    Case("_contrib_div_sqrt_dim", (ints(2, 5, high=50),)),
    Case("_contrib_allclose", (T(2, 3), T(2, 3)), wrt=()),
    Case("_contrib_allclose", (T(2, 3), T(2, 3)), {"atol": 2.5}, wrt=()),
    Case("_contrib_allclose", (T(4, low=1, high=1.5), T(4, low=2, high=2.5)), {"rtol": 0.76}, wrt=()),
    Case("_contrib_allclose", (T(3, dtype="float16"), T(3, dtype="float16")), {"atol": 3.0}, wrt=()),
    Case(
        "_contrib_allclose", (T(3, dtype="float64"), T(3, dtype="float64")), {"atol": 1e-3, "equal_nan": False}, wrt=()
    ),
]
