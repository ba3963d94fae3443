"""Cases of the operators whose gradient is deliberately not their derivative."""

from tests.cases import Case, T

STE = "straight through: the gradient is that of the identity"
SCALED = "the gradient is scaled, the data are not"

CASES = [
    Case("_contrib_round_ste", (T(3, 4, low=-3, high=3),), not_derivative=STE),
    Case("_contrib_round_ste", (T(5, low=-3, high=3, dtype="float16"),), not_derivative=STE),
    Case("_contrib_round_ste", (T(5, kind="integers", low=-3, high=3, dtype="int32"),), wrt=()),
    Case("_contrib_sign_ste", (T(3, 4),), not_derivative=STE),
    Case("_contrib_sign_ste", (T(5, kind="integers", low=-2, high=3, dtype="float64"),), not_derivative=STE),
    Case("_contrib_gradientmultiplier", (T(3, 4),)),
    Case("_contrib_gradientmultiplier", (T(3, 4),), {"scalar": -0.5}, not_derivative=SCALED),
    Case("_contrib_gradientmultiplier", (T(5, dtype="float16"),), {"scalar": 0.25}, not_derivative=SCALED),
    Case(
        "_contrib_gradientmultiplier", (T(5, kind="integers", high=9, dtype="int32"),), {"scalar": 2, "is_int": False}
    ),
]
