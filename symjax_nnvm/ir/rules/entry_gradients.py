"""Gradients of entries with respect to entries, by the pass MXGradient, and zeros where none flows."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.errors import GradientError, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import output_names
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.traverse import post_order


def gradient_entries(
    outputs: Sequence[NodeEntry],
    xs: Sequence[NodeEntry],
    head_grads: Sequence[NodeEntry],
    zeros_if_unreachable: bool = False,
) -> list[NodeEntry]:
    """Return the gradients of outputs with respect to entries; zeros of the right shape where none flows.

    zeros_if_unreachable: zeros, not an error, for entries that the outputs do not depend on. Raises GradientError.
    """
    if len(head_grads) != len(outputs):
        raise GradientError(
            "The number of head gradients is wrong",
            expected=f"{len(outputs)}, one for each of {listed(output_names(outputs))}",
            got=len(head_grads),
        )
    nodes = set(post_order(outputs)) if zeros_if_unreachable else ()
    reachable = [not zeros_if_unreachable or x.node in nodes for x in xs]
    reachable_xs = [x for x, reached in zip(xs, reachable, strict=True) if reached]
    request = {
        "grad_ys": list(outputs),
        "grad_xs": reachable_xs,
        "grad_ys_out_grad": list(head_grads),
        "attr_hint_fun": shaped_zeros,
        "zero_ops": [Op.get("zeros_like"), Op.get("_zeros")],
    }
    grads = iter(apply_pass(Graph(outputs, request), "MXGradient").outputs)
    return [next(grads) if reached else _zeros_of(x) for x, reached in zip(xs, reachable, strict=True)]


def shaped_zeros(grad: NodeEntry, like: NodeEntry) -> NodeEntry:
    """An attribute hint for MXGradient: where no gradient flows, zeros of the entry's own shape and dtype."""
    if grad.node.op not in (Op.get("_zeros"), Op.get("_zeros_without_dtype")):
        return grad
    return _zeros_of(like)


def _zeros_of(entry: NodeEntry) -> NodeEntry:
    return apply("zeros_like", entry, name=f"{entry.node.name}_zero_grad")


def is_zeros(entry: NodeEntry) -> bool:
    """Return whether an entry is what `gradient_entries` gives where no gradient flows."""
    return entry.node.op is Op.get("zeros_like")


STOPPED = "the gradient stops here: it is zero, as in MXNet"
"""Why `no_gradient` is not the derivative."""


def no_gradient(node: Node, ograds: Sequence[NodeEntry]) -> list[None]:
    """Return zero as the gradient of every input, as MXNet does: an FGradient."""
    return [None] * len(node.inputs)
