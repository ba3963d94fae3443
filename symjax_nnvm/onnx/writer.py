"""A graph becomes ONNX nodes: each node by its operator's form, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from symjax_nnvm.errors import OnnxError, explain
from symjax_nnvm.ir.attributes import TMadeBy
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import default_dtype
from symjax_nnvm.onnx.builder import Builder, OnnxNames
from symjax_nnvm.onnx.forms import FOnnx, OnnxForm
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.symbol.symbol import Symbol


def builder(opset: int) -> Builder:
    """Return a builder of a new file."""
    return Builder(OnnxNames(opset), write)


_UNSAID = OnnxForm(
    None,
    reason="no ONNX form is registered for the operator",
    fix='Register a form: @symjax_nnvm.onnx.onnx_form("…") def form(g, params, *inputs): ...',
)


def form_of(op: Op | None) -> OnnxForm:
    """The form of an operator, or why it has none."""
    if op in TMadeBy:
        fix = f"Export the network as it was before the stage {TMadeBy[op]}."
        return OnnxForm(None, reason=f"the stage {TMadeBy[op]} makes it, and a runtime has its own", fix=fix)
    return FOnnx.get(op, _UNSAID)


def needed_opset(outputs: Sequence[NodeEntry]) -> int:
    """Return the lowest version of ONNX' operators that has what a network's nodes, in subgraphs too, need."""
    nodes = post_order(outputs)
    inner = (needed_opset(graph.outputs) for node in nodes for graph in node.attrs.subgraphs)
    return max((*(form_of(node.op).opset for node in nodes), *inner), default=0)


def write(g: Builder, graph: Graph, variables: Sequence[Tensor]) -> list[Tensor]:
    """Write the nodes of a graph; its outputs.

    variables: a tensor for each variable, in the order of `IndexedGraph.input_nodes`. Raises OnnxError for a node that
    has no form, InferenceError.
    """
    infer = [list(rows) for rows in zip(*(tensor.shapes or () for tensor in variables), strict=True)]
    inferred = [infer_shape(graph, shapes=shapes) for shapes in infer or [[]] * g.count]
    dtypes = infer_type(graph, dtypes=[tensor.dtype for tensor in variables]).attrs["dtype"]
    index = graph.indexed_graph()
    tensors: dict[int, Tensor] = dict(zip((index.entry_rptr[nid] for nid in index.input_nodes), variables, strict=True))
    outer = g.node, g.ins, g.outs
    for nid, node in enumerate(index.nodes):
        if node.source.op is None:
            continue
        first, last = index.entry_rptr[nid : nid + 2]
        g.node = node.source
        g.outs = [
            Tensor("", dtypes[eid] or default_dtype(), _complete([shaped.attrs["shape"][eid] for shaped in inferred]))
            for eid in range(first, last)
        ]
        ids = [index.entry_rptr[source] + i for source, i, _ in node.inputs]
        missing = [i for i, eid in enumerate(ids) if eid not in tensors]
        if missing:
            _hidden(node.source, missing[0])
        g.ins = [tensors[eid] for eid in ids]
        tensors.update(enumerate(_attempt(g), first))
    g.node, g.ins, g.outs = outer
    return [tensors[index.entry_rptr[source] + i] for source, i, _ in index.outputs]


def _complete(shapes: list) -> list | None:
    return None if any(shape is None for shape in shapes) else shapes


def _hidden(node: Node, i: int) -> NoReturn:
    source = node.inputs[i].node
    raise OnnxError(
        explain(
            "No ONNX form: an output is read that exists only in training",
            op=source.op,
            node=source,
            fix="Cut the network before it, with symjax_nnvm.cut(net, name).",
        )
    )


def _attempt(g: Builder) -> Sequence[Tensor]:
    """Return the outputs of one node; as inferred where it cannot be written and refusals are collected."""
    if g.names.refused is None:
        return _of_node(g)
    try:
        return _of_node(g)
    except OnnxError as error:
        g.names.refused.append((g.node, error))
        return g.outs


def _of_node(g: Builder) -> Sequence[Tensor]:
    """Write one node: its outputs, named as the network names them, of the dtypes and shapes inferred."""
    node = g.node
    form = form_of(node.op)
    if form.form is None:
        g.refuse(form.reason, form.fix)
    if form.opset > g.opset:
        g.refuse(f"it needs opset {form.opset}, but opset {g.opset} was requested", f"Pass opset={form.opset}.")
    before = len(g.nodes)
    tensors = form.form(g, node.attrs.parsed, *g.ins)
    outputs = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    fresh = {id(tensor): onnx_node for onnx_node in g.nodes[before:] for tensor in onnx_node.outputs}
    names = Symbol([NodeEntry(node, i) for i in range(len(outputs))]).list_outputs()
    for tensor, inferred, name in zip(outputs, g.outs, names, strict=False):  # hidden outputs have no reader
        if tensor.dtype != inferred.dtype:
            g.refuse(f"its form gives {tensor.dtype}, not {inferred.dtype}, which is a bug of symjax_nnvm")
        if id(tensor) in fresh:
            if tensor is outputs[0]:
                fresh[id(tensor)].name = g.names.unique_node(node.name)
            del fresh[id(tensor)]
            tensor.name = g.names.unique(name)
            tensor.shapes = inferred.shapes
    return outputs
