"""Layers of recurrent cells as a wavefront: in row k of T + L - 1, layer l is at step k - l.

A layer's step needs the step before of the same layer and that of the layer below, both in the row before. So L layers
of T steps are T + L - 1 dependent rows in place of T·L, each with one product for all layers. The inputs' share of the
first layer's gates, and what weights' gradients are made of, stay outside, one layer at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.ops.dual import select
from lowering.ops.nn.rnn_cells import CELLS, CellWeights, Numbers
from symjax_nnvm.ops.nn import rnn as ops


def _skewed(layers: Sequence[Array], above: int = 0) -> Array:
    """Arrays (t, …), one for each layer, as rows (k, l, …), with zeros where a layer is not yet or no longer at a step.
    above: the layers over the last of them."""

    def moved(layer: int, array: Array) -> Array:
        ends = [(layer, above + len(layers) - 1 - layer), *[(0, 0)] * (array.ndim - 1)]
        return jnp.pad(array, ends)

    return jnp.stack([moved(layer, array) for layer, array in enumerate(layers)], 1)


def _layer(rows: Array, layer: int, steps: int) -> Array:
    """The steps (t, …) of one layer of rows (k, l, …)."""
    return rows[layer : layer + steps, layer]


def _inside(valid: Array | None, steps: int, count: int) -> Array:
    """Whether each layer is at a step of the sequence in each row."""
    return _skewed([jnp.ones((steps, 1, 1), bool) if valid is None else valid] * count)


def _stacked(weights: Sequence[CellWeights]) -> tuple[CellWeights, Array]:
    """The layers' weights as one cell's with biases (l, …), and all matrices that a row multiplies with: the recurrent
    ones, and then the inputs' of the layers above the first."""
    matrices = jnp.stack([*(w.h2h for w in weights), *(w.i2h for w in weights[1:])])
    i2h_bias, h2h_bias = jnp.stack([w.i2h_bias for w in weights]), jnp.stack([w.h2h_bias for w in weights])
    return replace(weights[0], i2h_bias=i2h_bias, h2h_bias=h2h_bias), matrices


def _carry(states: Sequence[Numbers]) -> Numbers:
    return tuple(jnp.stack(arrays) for arrays in zip(*states, strict=True))


def _of_layers(carry: Numbers, count: int) -> list[Numbers]:
    return [tuple(state[layer] for state in carry) for layer in range(count)]


def forward(
    p: ops.RNNParams,
    weights: Sequence[CellWeights],
    x: Array,
    first: Sequence[Numbers],
    valid: Array | None,
    mask: Array | None,
) -> tuple[list[Array], list[Numbers], list[Numbers]]:
    """Return the outputs, the last carry and what is kept of each layer.

    A row ends with what the next one multiplies, so that it is a product and one fused loop.
    """
    cell, layout, steps, count = CELLS[p.mode], weights[0].layout, x.shape[0], len(weights)
    laid = [w.forth() for w in weights]
    w, matrices = _stacked(laid)
    bias = cell.bias(w)
    inputs = jnp.pad(layout.project(laid[0].i2h, x), [(0, count - 1), (0, 0), (0, 0)])
    masks = None if mask is None else _skewed([*mask], above=1)  # of the next row

    def row(carry: Numbers, at: Any) -> tuple[Numbers, tuple[Any, Numbers]]:
        share, inside, factors = at
        products = layout.project_each(matrices, carry[0])
        shares = jnp.concatenate([share[None], products[count:]]) + bias
        old = (carry[0][:count], *carry[1:])
        new, residuals = cell.step(p, w, shares, products[:count], old)
        h, *others = (select(inside, after, state) for after, state in zip(new, old, strict=True))
        below = h[:-1] if factors is None else h[:-1] * factors
        return (jnp.concatenate([h, below]), *others), (h, residuals)

    h, *others = _carry(first)
    rows = (inputs, _inside(valid, steps, count), masks)
    (last, *states), (outs, residuals) = lax.scan(row, (jnp.concatenate([h, h[:-1]]), *others), rows)
    outputs = [_layer(outs, layer, steps) for layer in range(count)]
    if valid is not None:
        outputs = [select(valid, out, 0.0) for out in outputs]
    kept: list[Numbers] = [tuple(_layer(rows, layer, steps) for rows in residuals) for layer in range(count)]
    return outputs, _of_layers((last[:count], *states), count), kept


def backward(
    p: ops.RNNParams,
    weights: Sequence[CellWeights],
    states: Sequence[Array],
    kept: Sequence[Numbers],
    valid: Array | None,
    mask: Array | None,
    dout: Array,
    dlast: Sequence[Numbers],
) -> tuple[list[Array], list[Numbers]]:
    """Return the gradients of the gates and of the first carry of each layer, from those of the last layer's outputs
    and of the last carries. states: what each step of each layer started from."""
    cell, layout, steps, count = CELLS[p.mode], weights[0].layout, dout.shape[0], len(weights)
    w, matrices = _stacked([w.back() for w in weights])
    residuals = tuple(_skewed(arrays) for arrays in zip(*kept, strict=True))
    masks = None if mask is None else _skewed([*mask], above=1)  # of the row that came before, the next one
    last = _carry(dlast)
    tops = jnp.pad(dout.astype(last[0].dtype), [(count - 1, 0), (0, 0), (0, 0)])

    def total(carry: tuple[Numbers, Array]) -> Numbers:
        (h, *others), products = carry
        return h + products[:count], *others

    def row(carry: tuple[Numbers, Array], at: Any) -> tuple[tuple[Numbers, Array], Array]:
        top, residuals, h, inside, factors = at
        grads, outs = total(carry), carry[1][count:]
        outs = outs if factors is None else outs * factors
        dh = grads[0] + jnp.concatenate([outs, top[None]])
        dgates, others = cell.back(p, w, residuals, h, (dh, *grads[1:]))
        dgates = select(inside, dgates, 0.0)  # so that a layer at no step has products of 0
        products = jnp.concatenate([cell.recurrent(w, dgates, residuals), dgates[1:]])
        kept = tuple(
            select(inside, jnp.zeros_like(old) if new is None else new, old)
            for new, old in zip(others, grads, strict=True)
        )
        return (kept, layout.project_each(matrices, products)), dgates

    start = (last, jnp.concatenate([jnp.zeros_like(last[0]), jnp.zeros_like(last[0][1:])]))
    rows = (tops, residuals, _skewed(states), _inside(valid, steps, count), masks)
    dfirst, dgates = lax.scan(row, start, rows, reverse=True)
    return [_layer(dgates, layer, steps) for layer in range(count)], _of_layers(total(dfirst), count)
