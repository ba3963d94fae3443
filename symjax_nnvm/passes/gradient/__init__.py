"""MXGradient builds the backward graph from each operator's own gradient rule (NNVM's `gradient.cc`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from symjax_nnvm.errors import GradientError, explain
from symjax_nnvm.ir.attributes import FGradient, FInferShape, FLossEquivalent, FMutateInputs, TNoGradient, TOutGradsRead
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.eliminate_common_expressions import copy_repeated
from symjax_nnvm.passes.gradient.reverse import backpropagate
from symjax_nnvm.passes.mirror import MirrorPlan
from symjax_nnvm.passes.mirror.recompute import Copies

__all__ = [
    "AggregateFun",
    "AttrHintFun",
    "GradientOf",
    "MirrorFun",
    "check_grad_all_zero",
    "default_aggregate",
    "mx_gradient",
    "unreached",
]

G = TypeVar("G", bound=Graph)

AggregateFun = Callable[[list[NodeEntry]], NodeEntry]
"""Gradients of one entry → their sum; the list may be empty."""

MirrorFun = Callable[[Node], bool | int]
"""Whether the backward part recomputes this node instead of keeping its outputs."""

AttrHintFun = Callable[[NodeEntry, NodeEntry], NodeEntry]
"""(gradient, entry it belongs to) → the gradient with the entry's shape and dtype."""


@dataclass(frozen=True, eq=False, slots=True)
class GradientOf:
    """The `Node.info` of a gradient. heads: those of the graph that it is a gradient of, which a graph of gradients
    need not reach. The random numbers of its nodes are those of that graph."""

    heads: tuple[NodeEntry, ...]


class GradEntry(list[NodeEntry]):
    """The gradients that flow into one entry from its users, and their sum once it is needed."""

    sum: NodeEntry | None = None
    need_attr_hint: bool = True


def mx_gradient(
    graph: G,
    ys: Sequence[NodeEntry],
    xs: Sequence[NodeEntry],
    ys_out_grad: Sequence[NodeEntry],
    aggregate_fun: AggregateFun | None = None,
    mirror_fun: MirrorFun | None = None,
    attr_hint_fun: AttrHintFun | None = None,
    zero_ops: Sequence[Op] = (),
    copy_op: str = "",
    mirror_plan: MirrorPlan | None = None,
) -> G:
    """Return the graph of the gradients of `ys` with respect to `xs`.

    Args:
        graph: the graph that has `ys` and `xs`.
        ys: the entries to differentiate.
        xs: the entries to differentiate with respect to.
        ys_out_grad: the gradient of each element of `ys`.
        aggregate_fun: sums the gradients of an entry; None for zeros, the gradient itself, or `elemwise_sum`.
        mirror_fun: decides which nodes the backward part computes again.
        attr_hint_fun: gives a shape and dtype to gradients that have none of their own.
        zero_ops: operators that make zeros, `zeros_like` first; a node that only zeros reach needs no gradient rule.
        copy_op: the operator that copies a gradient which several elements of `xs` share.
        mirror_plan: replaces `mirror_fun` and can express more: groups of copies and their other readers
            (`passes/mirror`).

    Returns:
        A graph with one output for each element of `xs`. Where states remain, its attribute `unreached` has the nodes
        that the function `unreached` returns.

    Raises:
        GradientError: an operator has no gradient rule, or its rule fails.
    """
    attrs: dict[str, object] = {
        "grad_ys": list(ys),
        "grad_xs": list(xs),
        "grad_ys_out_grad": list(ys_out_grad),
    }
    options = {
        "grad_aggregate_fun": aggregate_fun,
        "grad_mirror_fun": mirror_fun,
        "attr_hint_fun": attr_hint_fun,
        "zero_ops": list(zero_ops),
        "copy_op": copy_op,
        "grad_mirror_plan": mirror_plan,
    }
    attrs |= {key: value for key, value in options.items() if value}
    return apply_pass(graph.derive(attrs=graph.attrs | attrs), "MXGradient")


_FACTS: dict[str, Any] = {
    "requires": ("grad_ys", "grad_xs", "grad_ys_out_grad"),
    "op_attrs": ("FGradient", "FInferShape"),
    "change_graph": True,
}


