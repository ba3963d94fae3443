"""Loops over subgraphs: `_foreach`, `_while_loop`, and the loops that their gradients are.

The gradient of a loop is a loop: it runs the gradient of the body from the last step to the first, on the values that
the states had before each step, and on those inner values of a step that its gradient reads. They are outputs of
`_backward_foreach_history` and `_backward_while_loop_history`, which stand in for the loops they are the history of. A
loop with the attribute `__force_mirroring__` keeps only the states, and computes inner values again.
Loops that gradients are made of keep their own history, so that any order of differentiation follows; their inner
values are computed again, not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from symjax_nnvm.ir.attributes import FIgnoreInputs, TRecompute, TSupersedes
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import subgraph, subgraph_variables
from symjax_nnvm.ir.mirroring import is_forced
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, Subgraph, altered, apply, create_variable_node, superseding
from symjax_nnvm.ir.params import MAX_COUNT, Params, param
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ops.control.subgraph import (
    Head,
    SubgraphInference,
    gradient_inside,
    is_zero,
    register_control,
    subgraph_node,
)

# -- parameters ------------------------------------------------------------------------------------------------------


class ForeachParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of inputs, the body included")
    num_outputs: int = param(ge=1, le=MAX_COUNT, doc="number of outputs: stacked ones and final states")
    num_out_data: int = param(ge=0, doc="number of stacked outputs")
    in_state_locs: tuple[int, ...] = param(ge=0, doc="which variables of the body are the states")
    in_data_locs: tuple[int, ...] = param(ge=0, doc="which variables of the body are the slices")
    remain_locs: tuple[int, ...] = param(ge=0, doc="which variables of the body are the other inputs")

    @property
    def num_states(self) -> int:
        return len(self.in_state_locs)

    @property
    def kept(self) -> int:
        """How many inner values of each step are outputs, too."""
        return 0

    @property
    def masked(self) -> bool:
        """Whether the first input says, for each step, whether it runs."""
        return False

    @property
    def reverse(self) -> bool:
        """Whether the last step is the first to run."""
        return False

    def check(self) -> str | None:
        """Whether the numbers fit each other."""
        locs = (*self.in_data_locs, *self.in_state_locs, *self.remain_locs)
        if sorted(locs) != list(range(len(locs))):
            return f"in_data_locs, in_state_locs and remain_locs must name each variable of the body once, not {locs}"
        if self.num_outputs != self.num_out_data + self.num_states:
            return f"num_outputs must be num_out_data + {self.num_states} states, not {self.num_outputs}"
        if self.num_args != 1 + self.masked + len(locs):
            return f"num_args must be 1 + {self.masked + len(locs)} inputs, not {self.num_args}"
        return None


class ForeachHistoryParams(ForeachParams):
    num_kept: int = param(0, ge=0, le=MAX_COUNT, doc="number of inner values of the body that are stacked, too")

    @property
    def kept(self) -> int:
        return self.num_kept


class BackwardForeachParams(ForeachParams):
    backwards: bool = param(True, doc="run the last step first")
    has_mask: bool = param(False, doc="the first input says, for each step, whether it runs")

    @property
    def masked(self) -> bool:
        return self.has_mask

    @property
    def reverse(self) -> bool:
        return self.backwards


class WhileLoopParams(Params):
    num_args: int = param(ge=2, le=MAX_COUNT, doc="number of inputs, condition and body included")
    num_outputs: int = param(ge=1, le=MAX_COUNT, doc="number of outputs: stacked ones and final loop variables")
    num_out_data: int = param(ge=0, doc="number of stacked outputs")
    max_iterations: int = param(ge=1, doc="length of the stacked outputs")
    cond_input_locs: tuple[int, ...] = param(ge=0, doc="which inputs feed the condition's variables")
    func_input_locs: tuple[int, ...] = param(ge=0, doc="which inputs feed the body's variables")
    func_var_locs: tuple[int, ...] = param(ge=0, doc="which variables of the body are the loop variables")

    def check(self) -> str | None:
        """Whether the numbers fit each other."""
        inputs = self.num_args - 2
        if any(loc >= inputs for loc in (*self.cond_input_locs, *self.func_input_locs)):
            return f"cond_input_locs and func_input_locs must be numbers of the {inputs} inputs"
        if any(loc >= len(self.func_input_locs) for loc in self.func_var_locs):
            return f"func_var_locs must be numbers of the body's {len(self.func_input_locs)} variables"
        if len(set(self.func_var_locs)) < len(self.func_var_locs):
            return f"func_var_locs must name each loop variable once, not {self.func_var_locs}"
        if self.num_outputs != self.num_out_data + len(self.func_var_locs):
            return f"num_outputs must be num_out_data + {len(self.func_var_locs)} variables, not {self.num_outputs}"
        return None

    @property
    def kept(self) -> int:
        """How many inner values of each step are outputs, too."""
        return 0

    @property
    def var_inputs(self) -> tuple[int, ...]:
        """Which inputs are the initial loop variables."""
        return tuple(self.func_input_locs[loc] for loc in self.func_var_locs)


class WhileLoopHistoryParams(WhileLoopParams):
    num_kept: int = param(0, ge=0, le=MAX_COUNT, doc="number of inner values of the body that are stacked, too")

    @property
    def kept(self) -> int:
        return self.num_kept


# -- inference -------------------------------------------------------------------------------------------------------


def _foreach_rule(infer: SubgraphInference, attrs: NodeAttrs, ins: Sequence[Any], outs: Sequence[Any]):
    """(mask (t,)), data (t, …), states, rest → outputs (t, …), states, and of each step (t, …): the states before it,
    inner values."""
    p: ForeachParams = attrs.parsed
    body = attrs.subgraphs[0]
    mask, inputs = list(ins[: p.masked]), list(ins[p.masked :])
    data, states, outer = _split(inputs, len(p.in_data_locs), p.num_states)
    stacked, final, history, kept = _split(list(outs), p.num_out_data, p.num_states, len(outs) - p.num_outputs - p.kept)
    length = known(*(infer.length(value) for value in (*mask, *data, *stacked, *history, *kept) if value is not None))
    states = [infer.merge(*pair) for pair in zip(states, final, strict=True)]
    variables = _variables(infer, p, data, states, outer)
    variables, heads = infer.inside(body, variables, [*map(infer.slice, stacked), *states, *map(infer.slice, kept)])
    heads, inner = heads[: p.num_outputs], heads[p.num_outputs :]
    states = [infer.merge(variables[k], head) for k, head in zip(p.in_state_locs, heads[p.num_out_data :], strict=True)]
    data = [_completed(infer, length, value, variables[loc]) for value, loc in zip(data, p.in_data_locs, strict=True)]
    stacked = [infer.stack(length, head) for head in heads[: p.num_out_data]]
    hidden = [infer.stack(length, value) for value in (*states[: len(history)], *inner)]
    return [*mask, *data, *states, *(variables[loc] for loc in p.remain_locs)], [*stacked, *states, *hidden]


def _completed(infer: SubgraphInference, length: int | None, value: Any, slice_value: Any) -> Any:
    """Data, completed by its slices. A vector has slices of one axis, so its rank stays open."""
    stacked = infer.stack(length, slice_value)
    if isinstance(value, tuple) and len(value) == 1:
        return (known(value[0], length),)
    return value if isinstance(stacked, tuple) and value is None and stacked[1:] == (1,) else stacked


def _while_loop_rule(infer: SubgraphInference, attrs: NodeAttrs, ins: Sequence[Any], outs: Sequence[Any]):
    """Inputs → outputs (max_iterations, …), loop variables; then their values before each step, which steps ran, and
    inner values."""
    p: WhileLoopParams = attrs.parsed
    test, body = attrs.subgraphs
    inputs = list(ins)
    stacked, final, hidden = _split(list(outs), p.num_out_data, len(p.func_var_locs))
    kept = hidden[len(hidden) - p.kept :]
    for i, value in zip(p.var_inputs, final, strict=True):
        inputs[i] = infer.merge(inputs[i], value)
    variables = [inputs[i] for i in p.func_input_locs]
    states = [variables[loc] for loc in p.func_var_locs]
    variables, heads = infer.inside(body, variables, [*map(infer.slice, stacked), *states, *map(infer.slice, kept)])
    heads, inner = heads[: p.num_outputs], heads[p.num_outputs :]
    for i, value in zip(p.func_input_locs, variables, strict=True):
        inputs[i] = infer.merge(inputs[i], value)
    for i, head in zip(p.var_inputs, heads[p.num_out_data :], strict=True):
        inputs[i] = infer.merge(inputs[i], head)
    tested, _ = infer.inside(test, [inputs[i] for i in p.cond_input_locs], [None])
    for i, value in zip(p.cond_input_locs, tested, strict=True):
        inputs[i] = infer.merge(inputs[i], value)
    final = [inputs[i] for i in p.var_inputs]
    stacked = [infer.stack(p.max_iterations, head) for head in heads[: p.num_out_data]]
    if hidden:
        history = [infer.stack(p.max_iterations, value) for value in final]
        kept = [infer.stack(p.max_iterations, value) for value in inner]
        hidden = [*history, (p.max_iterations,) if infer.name == "shape" else "int32", *kept]
    return inputs, [*stacked, *final, *hidden]


def _split(values: list[Any], *counts: int) -> list[list[Any]]:
    """Consecutive parts of the given lengths, and the rest."""
    parts, start = [], 0
    for count in counts:
        parts.append(values[start : start + count])
        start += count
    return [*parts, values[start:]]


def _variables(
    infer: SubgraphInference, p: ForeachParams, data: list[Any], states: list[Any], outer: list[Any]
) -> list[Any]:
    """The known facts of the body's variables, in their order."""
    locs = (*p.in_data_locs, *p.in_state_locs, *p.remain_locs)
    by_loc = dict(zip(locs, (*map(infer.slice, data), *states, *outer), strict=True))
    return [by_loc[loc] for loc in range(len(locs))]


