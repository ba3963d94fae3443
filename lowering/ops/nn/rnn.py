"""JAX rules of RNN and of its derivatives.

Each set of cells (layer, direction) is one `lax.scan`. The products that make the gradients of weights stand outside of
it as one; for the inputs' share of the gates and its gradient, see `WIDE`. The order of axes is a `Layout`, chosen
by `_layout`; what the gradient reads is kept features first, whatever the layout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops import dual
from lowering.ops.dual import Number, linear, select, tanh
from lowering.ops.nn import rnn_wavefront
from lowering.ops.nn.rnn_cells import CELLS, CellWeights, Numbers, before, clipped
from lowering.ops.nn.rnn_layout import BATCH_FIRST, FEATURES_FIRST, Layout, cast
from lowering.ops.nn.sequence import whole_lengths
from lowering.ops.wide import wide_dtype
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ops.nn import rnn as ops

SMALL = 2**19
"""A recurrent matrix of up to this many elements, where several sequences are multiplied with it in at least `MANY`
steps, takes them batch first; larger ones, and few columns or steps, features first. See `_layout`."""

MANY = 32

WIDE = 16
"""From this batch on a step makes the inputs' share of its gates itself, and below one product makes that of all steps.

With few columns for a weight, reading the weight takes the time; with many, it is writing and reading the shares, four
times as large as the data. Two LSTM layers of 512 over 64 steps on a CPU, ms with the products inside and
outside: batch 1, 14.5 and 8.1; 4, 23.5 and 19.3; 8, 36.5 and 33.9; 16, 64 and 81; 32, 100 and 123; 128, 514 and 676.
The shares of a cell of one gate are no larger than data, and their products stay outside.
"""


def _are_many(size: int, least: int) -> bool:
    """Return whether a size is at least a number, as one that was left open is taken to be."""
    return is_open(size) or size >= least


def _layout(p: ops.RNNParams, data: Array) -> Layout:
    """Return the layout of all arrays inside, for data (t, n, d).

    Batch first data are not transposed and small products are faster, but the weights are, once: by the copy, few steps
    lose what they gain. Forward and backward on a CPU, batch 32 over 35 steps, processor ms features first and batch
    first: rnn_tanh of 200, 4.4 and 4.0; 512, 25.0 and 20.7; 1024, a tie; lstm of 200, 20.6 and 17.3; 300, 35.8 and
    35.3; gru of 512, 70.8 and 72.3; two lstm layers of 512 over 64 steps, 319 and 364. Forward, batch 1: lstm of 350 a
    tenth slower batch first; over 5 steps, a quarter.
    """
    steps, batch, _ = data.shape
    small = ops.GATES[p.mode] * p.state_size * p.output_size <= SMALL
    return BATCH_FIRST if small and _are_many(batch, 2) and _are_many(steps, MANY) else FEATURES_FIRST


def _is_wide(p: ops.RNNParams, layout: Layout, x: Number) -> bool:
    return ops.GATES[p.mode] > 1 and _are_many(dual.plain(x).shape[layout.batch], WIDE)


WAVES: tuple[str | None, ...] = ("gpu", "tpu")
"""Platforms on which several layers run as a wavefront: starting a product there takes longer than the product. On CPUs
the gradient of two LSTM layers of 512 takes 1.3 times as long so, batch 32 over 64 steps, and as long forward."""


def _is_wave(p: ops.RNNParams, data: Array, platform: str | None) -> bool:
    """Return whether the layers run as a wavefront: those above the first have the shapes of one another."""
    is_plain, steps = p.num_directions == 1 and p.projection_size is None, data.shape[0]
    return platform in WAVES and is_plain and p.num_layers > 1 and not is_open(steps) and steps > 1


def _stacked(layout: Layout, states: Sequence[Number]) -> Any:
    """States of sets of cells as the operator has them, (l·k, n, s)."""
    return layout.batch_first(linear(lambda *arrays: jnp.stack(arrays), *states))


def _row(x: Number, i: int) -> Any:
    return linear(lambda a: a[i], x)


# -- one set of cells over time --------------------------------------------------------------------------------------


def _run(
    p: ops.RNNParams, w: CellWeights, x: Number, first: Numbers, valid: Array | None, reverse: bool
) -> tuple[Any, Numbers, Numbers]:
    """Return (outputs (t, s, n), carry after the last step, kept)."""
    cell = CELLS[p.mode]
    forth, bias = w.forth(), cell.bias(w)
    wide = _is_wide(p, w.layout, x)

    def share(x: Number) -> Any:
        return w.layout.project(forth.i2h, x) + bias

    def step(carry: Numbers, at: tuple[Any, Array | None]) -> tuple[Numbers, tuple[Any, Numbers]]:
        step_input, inside = at
        recurrent = w.layout.project(forth.h2h, carry[0])
        new, residuals = cell.step(p, forth, share(step_input) if wide else step_input, recurrent, carry)
        out = new[0]
        if inside is not None:
            new = tuple(select(inside, after, before) for after, before in zip(new, carry, strict=True))
            out = select(inside, out, 0.0)
        return new, (out, residuals)

    last, (out, residuals) = lax.scan(step, first, (x if wide else share(x), valid), reverse=reverse)
    return out, last, residuals


def _run_back(
    p: ops.RNNParams,
    w: CellWeights,
    x: Number,
    out: Number,
    residuals: Numbers,
    first: Numbers,
    valid: Array | None,
    reverse: bool,
    dout: Number,
    dlast: Numbers,
) -> tuple[Any, CellWeights, Numbers]:
    """Return gradients of (inputs, weights, first carry), from those of the outputs and of the last carry."""
    cell = CELLS[p.mode]
    back = w.back()
    wide = _is_wide(p, w.layout, x)
    states = _states_before(out, first[0], valid, reverse)
    if valid is not None:
        dout = select(valid, dout, 0.0)

    def step(grads: Numbers, at: Any) -> tuple[Numbers, tuple[Any, Any, Any]]:
        dy, residuals, h, inside = at
        dh = grads[0] + dy
        dgates, others = cell.back(p, back, residuals, h, (dh, *grads[1:]))
        earlier = before(others, w.layout.project(back.h2h, cell.recurrent(back, dgates, residuals)))
        if inside is not None:
            earlier = tuple(select(inside, new, old) for new, old in zip(earlier, grads, strict=True))
            dgates, dh = select(inside, dgates, 0.0), select(inside, dh, 0.0)
        dinput = w.layout.project(back.i2h, dgates) if wide else None
        return earlier, (dgates, dinput, None if w.h2r is None else dh)

    dfirst, (dgates, dinputs, dprojected) = lax.scan(step, dlast, (dout, residuals, states, valid), reverse=not reverse)
    dw = _weight_gradients(p, w, x, states, residuals, dgates, dprojected)
    return dinputs if wide else w.layout.project(back.i2h, dgates), dw, dfirst


def _weight_gradients(
    p: ops.RNNParams, w: CellWeights, x: Number, states: Number, residuals: Numbers, dgates: Number, dprojected: Any
) -> CellWeights:
    """Return the gradients of weights, from those of the gates and of what is projected in all steps."""
    drecurrent = CELLS[p.mode].recurrent(w, dgates, residuals)
    dprojection = None
    if w.h2r is not None:
        i, f, g, o, c = residuals
        dprojection = w.layout.outer(dprojected, w.h2r, o * tanh(clipped(p, f * c + i * g)))
    return replace(
        w,
        i2h=w.layout.outer(dgates, w.i2h, x),
        h2h=w.layout.outer(drecurrent, w.h2h, states),
        h2r=dprojection,
        i2h_bias=w.layout.total(dgates),
        h2h_bias=w.layout.total(drecurrent),
    )


def _states_before(out: Number, first: Number, valid: Array | None, reverse: bool) -> Any:
    """Return the state that each step starts from: the output of the step before, in the direction of reading."""

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


def _unpacked(p: ops.RNNParams, layout: Layout, parameters: Number, input_size: int) -> list[CellWeights]:
    """Return the weights of every set of cells, from the flat vector."""
    pieces: list[Any] = []
    at = 0
    for shape in ops.parameter_shapes(p, input_size):
        size = math.prod(shape)
        pieces.append(linear(lambda a, at=at, end=at + size, shape=shape: a[at:end].reshape(shape), parameters))
        at += size
    per_cell = 2 if p.projection_size is None else 3
    weights = []
    for k in range(len(p.cells)):
        matrices = [*pieces[k * per_cell : (k + 1) * per_cell], None][:3]
        biases = [layout.bias(bias) for bias in pieces[len(p.cells) * per_cell + 2 * k :][:2]]
        weights.append(CellWeights(layout, *matrices, *biases))
    return weights


def _packed(weights: Sequence[CellWeights]) -> Any:
    """Return the flat vector of the weights of every set of cells."""
    matrices = [m for w in weights for m in (w.i2h, w.h2h, w.h2r) if m is not None]
    biases = [b for w in weights for b in (w.i2h_bias, w.h2h_bias)]
    return linear(lambda *arrays: jnp.concatenate([a.reshape(-1) for a in arrays]), *matrices, *biases)


def _first_carries(layout: Layout, inputs: Sequence[Number], count: int) -> list[Numbers]:
    """Return the carry that every set of cells starts from."""
    wide = wide_dtype(dual.plain(inputs[0]).dtype)
    return [tuple(cast(layout.batch_first(_row(state, k)), wide) for state in inputs[2:]) for k in range(count)]


def _valid(layout: Layout, data: Array, lengths: Array | None) -> Array | None:
    """Return (t, 1, n) or (t, n, 1): whether a step is one of its sequence."""
    if lengths is None:
        return None
    inside = lax.iota(jnp.int32, data.shape[0])[:, None] < whole_lengths(lengths)
    return jnp.expand_dims(inside, layout.features)


@dataclass(frozen=True)
class Pass:
    """A forward pass: the outputs of each layer, the last carry and what was kept of each set of cells."""

    layout: Layout
    outputs: list[Any]
    last: list[Numbers]
    kept: list[Numbers]


def _forward(
    p: ops.RNNParams,
    layout: Layout,
    inputs: Sequence[Number],
    valid: Array | None,
    mask: Array | None,
    is_wave: bool = False,
) -> Pass:
    weights = _unpacked(p, layout, inputs[1], dual.plain(inputs[0]).shape[-1])
    first = _first_carries(layout, inputs, len(weights))
    results = Pass(layout, [], [], [])
    x = layout.batch_first(inputs[0])
    if is_wave:
        return Pass(layout, *rnn_wavefront.forward(p, weights, x, first, valid, mask))
    for layer in range(p.num_layers):
        outs = []
        for d in range(p.num_directions):
            k = layer * p.num_directions + d
            out, last, residuals = _run(p, weights[k], x, first[k], valid, d == 1)
            outs.append(out)
            results.last.append(last)
            results.kept.append(residuals)
        x = layout.joined(*outs) if len(outs) > 1 else outs[0]
        results.outputs.append(x)
        if mask is not None and layer < p.num_layers - 1:
            x = x * mask[layer]
    return results


def _backward(
    p: ops.RNNParams,
    heads: Sequence[Array],
    inputs: Sequence[Number],
    valid: Array | None,
    mask: Array | None,
    done: Pass,
    is_wave: bool,
) -> list[Any]:
    """Return gradients of the inputs, from the heads' and what a forward pass left."""
    layout = done.layout
    data = layout.batch_first(inputs[0])
    weights = _unpacked(p, layout, inputs[1], dual.plain(inputs[0]).shape[-1])
    first = _first_carries(layout, inputs, len(weights))
    wide = wide_dtype(dual.plain(data).dtype)
    shown = [layout.batch_first(head).astype(wide) for head in heads[1:]]
    dlast: list[Numbers] = [
        tuple(dual.lift(state, data) for state in (_row(head, k) for head in shown))
        if shown
        else tuple(dual.lift(jnp.zeros(dual.plain(state).shape, wide), data) for state in first[k])
        for k in range(len(weights))
    ]
    below = [data, *(out if mask is None else out * mask[i] for i, out in enumerate(done.outputs[:-1]))]
    dw: list[Any] = [None] * len(weights)
    dfirst: list[Numbers] = [()] * len(weights)
    dx: Any = layout.batch_first(heads[0])
    if is_wave:
        kept = [done.kept[k] or (out,) for k, out in enumerate(done.outputs)]
        states = [_states_before(out, first[k][0], valid, False) for k, out in enumerate(done.outputs)]
        dgates, dfirst = rnn_wavefront.backward(p, weights, states, kept, valid, mask, dx, dlast)
        dw = [_weight_gradients(p, *arrays, None) for arrays in zip(weights, below, states, kept, dgates, strict=True)]
        dx = layout.project(weights[0].back().i2h, dgates[0])
    for layer in () if is_wave else reversed(range(p.num_layers)):
        outs, douts = (layout.parts(whole, p.num_directions) for whole in (done.outputs[layer], dx))
        dx = None
        for d in range(p.num_directions):
            k = layer * p.num_directions + d
            residuals = done.kept[k] or (outs[d],)
            dinput, dw[k], dfirst[k] = _run_back(
                p, weights[k], below[layer], outs[d], residuals, first[k], valid, d == 1, douts[d], dlast[k]
            )
            dx = dinput if dx is None else dx + dinput
        if mask is not None and layer > 0:
            dx = dx * mask[layer - 1]
    return [layout.batch_first(dx), _packed(dw), *(_stacked(layout, states) for states in zip(*dfirst, strict=True))]