@register_pass("Gradient", **_FACTS)  # NNVM's own name
@register_pass("MXGradient", **_FACTS)
def gradient_pass(graph: Graph) -> Graph:
    """Return a gradient graph of grad_ys with respect to grad_xs; see `mx_gradient` for the options."""
    ys: list[NodeEntry] = graph.attrs["grad_ys"]
    xs: list[NodeEntry] = graph.attrs["grad_xs"]
    ys_out_grad: list[NodeEntry] = graph.attrs["grad_ys_out_grad"]
    aggregate: AggregateFun = graph.attrs.get("grad_aggregate_fun", default_aggregate)
    hint: AttrHintFun | None = graph.attrs.get("attr_hint_fun")
    copy_op: str | None = graph.attrs.get("copy_op")
    order = graph.nodes() if ys == graph.outputs else post_order(ys)
    slots = _start(order, ys, xs, ys_out_grad)
    plan = graph.attrs.get("grad_mirror_plan") or _nnvm_plan(order, graph.attrs.get("grad_mirror_fun"))
    zero_ops: Sequence[Op] = graph.attrs.get("zero_ops", ())
    passed = _backpropagate(order, slots, Copies(order, plan), aggregate, hint, zero_ops)
    grads = [_sum(slots[x.node][x.index], x, aggregate, hint) for x in xs]
    mark, head_grad_nodes = GradientOf(tuple(ys)), {grad.node for grad in ys_out_grad}
    for grad in grads:
        if grad.node.info is None and grad.node not in slots and grad.node not in head_grad_nodes:
            grad.node.info = mark
    outputs = grads if not copy_op else copy_repeated(grads, copy_op)
    states_stay = unreached(order, xs, passed, zero_ops)
    return graph.derive(outputs, attrs={"unreached": states_stay} if states_stay else {})


def unreached(
    order: Sequence[Node],
    xs: Sequence[NodeEntry],
    passed: Mapping[Node, Sequence[NodeEntry | None]],
    zero_ops: Sequence[Op],
) -> frozenset[Node]:
    """Return the nodes that write states and have no input whose gradient leads to one of xs.

    MXNet's executor has no backward node of these; one that it has computes the gradients of all inputs, that of a
    gamma which is fixed, too. order: the nodes, inputs before users. passed: the gradients that each node hands to its
    inputs; a node that no gradient reaches is not there, and may hand on zeros, as in MXNet.
    """
    writers: dict[Node, Sequence[int]] = {}
    for node in order:
        if node.attrs.op in FMutateInputs and (mutated := list(FMutateInputs[node.attrs.op](node.attrs))):
            writers[node] = mutated
    if not writers:
        return frozenset()
    leading = {x.node for x in xs}
    reached = set()
    for node in order:
        places = [i for i, entry in enumerate(node.inputs) if entry.node in leading]
        if not places:
            continue
        igrads = passed.get(node)
        if node in writers and any(i not in writers[node] for i in places):
            reached.add(node)
            leading.add(node)
        elif igrads is None or any((igrad := igrads[i]) and igrad.node.attrs.op not in zero_ops for i in places):
            leading.add(node)
    return frozenset(writers.keys() - reached)


def _start(
    order: Sequence[Node], ys: Sequence[NodeEntry], xs: Sequence[NodeEntry], ys_out_grad: Sequence[NodeEntry]
) -> dict[Node, list[GradEntry]]:
    """Return slots for every output of every node, the head gradients in theirs."""
    if len(ys) != len(ys_out_grad):
        raise GradientError(
            explain(
                "The number of head gradients is wrong", expected=f"{len(ys)}, one per output", got=len(ys_out_grad)
            )
        )
    slots = {node: [GradEntry() for _ in range(node.num_outputs())] for node in order}
    for i, x in enumerate(xs):
        if x.node not in slots or x.index >= len(slots[x.node]):
            raise GradientError(
                explain(
                    f"Cannot differentiate with respect to the {i + 1}-th variable because it is unreachable from "
                    "the outputs",
                    node=x.node,
                    fix="Ask only for gradients of variables that the outputs depend on, or for zeros elsewhere: "
                    "symbol.gradient(..., zeros_if_unreachable=True).",
                )
            )
    for y, out_grad in zip(ys, ys_out_grad, strict=True):
        slots[y.node][y.index].append(out_grad)  # a head listed twice: its gradients add up
    return slots


def _nnvm_plan(order: Sequence[Node], mirror_fun: MirrorFun | None) -> MirrorPlan:
    """NNVM's way: all copies are one group, and the gradients of nodes that are not mirrored read originals."""
    mirrored = set() if mirror_fun is None else {node for node in order if mirror_fun(node)}
    return MirrorPlan(mirrored, {node: int(node in mirrored) for node in order if mirrored}, waits=False)