def _foreach_sizes(p: ForeachParams) -> list[tuple[int, int]]:
    """Variables and heads of the body."""
    return [(len(p.in_data_locs) + p.num_states + len(p.remain_locs), p.num_outputs + p.kept)]


def _while_loop_sizes(p: WhileLoopParams) -> list[tuple[int, int]]:
    """Variables and heads of the condition and of the body."""
    return [(len(p.cond_input_locs), 1), (len(p.func_input_locs), p.num_outputs + p.kept)]


def _foreach_runs(infer: SubgraphInference, attrs: NodeAttrs, ins: Sequence[Any]) -> list[tuple[list[Any], int]]:
    """One run of the body for each slice."""
    p: ForeachParams = attrs.parsed
    data, states, outer = _split(list(ins[p.masked :]), len(p.in_data_locs), p.num_states)
    return [(_variables(infer, p, data, states, outer), known(*map(infer.length, ins[: p.masked + len(data)])) or 1)]


def _while_loop_runs(infer: SubgraphInference, attrs: NodeAttrs, ins: Sequence[Any]) -> list[tuple[list[Any], int]]:
    """Condition and body, max_iterations times."""
    p: WhileLoopParams = attrs.parsed
    return [([ins[i] for i in locs], p.max_iterations) for locs in (p.cond_input_locs, p.func_input_locs)]