# -- rules -----------------------------------------------------------------------------------------------------------


def _draw_mask(p: ops.RNNParams, data: Array, key: Any) -> Array:
    """Return what the outputs of all layers but the last are multiplied with."""
    steps, batch, _ = data.shape
    shape = (p.num_layers - 1, steps, p.num_directions * p.output_size, batch)
    if key is None:
        return jnp.ones(shape, data.dtype)
    factor = 1 / (1 - p.p) if p.p < 1 else 0
    keep_mask = jax.random.bernoulli(key, 1 - p.p, shape)
    return jnp.where(keep_mask, jnp.asarray(factor, data.dtype), jnp.zeros((), data.dtype))


@lowers("RNN", needs=("key", "platform"))
def _rnn(p: ops.RNNParams, *inputs: Array, key: Any, platform: str | None) -> list[Array]:
    return _keeping(p, *inputs, key=key, platform=platform)[: len(ops.heads(p))]


@lowers("_backward_RNN_forward", needs=("key", "platform"))
def _keeping(p: ops.RNNParams, *inputs: Array, key: Any, platform: str | None) -> list[Array]:
    operands, lengths = inputs[: len(ops.smooth(p))], inputs[len(ops.smooth(p)) :]
    layout = _layout(p, inputs[0])
    mask = _draw_mask(p, inputs[0], key) if p.has_mask else None
    valid = _valid(layout, inputs[0], lengths[0] if lengths else None)
    factors = None if key is None or mask is None else layout.features_first(mask)
    results = _forward(p, layout, operands, valid, factors, _is_wave(p, inputs[0], platform))
    gates = [array for arrays in results.kept for array in arrays] if ops.KEPT[p.mode] else []
    masks = [] if mask is None else [mask]
    residuals = [layout.features_first(array) for array in (*results.outputs[:-1], *gates)]
    return [array.astype(inputs[0].dtype) for array in (*_visible(p, results), *masks, *residuals)]


