"""Functions of each element: of one array, of two, of arrays and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lowering.mx.ndarray.array import NUMPY, require_arrays
from lowering.mx.ndarray.creation import native_dtype
from lowering.mx.numpy.operators import (
    DialectValueError,
    Operators,
    UnsupportedError,
    from_host,
    is_number,
    unsupported,
)
from lowering.mx.tape import recording
from symjax_nnvm.errors import CutNumberWarning, SymbolTypeError
from symjax_nnvm.ir.source_info import warn_caller

UNARY: dict[str, str] = {
    **{
        name: f"_npi_{name}"
        for name in (
            *("absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "bitwise_not", "cbrt", "ceil"),
            *("cos", "cosh", "degrees", "exp", "expm1", "fix", "floor", "isfinite", "isinf", "isnan", "isneginf"),
            *("isposinf", "log", "log10", "log1p", "log2", "logical_not", "negative", "radians", "reciprocal", "rint"),
            *("sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
        )
    },
    **dict.fromkeys(("abs", "fabs"), "_npi_abs"),
    "invert": "_npi_bitwise_not",
    "rad2deg": "_npi_degrees",
    "deg2rad": "_npi_radians",
}
"""Function of one array → its operator. Of numbers it is NumPy's function of that name."""


class Binary(NamedTuple):
    """Operators of a function of two arrays: of arrays, with a number on the right, with a number on the left."""

    arrays: str
    right: str
    left: str


def _row(name: str, left: str | None = None) -> Binary:
    right = f"_npi_{name}_scalar"
    return Binary(f"_npi_{name}", right, right if left is None else f"_npi_{left}_scalar")


BINARY: dict[str, Binary] = {
    **{
        name: _row(name)
        for name in (
            *("add", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "hypot", "lcm", "maximum", "minimum"),
            *("multiply", "not_equal"),
        )
    },
    **{
        name: _row(name, f"r{name}")
        for name in ("arctan2", "copysign", "ldexp", "mod", "power", "subtract", "true_divide")
    },
    "divide": _row("true_divide", "rtrue_divide"),
    "remainder": _row("mod", "rmod"),
    "greater": _row("greater", "less"),
    "greater_equal": _row("greater_equal", "less_equal"),
    "less": _row("less", "greater"),
    "less_equal": _row("less_equal", "greater_equal"),
}
"""Function of two arrays → its operators. Of two numbers it is NumPy's function of that name."""