def _foreach_invariants(attrs: NodeAttrs) -> list[dict[int, int]]:
    """The variables that are neither sliced nor states."""
    p: ForeachParams = attrs.parsed
    first = p.masked + len(p.in_data_locs) + p.num_states
    return [{loc: first + i for i, loc in enumerate(p.remain_locs)}]


def _foreach_with_invariant(attrs: NodeAttrs, number: int) -> NodeAttrs:
    p: ForeachParams = attrs.parsed
    new = len(p.in_data_locs) + p.num_states + len(p.remain_locs)
    return altered(attrs, num_args=p.num_args + 1, remain_locs=(*p.remain_locs, new))


def _while_loop_invariants(attrs: NodeAttrs) -> list[dict[int, int]]:
    """The variables that are not loop variables."""
    p: WhileLoopParams = attrs.parsed
    test = {loc: i for loc, i in enumerate(p.cond_input_locs) if i not in p.var_inputs}
    return [test, {loc: i for loc, i in enumerate(p.func_input_locs) if loc not in p.func_var_locs}]


def _while_loop_with_invariant(attrs: NodeAttrs, number: int) -> NodeAttrs:
    p: WhileLoopParams = attrs.parsed
    name = ("cond_input_locs", "func_input_locs")[number]
    return altered(attrs, None, num_args=p.num_args + 1, **{name: (*getattr(p, name), p.num_args - 2)})


