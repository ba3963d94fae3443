"""What LSTM and GRU compute from the products of a step, of symbols or of arrays, with MXNet's names of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

Activation = Callable[..., Any]
"""An activation of a symbol or an array; name: the node's."""


def lstm(
    F: Any, product: Any, cell: Any, name: str, squash: Activation, *, output: str = "out", **axis: int
) -> tuple[Any, Any]:
    """(output, new cell) of the four gates' product. squash: the activation of new values and of the cell. output: the
    end of the output's name. axis: the axis of the gates, where it is to be written into the graph."""
    gates = F.SliceChannel(product, num_outputs=4, name=f"{name}slice", **axis)
    sigmoid = partial(F.Activation, act_type="sigmoid")
    kinds = zip("ifco", (sigmoid, sigmoid, squash, sigmoid), gates, strict=True)
    i, f, c, o = (activation(gate, name=f"{name}{letter}") for letter, activation, gate in kinds)
    cell = F.elemwise_add(f * cell, i * c, name=f"{name}state")
    return F.elemwise_mul(o, squash(cell), name=f"{name}{output}"), cell


def gru(
    F: Any, i2h: Any, h2h: Any, state: Any, name: str, squash: Activation, *, separator: str = "", **axis: int
) -> Any:
    """The output of the three gates' products of the input and of the state. separator: between the step's name and
    those of nodes inside."""
    inner = f"{name}{separator}"
    xs = F.SliceChannel(i2h, num_outputs=3, name=f"{inner}i2h_slice", **axis)
    hs = F.SliceChannel(h2h, num_outputs=3, name=f"{inner}h2h_slice", **axis)
    reset = F.Activation(xs[0] + hs[0], act_type="sigmoid", name=f"{inner}r_act")
    update = F.Activation(xs[1] + hs[1], act_type="sigmoid", name=f"{inner}z_act")
    new = squash(xs[2] + reset * hs[2], name=f"{inner}h_act")
    return F.elemwise_add((1.0 - update) * new, update * state, name=f"{name}out")