def _backpropagate(
    order: Sequence[Node],
    slots: dict[Node, list[GradEntry]],
    copies: Copies,
    aggregate: AggregateFun,
    hint: AttrHintFun | None,
    zero_ops: Sequence[Op],
) -> dict[Node, Sequence[NodeEntry | None]]:
    """Hand each node's gradients to its inputs. Returns what each handed on."""
    passed: dict[Node, Sequence[NodeEntry | None]] = {}

    def differentiate(node: Node) -> Sequence[NodeEntry | None] | None:
        op = node.attrs.op
        if op is None or not node.inputs:
            return None
        entries = slots[node]
        # A node that no gradient reaches passes none on: zeros are made only where a rule needs them. A loss head
        # starts a gradient of its own.
        if not any(entries) and op not in FLossEquivalent:
            return None
        read = entries[: TOutGradsRead.get(op)]
        sums = [_sum(entry, NodeEntry(node, i, 0), aggregate, hint) for i, entry in enumerate(read)]
        after = next((total for total, entry in zip(sums, read, strict=True) if entry), None)
        passed[node] = igrads = copies.differentiate(node, sums, after, partial(_input_gradients, sums, zero_ops))
        return igrads

    def receive(entry: NodeEntry, igrad: NodeEntry) -> None:
        slot = slots[entry.node][entry.index]
        if igrad.node.attrs.op in FInferShape:
            slot.need_attr_hint = False
        slot.append(igrad)

    backpropagate(order, attrgetter("inputs"), differentiate, receive)
    return passed


def _sum(slot: GradEntry, entry: NodeEntry, aggregate: AggregateFun, hint: AttrHintFun | None) -> NodeEntry:
    """Return the gradient of an entry, aggregated once."""
    if slot.sum is None:
        total = aggregate(slot)
        if slot.need_attr_hint and hint is not None:
            total = hint(total, entry)
        slot.sum = total
    return slot.sum


def _input_gradients(out_grads: list[NodeEntry], zero_ops: Sequence[Op], node: Node) -> Sequence[NodeEntry | None]:
    op = node.attrs.op
    rule = FGradient.get(op)
    if rule is not None:
        igrads = list(rule(node, out_grads))
        if len(igrads) != len(node.inputs):
            raise GradientError(
                explain(
                    "Gradient function not returning enough gradient",
                    op=op,
                    node=node,
                    expected=f"{len(node.inputs)}, one per input",
                    got=len(igrads),
                )
            )
        if any(igrad is not None and igrad.node is None for igrad in igrads):
            raise GradientError(explain("Gradient function returned an entry without a node", op=op, node=node))
        _name_gradients(node, igrads)
        _group_gradients(node, igrads, out_grads)
        return igrads
    if check_grad_all_zero(out_grads, zero_ops):
        single = len(node.inputs) == 1
        return [
            apply(
                zero_ops[0],
                entry,
                name=f"{node.name}_backward" if single else f"{node.name}_in{i}_backward",
                control_deps=[node],
            )
            for i, entry in enumerate(node.inputs)
        ]
    raise GradientError(
        explain(
            f"Operator {op and op.name} is non-differentiable because "
            + TNoGradient.get(op, "it didn't register FGradient attribute"),
            node=node,
            fix="Put BlockGrad before it if no gradient should pass, or register FGradient.",
        )
    )


def _name_gradients(node: Node, igrads: Sequence[NodeEntry | None]) -> None:
    """Name what the rule left unnamed as MXNet names backward nodes, so that printed graphs read well."""
    unnamed = [(i, g[0]) for i, g in enumerate(igrads) if g is not None and g[0].attrs.op and not g[0].attrs.name]
    single = len(unnamed) == 1 or len({name for _, name in unnamed}) == 1
    for i, name in unnamed:
        name.attrs.name = f"{node.attrs.name}_backward" if single else f"{node.attrs.name}_in{i}_backward"


def _group_gradients(node: Node, igrads: Sequence[NodeEntry | None], out_grads: Sequence[NodeEntry]) -> None:
    """Give the nodes that the rule made the `ctx_group` of their forward node, on whose device they run."""
    group = node.attrs.dict.get("__ctx_group__")
    if group is None:
        return
    passed = {node, *(entry.node for entry in (*node.inputs, *out_grads))}
    pending = [igrad.node for igrad in igrads if igrad is not None]
    while pending:
        new_node = pending.pop()
        if new_node in passed or new_node.is_variable:
            continue
        passed.add(new_node)
        new_node.attrs.dict["__ctx_group__"] = group
        pending += [entry.node for entry in new_node.inputs]


def check_grad_all_zero(grads: Sequence[NodeEntry], zero_ops: Sequence[Op]) -> bool:
    """Return whether every gradient is made by an operator that produces zeros."""
    return bool(grads) and bool(zero_ops) and all(grad.node.attrs.op in zero_ops for grad in grads)


def default_aggregate(grads: list[NodeEntry]) -> NodeEntry:
    """Return NNVM's aggregation: `zeros` named zero_grad, the gradient itself, or `elemwise_sum` named grad_sum."""
    match grads:
        case []:
            return apply("zeros", name="zero_grad")
        case [grad]:
            return grad
    return apply("elemwise_sum", *grads, name="grad_sum", num_args=len(grads))