METHODS: dict[str, tuple[str, bool]] = {
    **{f"__{name}__": (function, False) for name, function in {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "mod": "mod", "pow": "power",
        "eq": "equal", "ne": "not_equal", "gt": "greater", "ge": "greater_equal", "lt": "less", "le": "less_equal",
        "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    }.items()},
    **{f"__r{name}__": (function, True) for name, function in {
        "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "mod": "mod", "pow": "power",
        "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    }.items()},
    "__radd__": ("add", False),  # a graph of 1 + x stores that 1 is whole, unlike one of 2 * x, as MXNet's does
}  # fmt: skip
"""Method of Python's operators → (function, whether the array stands on the right)."""


def apply_unary(op: Operators, name: str, x: Any, out: Any = None) -> Any:
    """Apply a row of UNARY to an array or a number. Raises SymbolTypeError, a TypeError, for all else."""
    if isinstance(x, op.kind):
        return op(UNARY[name], x) if out is None else op(UNARY[name], x, out=out)
    if is_number(x):
        return getattr(np, name)(x)
    raise unsupported(x)


def apply_binary(op: Operators, name: str, x1: Any, x2: Any, out: Any = None) -> Any:
    """Apply a row of BINARY to arrays and numbers. Raises SymbolTypeError, a TypeError, for all else."""
    row, kind = BINARY[name], op.kind
    options = {} if out is None else {"out": out}
    if isinstance(x1, kind):
        if isinstance(x2, kind):
            return op(row.arrays, x1, x2, **options)
        if is_number(x2):
            _warn_of_cut(op, name, x1, x2)
            return op(row.right, x1, **_scalar(op, x2, x2), **options)
    elif is_number(x1):
        if isinstance(x2, kind):
            _warn_of_cut(op, name, x2, x1)
            return op(row.left, x2, **_scalar(op, x1, x2), **options)
        if is_number(x2):
            return getattr(np, name)(x1, x2, **options)
    raise unsupported(x1 if isinstance(x2, kind) or is_number(x2) else x2)


def _warn_of_cut(op: Operators, name: str, array: Any, *numbers: Any) -> None:
    """Warn of numbers that lose their fraction to an array's dtype, as MXNet has it: NumPy would widen the dtype."""
    if op.symbolic or name in ("divide", "true_divide") or all(number % 1 == 0 for number in numbers):
        return
    if (dtype := np.dtype(array.cell.dtype)).kind in "iub":
        shown, instead = " and ".join(map(str, numbers)), " and ".join(str(np.trunc(number)) for number in numbers)
        problem = f"np.{name}: an array of {dtype} takes {shown} as {instead}, as in MXNet."
        fix = 'x.astype("float32") computes with fractions'
        off = 'warnings.simplefilter("ignore", symjax_nnvm.CutNumberWarning) ends this warning'
        warn_caller(f"{problem} {fix}; {off}.", CutNumberWarning)


def _scalar(op: Operators, number: Any, right: Any) -> dict[str, Any]:
    """Return the parameters of an operator with a number. A graph stores whether the number on the right is whole, as
    MXNet's does."""
    if not op.symbolic:
        return {"scalar": float(number)}
    return {"scalar": float(number), "is_int": isinstance(right, int | np.integer)}


def _unary(name: str) -> Callable[..., Any]:

    def function(op: Operators, x: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_ufunc(name, kwargs)
        return apply_unary(op, name, x, out)

    function.__name__ = name
    function.__doc__ = f"`numpy.{name}` of each element, or of a number."
    return function


def _binary(name: str) -> Callable[..., Any]:

    def function(op: Operators, x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        _check_ufunc(name, kwargs)
        return apply_binary(op, name, x1, x2, out)

    function.__name__ = name
    function.__doc__ = f"`numpy.{name}` of arrays and numbers, which broadcast."
    return function


_CASTINGS = "no", "equiv", "safe", "same_kind", "unsafe"
_UFUNC_DEFAULTS = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
"""Arguments of NumPy's functions of elements, with the one value of each that MXNet's take."""


def _check_ufunc(name: str, arguments: dict[str, Any]) -> None:
    """Raise TypeError or UnsupportedError for arguments that MXNet's functions of elements do not take."""
    for key, value in arguments.items():
        if key not in _UFUNC_DEFAULTS:
            raise SymbolTypeError(f"{name}() got an unexpected keyword argument {key!r}")
        if key == "dtype" and value is not None:
            native_dtype(value)  # raises a TypeError for anything else
        if key == "casting" and value not in _CASTINGS:
            raise SymbolTypeError(f"casting={value} not understood for operator {name}", expected=", ".join(_CASTINGS))
        if value is not _UFUNC_DEFAULTS[key] and value != _UFUNC_DEFAULTS[key]:
            raise UnsupportedError(f"{name}: {key}={value!r} is not supported", expected=repr(_UFUNC_DEFAULTS[key]))


def _rounded(op: Operators, x: Any, decimals: int = 0, out: Any = None) -> Any:
    """Each element rounded to a number of decimals, half to even."""
    if is_number(x):
        return np.around(x, decimals)
    if not isinstance(x, op.kind):
        raise unsupported(x)
    return op("_npi_around", x, decimals=decimals, out=out)


def clip(op: Operators, a: Any, a_min: float | None, a_max: float | None, out: Any = None) -> Any:
    """Each element, or the nearest bound. Raises DialectValueError without bounds."""
    if a_min is None and a_max is None:
        raise DialectValueError("array_clip: must set either max or min")
    if is_number(a):
        return np.clip(a, a_min, a_max)
    low, high = float("-inf") if a_min is None else a_min, float("inf") if a_max is None else a_max
    if isinstance(a, op.kind):
        _warn_of_cut(op, "clip", a, *(bound for bound in (a_min, a_max) if bound is not None))
    return op("_npi_clip", a, a_min=low, a_max=high, out=out)


def nan_to_num(
    op: Operators,
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    **kwargs: Any,
) -> Any:
    """Each element, or a number in place of NaN and infinities. copy: else it is written to the array."""
    if is_number(x):
        return np.nan_to_num(x, copy, nan, posinf, neginf)
    if not isinstance(x, op.kind):
        raise unsupported(x)
    if not op.symbolic and np.dtype(x.dtype).kind in "iub":
        return x
    out = None if copy or op.symbolic else x
    return op("_npi_nan_to_num", x, copy=copy, nan=nan, posinf=posinf, neginf=neginf, out=out)


def where(op: Operators, condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of x where the condition holds, else of y; without both, the indices where it holds."""
    if x is None and y is None:
        return nonzero(op, condition)
    if is_number(condition):
        return x if condition != 0 else y
    of_x, of_y = isinstance(x, op.kind), isinstance(y, op.kind)
    if of_x and of_y:
        return op("_npi_where", condition, x, y)
    if of_y and is_number(x):
        _warn_of_cut(op, "where", y, x)
        return op("_npi_where_lscalar", condition, y, scalar=float(x))
    if of_x and is_number(y):
        _warn_of_cut(op, "where", x, y)
        return op("_npi_where_rscalar", condition, x, scalar=float(y))
    if is_number(x) and is_number(y):
        return op("_npi_where_scalar2", condition, x=float(x), y=float(y))
    raise SymbolTypeError(f"type {type(x)} and {type(y)} not supported")


def nonzero(op: Operators, a: Any) -> Any:
    """The indices of the elements that are not zero, an array for each axis. Raises SymbolTypeError for a symbol."""
    if op.symbolic:
        problem = "np.nonzero, and np.where of only a condition, return one array an axis; a symbol's axes are unknown"
        fix = "F.npx.nonzero(x) returns the places as rows; F.np.where(condition, x, y) returns one array."
        raise SymbolTypeError(problem, fix=fix)
    require_arrays([a], "Argument a", NUMPY)
    if recording.is_recording() and a.entry is not None:  # its gradient is zero
        places = op("_npx_nonzero", a if a.ndim else a.reshape((1,)))
        return tuple(places[:, axis] for axis in range(places.shape[1]))
    return tuple(from_host(indices, a.ctx) for indices in np.nonzero(np.atleast_1d(np.asarray(a))))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _unary(name) for name in UNARY},
    **{name: _binary(name) for name in BINARY},
    **dict.fromkeys(("around", "round", "round_"), _rounded),
    **{function.__name__: function for function in (clip, nan_to_num, nonzero, where)},
}
