"""PlanMemory: which entries share which block of memory, by reference counts and in-place operators."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symjax_nnvm.errors import PassError
from symjax_nnvm.ir.attributes import FIgnoreInputs, FInplaceIdentity, FInplaceOption
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph, IndexedNode
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.types import DType, Shape, is_known, shape_size

# NNVM's codes in `storage_id` and `storage_inplace_index`; other tools read them from the graph attributes.
BAD_STORAGE = -1
"""`storage_id`: not planned — variables, and outputs of unknown shape."""
EXTERNAL_STORAGE = -2
"""`storage_id`: memory that the caller owns."""
DYNAMIC_STORAGE = -3
"""`storage_id`: a size that is only known at run time."""
NOT_INPLACE = -1
"""`storage_inplace_index`: the output has a block of its own."""
NEVER_USED = -2
"""`storage_inplace_index`: nothing reads the output."""

MATCH_RANGE = 16
"""A free block is used again when its size is within this factor of the request (NNVM_EXEC_MATCH_RANGE)."""

_ELEMENT_BYTES = 4  # NNVM plans four bytes per element of every dtype

_REQUEST = ("storage", "node_range", "ref_count", "match_range", "search_match_range")


@register_pass(
    "PlanMemory",
    requires=("shape", "dtype"),
    provides=("storage_id", "storage_inplace_index", "storage_allocated_bytes", "storage_num_not_allocated"),
    op_attrs=("FInplaceOption", "FInplaceIdentity", "FIgnoreInputs"),
)
def _plan_memory_pass(graph: Graph) -> Graph:
    """Plan memory; options stand in the graph attributes and are consumed."""
    options = {key: graph.attrs[key] for key in _REQUEST if key in graph.attrs}
    other_attrs = {key: value for key, value in graph.attrs.items() if key not in _REQUEST}
    return plan_memory(graph.derive(attrs=other_attrs), **options)


def plan_memory(
    graph: Graph,
    *,
    shapes: Sequence[Shape | None] | None = None,
    dtypes: Sequence[DType | None] | None = None,
    device: Sequence[int] | None = None,
    storage: Sequence[int] | None = None,
    node_range: tuple[int, int] | None = None,
    ref_count: Sequence[int] | None = None,
    match_range: int = MATCH_RANGE,
    search_match_range: bool = False,
) -> Graph:
    """Assign a block of memory to every output of every operator, using blocks again as soon as they are free.

    shapes, dtypes: per entry, None unknown; left out, graph attributes `shape` and `dtype`. device: per node; left
    out, graph attribute `device`, else all nodes are on one. storage: per entry, -1 to plan, -2 external, -3 dynamic.
    node_range: plan only these nodes. ref_count: uses per entry; left out, counted. match_range: 0 never uses a block
    again; `search_match_range` tries 1, 2, 4, … up to `match_range` and keeps the smallest plan.

    Result, as graph attributes: `storage_id` and `storage_inplace_index` (per entry: the block; the input whose block
    the output took over in place, -1 for none, -2 for an output that nothing reads), `storage_allocated_bytes`,
    `storage_num_not_allocated`. Raises PassError for arguments that do not fit the graph and for contradictory
    in-place attributes of an operator.

    Time: n log n, plus moving pointers to the distinct sizes that are free at one moment.
    Source of the semantics: NNVM's `plan_memory.cc`.
    """
    index = graph.indexed_graph()
    entries = index.num_node_entries
    shapes = _per("shape", graph.get_attr("shape") if shapes is None else shapes, entries)
    dtypes = _per("dtype", graph.get_attr("dtype") if dtypes is None else dtypes, entries)
    device = graph.attrs.get("device") if device is None else device
    devices = [0] * index.num_nodes if device is None else _per("device", device, index.num_nodes)
    preset = [BAD_STORAGE] * entries if storage is None else list(_per("storage", storage, entries))
    if any(code not in (BAD_STORAGE, EXTERNAL_STORAGE, DYNAMIC_STORAGE) for code in preset):
        raise PassError("Wrong code in graph attribute storage", expected="-1, -2 or -3", got=sorted(set(preset)))
    counts = count_references(index) if ref_count is None else _per("ref_count", ref_count, entries)
    sizes = [shape_size(s) if s is not None and is_known(s) else None for s in shapes]
    best: _Planner | None = None
    for factor in _match_ranges(match_range, search_match_range):
        plan = _Planner(index, sizes, dtypes, devices, list(preset), counts, _Allocator(factor))
        plan.run(*(node_range or (0, index.num_nodes)))
        if best is None or plan.allocator.total_bytes < best.allocator.total_bytes:
            best = plan
    assert best is not None
    result = {
        "storage_id": best.storage,
        "storage_inplace_index": best.inplace_index,
        "storage_allocated_bytes": best.allocator.total_bytes,
        "storage_num_not_allocated": best.num_not_allocated,
    }
    return graph.derive(attrs=graph.attrs | result)


def count_references(index: IndexedGraph) -> list[int]:
    """Count for each entry the uses by operators, less those that only look at its shape (FIgnoreInputs), plus uses as
    a head."""
    counts = [0] * index.num_node_entries
    for node in index.nodes:
        if node.source.is_variable:
            continue
        ignored = _ignored(node)
        for i, entry in enumerate(node.inputs):
            if i not in ignored:
                counts[index.entry_rptr[entry.node_id] + entry.index] += 1
    for head in index.outputs:
        counts[index.entry_rptr[head.node_id] + head.index] += 1
    return counts


def _per(key: str, values: Sequence, length: int) -> Sequence:
    if len(values) != length:
        raise PassError(f"Wrong length of graph attribute {key}", expected=length, got=len(values))
    return values


def _match_ranges(match_range: int, search: bool) -> list[int]:
    if match_range < 0:
        raise PassError("Wrong match range", expected="a number ≥ 0", got=match_range)
    if not search or match_range == 0:
        return [match_range]
    return [1 << i for i in range(match_range.bit_length())]


def _ignored(node: IndexedNode) -> frozenset[int]:
    ignores = FIgnoreInputs.get(node.source.op)
    return frozenset(() if ignores is None else ignores(node.source.attrs))


def _inplace_pairs(node: IndexedNode) -> list[tuple[tuple[int, int], bool]]:
    """Return ((input, output), identity) of each pair the operator allows to share memory."""
    option = FInplaceOption.get(node.source.op)
    if option is None:
        return []
    pairs = list(option(node.source.attrs))
    identity = FInplaceIdentity.get(node.source.op)
    flags = [False] * len(pairs) if identity is None else list(identity(node.source.attrs))
    if len(flags) != len(pairs):
        op = node.source.op
        raise PassError(
            "FInplaceOption and FInplaceIdentity returned vectors of different size for operator "
            f"{op.name if op else None}",
            node=node.source,
            expected=f"{len(pairs)} flags",
            got=len(flags),
        )
    return list(zip(pairs, flags, strict=True))


@dataclass(slots=True)
class _Block:
    """A block of memory; it grows when a larger request takes it over."""

    device: int
    bytes: int
    refs: int = 0


class _Allocator:
    """Holds blocks by storage id, and the free ones by device and size."""

    def __init__(self, match_range: int):
        self.match_range = match_range
        self.blocks: list[_Block] = []
        self._free: dict[tuple[int, int], deque[int]] = {}  # (device, bytes) → ids, in the order of release
        self._free_sizes: dict[int, list[int]] = {}  # device → sizes that have free blocks, ascending

    @property
    def total_bytes(self) -> int:
        """Return the size of all blocks in bytes."""
        return sum(block.bytes for block in self.blocks)

    def request(self, device: int, size: int) -> int:
        """Return the smallest free block that is large enough, else the largest that is not, else a new one."""
        sizes = self._free_sizes.setdefault(device, [])
        if self.match_range:
            at = bisect_left(sizes, size)
            if at < len(sizes) and sizes[at] <= size * self.match_range:
                return self._take(device, sizes[at], first=True)
            if at and sizes[at - 1] >= size // self.match_range:
                sid = self._take(device, sizes[at - 1], first=False)
                self.blocks[sid].bytes = size
                return sid
        self.blocks.append(_Block(device, size))
        return len(self.blocks) - 1

    def release(self, sid: int) -> None:
        """Make a block free."""
        block = self.blocks[sid]
        same_size = self._free.setdefault((block.device, block.bytes), deque())
        if not same_size:
            insort(self._free_sizes[block.device], block.bytes)
        same_size.append(sid)

    def _take(self, device: int, size: int, *, first: bool) -> int:
        same_size = self._free[device, size]
        sid = same_size.popleft() if first else same_size.pop()
        if not same_size:
            sizes = self._free_sizes[device]
            del sizes[bisect_left(sizes, size)]
        return sid


class _Planner:
    """One plan: the state that grows node by node."""

    def __init__(
        self,
        index: IndexedGraph,
        sizes: Sequence[int | None],
        dtypes: Sequence[DType | None],
        devices: Sequence[int],
        storage: list[int],
        ref_count: Sequence[int],
        allocator: _Allocator,
    ):
        self.index = index
        self.sizes = sizes  # elements per entry
        self.dtypes = dtypes
        self.devices = devices
        self.storage = storage
        self.ref_count = ref_count
        self.allocator = allocator
        self.inplace_index = [NOT_INPLACE] * len(storage)
        self.num_not_allocated = 0

    def run(self, first: int, last: int) -> None:
        """Plan nodes first to last - 1."""
        for nid in range(first, last):
            node = self.index.nodes[nid]
            if node.source.is_variable:
                continue
            ignored = _ignored(node)
            outputs = range(self.index.entry_rptr[nid], self.index.entry_rptr[nid + 1])
            self._share(node, outputs, ignored)
            self._allocate(outputs, self.devices[nid])
            self._free_inputs(node, ignored)
            self._free_unused(outputs)

    def _share(self, node: IndexedNode, outputs: range, ignored: frozenset[int]) -> None:
        """Let outputs take over the memory of inputs that no other node needs."""
        storage, taken = self.storage, set()
        for (i, o), identity in _inplace_pairs(node):
            source, out = self.index.entry_id(node.inputs[i]), outputs[o]
            sid = storage[source]
            # An ignored input is not counted among the block's uses: its block may be another entry's already.
            if i in taken or i in ignored or sid < 0 or storage[out] != BAD_STORAGE or self.ref_count[out] == 0:
                continue
            block = self.allocator.blocks[sid]
            # Values of another dtype are not an identity, even of the same width: others still read the old ones.
            identity = identity and self.dtypes[source] == self.dtypes[out]
            if (block.refs == 1 or identity) and self._same_extent(node, i, source, out):
                taken.add(i)
                storage[out] = sid
                block.refs += self.ref_count[out]
                self.inplace_index[out] = i

    def _same_extent(self, node: IndexedNode, i: int, source: int, out: int) -> bool:
        """Return whether two entries have as many elements of the same width."""
        if self.sizes[source] is None or self.sizes[source] != self.sizes[out]:
            return False
        a, b = self.dtypes[source], self.dtypes[out]
        if a == b:
            return True
        if a is None or b is None:
            raise PassError(
                "unknown type_flag=-1 of an in-place pair",
                op=node.source.op,
                node=node.source,
                input=i,
                got=f"dtypes {a} and {b}",
                fix="Run InferType with enough known dtypes first.",
            )
        return _item_bytes(a) == _item_bytes(b)

    def _allocate(self, outputs: range, device: int) -> None:
        """Request blocks for the outputs that have none, the largest first."""
        open_outputs = [(self.sizes[out], out) for out in outputs if self.storage[out] == BAD_STORAGE]
        sized = [(size, out) for size, out in open_outputs if size is not None]
        for size, out in sorted(sized, reverse=True):
            sid = self.allocator.request(device, size * _ELEMENT_BYTES)
            self.allocator.blocks[sid].refs = self.ref_count[out]
            self.storage[out] = sid

    def _free_inputs(self, node: IndexedNode, ignored: frozenset[int]) -> None:
        for i, entry in enumerate(node.inputs):
            sid = self.storage[self.index.entry_id(entry)]
            if i in ignored or sid < 0:
                continue
            block = self.allocator.blocks[sid]
            block.refs -= 1
            if block.refs == 0:
                self.allocator.release(sid)

    def _free_unused(self, outputs: range) -> None:
        for out in outputs:
            sid = self.storage[out]
            if sid >= 0 and self.allocator.blocks[sid].refs == 0:
                self.allocator.release(sid)
                self.inplace_index[out] = NEVER_USED
            self.num_not_allocated += sid == BAD_STORAGE


def _item_bytes(dtype: DType) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
