"""FoldScaleAxis: scales and shifts of channels become part of the weights around them (NNVM's `fold_scale_axis.cc`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from symjax_nnvm.ir.attributes import FInferShape, FScaled, FScaledData, FScaledParts
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.ir.uses import Uses
from symjax_nnvm.passes.precompute_prune import Constants, infer_locally

__all__ = ["fold_scale_axis"]

G = TypeVar("G", bound=Graph)

_DEEPEST = 16
"""How many joins and pools, one after the other, the search for weights goes through."""


def fold_scale_axis(graph: G, constants: Collection[str]) -> G:
    """Return the graph with each `_scale_shift` folded into the weights and biases before it, or else after it.

    It uses operators' attributes: FScaled and, for operators between, FScaledParts; FScaledData. A result is folded if
    it has one reader, and weight, bias, scale and shift depend on variables of these names alone: arithmetic on weights
    is worth its while if it is done once. The same graph where there is nothing to fold. Linear; reads no shapes of
    arrays.
    """
    if not any(_scales(node) for node in graph.nodes()):
        return graph
    return apply_pass(graph.derive(attrs=graph.attrs | {"constants": frozenset(constants)}), "FoldScaleAxis")


@register_pass("FoldScaleAxis", requires=("constants",), op_attrs=("FScaled",), change_graph=True)
def _fold(graph: Graph) -> Graph:
    """Fold scales and shifts into weights; see `fold_scale_axis`."""
    attrs = dict(graph.attrs)
    folding = _Folding(graph, Constants(graph, attrs.pop("constants")))
    return graph.derive(rewrite(graph.outputs, folding.rule, order=graph.nodes()).outputs, attrs)


class _Folding:
    """The rewriting rule that folds scales into weights."""

    def __init__(self, graph: Graph, constants: Constants):
        self._constants, self._uses = constants, Uses(graph.outputs)
        self._shapes: dict[NodeEntry, Shape | None] = {}

    def rule(self, node: Node, draft: Node) -> Node | NodeEntry | None:
        """Return the node that replaces a scale, or a product of scaled data; None: it stays."""
        replacement = None
        if _scales(draft):
            data, scale, shift = draft.inputs
            replacement = self._before(data, scale, shift, draft.attrs.parsed.axis)
        elif draft.op in FScaledData and _scales(draft.inputs[0].node):
            replacement = self._after(draft)
        self._uses.replace(node, draft, draft if replacement is None else replacement)
        return replacement

    def _before(self, entry: NodeEntry, scale: NodeEntry, shift: NodeEntry, axis: int, depth: int = 0) -> Node | None:
        """Return the node of an entry that is scaled and shifted already; None where it cannot be."""
        node = entry.node
        if self._uses.count(node) != 1 or entry.index or node.control_deps or depth > _DEEPEST:
            return None
        if node.op in FScaled:
            return FScaled[node.op](node, scale, shift, axis) if self._are_constant(node, scale, shift) else None
        if node.op not in FScaledParts:
            return None
        parts = FScaledParts[node.op](node.attrs, axis, [self._shape(source) for source in node.inputs])
        inputs: list[NodeEntry] = []
        for part, source in zip(parts or (), node.inputs if parts else (), strict=True):
            folded = self._before(source, _piece(scale, part), _piece(shift, part), axis, depth + 1)
            if folded is None:
                return None
            inputs.append(NodeEntry(folded))
        return Node(node.attrs.copy(), inputs) if inputs else None

    def _after(self, node: Node) -> Node | None:
        """Return the product with its data as they were before they were scaled; None where it cannot be."""
        scaled = node.inputs[0].node
        data, scale, shift = scaled.inputs
        if self._uses.count(scaled) != 1 or scaled.control_deps or node.control_deps:
            return None
        if not self._are_constant(node, scale, shift):
            return None
        folded = FScaledData[node.op](node, scale, shift, scaled.attrs.parsed.axis, self._shape(data))
        if folded is not None:
            folded.inputs[0] = data
        return folded

    def _shape(self, entry: NodeEntry, depth: int = 0) -> Shape | None:
        """Return the shape of a result as far as operators alone decide it: convolutions set the channel count, other
        operators keep it."""
        node = entry.node
        if entry not in self._shapes and node.op in FInferShape and depth <= _DEEPEST:
            through = node.op in FScaledParts
            shapes = [self._shape(source, depth + 1) if through else None for source in node.inputs]
            self._shapes[entry] = infer_locally(FInferShape, node, shapes)[entry.index]
        return self._shapes.get(entry)

    def _are_constant(self, product: Node, scale: NodeEntry, shift: NodeEntry) -> bool:
        return all(entry.node in self._constants for entry in (*product.inputs[1:], scale, shift))


def _scales(node: Node) -> bool:
    return node.op is not None and node.op.name == "_scale_shift"


def _piece(vector: NodeEntry, part: tuple[int, int] | None) -> NodeEntry:
    if part is None:
        return vector
    return apply("slice_axis", vector, axis=0, begin=part[0], end=part[1], name=f"{vector.node.name}_{part[0]}")
