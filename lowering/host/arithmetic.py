"""Element-wise primitives, with XLA's answers where NumPy has others: division of integers, rounding, shifts, casts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.host.primitives import (
    Arrays,
    JaxEquation,
    dtype_of,
    evaluated_by,
    evaluates,
    in_single,
    is_floating,
    require,
)

evaluated_by(
    add=np.add,
    add_any=np.add,
    sub=np.subtract,
    mul=np.multiply,
    neg=np.negative,
    max=np.maximum,
    min=np.minimum,
    abs=np.abs,
    square=lambda x: x * x,
    one_minus_square=lambda x: (x.dtype.type(1) + x) * (x.dtype.type(1) - x),
    eq=np.equal,
    ne=np.not_equal,
    lt=np.less,
    le=np.less_equal,
    gt=np.greater,
    ge=np.greater_equal,
    floor=np.floor,
    ceil=np.ceil,
    is_finite=np.isfinite,
    nextafter=np.nextafter,
    real=np.real,
    imag=np.imag,
    conj=np.conj,
    copy=lambda x: x,
    stop_gradient=lambda x: x,
    optimization_barrier=lambda *arrays: arrays,
    clamp=lambda low, x, high: np.minimum(np.maximum(x, low), high),
    xor=np.bitwise_xor,
    sign=lambda x: np.where(x == 0, x, np.sign(x)),  # of -0.0 it is -0.0
)
evaluated_by(**{"and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert})

_FUNCTIONS: dict[str, Arrays] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "atan2": np.arctan2, "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
"""Functions of floating-point numbers; `accuracy` requests more than XLA's default."""


@evaluates(*_FUNCTIONS)
def _function(equation: JaxEquation) -> Arrays:
    require(equation.params.get("accuracy") is None and is_floating(dtype_of(equation.invars[0])))
    return in_single(_FUNCTIONS[equation.primitive.name], dtype_of(equation.outvars[0]))  # pyright: ignore


def _of_doubles(function: Any, dtype: np.dtype[Any]) -> Arrays:
    """Return Python's function of one number for arrays, computed in float64."""
    vectorized = np.vectorize(function, otypes=[np.float64])
    return lambda x: vectorized(x).astype(dtype)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or too large
        return math.inf


@evaluates("erf")
def _erf(equation: JaxEquation) -> Arrays:
    return _of_doubles(math.erf, dtype_of(equation.outvars[0]))


@evaluates("erfc")
def _erfc(equation: JaxEquation) -> Arrays:
    return _of_doubles(math.erfc, dtype_of(equation.outvars[0]))


@evaluates("lgamma")
def _log_gamma(equation: JaxEquation) -> Arrays:
    return _of_doubles(_lgamma, dtype_of(equation.outvars[0]))


_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
         0.246640727, 1.50140941)  # fmt: skip
_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
        1.00167406, 2.83297682)  # fmt: skip
"""Polynomials for the inverse of erf in single precision (Giles, "Approximating the erfinv function", 2010)."""


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return the values of a polynomial, whose highest power comes first, in the dtype of an array."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= x
        value += x.dtype.type(coefficient)
    return value


@evaluates("erf_inv")
def _erf_inv(equation: JaxEquation) -> Arrays:
    dtype = dtype_of(equation.outvars[0])
    require(dtype.itemsize < 8)

    def inverse(x: Any) -> Any:
        x = np.asarray(x)
        w = np.ravel(-np.log1p(-x * x))
        value = _polynomial(_NEAR, w - np.float32(2.5))
        far = np.flatnonzero(~(w < 5))
        value[far] = _polynomial(_FAR, np.sqrt(w[far]) - np.float32(3))
        value[np.isinf(w)] = np.inf
        return value.reshape(x.shape) * x

    return in_single(inverse, dtype)


@evaluates("clz")
def _clz(equation: JaxEquation) -> Arrays:
    """The zeros ahead of the first bit: frexp's exponent is the number of bits of a whole number."""
    dtype = dtype_of(equation.outvars[0])
    require(dtype.itemsize <= 4)
    unsigned, bits = np.dtype(f"u{dtype.itemsize}"), 8 * dtype.itemsize
    return lambda x: (bits - np.frexp(np.asarray(x).astype(unsigned).astype(np.float64))[1]).astype(dtype)


@evaluates("lt_to", "le_to")
def _in_total_order(equation: JaxEquation) -> Arrays:
    """Numbers as IEEE 754 orders all of them: -NaN, -inf, …, -0, 0, …, inf, NaN."""
    dtype = dtype_of(equation.invars[0])
    compare = np.less if equation.primitive.name == "lt_to" else np.less_equal  # pyright: ignore
    if not is_floating(dtype):
        return compare
    whole = np.dtype(f"i{dtype.itemsize}")

    def place(x: Any) -> Any:
        bits = np.asarray(x).view(whole)
        return np.where(bits < 0, np.bitwise_xor(bits, np.iinfo(whole).max), bits)

    return lambda x, y: compare(place(x), place(y))


