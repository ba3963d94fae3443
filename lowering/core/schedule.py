"""The order in which a graph's nodes run, and which value of a state each of them reads.

A variable that operators mutate has one value per mutation. `(variable, version)` names the value after that many
mutations; readers and writers were given their versions when the graph was composed. The schedule gives every value a
slot of its own and orders the nodes so that each value exists before it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from symjax_nnvm.errors import LoweringError, explain
from symjax_nnvm.ir.attributes import TIsBackward, TSupersedes
from symjax_nnvm.ir.indexed_graph import IndexedEntry, IndexedGraph
from symjax_nnvm.passes.mirror.recompute import Recomputed

__all__ = ["Needed", "Schedule"]

_AFTER_ALL = 1 << 62
"""The version of a state that gradients write, later than all that the network writes."""


class Schedule:
    """The plan of a graph: `order` of the live nodes, and slots of an environment.

    num_outputs: the number of outputs that count; None: all. reached: numbers of the nodes that these reach. live:
    those that matter. num_slots: size of the environment; slot e < `num_node_entries` holds entry e, the rest hold the
    values of states after each mutation. Raises LoweringError when no order exists.
    """

    def __init__(self, index: IndexedGraph, num_outputs: int | None = None):
        self._index = index
        needed = Needed(index, num_outputs)
        self.reached, self.live, self._mutated = needed.reached, needed.live, needed.mutated
        self._stand_ins = self._supersede()
        self._first = index.entry_rptr  # the slot of each node's first output
        if self._stand_ins:
            self._first = [index.entry_rptr[self.stand_in(nid)] for nid in range(index.num_nodes)]
        self._writers = self._writers_by_variable()
        self._slot_of_value: dict[tuple[int, int], int] = {}
        for variable, writers in self._writers.items():
            for mutations in range(1, len(writers) + 1):
                self._slot_of_value[variable, mutations] = index.num_node_entries + len(self._slot_of_value)
        self.num_slots = index.num_node_entries + len(self._slot_of_value)
        self.order = self._order()

    def stand_in(self, nid: int) -> int:
        """Return the node that runs in place of a node: itself, or one with the same first outputs (TSupersedes)."""
        return self._stand_ins.get(nid, nid)

    def inputs(self, nid: int) -> tuple[int, ...]:
        """Return the slots that a node reads."""
        entries, first = self._index.nodes[nid].inputs, self._first
        mutated = self._mutated.get(nid)
        if mutated is None:
            return tuple([self.slot(e) if e[2] else first[e[0]] + e[1] for e in entries])
        return tuple(
            self._value_slot(entry.node_id, self._writers[entry.node_id].index(nid))
            if i in mutated
            else self.slot(entry)
            for i, entry in enumerate(entries)
        )

    def outputs(self, nid: int) -> tuple[int, ...]:
        """Return the slots that a node fills: its outputs, then the new values of the states it mutates."""
        entries = tuple(range(*self._index.entry_rptr[nid : nid + 2]))
        mutated = self._mutated.get(nid)
        if mutated is None:
            return entries
        states = [self._index.nodes[nid].inputs[i].node_id for i in mutated]
        return entries + tuple(self._value_slot(state, self._writers[state].index(nid) + 1) for state in states)

    def slot(self, entry: IndexedEntry) -> int:
        """Return the slot of an entry as a reader sees it: a state at the version it was composed with."""
        if entry.version and entry.node_id in self._writers:
            return self._value_slot(entry.node_id, self._mutations_before(entry))
        return self._first[entry.node_id] + entry.index

    def final_slot(self, variable: int) -> int:
        """Return the slot of a state's value after every mutation."""
        return self._value_slot(variable, len(self._writers.get(variable, ())))

    def _value_slot(self, variable: int, mutations: int) -> int:
        return self._slot_of_value[variable, mutations] if mutations else self._index.entry_rptr[variable]

    def _mutations_before(self, entry: IndexedEntry) -> int:
        """Return how many mutations a reader sees: fewer than its version when their writers are not in the graph."""
        writers = self._writers[entry.node_id]
        return sum(self._written_version(writer, entry.node_id) <= entry.version for writer in writers)

    def _written_version(self, nid: int, variable: int) -> int:
        inputs, source = self._index.nodes[nid].inputs, self._index.nodes[nid].source
        if TIsBackward.get(source.attrs.op):
            return _AFTER_ALL
        return max(inputs[i].version for i in self._mutated[nid] if inputs[i].node_id == variable)

    def _supersede(self) -> dict[int, int]:
        """Map superseded node → the live node that runs in its place; superseded nodes are no longer live."""
        nodes = self._index.nodes
        superseding = [nid for nid in self.live if TSupersedes.get(nodes[nid].source.attrs.op)]
        stand_ins = {nodes[nid].control_deps[0]: nid for nid in sorted(superseding, reverse=True)}
        self.live -= stand_ins.keys()
        return stand_ins

    def _writers_by_variable(self) -> dict[int, list[int]]:
        """Map state → the nodes that write it, in the order of the versions they write."""
        writers: dict[int, list[int]] = {}
        for nid, mutated in self._mutated.items():
            for variable in dict.fromkeys(self._index.nodes[nid].inputs[i].node_id for i in mutated):
                writers.setdefault(variable, []).append(nid)
        return {
            variable: sorted(nids, key=lambda nid: (self._written_version(nid, variable), nid))
            for variable, nids in writers.items()
        }

    def _waits(self) -> dict[int, list[int]]:
        """Node → writers it must wait for without a data edge."""
        waits: dict[int, list[int]] = {}
        for writers in self._writers.values():
            for before, after in pairwise(writers):
                waits.setdefault(after, []).append(before)
        nodes, stand_ins = self._index.nodes, self._stand_ins
        for nid in self.live:
            for i, entry in enumerate(nodes[nid].inputs):
                if entry[2] and entry[0] in self._writers and i not in self._mutated.get(nid, ()):
                    writes_before = self._mutations_before(entry)
                    if writes_before:
                        waits.setdefault(nid, []).append(self._writers[entry.node_id][writes_before - 1])
                if stand_ins and entry[0] in stand_ins:
                    waits.setdefault(nid, []).append(stand_ins[entry.node_id])
        return waits

    def _order(self) -> list[int]:
        """Return live nodes, each after all that it depends on or waits for."""
        waits = self._waits()
        if all(before < nid for nid, befores in waits.items() for before in befores):
            return sorted(self.live)  # post-order already does

        def dependencies(nid: int) -> list[int]:
            node = self._index.nodes[nid]
            deps = [dep for dep in node.control_deps if dep in self.live]
            sources = [entry.node_id for entry in node.inputs if entry.node_id in self.live]
            return sources + deps + waits.get(nid, [])

        return _topological(sorted(self.live), dependencies, lambda nid: self._index.nodes[nid].source.name)


