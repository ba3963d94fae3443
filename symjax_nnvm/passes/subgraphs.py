"""Apply a pass to the subgraphs of a graph's nodes: loops' bodies, conditions, branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import FSubgraphInvariants, FSubgraphRuns
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import subgraph, subgraph_variables
from symjax_nnvm.ir.node import Node, Subgraph
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.types import DType, Shape, is_known
from symjax_nnvm.ops.control.subgraph import DTYPES, SHAPES, SubgraphInference
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.passes.precompute_prune import Constants

__all__ = ["Known", "has_subgraphs", "in_subgraphs"]

G = TypeVar("G", bound=Graph)


@dataclass(frozen=True)
class Known:
    """Holds facts about a graph's variables, by name: which do not change between calls, shapes, dtypes. None: nothing
    is known; dtypes are then float32 where nothing declares another."""

    constants: frozenset[str] | None = None
    shapes: tuple[tuple[str, Shape], ...] | None = None
    dtypes: tuple[tuple[str, DType], ...] | None = None


def has_subgraphs(graph: Graph) -> bool:
    """Return whether a node of the graph runs a subgraph."""
    return any(node.attrs.subgraphs for node in graph.nodes())


def in_subgraphs(graph: G, facts: Known, change: Callable[[Graph, Known], Graph]) -> G:
    """Return the graph with `change` done to the subgraphs of its nodes, from what is known inside each.

    A variable of a subgraph that has the value of a constant in every run is constant there. The change keeps the
    subgraph's outputs and the nodes that are its variables; it may leave variables unread. Nested subgraphs are the
    change's own concern. Linear.
    """
    inside = _SubgraphInside(graph, facts)

    def rule(node: Node, draft: Node) -> Node | None:
        if node.op not in FSubgraphRuns:  # such as what is fused for oneDNN: its parameters are read from its subgraph
            return None
        subgraphs: list[Subgraph] = []
        for old, facts in zip(node.attrs.subgraphs, inside.facts(node), strict=True):
            fed = subgraph_variables(old)
            body = subgraph(old.outputs, fed)
            new = change(body, facts)
            subgraphs.append(old if new is body else subgraph(new.outputs, fed))
        if subgraphs == list(node.attrs.subgraphs):
            return None
        draft = node.copy() if draft is node else draft
        draft.attrs.subgraphs = subgraphs
        return draft

    rewritten = rewrite(graph.outputs, rule, order=graph.nodes())
    return graph.derive(rewritten.outputs) if rewritten.changed else graph


class _SubgraphInside:
    """Holds facts about the variables of subgraphs."""

    def __init__(self, graph: Graph, facts: Known):
        self._known = facts
        self._constants = None if facts.constants is None else Constants(graph, facts.constants)
        self._index = graph.indexed_graph()
        self._shapes = self._dtypes = None
        names = set(self._index.input_names)
        try:
            if facts.shapes is not None:
                shapes = {name: shape for name, shape in facts.shapes if name in names}
                self._shapes = infer_shape(graph, shapes=shapes).attrs["shape"]
            dtypes = {name: dtype for name, dtype in facts.dtypes or () if name in names}
            self._dtypes = infer_type(graph, dtypes=dtypes).attrs["dtype"]
        except InferenceError:  # raised when the graph is lowered
            pass

    def facts(self, node: Node) -> Iterable[Known]:
        """Return the facts about the variables of each subgraph of a node."""
        shapes = self._fed(SHAPES, node, self._shapes)
        dtypes = self._fed(DTYPES, node, self._dtypes)
        invariants = FSubgraphInvariants[node.op](node.attrs) if node.op in FSubgraphInvariants else None
        for number, graph in enumerate(node.attrs.subgraphs):
            names = [variable.name for variable in subgraph_variables(graph)]
            constants = None
            if self._constants is not None:
                fixed = {} if invariants is None else invariants[number]
                change = {
                    name
                    for i, name in enumerate(names)
                    if i not in fixed or node.inputs[fixed[i]].node not in self._constants
                }
                constants = frozenset(names) - change
            sized = None if self._shapes is None else _by_name(names, shapes[number], is_known)
            yield Known(constants, sized, _by_name(names, dtypes[number], lambda dtype: dtype is not None))

    def _fed(self, quantity: SubgraphInference, node: Node, given_values: Sequence[Any] | None) -> list[Sequence[Any]]:
        """Return the values of the variables of each subgraph; nothing where the operator does not declare it."""
        if given_values is None or node.op not in FSubgraphRuns:
            return [() for _ in node.attrs.subgraphs]
        inputs = [given_values[self._index.entry_id(entry)] for entry in node.inputs]
        return [values for values, _ in FSubgraphRuns[node.op](quantity, node.attrs, inputs)]


def _by_name(
    names: Sequence[str], values: Sequence[Any], is_known: Callable[[Any], bool]
) -> tuple[tuple[str, Any], ...]:
    """Return the values of the names that have exactly one, as pairs. is_known: whether a value is known."""
    by_name: Mapping[str, set[Any]] = {}
    for name, value in zip(names, values, strict=False):
        if value is not None and is_known(value):
            by_name.setdefault(name, set()).add(value)
    return tuple((name, *distinct) for name, distinct in by_name.items() if len(distinct) == 1)