def _while_loop_workspace(attrs: NodeAttrs, ins: Sequence[Any], outs: Sequence[Any]) -> int:
    """The variables before each step are kept, also where they are not outputs."""
    p: WhileLoopParams = attrs.parsed
    is_output = len(outs) > p.num_outputs
    return 0 if is_output else p.max_iterations * sum(prod(ins[i]) for i in p.var_inputs)


# -- gradients -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loop:
    """A loop as its gradient sees it: what feeds the body's variables at each step, and the direction.

    stacked: the outputs of which a step is a head of the body, by that head. data: stacked values by variable. states:
    variables that carry values from step to step, and history, their stacked values before each step. rest: values that
    stay, by variable. mask: which steps run. keep: inner value of the body → its stacked values; None where no further
    ones are kept.
    """

    node: Node
    body: Subgraph
    stacked: Mapping[NodeEntry, NodeEntry]
    data: dict[int, NodeEntry]
    states: tuple[int, ...]
    history: Sequence[NodeEntry]
    rest: dict[int, NodeEntry]
    mask: NodeEntry | None
    reverse: bool
    keep: Callable[[NodeEntry], NodeEntry] | None

    def gradient(
        self,
        ograds: Sequence[NodeEntry],
        final_grads: Sequence[NodeEntry],
        history_grads: Sequence[NodeEntry],
        kept_grads: Sequence[NodeEntry],
    ) -> dict[int, NodeEntry | None]:
        """The gradient of what feeds each variable of the body; of a state, that of its first value."""
        name, variables = self.node.name, subgraph_variables(self.body)
        heads = [Head.of_gradient(grad, f"{name}_out{i}_grad") for i, grad in enumerate(ograds)]
        carried = [
            Head(NodeEntry(create_variable_node(f"{name}_state{i}_grad"), 0, 0)) for i in range(len(self.states))
        ]
        inner_heads = [Head.of_gradient(grad, f"{name}_kept{i}_grad") for i, grad in enumerate(kept_grads)]
        inner = gradient_inside(self.body, [*heads, *carried, *inner_heads])
        extra = [Head.of_gradient(grad, f"{name}_history{i}_grad") for i, grad in enumerate(history_grads)]
        # One step of the backward loop: gradients of the slices are stacked, those of the states are carried on, those
        # of what stays add up.
        data_outputs = [loc for loc in self.data if not is_zero(inner[loc])]
        summed = [loc for loc in self.rest if not is_zero(inner[loc])]
        sums = {loc: NodeEntry(create_variable_node(f"{name}_sum{loc}"), 0, 0) for loc in summed}
        outputs = [inner[loc] for loc in data_outputs]
        for loc, head, further in zip(self.states, carried, extra, strict=True):
            assert head.variable is not None
            grad = inner[loc] if further.variable is None else apply("elemwise_add", inner[loc], further.variable)
            outputs.append(apply("_identity_with_attr_like_rhs", grad, head.variable))
        outputs += [apply("elemwise_add", sums[loc], inner[loc]) for loc in summed]
        # What feeds the variables of that step.
        stacked: dict[Node, NodeEntry] = {variables[loc]: entry for loc, entry in self.data.items()}
        stacked |= {variables[loc]: entry for loc, entry in zip(self.states, self.history, strict=True)}
        outputs, read = self._reading_what_is_kept(outputs)
        stacked |= read
        pairs = ((heads, ograds), (extra, history_grads), (inner_heads, kept_grads))
        for head, grad in (pair for pairing in pairs for pair in zip(*pairing, strict=True)):
            if head.variable is not None:
                stacked[head.variable.node] = grad
        starts: dict[Node, NodeEntry] = {}
        for head, grad in zip(carried, final_grads, strict=True):
            assert head.variable is not None
            starts[head.variable.node] = grad
        starts |= {sums[loc].node: apply("zeros_like", self.rest[loc]) for loc in summed}
        outer = {variables[loc]: entry for loc, entry in self.rest.items()}
        gradient = self._backward(Graph(outputs), len(data_outputs), stacked, starts, outer)
        grads: dict[int, NodeEntry | None] = dict.fromkeys((*self.data, *self.states, *self.rest))
        # The slices of a vector have one axis: their stacked gradients take the vector's shape.
        for i, loc in enumerate(data_outputs):
            grads[loc] = apply("reshape_like", NodeEntry(gradient, i, 0), self.data[loc])
        for i, loc in enumerate((*self.states, *summed), start=len(data_outputs)):
            grads[loc] = NodeEntry(gradient, i, 0)
        return grads

    def _reading_what_is_kept(self, outputs: Sequence[NodeEntry]) -> tuple[list[NodeEntry], dict[Node, NodeEntry]]:
        """The outputs of a step's gradient with variables in place of inner values of the step that its nodes read, and
        what feeds these. Nodes that look at a shape alone keep nothing, and results of code that is asked again for its
        gradient are not kept. The nodes of the gradient are changed."""
        forward = set(post_order(self.body.outputs))
        nodes = post_order(outputs)
        forward.update(n for n in nodes if TSupersedes.get(n.op) and n.control_deps[0] in forward)
        backward = [node for node in nodes if node not in forward]
        variables: dict[NodeEntry, NodeEntry] = {}
        feeds: dict[Node, NodeEntry] = {}

        def read(entry: NodeEntry) -> None:
            if entry.node not in forward or entry.node.is_variable or entry in variables or _is_asked_again(entry.node):
                return
            stacked = self.stacked.get(entry)
            if stacked is None and self.keep is not None:
                stacked = self.keep(entry)
            if stacked is not None:
                variable = create_variable_node(f"{self.node.name}_value{len(variables)}")
                variables[entry], feeds[variable] = NodeEntry(variable, 0, 0), stacked

        for node in backward:
            ignores = FIgnoreInputs.get(node.op)
            ignored = () if ignores is None else tuple(ignores(node.attrs))
            for i, entry in enumerate(node.inputs):
                if i not in ignored:
                    read(entry)
        for entry in outputs:
            read(entry)
        for node in backward:
            node.inputs = [variables.get(entry, entry) for entry in node.inputs]
        return [variables.get(entry, entry) for entry in outputs], feeds

    def _backward(
        self,
        body: Graph,
        num_out_data: int,
        stacked: dict[Node, NodeEntry],
        starts: dict[Node, NodeEntry],
        outer: dict[Node, NodeEntry],
    ) -> Node:
        variables = subgraph_variables(body)
        position = {node: i for i, node in enumerate(variables)}
        stacked = {node: entry for node, entry in stacked.items() if node in position}
        outer = {node: entry for node, entry in outer.items() if node in position}
        mask = [] if self.mask is None else [self.mask]
        return subgraph_node(
            "_backward_foreach",
            f"{self.node.name}_backward",
            [body],
            [*mask, *stacked.values(), *starts.values(), *outer.values()],
            self.node,
            num_outputs=len(body.outputs),
            num_out_data=num_out_data,
            in_data_locs=[position[node] for node in stacked],
            in_state_locs=[position[node] for node in starts],
            remain_locs=[position[node] for node in outer],
            backwards=not self.reverse,
            has_mask=bool(mask),
        )


