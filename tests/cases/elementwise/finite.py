"""Cases of what is finite, and of rounding, in the NumPy dialect."""

from tests.cases import Case, T

_VERDICTS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "logical_not")
_DECIMALS = ((0, "float32"), (1, "float32"), (-1, "float64"), (0, "int32"), (-1, "int32"), (-1, "uint8"))


def _whole(*shape: int, low: int = -2, dtype: str = "int32"):
    return T(*shape, low=low, high=3, kind="integers", dtype=dtype)


CASES = [
    *[Case(f"_npi_{name}", (_whole(3, 4, dtype="float32"),), not_derivative="it has steps") for name in _VERDICTS],
    *[Case(f"_npi_{name}", (_whole(5, low=0, dtype="bool"),)) for name in _VERDICTS],
    *[Case(f"_npi_{name}", (T(),)) for name in ("isnan", "logical_not")],
    *[Case("_npi_bitwise_not", (_whole(5, low=0, dtype=dtype),)) for dtype in ("int32", "uint8", "bool")],
    *[
        Case(
            "_npi_around",
            (T(4, 5, low=-3 if dtype[0] == "f" else 0, high=40, dtype=dtype),),
            {"decimals": decimals},
            wrt=(),
        )
        for decimals, dtype in _DECIMALS
    ],
    Case("_npi_around", (T(6, low=-9, high=9, kind="integers", dtype="float32"),), not_derivative="it has steps"),
    *[Case("_npi_nan_to_num", (T(3, 4),), params) for params in ({}, {"nan": 1.5, "posinf": 7.0, "neginf": -8.5})],
    Case("_npi_nan_to_num", (_whole(4),)),
]
