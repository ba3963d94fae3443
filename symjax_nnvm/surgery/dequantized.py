"""A network of 8-bit integers, or one that MXNet fused for oneDNN, as the network of floats that it was made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from symjax_nnvm.errors import GraphError, plain_list
from symjax_nnvm.ir.attributes import FDequantized
from symjax_nnvm.ir.listing import output_names
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.rewrite import rebuild
from symjax_nnvm.ir.rules.quantized_form import QUANTIZED
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.call_arguments import expect_symbol
from symjax_nnvm.symbol.symbol import Symbol, of_mode


def dequantized(symbol: Symbol) -> Symbol:
    """Return the network of floats that a quantised or fused one was made from; it trains and exports as any.

    Operators on 8-bit integers become those on floats, quantisation is taken out, and what MXNet fused for oneDNN is
    unfolded. Layers and parameters have the names that they had, so that the float network's parameters fit;
    `Model.dequantized` has arrays, too. A network without such operators is given back as it is.

    Raises:
        SymbolTypeError: `symbol` is not a symbol.
        GraphError: an output is a range of an array of integers, or an operator on floats reads one.
    """
    expect_symbol(symbol, "dequantized")
    nodes = post_order(symbol.outputs)
    changing = {node for node in nodes if node.op in FDequantized}
    if not changing:
        return symbol
    parameters = {
        entry.node for node in changing for entry in node.inputs if entry.node.is_variable and _is_quantized(entry.node)
    }
    twice = {node.name.removesuffix(QUANTIZED) for node in parameters}
    variables: dict[str, Node] = {}
    forms: dict[Node, Node | NodeEntry] = {}

    def change(node: Node, draft: Node) -> Node | NodeEntry | None:
        if node in parameters:
            name = node.name.removesuffix(QUANTIZED)
            return variables.setdefault(name, create_variable_node(name))
        if node.is_variable:
            return variables.setdefault(node.name, draft) if node.name in twice else None
        if node in changing:
            forms[node] = FDequantized[node.op](draft)
            return forms[node]
        _refuse_ranges(node.inputs, forms)
        return None

    outputs = rebuild(symbol.outputs, change)
    _refuse_ranges(symbol.outputs, forms)
    return of_mode(symbol, outputs)


def dequantized_arrays(symbol: Symbol, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays by the names of the network of floats, those of integers as floats.

    symbol: the network of floats. Where a parameter is there both ways, the floats count.
    """
    floats = dict(arrays)
    for name in symbol.list_inputs():
        quantized = arrays.get(name + QUANTIZED)
        if name not in arrays and quantized is not None:
            floats[name] = _as_floats(name + QUANTIZED, quantized, arrays)
    return floats


def refuse_untrainable(
    symbol: Symbol, parameters: Iterable[str], leave_out: str, lost: Collection[str] | None = None
) -> None:
    """Raise GraphError where parameters would not learn: gradients end at operators on 8-bit integers.

    Args:
        symbol: the network to train.
        parameters: names of those that are to learn.
        leave_out: how the caller trains only the others.
        lost: `untrainable(symbol)`, where it was computed before.
    """
    lost = untrainable(symbol) if lost is None else lost
    if names := [name for name in parameters if name in lost]:
        last = next(node for node in reversed(post_order(symbol.outputs)) if node.op in FDequantized)
        raise GraphError(
            f"{plain_list(names)} cannot be trained: gradients end where a network computes with 8-bit integers, or is "
            "fused for oneDNN",
            op=last.op,
            node=last,
            fix="Train the network of floats: Model.dequantized() and symjax_nnvm.dequantized(symbol) give it, and "
            f"symjax_nnvm.quantize makes 8-bit integers of it afterwards. {leave_out}",
        )


def untrainable(symbol: Symbol) -> frozenset[str]:
    """Return the names of variables that no gradient reaches because operators on 8-bit integers read them."""
    below = [node for node in post_order(symbol.outputs) if node.op in FDequantized]
    seen, stack = set[Node](), [entry.node for entry in symbol.outputs] if below else []
    while stack:
        node = stack.pop()
        if node not in seen and node.op not in FDequantized:
            seen.add(node)
            stack += [entry.node for entry in node.inputs]
    learning = {node.name for node in seen if node.is_variable}
    ends = post_order([entry for node in below for entry in node.inputs])
    return frozenset(node.name for node in ends if node.is_variable) - learning


def _as_floats(name: str, quantized: Any, arrays: Mapping[str, Any]) -> np.ndarray:
    ends = [f"{name}_min", f"{name}_max"]
    refuse_wrong_parameters([name, *ends], dict.fromkeys(ends, ()) | dict(arrays))
    magnitude = np.abs([np.asarray(arrays[end], np.float32) for end in ends]).max()
    return np.asarray(quantized).astype(np.float32) * np.float32(magnitude / np.iinfo(np.int8).max)


def _is_quantized(variable: Node) -> bool:
    return variable.name.endswith(QUANTIZED) and len(variable.name) > len(QUANTIZED)


def _refuse_ranges(entries: Iterable[NodeEntry], forms: Mapping[Node, Node | NodeEntry]) -> None:
    """Raise GraphError where an entry is a range, which a network of floats does not have. forms: what each node
    that changed became."""
    for entry in entries:
        form = forms.get(entry.node)
        if form is None or not entry.index:
            continue
        if isinstance(form, NodeEntry) or entry.index >= form.num_visible_outputs():
            raise GraphError(
                f"{output_names([entry])[0]} is a range of an array of 8-bit integers, which a network of floats does "
                "not have",
                op=entry.node.op,
                node=entry.node,
                fix="Take the network up to an array, with symjax_nnvm.cut(symbol, name), and then dequantized of it.",
            )
