"""Recurrent cells: one step forward, one step back, and the products that they are made of.

Everything is written for numbers that may have nilpotent parts (`lowering.dual`); on plain arrays it is plain JAX.

Arrays lie with their features before the batch, (…, k, n): a weight (m, k) is then multiplied as it lies, its rows the
product's, which the libraries behind XLA need not pack anew in every step. 64 products of float32[2048, 512] with a
batch of 32, one in each step of a loop, on a CPU: 21 ms so, 35 ms with the batch first, 199 ms of a weight (k, m).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering import dual
from lowering.dual import Number, bilinear, linear, select, sigmoid, tanh
from symjax_nnvm.ops.nn import rnn as ops

Numbers = tuple[Any, ...]

# -- products --------------------------------------------------------------------------------------------------------


def wide_dtype(dtype: Any) -> Any:
    """The dtype that states are carried and products are added up in."""
    return jnp.promote_types(dtype, jnp.float32)


def project(w: Number, x: Number) -> Any:
    """w (m, k), x (…, k, n) → (…, m, n); of half-precision operands it is float32."""

    def multiply(w: Array, x: Array) -> Array:
        dims = (((1,), (x.ndim - 2,)), ((), ()))
        product = lax.dot_general(w, x.astype(w.dtype), dims, preferred_element_type=wide_dtype(w.dtype))
        return jnp.moveaxis(product, 0, -2)

    return bilinear(multiply, w, x)


def _outer(a: Array, b: Array) -> Array:
    """(t, m, n), (t, k, n) → (m, k)."""
    return lax.dot_general(a, b, (((0, 2), (0, 2)), ((), ())), preferred_element_type=wide_dtype(b.dtype))


def outer(a: Number, like: Number, b: Number) -> Any:
    """The outer product in the dtype of `like`: both operands were made from values of that dtype."""
    dtype = dual.plain(like).dtype
    return bilinear(_outer, cast(a, dtype), cast(b, dtype))


def cast(x: Number, dtype: Any) -> Any:
    """The number in another dtype."""
    return linear(lambda a: a.astype(dtype), x)


def parts(x: Number, count: int) -> list[Any]:
    """The equal parts of the features."""
    size = dual.plain(x).shape[-2] // count
    return [linear(lambda a, k=k: lax.slice_in_dim(a, k * size, (k + 1) * size, axis=-2), x) for k in range(count)]


def joined(*parts: Number) -> Any:
    """The numbers' features one after the other."""
    return linear(lambda *arrays: jnp.concatenate(arrays, -2), *parts)


def swapped(x: Number) -> Any:
    """The last two axes swapped: batch and features, or a matrix's."""
    return linear(lambda a: jnp.swapaxes(a, -1, -2), x)


# -- cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """The parameters of one set of cells, biases (m, 1); h2r is None without projection."""

    i2h: Any
    h2h: Any
    h2r: Any
    i2h_bias: Any
    h2h_bias: Any

    def transposed(self) -> Weights:
        """With matrices as the way back multiplies them: laid once, outside of its loop."""
        i2h, h2h, h2r = (None if matrix is None else swapped(matrix) for matrix in (self.i2h, self.h2h, self.h2r))
        return replace(self, i2h=i2h, h2h=h2h, h2r=h2r)


@dataclass(frozen=True)
class Cell:
    """A kind of cell. A carry is (h,), or (h, c).

    bias: weights → what is added to the inputs' share of the gates. step: (p, weights, that share, carry) → new carry,
    kept. back: (p, transposed weights, kept, h, head gradients of the new carry) → (gradient of the share, of the carry
    but for its way through h2h). recurrent: (gradient of the share, kept) → gradient of the product with h2h.
    """

    bias: Callable[[Weights], Any]
    step: Callable[[ops.RNNParams, Weights, Any, Numbers], tuple[Numbers, Numbers]]
    back: Callable[[ops.RNNParams, Weights, Numbers, Any, Numbers], tuple[Any, Numbers]]
    recurrent: Callable[[Any, Numbers], Any]