def _outputs(node: Node, start: int, count: int) -> list[NodeEntry]:
    return [NodeEntry(node, i, 0) for i in range(start, start + count)]


def _is_asked_again(node: Node) -> bool:
    """Whether a node, or one in its subgraphs, runs a user's code, which computes its gradient by what it did last."""
    return TRecompute.get(node.op) == "never" or any(
        _is_asked_again(inner) for body in node.attrs.subgraphs for inner in post_order(body.outputs)
    )


class _History:
    """The node that keeps a loop's history, and the inner values of its body that gradients read.

    number: of the body among the subgraphs. first: the number of the first output that is an inner value.
    """

    def __init__(self, loop: Node, op: str, number: int, first: int):
        self.node = superseding(loop, op)
        self._is_new = self.node is not loop
        self.may_keep = self._is_new and not is_forced(loop)
        self._number, self._first = number, first
        self._kept: list[NodeEntry] = []

    def keep(self, entry: NodeEntry) -> NodeEntry:
        """The stacked values of an inner value of the body, which `close` makes outputs."""
        self._kept.append(entry)
        return NodeEntry(self.node, self._first + len(self._kept) - 1, 0)

    def close(self) -> None:
        """Make the values that are kept outputs of the body."""
        if not self._is_new:
            return
        attrs = self.node.attrs
        graphs = list(attrs.subgraphs)
        body = graphs[self._number]
        graphs[self._number] = subgraph([*body.outputs, *self._kept], subgraph_variables(body))
        attrs.subgraphs, attrs.dict["num_kept"] = graphs, str(len(self._kept))
        attrs.parse()


