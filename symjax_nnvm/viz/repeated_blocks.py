"""Repeated blocks: runs of consecutive, isomorphic parts of a network, found in its order of operators.

A run is a tandem repeat in the sequence of operator nodes: node i and node i + p say the same (operator, parameters),
are of the same shapes, or of shapes that grow by the same from copy to copy, as DenseNet's, and read the same things,
which are p places apart too, or one thing outside. Comparing neighbours at one
distance p is all it takes, so time is linear in nodes for the distances tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.types import Shape

_DISTANCES = 8
"""The number of the next equal nodes that are tried as the beginning of the next block."""

_LONGEST = 2000
"""Longest block, in operators."""

_WORTH = 2
"""Least number of operators that folding must save."""

_CLEAR = 4
"""Longer blocks are not tried where a run of short ones already spans this many of them."""

_REACH = 2
"""Blocks from which a block may be read; what is read from farther away belongs to no run."""


_GROWING = 3
"""The fewest copies that show that sizes grow by the same."""

Sizes = tuple[Shape | None, ...]


@dataclass(frozen=True)
class RepeatedRun:
    """Represents `count` copies of a block of `length` operators, from place `start` in the order of operators on.
    grows: whether sizes of each copy are those of the copy before and something more."""

    start: int
    length: int
    count: int
    grows: bool = False

    @property
    def end(self) -> int:
        """Return the place after the last copy."""
        return self.start + self.length * self.count


def repeated_blocks(index: IndexedGraph, shapes: Sequence[Shape | None] | None = None) -> list[RepeatedRun]:
    """The runs of a graph, in order, without overlap; places count operators, variables left out.

    shapes: one per entry; blocks that differ in the shapes of outputs or variables are then different, unless every
    copy differs by the same from the one before. A run is only reported when nothing after it, and no head, reads from
    another copy than the last, so that drawing one copy loses no connection.
    """
    order = _Order(index, shapes)
    runs: list[RepeatedRun] = []
    place, count = 0, len(order.labels)
    while place < count:
        best = None
        for distance in order.distances(place):
            if best is not None and best.length * best.count >= _CLEAR * distance:
                break
            run = order.run_at(place, distance)
            saved = 0 if run is None else (run.count - 1) * run.length
            if run is not None and saved >= _WORTH and (best is None or saved > (best.count - 1) * best.length):
                best = run
        if best is None:
            place += 1
        else:
            runs.append(best)
            place = best.end
    return runs


class _Order:
    """Operators in order: each one's signature, the operators it reads, and its last reader."""

    def __init__(self, index: IndexedGraph, shapes: Sequence[Shape | None] | None):
        nids = [nid for nid, node in enumerate(index.nodes) if not node.source.is_variable]
        place_of = {nid: place for place, nid in enumerate(nids)}
        self.names = [index.nodes[nid].source.name for nid in nids]
        self.reads: list[list[tuple[int, int] | int]] = []
        self.last_reader = list(range(len(nids)))
        labels = []
        learned = _own_variables(index)
        for place, nid in enumerate(nids):
            node = index.nodes[nid]
            reads: list[tuple[int, int] | int] = []
            for entry in node.inputs:
                source = place_of.get(entry.node_id)
                if source is not None:
                    reads.append((source, entry.index))
                    self.last_reader[source] = place
                else:  # a variable of one reader is the block's own; one of several must be the very same
                    reads.append(-1 if entry.node_id in learned else entry.node_id)
            self.reads.append(reads)
            labels.append(_operator_and_attributes(node.source))
        for head in index.outputs:
            if head.node_id in place_of:
                self.last_reader[place_of[head.node_id]] = len(nids)
        self.sizes = None if shapes is None else [_sizes(index, nid, shapes) for nid in nids]
        self.labels = _numbered(labels)
        chains = [self.labels]
        if self.sizes is not None:
            chains.append(_numbered(list(zip(self.labels, self.sizes, strict=True))))
        self._next_alike = [_next_alike(chain) for chain in chains]
        self._crossing = self._entries_alive()

    def distances(self, place: int) -> Iterable[int]:
        """Return distances to the next equal places, and to those of the same sizes, too."""
        distances: set[int] = set()
        for following in self._next_alike:
            other = place
            for _ in range(_DISTANCES):
                other = following[other]
                if other >= len(self.labels) or other - place > _LONGEST:
                    break
                distances.add(other - place)
        return sorted(distances)

    def run_at(self, place: int, distance: int) -> RepeatedRun | None:
        """Return the longest run of blocks of this length from here on, moved to where blocks begin most naturally."""
        end = place
        while end + distance < len(self.labels) and self._alike(end, end + distance, place):
            if not self._grows_evenly(end, distance, place):
                break
            if self.last_reader[end] - end > _REACH * distance:
                break
            end += 1
        matched = end - place
        count = matched // distance + 1
        if count < 2:
            return None
        slack = matched - (count - 1) * distance
        begin = min(range(place, place + slack + 1), key=self._seam)
        run = RepeatedRun(begin, distance, count, self._grows(begin, distance))
        while run.count > 1 and self._read_from_outside(run):
            run = replace(run, count=run.count - 1)
        return run if run.count >= (_GROWING if run.grows else 2) else None

    def _grows(self, begin: int, distance: int) -> bool:
        """Return whether the second copy of a block is of other sizes than the first."""
        sizes, middle, end = self.sizes, begin + distance, begin + 2 * distance
        return sizes is not None and sizes[begin:middle] != sizes[middle:end]

    def _grows_evenly(self, place: int, distance: int, begin: int) -> bool:
        """Return whether a node's sizes differ from those one block later as they did from those one block before."""
        if self.sizes is None:
            return True
        before, size, after = (self.sizes[i] for i in (max(place - distance, 0), place, place + distance))
        growth = _growth(size, after)
        return growth is not None and (place - distance < begin or growth == _growth(before, size))

    def _read_from_outside(self, run: RepeatedRun) -> bool:
        """Return whether something after a run reads another copy than the last; only the last few can be reached."""
        last_copy = run.end - run.length
        first = max(run.start, run.end - _REACH * run.length)
        return any(self.last_reader[inner] >= run.end for inner in range(first, last_copy))

    def _alike(self, a: int, b: int, begin: int) -> bool:
        """Return whether node b equals node a, and reads the same, one block later in a run from place `begin` on."""
        if self.labels[a] != self.labels[b] or len(self.reads[a]) != len(self.reads[b]):
            return False
        distance = b - a
        for x, y in zip(self.reads[a], self.reads[b], strict=True):
            if x == y:
                continue
            if not isinstance(y, tuple):
                return False
            if y[0] - distance < begin:  # what the first block reads instead is wherever the network comes from
                if isinstance(x, tuple) and x[0] >= begin:
                    return False
            elif x != (y[0] - distance, y[1]):
                return False
        return True

    def _seam(self, place: int) -> tuple[int, int, int]:
        """Return how little suggests that a block begins here: values that cross, letters names share; better later."""
        shared = common_start([self.names[place - 1], self.names[place]]) if place else ""
        return self._crossing[place], len(shared), -place

    def _entries_alive(self) -> list[int]:
        """Return for each place, how many operators before it are read there or later."""
        change = [0] * (len(self.labels) + 2)
        for place, last in enumerate(self.last_reader):
            change[place + 1] += 1
            change[last + 1] -= 1
        alive, total = [], 0
        for step in change[: len(self.labels) + 1]:
            total += step
            alive.append(total)
        return alive


