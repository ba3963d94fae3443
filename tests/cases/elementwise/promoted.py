"""Cases of the functions of two broadcast arrays in the NumPy dialect."""

from tests.cases import Case, T
from tests.cases.elementwise.broadcast import _HALF, _apart, _powers, _whole

_FLOATS = ("add", "subtract", "multiply", "true_divide", "mod", "hypot", "arctan2", "copysign", "ldexp")
_MIXING = ("add", "subtract", "multiply", "true_divide", "mod")
_TRUTH = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm")


def _mixed(left: str, right: str):
    """Numbers from 1 to 4, in two dtypes."""
    return tuple(T(2, 3, low=1, high=5, kind="integers", dtype=dtype) for dtype in (left, right))


def _truths(*shape: int):
    return T(*shape, low=0, high=2, kind="integers", dtype="bool")


def _case(name: str, inputs, **facts):
    return Case(f"_npi_{name}", inputs, **facts)


CASES = [
    *[_case(name, _apart(*shapes)) for name in _FLOATS for shapes in (((2, 1), (3,)), ((), (2, 2)))],
    *[_case("power", _powers(*shapes)) for shapes in (((2, 1), (3,)), ((2, 2), ()))],
    _case("add", _apart((), ())),
    _case("multiply", _apart((0, 3), (1, 3)), wrt=()),
    # dtypes that mix
    *[_case(name, _mixed("float32", "int32"), smooth=False, wrt=(0,)) for name in (*_MIXING, "power")],
    *[_case(name, _mixed("int64", "float32"), smooth=False, wrt=(1,)) for name in ("multiply", "true_divide", "power")],
    *[
        _case(name, _mixed("float16", right), rtol=2e-3, rtol_reason=_HALF, not_derivative="it is rounded to float16")
        for name in ("add", "multiply")
        for right in ("float32", "int8", "bool")
    ],
    *[_case("add", _mixed(*dtypes)) for dtypes in (("int8", "int64"), ("int32", "uint8"), ("bool", "int32"))],
    *[_case("multiply", (_truths(2, 3), T(2, 3)), wrt=(1,))],
    *[_case(name, (_truths(4, 1), _truths(4))) for name in ("add", "multiply", "power", "true_divide", *_TRUTH)],
    *[_case(name, (_truths(5), _truths(5))) for name in _BITS],
    # whole numbers
    *[_case(name, _whole((4, 1), (5,))) for name in (*_MIXING, "copysign", "ldexp", *_BITS)],
    _case("power", (T(4, 1, low=1, high=4, kind="integers", dtype="int32"), *_whole((5,), ())[:1])),
    *[_case(name, _whole((4, 5), (5,), dtype="float32")) for name in _TRUTH],
    *[_case(name, _whole((3, 1), (4,), dtype="int8")) for name in ("less", "bitwise_xor", "lcm", "mod")],
]
