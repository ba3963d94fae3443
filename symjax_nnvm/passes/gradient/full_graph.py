"""InitFullGraph: outputs and gradients in one graph, built as MXNet's executor builds it (`graph_executor.cc`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import NodeEntry, apply, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rules.entry_gradients import shaped_zeros
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.passes.eliminate_common_expressions import eliminate_common_expressions
from symjax_nnvm.passes.gradient import mx_gradient, unreached
from symjax_nnvm.passes.mirror import Mirror, mirror_plan

__all__ = ["LONGEST_SUM", "add_gradients", "aggregate_gradient", "init_full_graph"]

G = TypeVar("G", bound=Graph)

LONGEST_SUM = 7
"""How many gradients `add_n` adds up; more are added one by one (MXNET_EXEC_INPLACE_GRAD_SUM_CAP is 8)."""


def init_full_graph(
    graph: G, xs: Sequence[NodeEntry], mirror: Mirror = None, shapes: Mapping[str, Shape | None] | None = None
) -> G:
    """Return the graph of the outputs, equal nodes merged, followed by their gradients with respect to `xs`.

    For output i there is a variable `_head_grad_{i}`, which the gradients read through an
    `_identity_with_attr_like_rhs` named `_head_grad_{i}_id`, except where a loss head ignores it. Without xs there are
    no gradients. Gradients are those of the merged outputs, so that no part of the backward graph computes again what
    the forward graph did. mirror, shapes: what the backward part recomputes, see `mirror_plan`.

    Result: graph attributes `num_forward_outputs`, `head_grads`, the variable nodes, and `unreached`, the nodes that
    write states and have no backward part. Raises GradientError.
    """
    request = {"grad_xs": list(xs), "grad_mirror": mirror, "grad_mirror_shapes": shapes}
    return apply_pass(graph.derive(attrs=graph.attrs | request), "InitFullGraph")


@register_pass(
    "InitFullGraph",
    requires=("grad_xs",),
    provides=("num_forward_outputs", "head_grads", "unreached"),
    op_attrs=("FGradient", "FMutateInputs"),
    change_graph=True,
)
def _init_full_graph(graph: Graph) -> Graph:
    """Return forward outputs and gradients in one graph; see `init_full_graph`."""
    merged = eliminate_common_expressions(graph.derive(attrs={}))
    attrs = graph.attrs
    return add_gradients(merged, attrs["grad_xs"], attrs.get("grad_mirror"), attrs.get("grad_mirror_shapes"))


def add_gradients(
    graph: G, xs: Sequence[NodeEntry], mirror: Mirror = None, shapes: Mapping[str, Shape | None] | None = None
) -> G:
    """Return the graph's outputs followed by their gradients: `init_full_graph` without merging equal nodes."""
    outputs = graph.outputs
    heads = [create_variable_node(f"_head_grad_{i}") for i in range(len(outputs))] if xs else []
    zero_ops = [Op.get("zeros_like"), Op.get("_zeros")]
    grads: list[NodeEntry] = []
    states_stay = unreached(graph.nodes(), (), {}, zero_ops)
    if xs:
        named = enumerate(zip(heads, outputs, strict=True))
        out_grads = [
            apply("_identity_with_attr_like_rhs", NodeEntry(head), output, name=f"_head_grad_{i}_id")
            for i, (head, output) in named
        ]
        backward = mx_gradient(
            graph,
            outputs,
            xs,
            out_grads,
            aggregate_fun=aggregate_gradient,
            mirror_plan=mirror_plan(outputs, mirror, shapes, graph.nodes()),
            attr_hint_fun=shaped_zeros,
            zero_ops=zero_ops,
            copy_op="_copy",
        )
        grads, states_stay = backward.outputs, backward.attrs.get("unreached", frozenset())
    attrs = {"num_forward_outputs": len(outputs), "head_grads": heads, "unreached": states_stay}
    return graph.derive([*outputs, *grads], attrs=attrs)


def aggregate_gradient(grads: list[NodeEntry]) -> NodeEntry:
    """Return MXNet's sum of the gradients of one entry.

    None: `_zeros_without_dtype`. Zeros are left out; one that remains is the sum; up to seven are added by `add_n`,
    named `sum_grad`; more by a chain of `_grad_add`, named `sum_grad_1`, … and `sum_grad_final`. MXNet orders the links
    of the chain by control dependencies, which can close a cycle and decide no value; there are none here.
    """
    if not grads:
        return apply("_zeros_without_dtype", name="zeros_without_dtype")
    zeros = (Op.get("_zeros"), Op.get("zeros_like"))
    grads = [grad for grad in grads if grad.node.op not in zeros] or grads[:1]
    if len(grads) == 1:
        return grads[0]
    if len(grads) <= LONGEST_SUM:
        return apply("add_n", *grads, name="sum_grad", num_args=len(grads))
    total = grads[0]
    for i, grad in enumerate(grads[1:], start=1):
        total = apply("_grad_add", total, grad, name=f"sum_grad_{i}")
    return apply("_copy", total, name="sum_grad_final")
