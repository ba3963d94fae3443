"""Patterns over graphs, and rules made of them: what optimisation passes give to `rewrite`.

    x = anything("x")
    conv = op("Convolution", x, anything("weight"), ..., name="conv", alone=True)
    norm = op("BatchNorm", conv, ..., output=0)
    rewrite(outputs, rules(outputs, [(norm, fold)]))

An operator's inputs are patterns of their own, so that a pattern is a piece of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

from symjax_nnvm.errors import GraphError, listed
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rewrite import Rule
from symjax_nnvm.ir.traverse import post_order


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """What an entry must look like; made by `op` and `anything`, which say what the fields mean."""

    admits: Callable[[Op], bool] | None = None
    inputs: tuple[Pattern, ...] | None = None
    open_ended: bool = False
    params: Mapping[str, Any] | Callable[[Any], bool] | None = None
    output: int | None = None
    alone: bool = False
    where: Callable[[NodeEntry], bool] | None = None
    name: str = ""

    def matches(self, entry: NodeEntry) -> bool:
        """Whether an entry looks like this, its inputs and its other readers left aside."""
        attrs = entry.node.attrs
        if self.admits is not None and (attrs.op is None or not self.admits(attrs.op)):
            return False
        if self.inputs is not None:
            given, wanted = len(entry.node.inputs), len(self.inputs)
            if given < wanted if self.open_ended else given != wanted:
                return False
        if callable(self.params):
            if not self.params(attrs.parsed):
                return False
        elif self.params and not all(_agrees(attrs.parsed, key, want) for key, want in self.params.items()):
            return False
        return self.where is None or self.where(entry)


def _agrees(parsed: Any, key: str, want: Any) -> bool:
    if not hasattr(parsed, key):
        return False
    value = getattr(parsed, key)
    return bool(want(value) if callable(want) else value == want)


def anything(name: str = "", where: Callable[[NodeEntry], bool] | None = None) -> Pattern:
    """Any entry, a variable or an operator's. name: to find it by in the match. where: a predicate on it."""
    return Pattern(where=where, name=name)


def op(
    which: str | Collection[str] | Callable[[Op], bool],
    *inputs: Pattern | EllipsisType,
    params: Mapping[str, Any] | Callable[[Any], bool] | None = None,
    output: int | None = None,
    alone: bool = False,
    where: Callable[[NodeEntry], bool] | None = None,
    name: str = "",
) -> Pattern:
    """An operator's output.

    which: the operator's name, several, or a predicate on the operator (`lambda op: op in TElementwise`). inputs:
    patterns of all inputs; with `...` last, of the first ones; none at all: whatever it reads. params: a predicate on
    the parsed parameters, or name → value or predicate. output: which of the outputs it is; of a pattern's root, which
    is a node and not an entry, the only one that anybody reads. alone: nobody but the pattern reads or waits for the
    node, so that it falls away with the root. where: a predicate on the entry. name: to find it by in the match.

    Raises OpNotRegisteredError for a name, GraphError for a parameter that no operator of these names has.
    """
    open_ended = bool(inputs) and inputs[-1] is Ellipsis
    patterns = tuple(each for each in inputs if isinstance(each, Pattern))
    if len(patterns) + open_ended != len(inputs):
        raise GraphError("A pattern's inputs are patterns, then perhaps `...`", got=repr(inputs))
    if not callable(which):
        ops = {Op.get(each) for each in ((which,) if isinstance(which, str) else which)}
        known = {key for each in ops if each.params is not None for key in each.params.fields}
        unknown = [] if params is None or callable(params) or not known else [k for k in params if k not in known]
        if unknown:
            problem = f"{which} has no parameter {listed(unknown)}"
            raise GraphError(problem, expected=listed(known), fix="Correct its name.")
        which = ops.__contains__
    read = patterns if inputs else None
    return Pattern(which, read, open_ended, params, output, alone, where, name)


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern was found. root: the node (a draft, see `Rule`); entries: what was named; nodes: the operators
    that the pattern describes, the root first."""

    root: Node
    entries: Mapping[str, NodeEntry]
    nodes: Sequence[Node]

    def __getitem__(self, name: str) -> NodeEntry:
        """The entry that was named so."""
        return self.entries[name]

    def node(self, name: str) -> Node:
        """The node of the entry that was named so."""
        return self.entries[name].node

    def params(self, name: str) -> Any:
        """The parsed parameters of that node."""
        return self.entries[name].node.attrs.parsed


Build = Callable[[Match], Node | NodeEntry | None]
"""What takes the place of a match's root, as in `Rule`; None: nothing, and the next pattern is tried."""


