"""QuantizeGraph: a network of floats as one of 8-bit integers, as MXNet 1.9.1's pass of this name makes it.

FQuantized has an operator's quantised form. The inputs of a layer of integers are quantised, those of an operator on
floats are dequantised; a parameter that is quantised beforehand becomes a variable of integers. `set_ranges` gives the
operators that round (TCalibrated) the ranges of what they round (`SetCalibTableToQuantizedGraph`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from symjax_nnvm.ir.attributes import FListOutputNames, FQuantized, TCalibrated
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import output_names
from symjax_nnvm.ir.node import Node, NodeEntry, apply, create_variable_node
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.rewrite import count_versions, rewrite
from symjax_nnvm.ir.rules.quantized_form import PREFIX, QuantizedForm
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ops.quantization.listed_outputs import LISTED_OUTPUTS

Ranges = Mapping[str, tuple[float, float]]
QuantizedDtype = Literal["int8", "uint8", "auto"]
_Quantized = tuple[NodeEntry, NodeEntry, NodeEntry]


@dataclass(frozen=True)
class Quantization:
    """What to quantise: the wishes of MXNet's `quantize_model`.

    Attributes:
        excluded: names of layers that stay float.
        excluded_ops: names of operators that stay float.
        offline: names of the parameters that are quantised before.
        dtype: the dtype of the arrays; auto: uint8 where a calibrated range has no negative numbers.
        by_channel: weights of fused dense layers get a range for each row.
        smart: operators that are cheap are quantised only between convolutions, dense layers and the like; else always.
        ranges: the ranges of outputs by name, as pairs, where they are calibrated.
    """

    excluded: frozenset[str] = frozenset()
    excluded_ops: frozenset[str] = frozenset()
    offline: frozenset[str] = frozenset()
    dtype: QuantizedDtype = "int8"
    smart: bool = True
    by_channel: bool = False
    ranges: tuple[tuple[str, tuple[float, float]], ...] = ()


@register_pass("QuantizeGraph", requires=("quantization",), op_attrs=("FQuantized",), change_graph=True)
def _quantize_pass(graph: Graph) -> Graph:
    """`quantization`, a `Quantization`, is consumed."""
    other_attrs = {key: value for key, value in graph.attrs.items() if key != "quantization"}
    return quantize(graph.derive(attrs=other_attrs), graph.attrs["quantization"])


def quantize(graph: Graph, wishes: Quantization) -> Graph:
    """Return the graph with layers of 8-bit integers where it can have them. Linear; reads no shapes."""
    forms = quantized_forms(graph.nodes(), wishes)
    rule = _Rule(forms, wishes)
    rewritten = rewrite(graph.outputs, rule.change, fresh=True)
    heads = [rule.as_float(old, new) for old, new in zip(graph.outputs, rewritten.outputs, strict=True)]
    quantized = graph.derive(count_versions(heads), attrs={})
    return set_ranges(quantized, dict(wishes.ranges)) if wishes.ranges else quantized


def quantized_forms(nodes: Iterable[Node], wishes: Quantization) -> dict[Node, QuantizedForm]:
    """Return the nodes that are quantised, each with its form on integers."""
    nodes = list(nodes)
    forms: dict[Node, QuantizedForm] = {}
    for node in nodes:
        if node.op is None or node.op not in FQuantized:
            continue
        fused = [inner for body in node.attrs.subgraphs for inner in post_order(body.outputs) if inner.op is not None]
        names = {member.name for member in (node, *fused)}
        ops = {member.op.name for member in (node, *fused) if member.op is not None}
        if names & wishes.excluded or ops & wishes.excluded_ops:
            continue
        form: QuantizedForm | None = FQuantized[node.op](node.attrs)
        if form is not None:
            forms[node] = form.by_channel or form if wishes.by_channel else form
    if not wishes.smart:
        return forms
    sources = {node: [entry.node for entry in node.inputs] for node in nodes}
    readers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source in sources[node]:
            readers[source].append(node)
    between = _reached(forms, sources) & _reached(forms, readers)
    return {node: form for node, form in forms.items() if form.is_product or node in between}


def _reached(forms: Mapping[Node, QuantizedForm], edges: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """Return the cheap nodes that are connected to products only by cheap nodes."""
    reached: set[Node] = set()
    queue = deque(node for node, form in forms.items() if form.is_product)
    while queue:
        for node in edges[queue.popleft()]:
            if node in forms and not forms[node].is_product and node not in reached:
                reached.add(node)
                queue.append(node)
    return reached


class _Rule:
    """The rewriting rule; it keeps each array in both forms, so that none is quantised or dequantised twice."""

    def __init__(self, forms: Mapping[Node, QuantizedForm], wishes: Quantization):
        self._forms, self._wishes = forms, wishes
        self._quantized: dict[tuple[NodeEntry, bool], _Quantized] = {}
        self._floats: dict[Node, NodeEntry] = {}

    def change(self, node: Node, draft: Node) -> Node | None:
        """Return the layer of integers that takes a node's place; None: it stays, and reads floats."""
        form = self._forms.get(node)
        if form is None:
            draft.inputs = [self.as_float(*pair) for pair in zip(node.inputs, draft.inputs, strict=True)]
            return None
        arrays: list[NodeEntry] = []
        ranges: list[NodeEntry] = []
        for i, (old, new) in enumerate(zip(node.inputs, draft.inputs, strict=True)):
            if i in form.float_inputs:
                arrays.append(self.as_float(old, new))
                continue
            array, *ends = self._as_integers(old, new, i in form.asymmetric)
            arrays.append(array)
            ranges += ends
        layer = Node(form.attrs, [*arrays, *ranges], draft.control_deps)
        if not form.requantized:
            return layer
        sums = [NodeEntry(layer, i) for i in range(3)]
        return apply("_contrib_requantize", *sums, name=f"requantize_{node.name}", out_type=self._wishes.dtype).node

    def as_float(self, old: NodeEntry, new: NodeEntry) -> NodeEntry:
        """Return an entry as floats. old: what it was in the given graph."""
        if old.node not in self._forms or self._forms[old.node].is_float:
            return new
        if old.node not in self._floats:
            integers = [new._replace(index=i) for i in range(3)]
            self._floats[old.node] = apply("_contrib_dequantize", *integers, name=f"{old.node.name}_dequantize")
        return self._floats[old.node]

    def _as_integers(self, old: NodeEntry, new: NodeEntry, asymmetric: bool) -> _Quantized:
        """Return an entry as integers with their range."""
        if old.node in self._forms and not self._forms[old.node].is_float:
            return new, new._replace(index=1), new._replace(index=2)
        key = (old, asymmetric)
        if key not in self._quantized:
            name = f"{old.node.name}{_suffix(old)}_quantize"
            if old.node.is_variable and old.node.name in self._wishes.offline and not asymmetric:
                names = (name, f"{name}_min", f"{name}_max")
                array, low, high = (NodeEntry(create_variable_node(variable_name)) for variable_name in names)
            else:
                if asymmetric:
                    array = apply("_contrib_quantize_asym", new, name=name)
                else:
                    array = apply("_contrib_quantize_v2", new, name=name, out_type=self._wishes.dtype)
                low, high = array._replace(index=1), array._replace(index=2)
            self._quantized[key] = array, low, high
        return self._quantized[key]