def _foreach_gradient(node: Node, ograds: list[NodeEntry]):
    """A loop in the other direction over the gradient of the body."""
    p: ForeachParams = node.attrs.parsed
    first = p.num_outputs + p.num_states
    history = None if isinstance(p, BackwardForeachParams) else _History(node, "_backward_foreach_history", 0, first)
    keeper = node if history is None else history.node
    mask, inputs = node.inputs[: p.masked], node.inputs[p.masked :]
    data, _, outer = _split(inputs, len(p.in_data_locs), p.num_states)
    out_grads, final_grads, history_grads, kept_grads = _split(ograds, p.num_out_data, p.num_states, p.num_states)
    body = node.attrs.subgraphs[0]
    loop = _Loop(
        node=node,
        body=body,
        stacked=_stacked_heads(keeper, body, p.num_out_data, p.num_outputs, first),
        data=dict(zip(p.in_data_locs, data, strict=True)),
        states=p.in_state_locs,
        history=_outputs(keeper, p.num_outputs, p.num_states),
        rest=dict(zip(p.remain_locs, outer, strict=True)),
        mask=mask[0] if mask else None,
        reverse=p.reverse,
        keep=history.keep if history is not None and history.may_keep else None,
    )
    history_grads = history_grads or [apply("zeros_like", entry) for entry in loop.history]
    grads = loop.gradient(out_grads, final_grads, history_grads, kept_grads)
    if history is not None:
        history.close()
    return [*([None] * len(mask)), *(grads[loc] for loc in (*p.in_data_locs, *p.in_state_locs, *p.remain_locs))]


def _stacked_heads(
    node: Node, body: Subgraph, num_out_data: int, num_outputs: int, first: int
) -> dict[NodeEntry, NodeEntry]:
    """The stacked outputs of a loop by the heads of its body. first: the number of the first inner value's."""
    heads = body.outputs
    stacked = dict(zip(heads[num_outputs:], _outputs(node, first, len(heads) - num_outputs), strict=True))
    return stacked | dict(zip(heads[:num_out_data], _outputs(node, 0, num_out_data), strict=True))


