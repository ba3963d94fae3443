"""Batch normalisation as part of the weights around it, by the stages that do so for every network that is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.pipeline import Options, Pipeline
from symjax_nnvm.symbol.symbol import Symbol

Evaluate = Callable[[Graph, Mapping[str, Any]], list[np.ndarray]]
"""(a graph, arrays of its variables) → its outputs."""


def folded(net: Symbol, arrays: Mapping[str, Any], evaluate: Evaluate) -> tuple[Symbol, dict[str, Any]]:
    """Return the network without batch normalisation where weights can do its work, and its arrays."""
    plan = Pipeline(net.outputs).plan(Options(constants=frozenset(arrays)))
    arrays = dict(arrays)
    if plan.precompute is not None:
        read = {node.name for node in plan.precompute.nodes() if node.is_variable}
        values = evaluate(plan.precompute, {name: arrays[name] for name in arrays if name in read})
        arrays |= zip(plan.precompute.attrs["names"], values, strict=True)
    symbol = Symbol(plan.graph.outputs)
    names = set(symbol.list_inputs())
    return symbol, {name: array for name, array in arrays.items() if name in names}
