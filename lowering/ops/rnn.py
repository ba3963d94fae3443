"""JAX rules of RNN and of its derivatives.

Each set of cells (layer, direction) is one `lax.scan`. What does not depend on the state stands outside of it as one
large product: the inputs' share of the gates, and in the gradient that of the inputs and of all weights. Everything is
written for numbers that may have nilpotent parts (`lowering.dual`); on plain arrays it is plain JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lowering import dual
from lowering.dual import Number, bilinear, linear, select, sigmoid, tanh
from lowering.ops.sequence import whole_lengths
from lowering.registry import lowers
from symjax_nnvm.ops import rnn as ops

Array = jax.Array
Numbers = tuple[Any, ...]

# -- products --------------------------------------------------------------------------------------------------------


def _product(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    """A product over axes of both operands, counted from the end; of half-precision operands it is float32."""

    def multiply(a: Array, b: Array) -> Array:
        dims = (tuple(i % a.ndim for i in lhs), tuple(i % b.ndim for i in rhs))
        return lax.dot_general(a.astype(b.dtype), b, (dims, ((), ())), preferred_element_type=_wide(b.dtype))

    return lambda a, b: bilinear(multiply, a, b)


def _wide(dtype: Any) -> Any:
    return jnp.promote_types(dtype, jnp.float32)


_project = _product((-1,), (1,))  # (…, k), (m, k) → (…, m)
_project_back = _product((-1,), (0,))  # (…, m), (m, k) → (…, k)
_outer = _product((0, 1), (0, 1))  # (t, n, m), (t, n, k) → (m, k)


def _narrowed_outer(a: Number, like: Number, b: Number) -> Any:
    """The outer product in the dtype of `like`: both operands were made from values of that dtype."""
    dtype = dual.plain(like).dtype
    return _outer(_cast(a, dtype), _cast(b, dtype))


def _cast(x: Number, dtype: Any) -> Any:
    return linear(lambda a: a.astype(dtype), x)


def _gates(x: Number, count: int) -> list[Any]:
    """The equal parts of the last axis."""
    size = dual.plain(x).shape[-1] // count
    return [linear(lambda a, k=k: lax.slice_in_dim(a, k * size, (k + 1) * size, axis=-1), x) for k in range(count)]


def _joined(*parts: Number) -> Any:
    return linear(lambda *arrays: jnp.concatenate(arrays, -1), *parts)


def _stacked(parts: Sequence[Number]) -> Any:
    return linear(lambda *arrays: jnp.stack(arrays), *parts)


def _row(x: Number, i: int) -> Any:
    return linear(lambda a: a[i], x)


def _total(x: Number) -> Any:
    return linear(lambda a: jnp.sum(a, (0, 1)), x)


# -- cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """The parameters of one set of cells; h2r is None without projection."""

    i2h: Any
    h2h: Any
    h2r: Any
    i2h_bias: Any
    h2h_bias: Any


@dataclass(frozen=True)
class Cell:
    """A kind of cell. A carry is (h,), or (h, c).

    bias: weights → what is added to the inputs' share of the gates. step: (p, weights, that share, carry) → new carry,
    kept. back: (p, weights, kept, h, head gradients of the new carry) → (gradient of the share, of the carry but for
    its way through h2h). recurrent: (gradient of the share, kept) → gradient of the product with h2h.
    """

    bias: Callable[[Weights], Any]
    step: Callable[[ops.RNNParams, Weights, Any, Numbers], tuple[Numbers, Numbers]]
    back: Callable[[ops.RNNParams, Weights, Numbers, Any, Numbers], tuple[Any, Numbers]]
    recurrent: Callable[[Any, Numbers], Any]


def _plain_cell(activation: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Cell:
    """h' = activation(W x + R h + b). Its output is all it keeps."""

    def step(p: ops.RNNParams, w: Weights, share: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
        h = activation(share + _project(carry[0], w.h2h))
        return (h,), (h,)

    def back(p: ops.RNNParams, w: Weights, kept: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
        dgates = grads[0] * slope(kept[0])
        return dgates, (_project_back(dgates, w.h2h),)

    return Cell(_both_biases, step, back, lambda dgates, kept: dgates)


def _both_biases(w: Weights) -> Any:
    return w.i2h_bias + w.h2h_bias


def _lstm_step(p: ops.RNNParams, w: Weights, share: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
    h, c = carry
    i, f, g, o = _gates(share + _project(h, w.h2h), 4)
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    new = _clipped(p, f * c + i * g)
    out = o * tanh(new)
    if w.h2r is not None:
        out = _project(out, w.h2r)
    return (out, new), (i, f, g, o, c)


def _lstm_back(p: ops.RNNParams, w: Weights, kept: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
    i, f, g, o, c = kept
    dout, dnew = grads
    if w.h2r is not None:
        dout = _project_back(dout, w.h2r)
    raw = f * c + i * g
    y = tanh(_clipped(p, raw))
    dnew = dnew + dout * o * (1 - y * y)
    bounds = _bounds(p)
    if bounds is not None:
        dnew = select(_is_inside(p, bounds, raw), dnew, 0.0)
    dgates = _joined(
        dnew * g * i * (1 - i),
        dnew * c * f * (1 - f),
        dnew * i * (1 - g * g),
        dout * y * o * (1 - o),
    )
    return dgates, (_project_back(dgates, w.h2h), dnew * f)


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


def _clipped(p: ops.RNNParams, c: Any) -> Any:
    bounds = _bounds(p)
    if bounds is None:
        return c
    value = dual.plain(c)
    bound = jnp.where(value > bounds[1], bounds[1], bounds[0]).astype(value.dtype)
    return select(_is_inside(p, bounds, c), c, bound)


def _gru_step(p: ops.RNNParams, w: Weights, share: Any, carry: Numbers) -> tuple[Numbers, Numbers]:
    (h,) = carry
    recurrent = _project(h, w.h2h)
    (share_r, share_z, share_n), (r, z, m) = _gates(share, 3), _gates(recurrent, 3)
    r, z, m = sigmoid(share_r + r), sigmoid(share_z + z), m + _gates(w.h2h_bias, 3)[2]
    n = tanh(share_n + r * m)
    return (n + z * (h - n),), (r, z, n, m)


def _gru_back(p: ops.RNNParams, w: Weights, kept: Numbers, h: Any, grads: Numbers) -> tuple[Any, Numbers]:
    r, z, n, m = kept
    (dh,) = grads
    dn = dh * (1 - z) * (1 - n * n)
    dr = dn * m * r * (1 - r)
    dz = dh * (h - n) * z * (1 - z)
    return _joined(dr, dz, dn), (dh * z + _project_back(_joined(dr, dz, dn * r), w.h2h),)


def _gru_bias(w: Weights) -> Any:
    """The reset gate multiplies the recurrent bias of n, so that one is added in the step."""
    r, z, n = _gates(w.h2h_bias, 3)
    return w.i2h_bias + _joined(r, z, linear(jnp.zeros_like, n))


def _gru_recurrent(dgates: Any, kept: Numbers) -> Any:
    dr, dz, dn = _gates(dgates, 3)
    return _joined(dr, dz, dn * kept[0])


def _relu_slope(y: Any) -> Array:
    return (dual.plain(y) > 0).astype(dual.plain(y).dtype)


CELLS = {
    "rnn_relu": _plain_cell(dual.relu, _relu_slope),
    "rnn_tanh": _plain_cell(tanh, lambda y: 1 - y * y),
    "lstm": Cell(_both_biases, _lstm_step, _lstm_back, lambda dgates, kept: dgates),
    "gru": Cell(_gru_bias, _gru_step, _gru_back, _gru_recurrent),
}

# -- one set of cells over time --------------------------------------------------------------------------------------


def _run(
    p: ops.RNNParams, w: Weights, x: Number, first: Numbers, valid: Array | None, reverse: bool
) -> tuple[Any, Numbers, Numbers]:
    """(outputs (t, n, s), carry after the last step, kept)."""
    cell = CELLS[p.mode]
    shares = _project(x, w.i2h) + cell.bias(w)

    def step(carry: Numbers, at: tuple[Any, Array | None]) -> tuple[Numbers, tuple[Any, Numbers]]:
        share, inside = at
        new, kept = cell.step(p, w, share, carry)
        out = new[0]
        if inside is not None:
            new = tuple(select(inside, after, before) for after, before in zip(new, carry, strict=True))
            out = select(inside, out, 0.0)
        return new, (out, kept)

    last, (out, kept) = lax.scan(step, first, (shares, valid), reverse=reverse)
    return out, last, kept


def _run_back(
    p: ops.RNNParams,
    w: Weights,
    x: Number,
    out: Number,
    kept: Numbers,
    first: Numbers,
    valid: Array | None,
    reverse: bool,
    dout: Number,
    dlast: Numbers,
) -> tuple[Any, Weights, Numbers]:
    """Gradients of (inputs, weights, first carry), from those of the outputs and of the last carry."""
    cell = CELLS[p.mode]
    states = _states_before(out, first[0], valid, reverse)
    if valid is not None:
        dout = select(valid, dout, 0.0)

    def step(grads: Numbers, at: Any) -> tuple[Numbers, tuple[Any, Any]]:
        dy, kept, h, inside = at
        dh = grads[0] + dy
        dgates, before = cell.back(p, w, kept, h, (dh, *grads[1:]))
        if inside is not None:
            before = tuple(select(inside, new, old) for new, old in zip(before, grads, strict=True))
            dgates, dh = select(inside, dgates, 0.0), select(inside, dh, 0.0)
        return before, (dgates, None if w.h2r is None else dh)

    dfirst, (dgates, dprojected) = lax.scan(step, dlast, (dout, kept, states, valid), reverse=not reverse)
    drecurrent = cell.recurrent(dgates, kept)
    dprojection = None
    if w.h2r is not None:
        i, f, g, o, c = kept
        dprojection = _narrowed_outer(dprojected, w.h2r, o * tanh(_clipped(p, f * c + i * g)))
    dw = Weights(
        _narrowed_outer(dgates, w.i2h, x),
        _narrowed_outer(drecurrent, w.h2h, states),
        dprojection,
        _total(dgates),
        _total(drecurrent),
    )
    return _project_back(dgates, w.i2h), dw, dfirst


def _states_before(out: Number, first: Number, valid: Array | None, reverse: bool) -> Any:
    """The state that each step starts from: the output of the step before, in the direction of reading."""

    def shifted(out: Array, first: Array) -> Array:
        first = first[None].astype(out.dtype)
        return jnp.concatenate([out[1:], first] if reverse else [first, out[:-1]])

    states = linear(shifted, out, first)
    if valid is None or not reverse:
        return states
    # Read backwards, a sequence starts at its own last step.
    follows = jnp.concatenate([valid[1:], jnp.zeros_like(valid[:1])])
    return select(follows, states, linear(lambda a: a[None].astype(dual.plain(out).dtype), first))


# -- all layers ------------------------------------------------------------------------------------------------------


def _unpacked(p: ops.RNNParams, parameters: Number, input_size: int) -> list[Weights]:
    """The weights of every set of cells, from the flat vector."""
    pieces: list[Any] = []
    at = 0
    for shape in ops.parameter_shapes(p, input_size):
        size = 1
        for dim in shape:
            size *= dim
        pieces.append(linear(lambda a, at=at, end=at + size, shape=shape: a[at:end].reshape(shape), parameters))
        at += size
    per_cell = 2 if p.projection_size is None else 3
    found = []
    for k in range(len(p.cells)):
        matrices = [*pieces[k * per_cell : (k + 1) * per_cell], None][:3]
        biases = pieces[len(p.cells) * per_cell + 2 * k :][:2]
        found.append(Weights(*matrices, *biases))
    return found


def _packed(weights: Sequence[Weights]) -> Any:
    """The flat vector of the weights of every set of cells."""
    matrices = [m for w in weights for m in (w.i2h, w.h2h, w.h2r) if m is not None]
    biases = [b for w in weights for b in (w.i2h_bias, w.h2h_bias)]
    return linear(lambda *arrays: jnp.concatenate([a.reshape(-1) for a in arrays]), *matrices, *biases)


def _first_carries(inputs: Sequence[Number], count: int) -> list[Numbers]:
    """The carry that every set of cells starts from."""
    wide = _wide(dual.plain(inputs[0]).dtype)
    return [tuple(_cast(_row(state, k), wide) for state in inputs[2:]) for k in range(count)]


def _valid(p: ops.RNNParams, data: Number, lengths: Array | None) -> Array | None:
    """(t, n, 1): whether a step is one of its sequence."""
    if lengths is None:
        return None
    steps = lax.iota(jnp.int32, dual.plain(data).shape[0])
    return steps[:, None, None] < whole_lengths(lengths)[None, :, None]


@dataclass(frozen=True)
class Pass:
    """A forward pass: the outputs of each layer, the last carry and what was kept of each set of cells."""

    outputs: list[Any]
    last: list[Numbers]
    kept: list[Numbers]


def _forward(p: ops.RNNParams, inputs: Sequence[Number], valid: Array | None, mask: Array | None) -> Pass:
    data = inputs[0]
    weights = _unpacked(p, inputs[1], dual.plain(data).shape[-1])
    first = _first_carries(inputs, len(weights))
    found = Pass([], [], [])
    x: Any = data
    for layer in range(p.num_layers):
        outs = []
        for d in range(p.num_directions):
            k = layer * p.num_directions + d
            out, last, kept = _run(p, weights[k], x, first[k], valid, d == 1)
            outs.append(out)
            found.last.append(last)
            found.kept.append(kept)
        x = _joined(*outs) if len(outs) > 1 else outs[0]
        found.outputs.append(x)
        if mask is not None and layer < p.num_layers - 1:
            x = x * mask[layer]
    return found


def _backward(
    p: ops.RNNParams,
    heads: Sequence[Array],
    inputs: Sequence[Number],
    valid: Array | None,
    mask: Array | None,
    done: Pass,
) -> list[Any]:
    """Gradients of the inputs, from the heads' and what a forward pass left."""
    data = inputs[0]
    weights = _unpacked(p, inputs[1], dual.plain(data).shape[-1])
    first = _first_carries(inputs, len(weights))
    wide = _wide(dual.plain(data).dtype)
    dw: list[Any] = [None] * len(weights)
    dfirst: list[Numbers] = [()] * len(weights)
    dx: Any = heads[0]
    for layer in reversed(range(p.num_layers)):
        x = data
        if layer > 0:
            x = done.outputs[layer - 1] if mask is None else done.outputs[layer - 1] * mask[layer - 1]
        outs, douts = _gates(done.outputs[layer], p.num_directions), _gates(dx, p.num_directions)
        dx = None
        for d in range(p.num_directions):
            k = layer * p.num_directions + d
            kept = done.kept[k] or (outs[d],)
            shown = [head[k].astype(wide) for head in heads[1:]]
            dlast = shown or [jnp.zeros(dual.plain(state).shape, wide) for state in first[k]]
            dlast = tuple(dual.lift(state, data) for state in dlast)
            dinput, dw[k], dfirst[k] = _run_back(
                p, weights[k], x, outs[d], kept, first[k], valid, d == 1, douts[d], dlast
            )
            dx = dinput if dx is None else dx + dinput
        if mask is not None and layer > 0:
            dx = dx * mask[layer - 1]
    dstates = [_stacked(states) for states in zip(*dfirst, strict=True)]
    return [dx, _packed(dw), *dstates]


# -- rules -----------------------------------------------------------------------------------------------------------


def _drops(p: ops.RNNParams, is_train: bool) -> bool:
    return p.has_mask and is_train


def _draw_mask(p: ops.RNNParams, data: Array, key: Any) -> Array:
    """What the outputs of all layers but the last are multiplied with."""
    shape = (p.num_layers - 1, *data.shape[:2], p.num_directions * p.output_size)
    if key is None:
        return jnp.ones(shape, data.dtype)
    factor = 1 / (1 - p.p) if p.p < 1 else 0
    kept = jax.random.bernoulli(key, 1 - p.p, shape)
    return jnp.where(kept, jnp.asarray(factor, data.dtype), jnp.zeros((), data.dtype))


@lowers("RNN", needs=("key",), draws=_drops)
def _rnn(p: ops.RNNParams, *inputs: Array, key: Any) -> list[Array]:
    operands, lengths = inputs[: len(ops.smooth(p))], inputs[len(ops.smooth(p)) :]
    mask = _draw_mask(p, inputs[0], key) if p.has_mask else None
    valid = _valid(p, inputs[0], lengths[0] if lengths else None)
    found = _forward(p, operands, valid, None if key is None else mask)
    visible = [found.outputs[-1], *_last_states(p, found)]
    kept = [array for arrays in found.kept for array in arrays] if ops.KEPT[p.mode] else []
    masks = [] if mask is None else [mask]
    return [array.astype(inputs[0].dtype) for array in (*visible, *masks, *found.outputs[:-1], *kept)]


def _last_states(p: ops.RNNParams, found: Pass) -> list[Any]:
    """The states after the last step, where they are shown."""
    return [_stacked(states) for states in zip(*found.last, strict=True)] if p.state_outputs else []


@dataclass(frozen=True)
class Given:
    """What a derivative operator was given besides heads: where, masks, and what the forward pass left."""

    numbers: list[Number]
    valid: Array | None
    mask: Array | None
    done: Pass


def _given(p: ops.RNNGradientParams, smooth: list[Array], fixed: list[Array], directions: list[list[Array]]) -> Given:
    rest = iter(fixed)
    valid = _valid(p, smooth[0], next(rest) if p.use_sequence_length else None)
    out = next(rest)
    mask = next(rest) if p.has_mask else None
    numbers = dual.with_directions(smooth, directions)
    if p.order:  # what was kept knows nothing of the directions
        return Given(numbers, valid, mask, _forward(p, numbers, valid, mask))
    outputs = [*(next(rest) for _ in range(p.num_layers - 1)), out]
    kept = [tuple(next(rest) for _ in ops.KEPT[p.mode]) for _ in p.cells]
    return Given(numbers, valid, mask, Pass(outputs, [], kept))


@lowers("_backward_RNN")
def _backward_rnn(p: ops.RNNGradientParams, *operands: Array) -> list[Array]:
    at = ops.DERIVATIVES.split(p, operands, heads=True)
    given = _given(p, at.smooth, at.fixed, at.directions)
    grads = _backward(p, at.heads, given.numbers, given.valid, given.mask, given.done)
    return [dual.mixed_slope(grad).astype(x.dtype) for grad, x in zip(grads, at.smooth, strict=True)]


@lowers("_backward_RNN_tangent")
def _rnn_tangent(p: ops.RNNGradientParams, *operands: Array) -> list[Array]:
    at = ops.DERIVATIVES.split(p, operands, heads=False)
    done = _given(p, at.smooth, at.fixed, at.directions).done
    outputs = [done.outputs[-1], *_last_states(p, done)]
    return [dual.mixed_slope(output).astype(at.smooth[0].dtype) for output in outputs]