class Uses:
    """How often each node of a graph is read, outputs of the graph and control dependencies included.

    Counted once, and kept true while a rewriting replaces nodes.
    """

    def __init__(self, outputs: Sequence[NodeEntry]):
        self._of_node: dict[Node, int] = {}
        self._of_entry: dict[tuple[Node, int], int] = {}  # of control dependencies, index -1
        for entry in outputs:
            self._add(entry[0], entry[1])
        for node in post_order(outputs):
            self._of_node.setdefault(node, 0)
            for source, index in _reads(node):
                self._add(source, index)

    def of(self, node: Node) -> int:
        """How many read a node's outputs, or wait for it."""
        return self._of_node.get(node, 0)

    def only(self, node: Node, index: int) -> bool:
        """Whether whoever reads the node reads this output."""
        return self.of(node) == self._of_entry.get((node, index), 0) + self._of_entry.get((node, -1), 0)

    def knows(self, node: Node) -> bool:
        """Whether the node is part of the graph as it is now."""
        return node in self._of_node

    def replace(self, node: Node, draft: Node, made: Node | NodeEntry) -> None:
        """Account for a rewriting's step, as in `Rule`: `made` takes the place of a node."""
        new, output = made[:2] if isinstance(made, tuple) else (made, None)
        if new is node:
            return
        counts = [(index, self._of_entry.pop((node, index), 0)) for index in range(-1, node.num_outputs())]
        del self._of_node[node]
        if new is draft:  # which reads what the node did
            self._of_node[new] = 0
        else:
            self._admit(new)
        for index, count in counts:
            if count:
                self._add(new, index if output is None or index < 0 else output, count)
        if new is not draft:
            self._leave(draft)

    def _add(self, node: Node, index: int, count: int = 1) -> None:
        self._of_node[node] = self._of_node.get(node, 0) + count
        self._of_entry[node, index] = self._of_entry.get((node, index), 0) + count

    def _admit(self, made: Node) -> None:
        """Count what a node reads, if it is new, and so on before it."""
        pending = [] if made in self._of_node else [made]
        while pending:
            node = pending.pop()
            self._of_node.setdefault(node, 0)
            for source, index in _reads(node):
                if source not in self._of_node:
                    pending.append(source)
                self._add(source, index)

    def _leave(self, unread: Node) -> None:
        """Take back what a node reads that is no part of the graph any more, and so on before it."""
        pending = [unread]
        while pending:
            for source, index in _reads(pending.pop()):
                self._add(source, index, -1)
                if not self._of_node[source]:
                    del self._of_node[source]
                    pending.append(source)


def _reads(node: Node) -> list[tuple[Node, int]]:
    read = [entry[:2] for entry in node.inputs]
    return [*read, *((dep, -1) for dep in node.control_deps)] if node.control_deps else read


def rules(outputs: Sequence[NodeEntry], patterns: Iterable[tuple[Pattern, Build]]) -> Rule:
    """The rule for one `rewrite` of these outputs that tries patterns in turn: (pattern, what to build of a match).

    Patterns see the graph as the rewriting has left it, so that what one made another may match. What is built waits
    for what the nodes of the pattern waited for; where it stood in the graph before and cannot, nothing is replaced.
    Whoever builds keeps the root's name, if outputs are to keep theirs. Linear in nodes and edges.

    Raises GraphError for a pattern that is no operator's; and, while rewriting, for an entry in the place of several
    outputs, if the pattern does not say which of them is read.
    """
    pairs = list(patterns)
    if any(pattern.admits is None for pattern, _ in pairs):
        raise GraphError("A rule's pattern is an operator's", got="anything()", fix="Give op(...).")
    uses = Uses(outputs)
    by_op: dict[Op, list[tuple[Pattern, Build]]] = {}

    def rule(node: Node, draft: Node) -> Node | NodeEntry | None:
        made = None
        op = draft.attrs.op
        if op is not None:
            if op not in by_op:
                by_op[op] = [pair for pair in pairs if pair[0].admits is not None and pair[0].admits(op)]
            found = (_built(pattern, build, node, draft, uses) for pattern, build in by_op[op])
            made = next((each for each in found if each is not None), None)
        uses.replace(node, draft, draft if made is None else made)
        return made

    return rule


def _built(pattern: Pattern, build: Build, node: Node, draft: Node, uses: Uses) -> Node | NodeEntry | None:
    """What takes the node's place by one pattern; None where it does not match."""
    match = _match(pattern, node, draft, uses)
    made = None if match is None else build(match)
    if match is None or made is None:
        return None
    if isinstance(made, tuple) and pattern.output is None and node.num_outputs() > 1:
        raise GraphError(
            "An entry cannot take the place of several outputs",
            op=node.op,
            node=node,
            got=f"{node.num_outputs()} outputs",
            fix="Say in the pattern which one is read, op(..., output=0), or build a node with as many.",
        )
    waits = dict.fromkeys(dep for each in match.nodes for dep in each.control_deps if dep not in match.nodes)
    new = made[0] if isinstance(made, tuple) else made
    missing = [dep for dep in waits if dep not in new.control_deps]
    if missing and new is not draft:
        if uses.knows(new):
            return None
        new.control_deps = [*new.control_deps, *missing]
    return made


def _match(pattern: Pattern, node: Node, draft: Node, uses: Uses) -> Match | None:
    """The match of a pattern whose root is a node, of which a rewriting has made a draft."""
    if pattern.output is not None and not uses.only(node, pattern.output):
        return None
    entries: dict[str, NodeEntry] = {}
    nodes: dict[Node, None] = {}
    read: dict[Node, set[tuple[Node, int]]] = {}  # where the pattern reads a node
    alone: list[Node] = []
    pending = [(pattern, NodeEntry(draft, pattern.output or 0))]
    while pending:
        wanted, entry = pending.pop()
        source = entry[0]
        if wanted.output not in (None, entry[1]) or not wanted.matches(entry):
            return None
        if wanted.name and entries.setdefault(wanted.name, entry) != entry:
            return None  # two of one name are one entry
        if wanted.admits is not None:
            nodes[source] = None
        if wanted.alone and wanted is not pattern:
            alone.append(source)
        for i, each in enumerate(wanted.inputs or ()):
            pending.append((each, source.inputs[i]))
            read.setdefault(source.inputs[i][0], set()).add((source, i))
    if any(uses.of(each) != len(read[each]) for each in alone):
        return None
    return Match(draft, entries, tuple(nodes))
