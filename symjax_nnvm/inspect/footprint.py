"""The cost of a run of a network, from shapes alone: the most memory it holds at one moment, and its arithmetic.

Memory is counted by liveness in the order in which nodes run: arguments and states all the time, an intermediate from
the node that makes it to the last that reads it, and at each node what it holds besides (`FWorkspace`). XLA fuses
elementwise operators and may need less; it may turn axes or run branches side by side and need somewhat more. The
estimate shows whether a run fits in memory; it is not exact to the last gigabyte.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from symjax_nnvm.errors import InferenceError, SymbolValueError
from symjax_nnvm.ir.attributes import FFlops, FIgnoreInputs, FInplaceOption, FMutateInputs, FSubgraphRuns, FWorkspace
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph, IndexedNode
from symjax_nnvm.ir.listing import input_nodes, subgraph_variables
from symjax_nnvm.ir.node import Subgraph
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ir.types import (
    MAX_ELEMENTS,
    DType,
    DTypeList,
    Shape,
    ShapeList,
    default_dtype,
    is_float,
    is_known,
)
from symjax_nnvm.ops.control.subgraph import DTYPES, SHAPES
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.symbol.call_arguments import known_dtypes, known_shapes
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import lines_html

WASTE = 1 << 14
"""Operations for each element that a node reads or writes: a product of square matrices of 24,000 rows has as many."""

_LONG = 1e10  # operations that take seconds on a CPU
_NEVER = -1
_ITEM_SIZES = {"bfloat16": 2}


@dataclass(frozen=True)
class Footprint:
    """The estimated cost of one run; it prints as two lines.

    Attributes:
        peak_bytes: the most memory in use at one moment, in bytes.
        node: the node with the largest arrays at that moment; None where there are only variables.
        op: that node's operator.
        input_bytes: the bytes of arguments and auxiliary states, which are part of the peak.
        flops: floating-point operations; a multiply-add counts as 2.
        longest: the node with the most operations.
        longest_flops: its operations.
        uncounted: operators without `FFlops`, counted as one operation for each element that they read or write.
        undecided: nodes with an output of unknown shape, which the sums leave out.
        wasteful: nodes that need more than `WASTE` operations for each element that they read or write, because of
            their parameters, with their operations.
    """

    peak_bytes: int
    node: str | None
    op: str | None
    input_bytes: int
    flops: int
    longest: str | None
    longest_flops: int
    uncounted: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    wasteful: tuple[tuple[str, int], ...] = ()

    @property
    def place(self) -> str:
        """Return `node 'conv1' (Convolution)`, or words for a peak that no node causes."""
        return "the arguments" if self.node is None else f"node {self.node!r} ({self.op})"

    def __str__(self) -> str:
        lines = [
            f"memory: {bytes_text(self.peak_bytes)} at {self.place}, {bytes_text(self.input_bytes)} of it arguments "
            "and states",
            f"arithmetic: {flops_text(self.flops)}"
            + (f", {flops_text(self.longest_flops)} of it in node {self.longest!r}" if self.longest else ""),
        ]
        if self.undecided:
            lines.append(f"not counted: {len(self.undecided)} nodes of unknown shape, the first {self.undecided[0]!r}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return lines_html(str(self).splitlines())

    def to_json(self) -> dict[str, Any]:
        """Return the footprint as a plain dict."""
        return {
            "peak_bytes": self.peak_bytes,
            "node": self.node,
            "input_bytes": self.input_bytes,
            "flops": self.flops,
            "longest": self.longest,
        }


def estimate(
    symbol: Symbol,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dtypes: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
    in_float64: bool = False,
) -> Footprint:
    """Return the estimated cost of one run of a symbol.

    Args:
        symbol: the network.
        shapes: shapes of inputs by name, from which all others follow.
        dtypes: dtypes of inputs by name.
        training: count forward and backward. The result is then an upper bound: every intermediate result is kept to
            the end, and the largest node's arrays count twice.
        in_float64: floating-point numbers take 8 bytes each, as in a check of gradients.

    Raises:
        InferenceError: shapes or dtypes contradict each other.
        SymbolTypeError: a value is not a shape or no dtype.
        SymbolValueError: a name is not one of the network's, or a value is out of range.
    """
    graph = infer_shape(Graph(symbol.outputs), shapes=known_shapes(shapes or {}))
    graph = infer_type(graph, dtypes=known_dtypes(dtypes or {}))
    return estimate_graph(graph, training=training, in_float64=in_float64)


def estimate_graph(graph: Graph, *, training: bool = False, in_float64: bool = False) -> Footprint:
    """Return `estimate` of a graph that has the attributes `shape` and `dtype`. Unknown dtypes count as float32."""
    dtypes = graph.attrs["dtype"]
    if in_float64:
        dtypes = ["float64" if dtype is None or is_float(dtype) else dtype for dtype in dtypes]
    measure = _Measure(graph.indexed_graph(), graph.attrs["shape"], dtypes)
    measure.run(keep=training)
    return measure.footprint(training)


def check_workspaces(graph: Graph) -> None:
    """Refuse nodes that would make arrays larger than any array may be on their way to their outputs.

    Raises InferenceError. XLA ends the process on such extents.
    """
    index, shapes = graph.indexed_graph(), graph.attrs["shape"]
    for nid, inode in enumerate(index.nodes):
        op = inode.source.op
        if op is None or op not in FWorkspace:
            continue
        ins, outs = _shapes_of(index, nid, shapes)
        if ins is None or outs is None:
            continue
        if any(is_open(size) for shape in (*ins, *outs) for size in shape):
            continue  # how much it takes is decided where the program runs
        elements = FWorkspace[op](inode.source.attrs, ins, outs)
        if elements > MAX_ELEMENTS:
            name = inode.source.name
            raise InferenceError(
                f"Error in operator {name}: with its parameters it needs arrays of {elements:.1e} elements",
                name,
                op=op,
                node=name,
                expected=f"at most {MAX_ELEMENTS:.1e}",
                got=f"inputs {', '.join(map(str, ins))}",
                fix="Check the sizes in its parameters: padding, kernel, stride, dilation.",
            )


# -- the walk --------------------------------------------------------------------------------------------------------


class _Measure:
    """Adds up the sums of one graph, filled by `run`."""

    def __init__(self, index: IndexedGraph, shapes: Sequence[Shape | None], dtypes: Sequence[DType | None]):
        self.index = index
        self.shapes = shapes
        self.items = [_item_size(dtype) for dtype in dtypes]
        self.dtypes = dtypes
        self.sizes = [
            prod(shape) * item if shape is not None and None not in shape else 0  # type: ignore[arg-type]
            for shape, item in zip(shapes, self.items, strict=True)
        ]
        self.variables = {index.entry_rptr[nid] for nid in index.input_nodes}
        self.input_bytes = sum(self.sizes[eid] for eid in self.variables)
        self.peak, self.at, self.needed_there, self.largest = self.input_bytes, _NEVER, 0, 0
        self.last = [_NEVER] * index.num_node_entries
        self.flops, self.longest, self.longest_flops = 0, _NEVER, 0
        self.uncounted: dict[str, None] = {}
        self.undecided: list[str] = []
        self.wasteful: dict[str, int] = {}

    def run(self, *, keep: bool) -> None:
        """Walk over the nodes. keep: free nothing."""
        index, sizes, rptr = self.index, self.sizes, self.index.entry_rptr
        last = self.last = self._last_readers()
        live = self.input_bytes
        for nid, inode in enumerate(index.nodes):
            op = inode.source.op
            if op is None:
                continue
            read = {rptr[entry.node_id] + entry.index for entry in inode.inputs}
            computed = range(rptr[nid], rptr[nid + 1])
            dying = set() if keep else {eid for eid in read if last[eid] == nid} - self.variables
            taken = self._taken_over(inode, nid, dying) if dying else set()
            new = sum(sizes[eid] for eid in computed) - sum(sizes[eid] for eid in taken)
            mutated = FMutateInputs.get(op)
            if mutated is not None:
                new += sum(sizes[rptr[inode.inputs[i].node_id]] for i in mutated(inode.source.attrs))
            beside = self._beside(nid, inode)
            if live + new + beside > self.peak:
                self.peak, self.at, self.needed_there = live + new + beside, nid, new + beside
            self.largest = max(self.largest, new + beside + sum(sizes[eid] for eid in read))
            live += new - sum(sizes[eid] for eid in dying - taken)
            if not keep:
                live -= sum(sizes[eid] for eid in computed if last[eid] == _NEVER)

    def footprint(self, training: bool) -> Footprint:
        """Return the sums as a result."""
        nodes = self.index.nodes
        peak = self.peak
        if training:  # gradients of the arguments, and a step of the backward part beside all that is kept
            peak += self.input_bytes + 2 * self.largest
        times = 3 if training else 1
        source = None if self.at == _NEVER else nodes[self._needs_most(training)].source
        return Footprint(
            peak,
            None if source is None else source.name,
            None if source is None or source.op is None else source.op.name,
            self.input_bytes,
            times * self.flops,
            None if self.longest == _NEVER else nodes[self.longest].source.name,
            times * self.longest_flops,
            tuple(self.uncounted),
            tuple(self.undecided),
            tuple((name, times * flops) for name, flops in self.wasteful.items()),
        )

    def _needs_most(self, keep: bool) -> int:
        """Return the node that made most of what is held at the peak: the one that runs then, or one before it."""
        rptr, most, node = self.index.entry_rptr, self.needed_there, self.at
        for nid in range(self.at):
            if self.index.nodes[nid].source.is_variable:
                continue
            size = sum(self.sizes[e] for e in range(rptr[nid], rptr[nid + 1]) if keep or self.last[e] >= self.at)
            if size > most:
                most, node = size, nid
        return node

    def _last_readers(self) -> list[int]:
        """Return the number of the last node that reads each entry; no node's for heads, `_NEVER` where none does."""
        rptr = self.index.entry_rptr
        last = [_NEVER] * self.index.num_node_entries
        for nid, inode in enumerate(self.index.nodes):
            op = inode.source.op
            ignores = None if op is None else FIgnoreInputs.get(op)
            ignored = () if ignores is None else set(ignores(inode.source.attrs))
            for i, entry in enumerate(inode.inputs):
                if i not in ignored:
                    last[rptr[entry.node_id] + entry.index] = nid
        for head in self.index.outputs:
            last[self.index.entry_id(head)] = self.index.num_nodes
        return last

    def _taken_over(self, inode: IndexedNode, nid: int, dying: set[int]) -> set[int]:
        """Return the dying inputs whose memory outputs of the same size take over."""
        rptr, pairs = self.index.entry_rptr, FInplaceOption.get(inode.source.op)
        taken: set[int] = set()
        outputs: set[int] = set()
        for i, o in () if pairs is None else pairs(inode.source.attrs):
            if i >= len(inode.inputs):
                continue
            eid, output = rptr[inode.inputs[i].node_id] + inode.inputs[i].index, rptr[nid] + o
            fits = eid in dying and eid not in taken and output not in outputs
            if fits and self.sizes[eid] == self.sizes[output]:
                taken.add(eid)
                outputs.add(output)
        return taken

    def _beside(self, nid: int, inode: IndexedNode) -> int:
        """Return the bytes that a node holds beside its inputs and outputs; add up its arithmetic."""
        source, op = inode.source, inode.source.op
        assert op is not None
        ins, outs = _shapes_of(self.index, nid, self.shapes)
        if ins is None or outs is None:
            self.undecided.append(source.name)
            return 0
        rptr = self.index.entry_rptr
        workspace, rule = FWorkspace.get(op), FFlops.get(op)
        beside, flops = 0, 0
        if workspace is not None:
            eids = [*(rptr[e.node_id] + e.index for e in inode.inputs), *range(rptr[nid], rptr[nid + 1])]
            beside = workspace(source.attrs, ins, outs) * max(self.items[eid] for eid in eids)
        if op in FSubgraphRuns:
            inner, flops = self._inside(inode)
            beside += inner
        elif rule is not None:
            flops = rule(source.attrs, ins, outs).total
        else:
            flops = sum(map(prod, (*ins, *outs)))
            self.uncounted[op.name] = None
        self.flops += flops
        if op not in FSubgraphRuns and flops > max(
            _LONG, WASTE * sum(map(prod, (*ins, *outs[: source.num_visible_outputs()])))
        ):
            self.wasteful[source.name] = flops
        if flops > self.longest_flops:
            self.longest, self.longest_flops = nid, flops
        return beside

    def _inside(self, inode: IndexedNode) -> tuple[int, int]:
        """Return (bytes beside the inputs, arithmetic) of a node's subgraphs. They nest as deep as in inference."""
        attrs, rptr = inode.source.attrs, self.index.entry_rptr
        eids = [rptr[entry.node_id] + entry.index for entry in inode.inputs]
        runs = FSubgraphRuns[attrs.op]
        shapes = runs(SHAPES, attrs, [self.shapes[eid] for eid in eids])
        dtypes = runs(DTYPES, attrs, [self.dtypes[eid] for eid in eids])
        beside, flops = 0, 0
        for graph, (in_shapes, times), (types, _) in zip(attrs.subgraphs, shapes, dtypes, strict=True):
            inner = estimate_graph(_inferred(graph, in_shapes, types))
            beside = max(beside, inner.peak_bytes - inner.input_bytes)
            flops += times * inner.flops
            self.uncounted |= dict.fromkeys(inner.uncounted)
            self.undecided += [f"{inode.source.name}/{name}" for name in inner.undecided]
            self.wasteful |= {f"{inode.source.name}/{name}": times * flops for name, flops in inner.wasteful}
        return beside, flops