def _while_loop_gradient(node: Node, ograds: list[NodeEntry]):
    """A loop backwards over the steps that ran, over the gradient of the body; the condition has no gradient."""
    p: WhileLoopParams = node.attrs.parsed
    count = len(p.func_var_locs)
    first = p.num_outputs + count + 1
    history = _History(node, "_backward_while_loop_history", 1, first)
    keeper, body = history.node, node.attrs.subgraphs[1]
    out_grads, final_grads, history_grads, _, kept_grads = _split(ograds, p.num_out_data, count, count, 1)
    loop = _Loop(
        node=node,
        body=body,
        stacked=_stacked_heads(keeper, body, p.num_out_data, p.num_outputs, first),
        data={},
        states=p.func_var_locs,
        history=_outputs(keeper, p.num_outputs, count),
        rest={j: node.inputs[i] for j, i in enumerate(p.func_input_locs) if j not in p.func_var_locs},
        mask=NodeEntry(keeper, p.num_outputs + count, 0),
        reverse=False,
        keep=history.keep if history.may_keep else None,
    )
    history_grads = history_grads or [apply("zeros_like", entry) for entry in loop.history]
    grads = loop.gradient(out_grads, final_grads, history_grads, kept_grads)
    history.close()
    igrads: list[NodeEntry | None] = [None] * len(node.inputs)
    for j, i in enumerate(p.func_input_locs):
        grad, before = grads[j], igrads[i]
        igrads[i] = grad if before is None else before if grad is None else apply("elemwise_add", before, grad)
    return igrads


# -- registration ----------------------------------------------------------------------------------------------------


_FOREACH: dict[str, Any] = {
    "graphs": ("fn",),
    "rule": _foreach_rule,
    "sizes": _foreach_sizes,
    "gradient": _foreach_gradient,
    "FSubgraphRuns": _foreach_runs,
    "FSubgraphInvariants": _foreach_invariants,
    "FAddInvariant": _foreach_with_invariant,
}
_WHILE_LOOP: dict[str, Any] = {
    "graphs": ("cond", "func"),
    "rule": _while_loop_rule,
    "sizes": _while_loop_sizes,
    "gradient": _while_loop_gradient,
    "FSubgraphRuns": _while_loop_runs,
    "FSubgraphInvariants": _while_loop_invariants,
    "FAddInvariant": _while_loop_with_invariant,
    "FWorkspace": _while_loop_workspace,
}


def _register_loop(name: str, hidden: Callable[[Any], int] = lambda p: 0, **card: Any) -> None:
    """Register a loop. hidden: the number of outputs that callers do not see."""
    register_control(
        name,
        num_outputs=lambda p: p.num_outputs + hidden(p),
        visible_outputs=lambda p: p.num_outputs,
        flops="that of its steps",
        **card,
    )


_register_loop(
    "_foreach", params=ForeachParams, doc="Run the body over axis 0 of the data, carrying states.", **_FOREACH
)
_register_loop(
    "_backward_foreach_history",
    lambda p: p.num_states + p.kept,
    params=ForeachHistoryParams,
    doc="`_foreach`, its states before each step, and inner values of each step.",
    TIsBackward=True,
    TSupersedes=True,
    **_FOREACH,
)
_register_loop(
    "_backward_foreach",
    lambda p: p.num_states,
    params=BackwardForeachParams,
    doc="`_foreach` in either direction, over the steps that a mask admits, and its states before each step.",
    TIsBackward=True,
    **_FOREACH,
)
_register_loop(
    "_while_loop",
    params=WhileLoopParams,
    deviation="stacked outputs are zero after the last step; MXNet leaves them undefined",
    doc="Run the body while the condition holds, at most max_iterations times. Stacked outputs are zero after the last "
    "step (MXNet leaves them undefined).",
    **_WHILE_LOOP,
)
_register_loop(
    "_backward_while_loop_history",
    lambda p: len(p.func_var_locs) + 1 + p.kept,
    params=WhileLoopHistoryParams,
    doc="`_while_loop`, its variables before each step, which steps ran, and inner values of each step.",
    TIsBackward=True,
    TSupersedes=True,
    **_WHILE_LOOP,
)
