"""JAX rules of the functions of one array."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers, lowers_table
from lowering.jax_casts import cast, number_as
from symjax_nnvm.ops.elementwise import unary as ops

Function = Callable[[Array], Array]


def is_integer(x: Array) -> bool:
    """Whether the array holds integers or booleans."""
    return not jnp.issubdtype(x.dtype, jnp.floating)


def in_float(function: Function) -> Function:
    """A function of real numbers; of integers it is calculated in float32 and truncated, as MXNet does."""

    def rule(x: Array) -> Array:
        return cast(function(x.astype(np.float32)), x.dtype) if is_integer(x) else function(x)

    return rule


def _of_floats(function: Function) -> Function:
    """Return a rounding function, which leaves integers alone."""
    return lambda x: x if is_integer(x) else function(x)


def _rint(x: Array) -> Array:
    below = lax.floor(x)
    return lax.select(x - below > 0.5, lax.ceil(x), below)


def _trunc(x: Array) -> Array:
    return lax.select(x < 0, lax.ceil(x), lax.floor(x))


lowers_table(
    {
        "abs": lambda x: x if jnp.issubdtype(x.dtype, jnp.unsignedinteger) else lax.abs(x),
        "negative": lax.neg,
        "square": lax.square,
        "sign": lax.sign,
        "relu": lambda x: lax.max(x, lax.full_like(x, 0)),
        "logical_not": lambda x: lax.eq(x, lax.full_like(x, 0)).astype(x.dtype),
        "_copy": lambda x: x,
        "BlockGrad": lax.stop_gradient,  # so that JAX's own derivatives of a lowered graph stop there too
        "rint": _of_floats(_rint),
        "round": _of_floats(lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)),
        "ceil": _of_floats(lax.ceil),
        "floor": _of_floats(lax.floor),
        "trunc": _of_floats(_trunc),
        "fix": _of_floats(_trunc),
    }
)

lowers_table(
    {
        name: in_float(function)
        for name, function in {
            "reciprocal": lambda x: 1 / x,
            "sqrt": lax.sqrt,
            "rsqrt": lax.rsqrt,
            "cbrt": lax.cbrt,
            "rcbrt": lambda x: 1 / lax.cbrt(x),
            "exp": lax.exp,
            "expm1": lax.expm1,
            "log": lax.log,
            "log10": jnp.log10,
            "log2": jnp.log2,
            "log1p": lax.log1p,
            "sin": lax.sin,
            "cos": lax.cos,
            "tan": lax.tan,
            "arcsin": lax.asin,
            "arccos": lax.acos,
            "arctan": lax.atan,
            "degrees": lambda x: x * (180 / np.pi),
            "radians": lambda x: x * (np.pi / 180),
            "sinh": lax.sinh,
            "cosh": lax.cosh,
            "tanh": lax.tanh,
            "arcsinh": lax.asinh,
            "arccosh": lax.acosh,
            "arctanh": lax.atanh,
            "erf": lax.erf,
            "erfinv": lax.erf_inv,
            "gamma": jax.scipy.special.gamma,
            "gammaln": lax.lgamma,
            "sigmoid": lax.logistic,
            "softsign": lambda x: x / (lax.abs(x) + 1),
        }.items()
    }
)


@lowers("_polygamma")
def _polygamma(p: ops.PolygammaParams, x: Array) -> Array:
    """lax.polygamma is for x > 0: elsewhere ψₙ(x) = (-1)ⁿ ψₙ(1 - x) - π dⁿ/dxⁿ cot(πx), a polynomial in cot(πx). At its
    poles ψ₀ is ∞, as in MXNet, where lax has NaN."""
    if p.n == 0:
        pole = (x <= 0) & (lax.floor(x) == x)
        return lax.select(pole, lax.full_like(x, np.inf), lax.digamma(x))
    positive = x > 0
    of_positive = _polygamma_above_0(p.n, lax.select(positive, x, 1 - x))
    cotangent = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(p.n):
        cotangent = cotangent.deriv() * np.polynomial.Polynomial([-np.pi, 0.0, -np.pi])
    reflected = (-1) ** p.n * of_positive - np.pi * jnp.polyval(
        cotangent.coef[::-1].astype(x.dtype), 1 / lax.tan(np.pi * x)
    )
    return lax.select(positive, of_positive, reflected)


def _polygamma_above_0(n: int, x: Array) -> Array:
    """lax.polygamma is 0 far from 0; there ψₙ(x) = (-1)ⁿ⁺¹ (n - 1)! / xⁿ (1 + n / 2x), to the digits of the dtype."""
    far = (-1) ** (n + 1) * (1 + n / 2 / x) / x
    for factor in range(1, n):
        far *= factor / x
    return lax.select(x > (n + 1) / np.sqrt(jnp.finfo(x.dtype).eps), far, lax.polygamma(lax.full_like(x, n), x))


@lowers("clip")
def _clip(p: ops.ClipParams, x: Array) -> Array:
    if is_integer(x):
        info = jnp.iinfo(x.dtype)
        if p.a_min > info.max or p.a_max < info.min:
            number_as(p.a_min if p.a_min > info.max else p.a_max, x.dtype)  # which warns of 64 bits
        low, high = (int(np.clip(np.trunc(bound), info.min, info.max)) for bound in (p.a_min, p.a_max))
    else:
        low, high = (number_as(bound, x.dtype) for bound in (p.a_min, p.a_max))
    return lax.clamp(np.asarray(low, x.dtype), x, np.asarray(high, x.dtype))


@lowers("smooth_l1")
def _smooth_l1(p: ops.SmoothL1Params, x: Array) -> Array:
    square = p.scalar * p.scalar  # of huge numbers infinite, where ** is an error

    def function(x: Array) -> Array:
        size = lax.abs(x)
        # Both branches at once: with c = clip(σ² |x|, 0, 1) the value is c (|x| - c / (2 σ²)).
        inner = lax.min(size * square, lax.full_like(x, 1))
        return inner * (size - inner * (0.5 / square))

    return in_float(function)(x) if square else lax.full_like(x, 0)


@lowers("hard_sigmoid")
def _hard_sigmoid(p: ops.HardSigmoidParams, x: Array) -> Array:
    return lax.clamp(np.asarray(0, x.dtype), x * p.alpha + p.beta, np.asarray(1, x.dtype))


@lowers("Cast")
def _cast(p: ops.CastParams, x: Array) -> Array:
    return cast(x, p.dtype)


@lowers("_cast_like")
def _cast_like(p, x: Array, like: Array) -> Array:
    return cast(x, like.dtype)


lowers_table({"_identity_with_attr_like_rhs": lambda lhs, rhs: lhs})
