"""Arithmetic that the rules of 8-bit networks share: scales, rounding, and exact products.

Products are sums in float32 of so few terms that they are exact, 514 of uint8 data and 1,024 of int8: XLA:CPU takes
8 ms for a convolution of float32[1, 64, 56, 56] with 3×3 windows that takes 280 ms in int8 with int32 sums. The numbers
have 8 bits, so that they are exact in every float that a platform multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from symjax_nnvm.ops.nn.convolution import ConvolutionGeometry
from symjax_nnvm.ops.quantization.ranges import LEVELS

INT32_LEVELS = 2.0**31
"""What the magnitude of an int32's range stands for: 2³¹ - 1, as a float32."""

_EXACT = {"int8": 2**24 // (128 * 128), "uint8": 2**24 // (255 * 128)}
"""The largest number of products with int8 whose sum is exact in float32, by the dtype of the other factor."""


def scalar(range_end: Array) -> Array:
    """A range's end (1,) as a number."""
    return range_end.reshape(())


def magnitude(*ends: Array | float) -> Array:
    """The greatest magnitude of the ends of a range."""
    return reduce(jnp.maximum, (jnp.abs(jnp.asarray(end, jnp.float32)) for end in ends))


def ends(low: Array | float, high: Array | float) -> tuple[Array, Array]:
    """Two numbers as a range, (1,) each."""
    return jnp.asarray(low, jnp.float32).reshape(1), jnp.asarray(high, jnp.float32).reshape(1)


def scale_of(dtype: Any, *range_ends: Array | float) -> Array:
    """Levels of a dtype for a unit; of an empty range as many as an int32 has, as in MXNet."""
    real = magnitude(*range_ends)
    return jnp.where(real == 0, np.float32(INT32_LEVELS), LEVELS[np.dtype(dtype).name] / real)


def rounded(x: Array, dtype: str) -> Array:
    """Return the nearest integers of a dtype, ties to even; NaN becomes the greatest, as in oneDNN."""
    info = np.iinfo(dtype)
    low, high = (
        np.float32(info.min),
        np.nextafter(np.float32(info.max), np.float32(0)) if dtype == "int32" else info.max,
    )
    x = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    x = jnp.where(x < high, x, jnp.asarray(high, x.dtype))
    return jnp.maximum(x, jnp.asarray(low, x.dtype)).astype(dtype)


def rounding(x: Array) -> Array:
    """The same numbers, between two operations that a compiler would make one without rounding between them: neither
    XLA nor LLVM looks through the magnitude."""
    size = jnp.abs(x)
    return jnp.where(x < 0, -size, size)


def over_root(x: Array | float, square: Array, more: float) -> Array:
    """x / √(square + more), rounded once, as of float64: the greatest weight of a channel is 127.5 levels, on the edge
    between two."""
    wide = jnp.float32(more)
    whole = rounding(square + wide)
    lost = (square - (whole - wide)) + (wide - (whole - (whole - wide))) + np.float32(more - float(np.float32(more)))
    divisor = jnp.sqrt(whole)
    lost = (_remainder(whole, divisor, divisor) + lost) / (2 * divisor)
    quotient = x / divisor
    return quotient + (_remainder(x, quotient, divisor) - quotient * lost) / divisor


def _remainder(x: Array | float, left: Array, right: Array) -> Array:
    """x - left · right without rounding, where it is small: of halves with so few bits that each product is exact."""
    (l_high, l_low), (r_high, r_low) = (
        (high := lax.reduce_precision(factor, 8, 11), factor - high) for factor in (left, right)
    )
    return (((x - l_high * r_high) - l_high * r_low) - l_low * r_high) - l_low * r_low


def added_once(product: Array, numbers: Array, factor: Array) -> Array:
    """product + numbers · factor, rounded once, as oneDNN has it. numbers: of 8 bits, so that halves of the products
    are exact."""
    product = rounding(product)
    high = lax.reduce_precision(factor, 8, 11)
    summand = numbers * high
    total = product + summand
    shift = total - product
    lost = (product - (total - shift)) + (summand - shift)
    return total + (lost + numbers * (factor - high))


def rounded_away(x: Array) -> Array:
    """The nearest whole number, the one further from 0 in the middle: C's round."""
    return jnp.sign(x) * jnp.floor(jnp.abs(x) + 0.5)


def sums_range(data: Array, weight: Array, is_signed: bool) -> tuple[Array, Array]:
    """The range that int32 stands for in sums of products, of the magnitudes of both factors."""
    high = weight / 127 * (data / (127 if is_signed else 255)) * np.float32(INT32_LEVELS)
    return ends(-high, high)


# -- products --------------------------------------------------------------------------------------------------------


def _in_pieces(product: Callable[[Array, Array], Array], data: Array, weight: Array, depth: int, size: int) -> Array:
    """Add up the products of pieces of axis `depth` of the weight, and of axis 1 of data, that are exact each."""
    step = max(_EXACT[data.dtype.name] // size, 1)
    length = weight.shape[depth]
    bounds = [*range(0, length, step), length]
    parts = [
        product(
            lax.slice_in_dim(data, start, stop, axis=depth).astype(jnp.float32),
            lax.slice_in_dim(weight, start, stop, axis=depth).astype(jnp.float32),
        ).astype(jnp.int32)
        for start, stop in pairwise(bounds)
    ]
    return reduce(lax.add, parts)


def dot(data: Array, weight: Array) -> Array:
    """data (…, d), weight (h, d), 8 bits each → the exact int32 sums (…, h)."""
    rows = data.reshape(-1, data.shape[-1])
    product = partial(lax.dot_general, dimension_numbers=(((1,), (1,)), ((), ())))
    return _in_pieces(product, rows, weight, 1, 1).reshape(*data.shape[:-1], weight.shape[0])


def convolve(p: ConvolutionGeometry, data: Array, weight: Array) -> Array:
    """The exact int32 sums of a convolution of 8-bit integers."""
    spec = (0, p.channel_axis, *p.spatial_axes)
    product = partial(
        lax.conv_general_dilated,
        window_strides=[stride for _, stride, _, _ in p.steps],
        padding=[(pad, pad) for *_, pad in p.steps],
        rhs_dilation=[dilation for _, _, dilation, _ in p.steps],
        dimension_numbers=lax.ConvDimensionNumbers(spec, spec, spec),
        feature_group_count=p.num_group,
    )
    terms, exact = p.window_size * weight.shape[p.channel_axis], _EXACT[data.dtype.name]
    if terms <= exact:
        return product(data.astype(jnp.float32), weight.astype(jnp.float32)).astype(jnp.int32)
    if p.num_group == 1 and p.window_size <= exact:
        return _in_pieces(product, data, weight, p.channel_axis, p.window_size)
    return product(data.astype(jnp.int32), weight.astype(jnp.int32))


def along(vector: Array, ndim: int, axis: int) -> Array:
    """A vector, to be broadcast along one axis; a single number as it is."""
    return vector if vector.ndim == 0 else lax.expand_dims(vector, [i for i in range(ndim) if i != axis % ndim])


def accumulated(sums: Array, bias: Array | None, axis: int) -> Array:
    """Sums with a bias of int32 for each channel."""
    return sums if bias is None else sums + along(bias, sums.ndim, axis)