def _visible(p: ops.RNNParams, results: Pass) -> list[Any]:
    """Return the outputs of the last layer and, where they are shown, the states after the last step."""
    states = [_stacked(results.layout, states) for states in zip(*results.last, strict=True)] if p.state_outputs else []
    return [results.layout.batch_first(results.outputs[-1]), *states]


@dataclass(frozen=True)
class Given:
    """What a derivative operator was given besides heads: where, masks, and what the forward pass left."""

    numbers: list[Number]
    valid: Array | None
    mask: Array | None
    done: Pass


def _given(p: ops.RNNGradientParams, smooth: list[Array], fixed: list[Array], directions: list[list[Array]]) -> Given:
    layout = _layout(p, smooth[0])
    fixed_arrays = iter(fixed)
    valid = _valid(layout, smooth[0], next(fixed_arrays) if p.use_sequence_length else None)
    out = layout.batch_first(next(fixed_arrays))
    mask = layout.features_first(next(fixed_arrays)) if p.has_mask else None
    numbers = dual.with_directions(smooth, directions)
    if p.order:  # the stored residuals lack the directions
        return Given(numbers, valid, mask, _forward(p, layout, numbers, valid, mask))
    residuals = map(layout.features_first, fixed_arrays)
    outputs = [*(next(residuals) for _ in range(p.num_layers - 1)), out]
    gates = [tuple(next(residuals) for _ in ops.KEPT[p.mode]) for _ in p.cells]
    return Given(numbers, valid, mask, Pass(layout, outputs, [], gates))


@lowers("_backward_RNN", needs=("platform",))
def _backward_rnn(p: ops.RNNGradientParams, *operands: Array, platform: str | None) -> list[Array]:
    at = ops.DERIVATIVES.split(p, operands, heads=True)
    inputs = _given(p, at.smooth, at.fixed, at.directions)
    is_wave = not p.order and _is_wave(p, at.smooth[0], platform)
    grads = _backward(p, at.heads, inputs.numbers, inputs.valid, inputs.mask, inputs.done, is_wave)
    return [dual.mixed_slope(grad).astype(x.dtype) for grad, x in zip(grads, at.smooth, strict=True)]


@lowers("_backward_RNN_tangent")
def _rnn_tangent(p: ops.RNNGradientParams, *operands: Array) -> list[Array]:
    at = ops.DERIVATIVES.split(p, operands, heads=False)
    done = _given(p, at.smooth, at.fixed, at.directions).done
    return [dual.mixed_slope(output).astype(at.smooth[0].dtype) for output in _visible(p, done)]
