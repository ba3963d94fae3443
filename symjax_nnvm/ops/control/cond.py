"""`_cond`: one of two subgraphs, by a predicate. Its gradient is a `_cond` over the gradients of the branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import subgraph_variables
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, Subgraph, altered, apply, create_variable_node
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import MAX_COUNT, Params, param
from symjax_nnvm.ops.control.subgraph import (
    Head,
    SubgraphInference,
    gradient_inside,
    is_zero,
    register_control,
    subgraph_node,
)


class CondParams(Params):
    num_args: int = param(ge=3, le=MAX_COUNT, doc="number of inputs, predicate and branches included")
    num_outputs: int = param(ge=1, le=MAX_COUNT, doc="number of outputs of either branch")
    cond_input_locs: tuple[int, ...] = param(ge=0, doc="which inputs feed the predicate's variables")
    then_input_locs: tuple[int, ...] = param(ge=0, doc="which inputs feed the first branch's variables")
    else_input_locs: tuple[int, ...] = param(ge=0, doc="which inputs feed the second branch's variables")

    def check(self) -> str | None:
        """Whether the numbers fit each other."""
        inputs = self.num_args - 3
        if any(loc >= inputs for locs in self.locs for loc in locs):
            return f"cond_input_locs, then_input_locs and else_input_locs must be numbers of the {inputs} inputs"
        return None

    @property
    def locs(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Which inputs feed each of the three subgraphs."""
        return self.cond_input_locs, self.then_input_locs, self.else_input_locs


def _cond_rule(infer: SubgraphInference, attrs: NodeAttrs, ins: Sequence[Any], outs: Sequence[Any]):
    """Inputs → the outputs of either branch."""
    p: CondParams = attrs.parsed
    inputs, outputs = list(ins), list(outs)
    for graph, locs, heads in zip(attrs.subgraphs, p.locs, ([None], outputs, outputs), strict=True):
        variables, inferred = infer.inside(graph, [inputs[i] for i in locs], heads)
        for i, value in zip(locs, variables, strict=True):
            inputs[i] = infer.merge(inputs[i], value)
        if heads is outputs:
            outputs[:] = [infer.merge(*pair) for pair in zip(outputs, inferred, strict=True)]
    return inputs, outputs


def _cond_sizes(p: CondParams) -> list[tuple[int, int]]:
    """Variables and heads of the predicate and of the branches."""
    return [(len(locs), heads) for locs, heads in zip(p.locs, (1, p.num_outputs, p.num_outputs), strict=True)]


def _cond_runs(infer: SubgraphInference, attrs: NodeAttrs, ins: Sequence[Any]) -> list[tuple[list[Any], int]]:
    """Predicate and branches, once each: only one branch runs, whichever it is."""
    p: CondParams = attrs.parsed
    return [([ins[i] for i in locs], 1) for locs in p.locs]


def _cond_invariants(attrs: NodeAttrs) -> list[dict[int, int]]:
    """All of a subgraph's inputs: each subgraph runs once, or not at all."""
    return [dict(enumerate(locs)) for locs in attrs.parsed.locs]


def _cond_with_invariant(attrs: NodeAttrs, number: int) -> NodeAttrs:
    p: CondParams = attrs.parsed
    name = ("cond_input_locs", "then_input_locs", "else_input_locs")[number]
    return altered(attrs, None, num_args=p.num_args + 1, **{name: (*p.locs[number], p.num_args - 3)})


def _cond_gradient(node: Node, ograds: list[NodeEntry]):
    """The gradient of the branch that is taken; zeros for inputs that only the other one, or the predicate, reads."""
    p: CondParams = node.attrs.parsed
    test, *branches = node.attrs.subgraphs
    heads = [Head.of_gradient(grad, f"{node.name}_out{i}_grad") for i, grad in enumerate(ograds)]
    numbers = [i for i, head in enumerate(heads) if head.variable is not None]
    inner = [
        _by_input(branch, locs, heads)
        for branch, locs in zip(branches, (p.then_input_locs, p.else_input_locs), strict=True)
    ]
    reached = sorted({i for grads in inner for i, grad in grads.items() if not is_zero(grad)})
    igrads: list[NodeEntry | None] = [None] * len(node.inputs)
    if not reached:
        return igrads
    head_places = {heads[i].variable.node: len(node.inputs) + k for k, i in enumerate(numbers)}  # type: ignore[union-attr]
    graphs: list[Subgraph] = [test]
    all_locs = [p.cond_input_locs]
    for branch, locs, grads in zip(branches, (p.then_input_locs, p.else_input_locs), inner, strict=True):
        number_of = head_places | dict(zip(subgraph_variables(branch), locs, strict=True))
        outputs = []
        for i in reached:
            if i not in grads:
                variable = create_variable_node(f"{node.name}_in{i}")
                number_of[variable] = i
                grads[i] = apply("zeros_like", NodeEntry(variable, 0, 0))
            outputs.append(grads[i])
        graphs.append(Graph(outputs))
        all_locs.append(tuple(number_of[variable] for variable in subgraph_variables(graphs[-1])))
    gradient = subgraph_node(
        "_backward_cond",
        f"{node.name}_backward",
        graphs,
        [*node.inputs, *(ograds[i] for i in numbers)],
        node,
        num_outputs=len(reached),
        cond_input_locs=all_locs[0],
        then_input_locs=all_locs[1],
        else_input_locs=all_locs[2],
    )
    for k, i in enumerate(reached):
        igrads[i] = NodeEntry(gradient, k, 0)
    return igrads


def _by_input(branch: Subgraph, locs: Sequence[int], heads: Sequence[Head]) -> dict[int, NodeEntry]:
    """The gradient of each input of the node that feeds the branch."""
    grads: dict[int, NodeEntry] = {}
    for i, grad in zip(locs, gradient_inside(branch, heads), strict=True):
        grads[i] = apply("elemwise_add", grads[i], grad) if i in grads else grad
    return grads


_BACKWARD: dict[str, Any] = {"TIsBackward": True}

for _name, _attributes, _deviation, _doc in (
    (
        "_cond",
        {},
        Deviation("inputs of the branch not taken have zero gradients; MXNet leaves them undefined", "training"),
        "The outputs of the first branch where the predicate is not zero, else those of the second.",
    ),
    ("_backward_cond", _BACKWARD, (), "The gradients of the branch that `_cond` took."),
):
    register_control(
        _name,
        ("cond", "then_branch", "else_branch"),
        _cond_rule,
        _cond_sizes,
        params=CondParams,
        num_outputs=lambda p: p.num_outputs,
        gradient=_cond_gradient,
        flops="that of its branches",
        deviation=_deviation,
        doc=_doc,
        FSubgraphRuns=_cond_runs,
        FSubgraphInvariants=_cond_invariants,
        FAddInvariant=_cond_with_invariant,
        TChoosesSubgraph=True,
        **_attributes,
    )
