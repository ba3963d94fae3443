"""FuseForOneDNN: what MXNet 1.9.1 does at its backend MKLDNN_QUANTIZE, before a network is quantised and after.

FFusing says what a layer is fused with: convolutions with BatchNorm, sums and activations, in a subgraph; layers of
integers with the rounding of their results. What is read, or given, besides is never taken into a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from symjax_nnvm.ir.attributes import FFusing, FInference, TJoinsRanges
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import output_names, subgraph
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.rewrite import rebuild
from symjax_nnvm.ir.traverse import post_order

_ENDS = ("min_calib_range", "max_calib_range")
_Rows = dict[Node, tuple[int, list[Node]]]


@register_pass("FuseForOneDNN", op_attrs=("FFusing", "FInference", "TJoinsRanges"), change_graph=True)
def fuse_for_onednn(graph: Graph) -> Graph:
    """Return the graph with layers fused, without what only training needs; reads no shapes."""
    outputs = rebuild(graph.outputs, _without_identity)
    for turn in sorted({FFusing[op].turn for op in FFusing}):
        outputs = _fused(outputs, turn)
    return graph.derive(_with_joined_ranges(outputs))


def _without_identity(node: Node, draft: Node) -> NodeEntry | None:
    """Return the data of an operator that gives them as they are at inference."""
    if node.op not in FInference or draft.inputs[0].node.is_variable:
        return None
    return draft.inputs[0] if FInference[node.op](draft) == draft.inputs[0] else None


def _readers(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return the nodes that read each, without repetitions."""
    readers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source in dict.fromkeys(entry.node for entry in node.inputs):
            readers[source].append(node)
    return readers


# -- rows ------------------------------------------------------------------------------------------------------------


def _rows(outputs: Sequence[NodeEntry], turn: int) -> _Rows:
    """Return the rows of nodes that are fused, each with its number, by their last nodes."""
    nodes = post_order(outputs)
    readers, heads = _readers(nodes), {entry.node for entry in outputs}
    rows: _Rows = {}
    taken: set[Node] = set()
    for node in nodes:
        if node.op not in FFusing or FFusing[node.op].turn != turn or node in taken:
            continue
        fusing, row = FFusing[node.op], list[Node]()
        following: Node | None = node
        while following is not None and following not in taken and fusing.takes(row, following):
            row.append(following)
            is_read_once = len(readers[following]) == 1 and following not in heads
            following = readers[following][0] if is_read_once else None
        if row:
            taken |= set(row)
            rows[row[-1]] = len(rows), row
    return rows


def _fused(outputs: Sequence[NodeEntry], turn: int) -> list[NodeEntry]:
    """Return the outputs with one node in place of each row."""
    rows = _rows(outputs, turn)
    members = {node for _, row in rows.values() for node in row}
    drafts: dict[Node, Node] = {}

    def change(node: Node, draft: Node) -> Node | None:
        if node in members:
            drafts[node] = draft
        if node not in rows:
            return None
        number, row = rows[node]
        fed: list[NodeEntry] = []
        names: list[str] = []
        for member in row:
            for old, new in zip(member.inputs, drafts[member].inputs, strict=True):
                if old.node not in row:
                    fed.append(new)
                    names += output_names([new if rows.get(old.node, (number,))[0] < number else old])
        attrs = FFusing[row[0].op].made(row, number, _as_subgraph(row, names))
        return None if attrs is None else Node(attrs, fed)

    return rebuild(outputs, change)


def _as_subgraph(row: Sequence[Node], names: Sequence[str]) -> Graph:
    """Return copies of a row's nodes, which read variables where the row reads others. names: the names of what it
    reads."""
    fed: list[Node] = []
    copies: dict[Node, Node] = {}
    for member in row:
        inputs: list[NodeEntry] = []
        for entry in sorted(member.inputs, key=lambda entry: entry.node not in copies):
            if entry.node in copies:
                inputs.append(NodeEntry(copies[entry.node], entry.index))
            else:
                name = names[len(fed)]
                fed.append(create_variable_node(f"{name}{names[: len(fed)].count(name)}"))
                inputs.append(NodeEntry(fed[-1]))
        copies[member] = Node(member.attrs.copy(), inputs)
    return subgraph([NodeEntry(copies[row[-1]])], fed)


# -- ranges of what is joined ----------------------------------------------------------------------------------------


def _with_joined_ranges(outputs: Sequence[NodeEntry]) -> list[NodeEntry]:
    """Return the outputs with one range, the union of theirs and 0, for layers whose results are joined."""
    nodes = post_order(outputs)
    readers = _readers(nodes)
    ranges: dict[Node, tuple[str, str]] = {}
    for node in nodes:
        if TJoinsRanges.get(node.op):
            layers = _joined_layers(node, readers, ranges)
            if len(layers) > 1:
                low, high = ([float(layer.attrs.dict[end]) for layer in layers] for end in _ENDS)
                union = f"{min(0.0, *low):.6f}", f"{max(0.0, *high):.6f}"
                ranges |= dict.fromkeys(layers, union)

    def change(node: Node, draft: Node) -> Node | None:
        if node not in ranges:
            return None
        attrs = node.attrs.copy()
        attrs.dict |= zip(_ENDS, ranges[node], strict=True)
        attrs.parse()
        return Node(attrs, draft.inputs, draft.control_deps)

    return rebuild(outputs, change)


def _joined_layers(join: Node, readers: dict[Node, list[Node]], aligned: Collection[Node]) -> list[Node]:
    """Return the layers with a range that a join reads, through others that keep ranges, and nothing else does."""
    goes_on = len(readers[join]) <= 1
    keeping, layers = {join}, dict[Node, None]()
    queue = deque([join])
    while queue:
        node = queue.popleft()
        for source in (entry.node for entry in node.inputs):
            if source in keeping or source in layers or source in aligned or not keeping.issuperset(readers[source]):
                continue
            if all(end in source.attrs.dict for end in _ENDS):
                layers[source] = None
            elif source.op in TJoinsRanges:
                keeping.add(source)
                queue.append(source)
        for reader in readers[node] if goes_on else ():
            if reader not in keeping and reader.op in TJoinsRanges:
                keeping.add(reader)
                queue.append(reader)
    return list(layers)
