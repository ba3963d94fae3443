"""Recurrent cells: one step forward and one step back.

Everything is written for numbers that may have nilpotent parts (`lowering.ops.dual`); on plain arrays it is plain JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.ops import dual
from lowering.ops.dual import linear, select, sigmoid, tanh
from lowering.ops.nn.rnn_layout import FEATURES_FIRST, Layout
from symjax_nnvm.ops.nn import rnn as ops

Numbers = tuple[Any, ...]


def _laid(matrix: Any) -> Any:
    """The matrix swapped. XLA:CPU makes a product of bfloat16 with a transposed left side, which it then cannot run
    (JAX 0.10 and 0.12: "Unsupported element type for DotThunk"), so that one is transposed by itself."""

    def lay(array: Array) -> Array:
        laid = jnp.swapaxes(array, -1, -2)
        return lax.optimization_barrier(laid) if array.dtype == jnp.bfloat16 else laid

    return linear(lay, matrix)


@dataclass(frozen=True)
class CellWeights:
    """The parameters of one set of cells, and the layout of their arrays; h2r is None without projection."""

    layout: Layout
    i2h: Any
    h2h: Any
    h2r: Any
    i2h_bias: Any
    h2h_bias: Any

    def forth(self) -> CellWeights:
        """With matrices as the way forth multiplies them: laid once, outside of its loop."""
        return self if self.layout == FEATURES_FIRST else self._swapped()

    def back(self) -> CellWeights:
        """Return the matrices as the way back multiplies them; see `forth`."""
        return self._swapped() if self.layout == FEATURES_FIRST else self

    def _swapped(self) -> CellWeights:
        i2h, h2h, h2r = (None if matrix is None else _laid(matrix) for matrix in (self.i2h, self.h2h, self.h2r))
        return replace(self, i2h=i2h, h2h=h2h, h2r=h2r)


@dataclass(frozen=True)
class CellRule:
    """A kind of cell. A carry is (h,), or (h, c).

    bias: weights → what is added to the inputs' share of the gates. step: (p, weights laid forth, that share, the
    product of h2h and h, carry) → new carry, kept. back: (p, weights laid back, kept, h, head gradients of the new
    carry) → gradients of the share and of the carry, without that of the product. recurrent: (weights, gradient of the
    share, kept) → gradient of the product.
    """

    bias: Callable[[CellWeights], Any]
    step: Callable[[ops.RNNParams, CellWeights, Any, Any, Numbers], tuple[Numbers, Numbers]]
    back: Callable[[ops.RNNParams, CellWeights, Numbers, Any, Numbers], tuple[Any, Numbers]]
    recurrent: Callable[[CellWeights, Any, Numbers], Any]


def before(others: Numbers, product: Any) -> Numbers:
    """The gradients of a carry: of h what the product and the rest of the cell give it."""
    return product if others[0] is None else others[0] + product, *others[1:]


def _plain_cell(activation: Callable[[Any], Any], slope: Callable[[Any], Any]) -> CellRule:
    """Return h' = activation(W x + R h + b). Its output is all it keeps."""

    def step(p: ops.RNNParams, w: CellWeights, share: Any, recurrent: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
        h = activation(share + recurrent)
        return (h,), (h,)

    def back(p: ops.RNNParams, w: CellWeights, residuals: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
        return grads[0] * slope(residuals[0]), (None,)

    return CellRule(_both_biases, step, back, lambda w, dgates, residuals: dgates)


def _both_biases(w: CellWeights) -> Any:
    return w.i2h_bias + w.h2h_bias


def _lstm_step(p: ops.RNNParams, w: CellWeights, share: Any, recurrent: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
    c = carry[1]
    i, f, g, o = w.layout.parts(share + recurrent, 4)
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    new = clipped(p, f * c + i * g)
    out = o * tanh(new)
    if w.h2r is not None:
        out = w.layout.project(w.h2r, out)
    return (out, new), (i, f, g, o, c)


def _lstm_back(p: ops.RNNParams, w: CellWeights, residuals: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
    i, f, g, o, c = residuals
    dout, dnew = grads
    if w.h2r is not None:
        dout = w.layout.project(w.h2r, dout)
    raw = f * c + i * g
    y = tanh(clipped(p, raw))
    dnew = dnew + dout * o * (1 - y * y)
    bounds = _bounds(p)
    if bounds is not None:
        dnew = select(_is_inside(p, bounds, raw), dnew, 0.0)
    dgates = w.layout.joined(
        dnew * g * i * (1 - i),
        dnew * c * f * (1 - f),
        dnew * i * (1 - g * g),
        dout * y * o * (1 - o),
    )
    return dgates, (None, dnew * f)


def _bounds(p: ops.RNNParams) -> tuple[float, float] | None:
    """Return the range that the cell state is clipped to."""
    low, high = p.lstm_state_clip_min, p.lstm_state_clip_max
    return None if low is None or high is None else (low, high)


def _is_inside(p: ops.RNNParams, bounds: tuple[float, float], c: Any) -> Array:
    """Return where a cell state is not clipped; NaN passes unless lstm_state_clip_nan."""
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


def _gru_step(p: ops.RNNParams, w: CellWeights, share: Any, recurrent: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
    (h,) = carry
    (share_r, share_z, share_n), (r, z, m) = w.layout.parts(share, 3), w.layout.parts(recurrent, 3)
    r, z, m = sigmoid(share_r + r), sigmoid(share_z + z), m + w.layout.parts(w.h2h_bias, 3)[2]
    n = tanh(share_n + r * m)
    return (n + z * (h - n),), (r, z, n, m)


def _gru_back(p: ops.RNNParams, w: CellWeights, residuals: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
    r, z, n, m = residuals
    (dh,) = grads
    dn = dh * (1 - z) * (1 - n * n)
    dr = dn * m * r * (1 - r)
    dz = dh * (h - n) * z * (1 - z)
    return w.layout.joined(dr, dz, dn), (dh * z,)


def _gru_bias(w: CellWeights) -> Any:
    """Return the bias: the reset gate multiplies the recurrent one of n, so that one is added in the step."""
    r, z, n = w.layout.parts(w.h2h_bias, 3)
    return w.i2h_bias + w.layout.joined(r, z, linear(jnp.zeros_like, n))


def _gru_recurrent(w: CellWeights, dgates: Any, residuals: Numbers) -> Any:
    dr, dz, dn = w.layout.parts(dgates, 3)
    return w.layout.joined(dr, dz, dn * residuals[0])


def _relu_slope(y: Any) -> Array:
    return (dual.plain(y) > 0).astype(dual.plain(y).dtype)


CELLS = {
    "rnn_relu": _plain_cell(dual.relu, _relu_slope),
    "rnn_tanh": _plain_cell(tanh, lambda y: 1 - y * y),
    "lstm": CellRule(_both_biases, _lstm_step, _lstm_back, lambda w, dgates, residuals: dgates),
    "gru": CellRule(_gru_bias, _gru_step, _gru_back, _gru_recurrent),
}
