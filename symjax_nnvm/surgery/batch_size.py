"""Another batch size for graphs that have one written into them: in Reshape, in zeros that begin a recurrence.

Nothing in a graph marks a number as a batch size. What counts is the size of the batch axis (axis 0, or the N of an
attribute `__layout__`) where an attribute spells out the shape of something that depends on the network's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from numbers import Integral

from symjax_nnvm.errors import GraphError, InferenceError, SymbolValueError, printable
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.ir.attributes import TBroadcasts, TShapeParameters
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.params import value_to_text
from symjax_nnvm.ir.rewrite import reachable_from, rebuild
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import parse_shape
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.symbol.call_arguments import expect_symbol
from symjax_nnvm.symbol.symbol import Symbol, of_mode

_HINT = "__shape__"


@dataclass(frozen=True)
class HardCodedBatch:
    """One place of a graph where a batch size is written.

    Attributes:
        node: the node's name, `outer/inner` inside a subgraph.
        op: its operator; None for a variable.
        param: the parameter or attribute.
        text: the parameter's value.
        axis: the batch axis.
        size: the number written there.
    """

    node: str
    op: str | None
    param: str
    text: str
    axis: int
    size: int

    def __str__(self) -> str:
        return printable(f"{self.op or 'variable'} {self.node}: {self.param}={self.text}")


def hard_coded_batch(symbol: Symbol) -> list[HardCodedBatch]:
    """Return the places where a batch size may be written in the graph; `set_batch_size` changes these."""
    expect_symbol(symbol, "hard_coded_batch")
    return list(_places(symbol).values())


def set_batch_size(symbol: Symbol, n: int, old: int | None = None, *, merged: bool | None = None) -> Symbol:
    """Return the symbol for another batch size, where one is written in its graph.

    The batch axis is changed in the parameter `shape` of Reshape, broadcast_to, zeros and other constants, and in
    declared shapes of variables, in subgraphs as well. Shapes of parameters stay. Compare `hard_coded_batch` of this
    symbol and of the result to see the changes.

    Args:
        symbol: the network.
        n: the new batch size.
        old: the batch size in the graph; None for the one that all places agree on.
        merged: what happens to a Reshape whose first size is a multiple of `old`, such as one that merges steps and
            samples: True scales it with the batch, False leaves it, None raises.

    Raises:
        SymbolValueError: a size is below 1, or `old` is written nowhere.
        GraphError: places disagree, a merged size is found and `merged` is None, or shapes contradict each other after
            the change.
    """
    expect_symbol(symbol, "set_batch_size")
    if not all(isinstance(size, Integral) and size >= 1 for size in (n, 1 if old is None else old)):
        raise SymbolValueError(f"A batch size is a whole number ≥ 1, got n={n!r}, old={old!r}")
    places = _places(symbol)
    old = _agreed(list(places.values())) if old is None else old
    if old is None:
        return of_mode(symbol, rebuild(symbol.outputs))
    new_size = {node: n for node, place in places.items() if place.size == old}
    if places and not new_size:
        raise SymbolValueError(f"No batch size {old} is written in the graph", got=_listed(places.values()))
    multiples = {
        node: place
        for node, place in places.items()
        if node.inputs and not TBroadcasts.get(node.op) and old > 1 and place.size > old and place.size % old == 0
    }
    if multiples and merged is None:
        raise GraphError(
            f"Some sizes are multiples of the batch size {old}: is the batch merged with another axis there?",
            got=_listed(multiples.values()),
            fix="Pass merged=True to scale them with the batch, merged=False to leave them.",
        )
    if merged:
        new_size |= {node: n * (place.size // old) for node, place in multiples.items()}
    changed = of_mode(symbol, rebuild(symbol.outputs, _writing(places, new_size)))
    if _contradiction(symbol) is None and (error := _contradiction(changed)) is not None:
        raise GraphError(
            f"The graph does not fit a batch size of {n}: {error}".rstrip("."),
            fix="An attribute that was left alone depends on the batch, too. Changed were: "
            + _listed(places[node] for node in new_size),
        ) from error
    return changed


def _agreed(places: list[HardCodedBatch]) -> int | None:
    sizes = {place.size for place in places}
    if len(sizes) > 1:
        raise GraphError(
            f"The batch size is ambiguous: the graph has {', '.join(map(str, sorted(sizes)))} in batch axes",
            got=_listed(places),
            fix="Pass the batch size that is written in the graph as old=.",
        )
    return sizes.pop() if sizes else None


def _listed(places: Iterable[HardCodedBatch]) -> str:
    lines = [str(place) for place in places]
    return "; ".join(lines[:5]) + (f" and {len(lines) - 5} more" if len(lines) > 5 else "")


def _contradiction(symbol: Symbol) -> InferenceError | None:
    try:
        infer_shape(Graph(symbol.outputs))
    except InferenceError as error:
        return error
    return None


# -- finding and writing ---------------------------------------------------------------------------------------------


def _places(symbol: Symbol) -> dict[Node, HardCodedBatch]:
    """Map node → the batch size written in it, for the graph and its subgraphs."""
    places: dict[Node, HardCodedBatch] = {}
    graphs = [(symbol, "")]
    while graphs:
        graph, path = graphs.pop()
        for node in _dependent_on_data(graph):
            place = _place(node, path)
            if place is not None:
                places[node] = place
        graphs += [
            (Symbol(inner.outputs), f"{path}{node.name}/")
            for node in post_order(graph.outputs)
            for inner in node.attrs.subgraphs
        ]
    return places


def _dependent_on_data(graph: Symbol) -> Iterator[Node]:
    """Yield inputs that are not parameters and what they reach; constants and parameters repeated for each sample.

    Constants of size 1 that are broadcast anyway fit every batch.
    """
    nodes = post_order(graph.outputs)
    learned = learned_variables(graph)
    carriers = reachable_from(graph.outputs, [n for n in nodes if n.is_variable and n not in learned])
    elsewhere = {entry.node for node in nodes for entry in node.inputs if not TBroadcasts.get(node.op)}
    elsewhere |= {entry.node for entry in graph.outputs}
    for node in nodes:
        if node in carriers:
            yield node
        elif node.op is not None and (not node.inputs or TBroadcasts.get(node.op)):
            place = _place(node, "")
            if place is not None and (place.size > 1 or node in elsewhere):
                yield node


def _place(node: Node, path: str) -> HardCodedBatch | None:
    candidates = (_HINT,) if node.op is None else TShapeParameters.get(node.op, ())
    param = next((param for param in candidates if node.attrs.dict.get(param)), None)
    if param is None:
        return None
    text = node.attrs.dict[param]
    dims = _dims(text)
    axis = max(node.attrs.dict.get("__layout__", "N").find("N"), 0)
    if axis >= len(dims) or dims[axis] < 1:
        return None
    return HardCodedBatch(path + node.name, node.op.name if node.op else None, param, text, axis, dims[axis])


def _dims(text: str) -> tuple[int, ...]:
    try:
        return parse_shape(text.strip())
    except ValueError:
        return ()


def _writing(places: dict[Node, HardCodedBatch], new_size: dict[Node, int]) -> Callable[[Node, Node], NodeEntry | None]:
    def change(node: Node, copy: Node) -> None:
        if node in new_size:
            place = places[node]
            dims = list(_dims(place.text))
            dims[place.axis] = new_size[node]
            copy.attrs.dict[place.param] = value_to_text(tuple(dims))
            if node.op is not None:
                copy.attrs.parse()
        if node.attrs.subgraphs:
            copy.attrs.subgraphs = [Graph(rebuild(graph.outputs, change)) for graph in node.attrs.subgraphs]

    return change
