"""Variables that operators take to be a number, whatever they hold, and that MXNet sets to it."""

from __future__ import annotations

from collections.abc import Callable

from symjax_nnvm.ir.attributes import FFixedInputs, TFixesInInference
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol


def fixed_inputs(symbol: Symbol, differentiated: Callable[[Node], bool] = lambda node: True) -> dict[str, float]:
    """Return the arguments that MXNet sets when it runs a network, by name, with their numbers.

    differentiated: whether the graph that runs has a backward part of a node.
    """
    return {
        node.inputs[i].node.name: number
        for node in post_order(symbol.outputs)
        if node.op in FFixedInputs and (TFixesInInference.get(node.op) or differentiated(node))
        for i, number in FFixedInputs[node.op](node.attrs).items()
        if node.inputs[i].node.is_variable
    }
