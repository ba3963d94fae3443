"""The JAX rule of _contrib_quantized_rnn: an LSTM whose data, states and weights are rounded to 8 bits.

MXNet 1.9.1 has no goldens of it: where oneDNN lacks a way to bring its weights in order, it fails. The rule follows its
source and oneDNN's guide: (q - shift) / scale is what a uint8 stands for, of data and of hidden states.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.quantization.levels import dot, rounded
from symjax_nnvm.ops.nn.rnn import parameter_shapes
from symjax_nnvm.ops.quantization.layers import QuantizedRNNParams


def _pieces(p: QuantizedRNNParams, parameters: Array, input_size: int) -> tuple[list[tuple[Array, Array]], list[Array]]:
    """The matrices of each set of cells, by inputs and by states; and the sum of its two biases."""
    pieces: list[Array] = []
    at = 0
    for shape in parameter_shapes(p, input_size):
        pieces.append(parameters[at : at + math.prod(shape)].reshape(shape))
        at += math.prod(shape)
    count = 2 * len(p.cells)
    matrices, biases = pieces[:count], pieces[count:]
    return (
        list(zip(matrices[::2], matrices[1::2], strict=True)),
        [first + second for first, second in zip(biases[::2], biases[1::2], strict=True)],
    )


@lowers("_contrib_quantized_rnn")
def _rnn(
    p: QuantizedRNNParams, data: Array, parameters: Array, state: Array, cell: Array, data_scale: Array, shift: Array
):
    scale, shift = data_scale.reshape(()), shift.reshape(())
    matrices, biases = _pieces(p, parameters, data.shape[-1])
    greatest = jnp.stack([jnp.max(jnp.abs(m), axis=1) for pair in matrices for m in pair]).max(axis=0)
    levels = 127 / greatest

    def as_levels(x: Array) -> Array:
        return rounded(x * scale + shift, "uint8")

    def as_number(x: Array) -> Array:
        return (x.astype(jnp.float32) - shift) / scale

    x, last = data, []
    for layer in range(p.num_layers):
        outputs = []
        for direction in range(p.num_directions):
            k = layer * p.num_directions + direction
            by_input, by_state = (rounded(m * levels[:, None], "int8") for m in matrices[k])
            offset = shift * (by_input.astype(jnp.float32).sum(1) + by_state.astype(jnp.float32).sum(1))

            def step(carry: tuple[Array, Array], shares: Array, by_state=by_state, offset=offset, bias=biases[k]):
                hidden, memory = carry
                sums = (shares + dot(hidden, by_state)).astype(jnp.float32) - offset
                i, f, g, o = jnp.split(sums / (scale * levels) + bias, 4, axis=-1)
                memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
                hidden = as_levels(jax.nn.sigmoid(o) * jnp.tanh(memory))
                return (hidden, memory), hidden

            first = (as_levels(state[k]), cell[k])
            after, outs = lax.scan(step, first, dot(x, by_input), reverse=direction == 1)
            last.append(after)
            outputs.append(outs)
        x = jnp.concatenate(outputs, axis=-1)
    out = as_number(x)
    if not p.state_outputs:
        return out
    return out, jnp.stack([as_number(hidden) for hidden, _ in last]), jnp.stack([memory for _, memory in last])
