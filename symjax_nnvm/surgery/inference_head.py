"""A trained network for inference: training heads become their forward values, labels and losses are left out.

A training head is an operator whose gradient is a loss's; its forward value is a plain function of its data. The new
symbol computes the same outputs, save those that cannot be computed without a label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from symjax_nnvm.errors import GraphError, InferenceError, plain_list
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.ir.attributes import FPrediction
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rewrite import count_versions, reachable_from, rebuild
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ops.elementwise.unary import the_data
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.symbol.call_arguments import expect_symbol
from symjax_nnvm.symbol.symbol import Symbol


def inference_symbol(symbol: Symbol, *, labels: Sequence[str] | None = None) -> Symbol:
    """Return the network without training heads and labels: what it computes only from its data.

    SoftmaxOutput becomes a softmax over its classes, LogisticRegressionOutput a sigmoid. LinearRegressionOutput,
    MAERegressionOutput, SVMOutput, MakeLoss, make_loss and BlockGrad are replaced by their data. Nodes and outputs keep
    their names (`softmax_output`), except that `make_loss0_loss` becomes `make_loss0_output`. Outputs that need a
    label, such as losses, are dropped, with everything that only they used.

    Args:
        symbol: the network.
        labels: names of the variables that hold labels. None: variables that are used only as the input `label` of
            losses and of MultiBoxTarget, and variables whose names end in `label`.

    Raises:
        GraphError: every output needs a label; the message names outputs where the network can be cut instead.
    """
    expect_symbol(symbol, "inference_symbol")
    heads = {entry.node for entry in symbol.outputs}
    ranks = cache(lambda: _ranks(symbol))  # most networks need none, or one

    def change(node: Node, copy: Node) -> NodeEntry | None:
        prediction = FPrediction.get(node.op)
        if prediction is None:
            return None
        if prediction is the_data and node not in heads and not copy.control_deps:
            return copy.inputs[0]
        entry = prediction(copy, node.name, lambda: ranks()(node.inputs[0]))
        entry.node.control_deps = copy.control_deps
        entry.node.attrs.dict |= {key: text for key, text in node.attrs.dict.items() if _is_hidden(key)}
        return entry

    names = {node.name for node in label_variables(symbol)} if labels is None else set(labels)
    outputs = rebuild(symbol.outputs, change)
    needing = reachable_from(outputs, [n for n in post_order(outputs) if n.is_variable and n.name in names])
    usable = [entry for entry in outputs if entry.node not in needing]
    if not usable and outputs:
        raise GraphError(
            f"Every output needs a label ({plain_list(sorted(names))})",
            got=f"outputs {plain_list(symbol.list_outputs())}",
            fix="Cut the network where its prediction is, with symjax_nnvm.cut(symbol, name); outputs that need no "
            f"label and feed the losses: {plain_list(_frontier(outputs, needing))}.",
        )
    return Symbol(count_versions(usable))


def _frontier(outputs: Sequence[NodeEntry], needing: set[Node]) -> list[str]:
    """Return names of the label-free outputs of operators that nodes which need a label read."""
    entries = dict.fromkeys(
        entry
        for node in post_order(outputs)
        if node in needing
        for entry in node.inputs
        if entry.node not in needing and not entry.node.is_variable and entry.node.inputs
    )
    return Symbol(entries).list_outputs()


def _is_hidden(key: str) -> bool:
    return len(key) >= 5 and key.startswith("__") and key.endswith("__")


def _ranks(symbol: Symbol) -> Callable[[NodeEntry], int | None]:
    """Return entry → its number of axes, as far as the graph alone decides it."""
    try:
        graph = infer_shape(Graph(symbol.outputs))
    except InferenceError:  # raised when the graph is run
        return lambda entry: None
    index, shapes = graph.indexed_graph(), graph.attrs["shape"]

    def rank(entry: NodeEntry) -> int | None:
        shape = shapes[index.entry_id(entry)]
        return None if shape is None else len(shape)

    return rank