def _inferred(graph: Subgraph, shapes: Sequence[Shape | None], dtypes: Sequence[DType | None]) -> Graph:
    """Return a subgraph with shapes and dtypes that follow from those of its variables."""
    fed = dict(zip(subgraph_variables(graph), zip(shapes, dtypes, strict=True), strict=True))
    inputs = [fed[node] for node in input_nodes(graph.outputs)]
    attrs: dict[str, Any] = {
        "shape_inputs": ShapeList(shape for shape, _ in inputs),
        "dtype_inputs": DTypeList(dtype for _, dtype in inputs),
    }
    attrs |= {"shape_attr_key": "__shape__", "dtype_attr_key": "__dtype__"}
    return apply_pass(apply_pass(Graph(graph.outputs, attrs), "MXInferShape"), "MXInferType")


def _shapes_of(index: IndexedGraph, nid: int, shapes: Sequence[Shape | None]) -> tuple[Any, Any]:
    """Return (input shapes, output shapes) of a node; None where one of them is not known."""
    rptr = index.entry_rptr
    ins = [shapes[rptr[entry.node_id] + entry.index] for entry in index.nodes[nid].inputs]
    outs = shapes[rptr[nid] : rptr[nid + 1]]
    return tuple(list(part) if all(map(is_known, part)) else None for part in (ins, outs))  # type: ignore[return-value]


