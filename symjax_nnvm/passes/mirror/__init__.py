"""Mirroring decides which nodes the backward part computes again instead of keeping the forward part's results.

A *rule* decides node by node. `mirror_plan` applies it to a graph: MXNet's rules (`GraphExecutor::InitFullGraph` of
1.9.1), any function of a node, or blocks of our own choice. `recompute.py` makes the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from symjax_nnvm.errors import GradientError
from symjax_nnvm.ir.attributes import FLossEquivalent, TRecompute
from symjax_nnvm.ir.mirroring import FORCED, is_forced
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.passes.mirror.mirror_blocks import block_numbers

Mirror = Literal["off", "attributes", "do_mirror", "blocks"] | Callable[[Node], bool] | None
"""How to choose: see `mirror_plan`."""


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """The nodes of a graph that are computed again, and their groups.

    recomputed: the nodes. group: the number of every recomputed node's group; the copies of a group read only each
    other and what is kept, so each group can run as one piece. A node that has a group reads copies of that group
    only; a node that has none reads every copy there is of its inputs. waits: copies depend on the gradient that first
    needs them.
    """

    recomputed: Collection[Node]
    group: Mapping[Node, int]
    waits: bool = True

    def reads_copy(self, reader: Node, source: Node) -> bool:
        """Return whether the gradient of `reader` sees the copy of its input `source`, and not the original."""
        if source not in self.recomputed:
            return False
        group = self.group[source]
        return self.group.get(reader, group) == group


def mirror_plan(
    ys: Sequence[NodeEntry],
    mirror: Mirror,
    shapes: Mapping[str, Shape | None] | None = None,
    order: Sequence[Node] | None = None,
) -> MirrorPlan | None:
    """Return the plan for a graph with outputs `ys`; None when nothing is computed again.

    order: the graph's nodes in post-order, where they are known.

    mirror: "attributes", the same as None — nodes with the attribute `__force_mirroring__`, as MXNet without further
    settings; "do_mirror" — these and all that MXNet computes again under MXNET_BACKWARD_DO_MIRROR=1; "blocks" — all
    but the narrow places between about √n blocks; "off" — none; or a function of a node. shapes: those of variables by
    name, by which "blocks" weighs outputs; without them all weigh the same.

    Variables, loss heads, operators with subgraphs and `Custom` operators are not computed again under any rule: these
    may do what must be done once. A copy of an operator with auxiliary states reads what the original read, and writes
    nothing. Raises GradientError for an unknown rule or an attribute that is not a boolean.
    """
    if mirror == "off":
        return None
    order = post_order(ys) if order is None else order
    if mirror == "blocks":
        group = block_numbers(ys, order, shapes)
        last = max(group.values(), default=0)  # its gradient comes at once: nothing would be saved
        recomputed = {node for node, number in group.items() if number < last and _can_be_recomputed(node)}
    elif mirror in (None, "attributes") and not any(FORCED in node.attrs.dict for node in order):
        return None
    else:
        rule = _rule(mirror)
        recomputed = {node for node in order if _can_be_recomputed(node) and rule(node)}
        group = _connected(order, recomputed)
    return MirrorPlan(recomputed, group) if recomputed else None


def _rule(mirror: Mirror) -> Callable[[Node], bool]:
    match mirror:
        case None | "attributes":
            return _forced
        case "do_mirror":
            return _do_mirror
        case _ if callable(mirror):
            return mirror
    raise GradientError(
        "Unknown way to mirror",
        expected='None, "off", "attributes", "do_mirror", "blocks", or a function of a node',
        got=repr(mirror),
    )


def _can_be_recomputed(node: Node) -> bool:
    op = node.op
    if op is None or op in FLossEquivalent or node.attrs.subgraphs:
        return False
    return TRecompute.get(op) != "never"


def _forced(node: Node) -> bool:
    """Return whether MXNet's attribute forces a node to be computed again; it does not force Dropout (TRecompute)."""
    return is_forced(node) and TRecompute.get(node.op) != "in blocks"


def _do_mirror(node: Node) -> bool:
    """Return MXNet's rule under MXNET_BACKWARD_DO_MIRROR=1, the attribute first."""
    if _forced(node):
        return True
    return TRecompute.get(node.op, "freely") == "freely"


def _connected(order: Sequence[Node], chosen: Collection[Node]) -> dict[Node, int]:
    """Number the chosen nodes, alike if they read one another, directly or through chosen ones (union-find)."""
    leader: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node in order:
        if node in chosen:
            leader[node] = node
            for entry in node.inputs:
                if entry.node in chosen:
                    leader[find(entry.node)] = node
    numbers: dict[Node, int] = {}
    return {node: numbers.setdefault(find(node), len(numbers)) for node in leader}