def _plain_cell(activation: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Cell:
    """h' = activation(W x + R h + b). Its output is all it keeps."""

    def step(p: ops.RNNParams, w: Weights, share: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
        h = activation(share + project(w.h2h, carry[0]))
        return (h,), (h,)

    def back(p: ops.RNNParams, w: Weights, kept: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
        dgates = grads[0] * slope(kept[0])
        return dgates, (project(w.h2h, dgates),)

    return Cell(_both_biases, step, back, lambda dgates, kept: dgates)


def _both_biases(w: Weights) -> Any:
    return w.i2h_bias + w.h2h_bias


def _lstm_step(p: ops.RNNParams, w: Weights, share: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
    h, c = carry
    i, f, g, o = parts(share + project(w.h2h, h), 4)
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    new = clipped(p, f * c + i * g)
    out = o * tanh(new)
    if w.h2r is not None:
        out = project(w.h2r, out)
    return (out, new), (i, f, g, o, c)


def _lstm_back(p: ops.RNNParams, w: Weights, kept: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
    i, f, g, o, c = kept
    dout, dnew = grads
    if w.h2r is not None:
        dout = project(w.h2r, dout)
    raw = f * c + i * g
    y = tanh(clipped(p, raw))
    dnew = dnew + dout * o * (1 - y * y)
    bounds = _bounds(p)
    if bounds is not None:
        dnew = select(_is_inside(p, bounds, raw), dnew, 0.0)
    dgates = joined(
        dnew * g * i * (1 - i),
        dnew * c * f * (1 - f),
        dnew * i * (1 - g * g),
        dout * y * o * (1 - o),
    )
    return dgates, (project(w.h2h, dgates), dnew * f)


def _bounds(p: ops.RNNParams) -> tuple[float, float] | None:
    """The range that the cell state is clipped to."""
    low, high = p.lstm_state_clip_min, p.lstm_state_clip_max
    return None if low is None or high is None else (low, high)


def _is_inside(p: ops.RNNParams, bounds: tuple[float, float], c: Any) -> Array:
    """Where a cell state is not clipped; NaN passes unless lstm_state_clip_nan."""
    value = dual.plain(c)
    if p.lstm_state_clip_nan:
        return (value >= bounds[0]) & (value <= bounds[1])
    return ~((value < bounds[0]) | (value > bounds[1]))


def clipped(p: ops.RNNParams, c: Any) -> Any:
    bounds = _bounds(p)
    if bounds is None:
        return c
    value = dual.plain(c)
    bound = jnp.where(value > bounds[1], bounds[1], bounds[0]).astype(value.dtype)
    return select(_is_inside(p, bounds, c), c, bound)


def _gru_step(p: ops.RNNParams, w: Weights, share: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
    (h,) = carry
    recurrent = project(w.h2h, h)
    (share_r, share_z, share_n), (r, z, m) = parts(share, 3), parts(recurrent, 3)
    r, z, m = sigmoid(share_r + r), sigmoid(share_z + z), m + parts(w.h2h_bias, 3)[2]
    n = tanh(share_n + r * m)
    return (n + z * (h - n),), (r, z, n, m)


def _gru_back(p: ops.RNNParams, w: Weights, kept: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
    r, z, n, m = kept
    (dh,) = grads
    dn = dh * (1 - z) * (1 - n * n)
    dr = dn * m * r * (1 - r)
    dz = dh * (h - n) * z * (1 - z)
    return joined(dr, dz, dn), (dh * z + project(w.h2h, joined(dr, dz, dn * r)),)


def _gru_bias(w: Weights) -> Any:
    """The reset gate multiplies the recurrent bias of n, so that one is added in the step."""
    r, z, n = parts(w.h2h_bias, 3)
    return w.i2h_bias + joined(r, z, linear(jnp.zeros_like, n))


def _gru_recurrent(dgates: Any, kept: Numbers) -> Any:
    dr, dz, dn = parts(dgates, 3)
    return joined(dr, dz, dn * kept[0])


def _relu_slope(y: Any) -> Array:
    return (dual.plain(y) > 0).astype(dual.plain(y).dtype)


CELLS = {
    "rnn_relu": _plain_cell(dual.relu, _relu_slope),
    "rnn_tanh": _plain_cell(tanh, lambda y: 1 - y * y),
    "lstm": Cell(_both_biases, _lstm_step, _lstm_back, lambda dgates, kept: dgates),
    "gru": Cell(_gru_bias, _gru_step, _gru_back, _gru_recurrent),
}