def _item_size(dtype: DType | None) -> int:
    name = dtype or default_dtype()
    size = _ITEM_SIZES.get(name)
    if size is None:
        size = _ITEM_SIZES[name] = np.dtype(name).itemsize
    return size


# -- sizes for people ------------------------------------------------------------------------------------------------

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def bytes_text(size: int) -> str:
    """Return a size in bytes as text, such as `1.5 GiB`."""
    unit = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{size} B" if unit == 0 else f"{size / (1 << 10 * unit):.3g} {_UNITS[unit]}"


def flops_text(count: int) -> str:
    """Return a count of operations as text, such as `3.4 GFLOPs`."""
    for factor, letter in ((10**18, "E"), (10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.3g} {letter}FLOPs"
    return f"{count} FLOPs"


def parse_size(text: str | int) -> int:
    """Bytes of `4G`, `500 MiB`, `1.5T`, or a number of bytes; units are powers of 1024. Raises SymbolValueError."""
    if not isinstance(text, str):
        return operator.index(text)
    number = text.strip()[:40].upper().removesuffix("B").removesuffix("I").strip()
    power = "KMGTPE".find(number[-1:]) + 1 if number else 0
    try:
        size = float(number[:-1] if power else number) * 1024**power
    except ValueError:
        size = -1.0
    if not 0 < size < 2.0**63:
        raise SymbolValueError("This is not a size of memory", expected="a number of bytes, 500M or 4G", got=text[:80])
    return int(size)
