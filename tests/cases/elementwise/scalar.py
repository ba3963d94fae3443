"""Cases of the functions of an array and a number."""

from tests.cases import Case, T

_HALF = "float16 has 11 bits, and MXNet rounds its intermediate results differently"
_TIES = "elements tie with the number, where there is no derivative"

_ARITHMETIC = ("_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar", "_rdiv_scalar")
_TRUTH = (
    *("_equal_scalar", "_not_equal_scalar", "_greater_scalar", "_greater_equal_scalar", "_lesser_scalar"),
    *("_lesser_equal_scalar", "_logical_and_scalar", "_logical_or_scalar", "_logical_xor_scalar"),
)
_EXTREMES = ("_maximum_scalar", "_minimum_scalar")
_MODS = ("_mod_scalar", "_rmod_scalar")
_ALL = (*_ARITHMETIC, *_MODS, "_power_scalar", "_rpower_scalar", *_EXTREMES, "_hypot_scalar", *_TRUTH)

# Of both signs, off the numbers that the cases use and off multiples of them.
_DATA = {"low": 0.3, "high": 0.9, "kind": "signs"}
_BASE = {"low": 0.3, "high": 0.9}


def _data(op: str, *shape: int, dtype: str = "float32"):
    return T(*shape, dtype=dtype, **(_BASE if op == "_power_scalar" else _DATA))


def _whole(*shape: int, low: int = -3, high: int = 4, dtype: str = "int32"):
    return (T(*shape, low=low, high=high, kind="integers", dtype=dtype),)


_SAME = ("add", "subtract", "rsubtract", "multiply", "mod", "rmod", "power", "rpower")
_OWN = ("true_divide", "rtrue_divide", "arctan2", "rarctan2", "copysign", "rcopysign", "ldexp", "rldexp")
_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
_NO_GRADIENT = {
    **dict.fromkeys(("copysign", "rcopysign"), "MXNet gives its gradient too many inputs"),
    "rarctan2": "MXNet's gradient is another function's",
}
_NO_LCM = "MXNet's ends the process"


def _numpy(name: str, *data, **params):
    refused = _NO_GRADIENT.get(name, "") if data[0].dtype == "float32" else ""
    return Case(f"_npi_{name}_scalar", data, params, no_mxnet=refused)


CASES = [
    # the NumPy dialect
    *[_numpy(name, T(2, 3, **(_BASE if name == "power" else _DATA)), scalar=1.3, is_int=False) for name in _SAME],
    *[_numpy(name, T(2, 3, **_DATA), scalar=scalar, is_int=False) for name in _OWN for scalar in (1.3, -0.2)],
    *[_numpy(name, *_whole(4, dtype=dtype), scalar=2, is_int=True) for name in _OWN[:4] for dtype in ("int32", "bool")],
    *[_numpy(name, *_whole(4, low=1), scalar=1.5, is_int=False) for name in ("add", "true_divide", "arctan2", "ldexp")],
    *[_numpy(name, T(), scalar=2.0, is_int=True) for name in ("add", "rtrue_divide", "greater")],
    *[_numpy(name, *_whole(4, 4, dtype="float32"), scalar=1) for name in _COMPARISONS],
    *[_numpy(name, *_whole(3, 4), scalar=1.5, is_int=False) for name in _COMPARISONS],
    *[_numpy(name, *_whole(3, 4, dtype=dtype), scalar=3) for name in _BITS for dtype in ("int32", "bool", "uint8")],
    *[_numpy(name, *_whole(5, low=-9, high=9), scalar=3) for name in ("copysign", "rcopysign")],
    Case("_npi_lcm_scalar", _whole(5, low=-9, high=9), {"scalar": 6}, no_mxnet=_NO_LCM),
    Case("_npi_multiply_scalar", (T(0, 2),), {"scalar": 2.0}, wrt=()),
    *[Case(op, (_data(op, 3, 4),), {"scalar": 1.3}) for op in _ALL],
    *[Case(op, (_data(op, 3, 4),), {"scalar": -0.2}) for op in _ALL if op != "_rpower_scalar"],
    *[Case(op, (_data(op, 5, dtype="float64"),), {"scalar": 1.7}) for op in _ALL],
    *[
        Case(op, (_data(op, 5, dtype="float16"),), {"scalar": 1.5}, rtol=2e-3, rtol_reason=_HALF)
        for op in _ALL
        if op not in _MODS
    ],
    *[Case(op, (_data(op, 2, 1, 3),)) for op in ("_plus_scalar", "_mul_scalar", "_power_scalar", "_greater_scalar")],
    # every way to calculate a power
    *[
        Case("_power_scalar", (T(3, 4, **_DATA),), {"scalar": scalar})
        for scalar in (0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 16.0, 17.0)
    ],
    *[Case("_power_scalar", (T(3, 4, **_BASE),), {"scalar": scalar}) for scalar in (0.5, -0.5, 2.5, -2.7, 1.5)],
    *[Case("_rpower_scalar", (T(3, 4, **_DATA),), {"scalar": scalar}) for scalar in (1.0, 2.0, 0.5)],
    # both signs of the divisor; 0
    *[Case("_mod_scalar", (T(3, 4, low=1.1, high=1.9, kind="signs"),), {"scalar": scalar}) for scalar in (1.0, -1.0)],
    *[Case("_rmod_scalar", (T(3, 4, low=1.1, high=1.4, kind="signs"),), {"scalar": scalar}) for scalar in (3.0, -3.0)],
    Case("_mod_scalar", (T(5, **_DATA),), {"scalar": 0.0}, not_derivative="x mod 0 = 0, with the gradient of x"),
    Case("_hypot_scalar", (T(5, **_DATA),), {"scalar": 0.0}, smooth=False, tag="of 0 is abs"),
    # ties
    *[
        Case(op, _whole(4, 5, dtype="float32"), {"scalar": scalar}, not_derivative=_TIES)
        for op in (*_EXTREMES, *_TRUTH)
        for scalar in (1.0, 0.0)
    ],
    # integers: the number's whole part counts
    *[
        Case(op, _whole(4, 4, dtype=dtype), {"scalar": scalar})
        for op in _ALL
        for dtype in ("int32", "int8")
        for scalar in (2.0, 1.7)
        if op not in ("_rdiv_scalar", "_rpower_scalar")
    ],
    *[Case(op, _whole(4, 4), {"scalar": -2.7}) for op in ("_plus_scalar", "_mul_scalar", "_div_scalar", "_mod_scalar")],
    *[
        Case(op, _whole(4, 4, low=1, high=5, dtype="int32"), {"scalar": 3.2})
        for op in ("_rdiv_scalar", "_rpower_scalar", "_rmod_scalar")
    ],
    *[
        Case(op, _whole(4, low=0, high=7, dtype="uint8"), {"scalar": scalar})
        for op in ("_plus_scalar", "_minus_scalar", "_mul_scalar", "_div_scalar", "_mod_scalar", "_maximum_scalar")
        for scalar in (3.0, -2.7)
    ],
    *[Case(op, _whole(4, dtype="int64"), {"scalar": 2.0}) for op in ("_plus_scalar", "_power_scalar", "_equal_scalar")],
    # integers that do not stay integers
    *[Case(op, _whole(4, 4, low=1, high=6), {"scalar": 1.5, "is_int": False}) for op in _ALL],
    Case("_plus_scalar", (T(4, **_DATA),), {"scalar": 1.5, "is_int": False}),
]
