"""Make the copies of a mirror plan, and pass them to the gradient rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symjax_nnvm.ir.attributes import FMutateInputs, TSupersedes
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rewrite import Rewritten
from symjax_nnvm.ir.traverse import post_order_nodes, successors
from symjax_nnvm.passes.mirror import MirrorPlan

InputGradients = Sequence[NodeEntry | None]


@dataclass(slots=True)
class Recomputed:
    """The `Node.info` of a copy: its original, and its group.

    after: the gradient that flows in when the group is first read; computing any of it earlier would hold the memory
    that mirroring saves. None while nothing has read the group.
    """

    original: Node
    group: int
    after: NodeEntry | None = None


def mark_rewritten(result: Rewritten) -> None:
    """Let the new forms of copies be copies, too: `rewrite` leaves `Node.info` behind."""
    for old, new in result.replaced():
        if isinstance(mark := old.info, Recomputed):
            after = None if mark.after is None else result.entry(mark.after)
            new.info = Recomputed(result.node(mark.original), mark.group, after)


class Copies:
    """A copy of every recomputed node of a graph, named `{name}_mirror`.

    Copies of one group read one another, and originals otherwise. A state that the original mutates is read at the
    version before, and `Recomputed` marks for the schedule that a copy writes nothing.

    This is not a `rewrite`: a copy is added beside its original, the reader's group decides which of the two it reads,
    and what waits for a gradient is known only when that is made.
    """

    def __init__(self, order: Sequence[Node], plan: MirrorPlan):
        self._plan = plan
        self._copy_of: dict[Node, Node] = {}
        self._members: dict[int, list[Node]] = {}
        for node in order:
            if node in plan.recomputed:
                copy = node.copy()
                copy.attrs.name += "_mirror"
                copy.inputs = self._redirected(node)
                mutates = FMutateInputs.get(node.op)
                for i in () if mutates is None else mutates(node.attrs):
                    copy.inputs[i] = copy.inputs[i]._replace(version=copy.inputs[i].version - 1)
                copy.control_deps = [
                    self._copy_of[dep] if plan.reads_copy(node, dep) else dep for dep in node.control_deps
                ]
                copy.info = Recomputed(node, plan.group[node])
                self._copy_of[node] = copy
                self._members.setdefault(plan.group[node], []).append(copy)

    def differentiate(
        self,
        node: Node,
        out_grads: Sequence[NodeEntry],
        after: NodeEntry | None,
        rule: Callable[[Node], InputGradients],
    ) -> InputGradients:
        """Return the gradients that the rule returns for a node's copy, or for the node itself with copies among its
        inputs.

        out_grads: the gradients of the node's outputs that the rule is given. after: one of them that is more than
        zeros; copies that are read here for the first time wait for it.
        """
        if not self._copy_of:
            return rule(node)
        copy = self._copy_of.get(node)
        if copy is not None:
            self._wait(copy, after)
            return rule(copy)
        inputs = self._redirected(node)
        if inputs == node.inputs:
            return rule(node)
        for new_entry, entry in zip(inputs, node.inputs, strict=True):
            if new_entry.node is not entry.node:
                self._wait(new_entry.node, after)
        stand_in = Node(node.attrs, inputs, node.control_deps)
        igrads = rule(stand_in)
        made_of = (*inputs, *out_grads)
        _replace(stand_in, node, igrads, {stand_in, *node.control_deps, *(entry.node for entry in made_of)})
        return [igrad._replace(node=node) if igrad and igrad.node is stand_in else igrad for igrad in igrads]

    def _redirected(self, node: Node) -> list[NodeEntry]:
        return [
            entry._replace(node=self._copy_of[entry.node]) if self._plan.reads_copy(node, entry.node) else entry
            for entry in node.inputs
        ]

    def _wait(self, copy: Node, after: NodeEntry | None) -> None:
        """Let a copy's whole group wait for a gradient, unless it has been read before."""
        members = self._members.pop(copy.info.group, ())
        if after is not None and self._plan.waits:
            for member in members:
                member.info.after = after
                member.control_deps = [*member.control_deps, after.node]


def _replace(stand_in: Node, node: Node, igrads: InputGradients, sources: set[Node]) -> None:
    """Let the nodes that a rule made of a stand-in read the node's own outputs. sources: the nodes they were made of.

    A node that supersedes the stand-in runs in the forward part and reads what the node reads.
    """
    heads = [igrad.node for igrad in igrads if igrad is not None]
    reached = post_order_nodes(heads, lambda reader: [] if reader in sources else successors(reader))
    for reader in reached:
        if reader in sources:
            continue
        if TSupersedes.get(reader.op) and stand_in in reader.control_deps:
            reader.inputs = list(node.inputs)
        reader.inputs = [e._replace(node=node) if e.node is stand_in else e for e in reader.inputs]
        reader.control_deps = [node if dep is stand_in else dep for dep in reader.control_deps]