def _suffix(entry: NodeEntry) -> str:
    """Return the suffix that MXNet gives an output in these names: its listed name, else its number."""
    node = entry.node
    if node.op is None:
        return ""
    if node.op.name in LISTED_OUTPUTS:
        return "_output"
    names = list(FListOutputNames[node.op](node.attrs)) if node.op in FListOutputNames else None
    return f"_{names[entry.index] if names else entry.index}"


# -- ranges ----------------------------------------------------------------------------------------------------------


def rounded_outputs(graph: Graph) -> dict[Node, str]:
    """Return the nodes whose range is to be calibrated, each with the name of the float network's output that it is the
    range of."""
    return {node: _rounded(node) for node in graph.nodes() if node.op in TCalibrated}


def _rounded(node: Node) -> str:
    entry = node.inputs[0] if TCalibrated[node.op] == "input" else NodeEntry(node)
    (name,) = output_names([entry])
    return name.removeprefix(PREFIX)


def set_ranges(graph: Graph, ranges: Ranges) -> Graph:
    """Return the graph with these ranges in the operators that round, by the outputs' names in the float network."""
    rounded = rounded_outputs(graph)

    def change(node: Node, draft: Node) -> Node | None:
        if node not in rounded or rounded[node] not in ranges:
            return None
        low, high = ranges[rounded[node]]
        draft.attrs.dict |= {"min_calib_range": f"{low:.6f}", "max_calib_range": f"{high:.6f}"}
        draft.attrs.parse()
        return None

    return graph.derive(rewrite(graph.outputs, change, fresh=True).outputs, attrs={})