def common_start(names: Sequence[str]) -> str:
    """Return the beginning that all names share."""
    first, last = min(names), max(names)  # in alphabetical order all others are between them
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def _operator_and_attributes(node: Node) -> Hashable:
    """A node's operator and attributes, without its name: attributes of the form `__x__` are remarks."""
    attrs = node.attrs
    text = tuple(sorted((k, v) for k, v in attrs.dict.items() if not (k.startswith("__") and k.endswith("__"))))
    assert attrs.op is not None
    return attrs.op.name, text, tuple(id(subgraph) for subgraph in attrs.subgraphs)


def _sizes(index: IndexedGraph, nid: int, shapes: Sequence[Shape | None]) -> Sizes:
    """The shapes of a node's outputs and of the variables it reads."""
    variables = (e for e in index.nodes[nid].inputs if index.nodes[e.node_id].source.is_variable)
    outputs = shapes[index.entry_rptr[nid] : index.entry_rptr[nid + 1]]
    return (*outputs, *(shapes[index.entry_id(entry)] for entry in variables))


def _own_variables(index: IndexedGraph) -> set[int]:
    """Return numbers of the variables that one operator reads."""
    readers = [0] * len(index.nodes)
    for entry in index.input_entries:
        readers[entry.node_id] += 1
    return {nid for nid in index.input_nodes if readers[nid] == 1}


def _growth(a: Sizes, b: Sizes) -> list[int] | None:
    """Return how much larger each size of b is than that of a; None where ranks differ or sizes are not known."""
    if a == b:
        return [0] * sum(len(shape or ()) for shape in a)
    growth: list[int] = []
    if len(a) != len(b):
        return None
    for x, y in zip(a, b, strict=True):
        if x is None or y is None or len(x) != len(y):
            return None
        for before, after in zip(x, y, strict=True):
            if before is None or after is None:
                return None
            growth.append(after - before)
    return growth


def _numbered(things: Sequence[Hashable]) -> list[int]:
    """Return equal things as equal numbers."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(thing, len(numbers)) for thing in things]


def _next_alike(numbers: Sequence[int]) -> list[int]:
    """Return for each place the next one of its number; the places' count where there is none."""
    following = [len(numbers)] * len(numbers)
    latest_place: dict[int, int] = {}
    for place in range(len(numbers) - 1, -1, -1):
        following[place] = latest_place.get(numbers[place], len(numbers))
        latest_place[numbers[place]] = place
    return following