@evaluates("div")
def _div(equation: JaxEquation) -> Arrays:
    """XLA truncates quotients of integers; that of 0 is -1."""
    if is_floating(dtype_of(equation.outvars[0])):
        return np.divide

    def divide(x: Any, y: Any) -> Any:
        divisor = np.where(y == 0, np.ones_like(y), y)
        return np.where(y == 0, np.invert(np.zeros_like(y)), (x - np.fmod(x, divisor)) // divisor)

    return divide


@evaluates("rem")
def _rem(equation: JaxEquation) -> Arrays:
    """The remainder by 0 is the integer itself."""
    if is_floating(dtype_of(equation.outvars[0])):
        return np.fmod
    return lambda x, y: np.where(y == 0, x, np.fmod(x, np.where(y == 0, np.ones_like(y), y)))


@evaluates("pow")
def _pow(equation: JaxEquation) -> Arrays:
    require(is_floating(dtype_of(equation.invars[0])) and is_floating(dtype_of(equation.invars[1])))
    return in_single(np.power, dtype_of(equation.outvars[0]))


@evaluates("integer_pow")
def _integer_pow(equation: JaxEquation) -> Arrays:
    """Compute an integer power by the products that JAX makes of it."""
    exponent: int = equation.params["y"]
    dtype = dtype_of(equation.outvars[0])
    require(exponent >= 0 or is_floating(dtype))

    def power(x: Any) -> Any:
        bits, result = abs(exponent), None
        while bits:
            if bits & 1:
                result = x if result is None else result * x
            bits >>= 1
            if bits:
                x = x * x
        one = np.ones_like(x)
        if result is None:
            return one
        return one / result if exponent < 0 else result

    return power


@evaluates("round")
def _round(equation: JaxEquation) -> Arrays:
    if int(equation.params["rounding_method"]) == 1:
        return np.rint

    def away_from_zero(x: Any) -> Any:
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)

    return in_single(away_from_zero, dtype_of(equation.outvars[0]))


_MOST_CASES = 32
"""Arrays that NumPy 1 chooses among, NumPy 2 takes twice as many."""


@evaluates("select_n")
def _select_n(equation: JaxEquation) -> Arrays:
    if len(equation.invars) == 3:
        return lambda which, first, second: np.where(which, second, first)
    require(len(equation.invars) <= _MOST_CASES)
    return lambda which, *cases: np.choose(which, cases)


@evaluates("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(equation: JaxEquation) -> Arrays:
    """By as many bits as there are, or more, nothing is left but the sign."""
    name: str = equation.primitive.name  # pyright: ignore
    dtype = dtype_of(equation.outvars[0])
    bits = 8 * dtype.itemsize
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def shift(x: Any, by: Any) -> Any:
        over = by.astype(unsigned) >= bits
        by = np.where(over, bits - 1, by).astype(dtype)
        if name == "shift_right_arithmetic":
            return np.right_shift(x, by)
        if name == "shift_left":
            shifted = np.left_shift(x, by)
        else:
            shifted = np.right_shift(x.astype(unsigned), by.astype(unsigned)).astype(dtype)
        return np.where(over, np.zeros_like(x), shifted)

    return shift


@evaluates("convert_element_type")
def _convert(equation: JaxEquation) -> Arrays:
    """Integers take the low bits of integers; of floating-point numbers they take the nearest that they hold."""
    old, new = dtype_of(equation.invars[0]), dtype_of(equation.outvars[0])
    if not (is_floating(old) and new.kind in "iu"):
        return lambda x: np.asarray(x).astype(new)
    info = np.iinfo(new)
    below, above = float(info.min) - 1, float(info.max) + 1

    def convert(x: Any) -> Any:
        if x.size and x.min() > below and x.max() < above:  # no NaN either
            return x.astype(new)
        wide = np.asarray(x, np.float64)
        inside = (wide > info.min) & (wide < info.max)
        limits = np.where(wide >= info.max, info.max, np.where(wide <= info.min, info.min, 0)).astype(new)
        return np.where(inside, np.where(inside, wide, 0).astype(new), limits)

    return convert


@evaluates("bitcast_convert_type")
def _bitcast(equation: JaxEquation) -> Arrays:
    old, new = dtype_of(equation.invars[0]), dtype_of(equation.outvars[0])
    require(old.itemsize == new.itemsize)
    return lambda x: np.asarray(x).view(new)


@evaluates("reduce_precision")
def _reduce_precision(equation: JaxEquation) -> Arrays:
    dtype = dtype_of(equation.outvars[0])
    own = np.finfo(dtype) if dtype.kind == "f" else None
    require(
        own is not None
        and (equation.params["exponent_bits"], equation.params["mantissa_bits"]) == (own.iexp, own.nmant)
    )
    return lambda x: x