class Needed:
    """The nodes and variables that the first outputs of a graph need; None: all outputs.

    reached: the nodes that lead to them, control dependencies included. mutated: node →
    numbers of the inputs that it writes. live: the nodes whose data the outputs need, and every node that writes a
    state; control dependencies order nodes, they do not keep dead code alive.
    """

    def __init__(self, index: IndexedGraph, num_outputs: int | None = None):
        nodes = index.nodes
        heads = {head.node_id for head in index.outputs[:num_outputs]}
        self.reached: Collection[int] = range(index.num_nodes)
        if num_outputs is not None and num_outputs < len(index.outputs):
            self.reached = set(heads)
            for nid in _backwards(self.reached):
                self.reached.update(map(_node_id, nodes[nid].inputs), nodes[nid].control_deps)
        self.mutated = {
            nid: inputs
            for nid, inputs in index.mutated_inputs.items()
            if nid in self.reached and not isinstance(nodes[nid].source.info, Recomputed)  # whose original writes, once
        }
        self.live = {*heads, *self.mutated}
        for nid in _backwards(self.live):
            self.live.update(map(_node_id, nodes[nid].inputs))


_node_id = itemgetter(0)


def _backwards(chosen: Collection[int]) -> Iterator[int]:
    """Yield the chosen numbers, the highest first, also those that are chosen on the way: numbers are a post-order."""
    return (nid for nid in range(max(chosen, default=-1), -1, -1) if nid in chosen)


def _topological(
    nids: Sequence[int], dependencies: Callable[[int], list[int]], name: Callable[[int], str]
) -> list[int]:
    """Return the nodes in depth-first order, dependencies first. Raises LoweringError for a cycle."""
    order: list[int] = []
    done: dict[int, bool] = {}  # False while the node is on the path
    for root in nids:
        path = [] if root in done else [(root, iter(dependencies(root)))]
        done.setdefault(root, False)
        while path:
            nid, pending = path[-1]
            for dep in pending:
                if dep not in done:
                    done[dep] = False
                    path.append((dep, iter(dependencies(dep))))
                    break
                if not done[dep]:
                    raise LoweringError(
                        explain(
                            "Reads and writes of a state contradict the data flow",
                            node=name(nid),
                            got=f"a wait for node {name(dep)!r}, which itself waits for this node",
                            fix="Make the reader before the writer, or pass the written value to it as an input.",
                        )
                    )
            else:
                order.append(nid)
                done[nid] = True
                path.pop()
    return order
