"""`foreach`, `while_loop` and `cond`: control flow whose bodies are Python functions of symbols.

A body is called once, on fresh variables; the nodes it built become a subgraph of one node. Everything that it reads
from outside becomes an input of that node: variables under their own names, outputs of outer nodes under those of the
outputs. Source of the semantics: MXNet's `symbol.contrib`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError, UnusedInputError
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import value_to_text
from symjax_nnvm.ir.rewrite import count_versions, rewrite
from symjax_nnvm.ir.traverse import post_order, post_order_nodes, successors
from symjax_nnvm.symbol.hidden_keys import hidden_key
from symjax_nnvm.symbol.scope import AttrScope, subgraph_name
from symjax_nnvm.symbol.symbol import Symbol, create_operator

_SCOPE = "__subgraph_name__"

Nested = Any
"""A symbol, or a list of nested symbols."""


def foreach(
    body: Callable[[Nested, Nested], tuple[Nested, Nested]], data: Nested, init_states: Nested, name: str = "foreach"
) -> tuple[Nested, Nested]:
    """Run `body(slice, states) -> (outputs, new states)` over axis 0 of the data.

    Args:
        body: the function of one step. It gets slice t of each array, in the nesting of `data`; a slice of a vector has
            shape (1,).
        data: a symbol (t, …), or nested lists of symbols.
        init_states: the states before the first step: a symbol, or nested lists of symbols.
        name: the beginning of the names in the body; the loop's own node gets an automatic name.

    Returns:
        The outputs of all steps, stacked to (t, …), and the states after the last step, both in the nesting of the
        body's results.

    Raises:
        ComposeError: the body does not use some data or state.
        SymbolTypeError: an element of `data`, of the states or of the body's results is not a symbol.
    """
    flat_data, data_nesting = _flatten(data, "data of foreach")
    flat_states, state_nesting = _flatten(init_states, "states of foreach")
    graph = _Body(name, [*flat_data, *flat_states])
    with graph:
        slices = _nest(graph.formals[: len(flat_data)], data_nesting)
        states = _nest(graph.formals[len(flat_data) :], state_nesting)
        outputs, new_states = body(slices, states)
        flat_outputs, output_nesting = _flatten(outputs, "output of foreach's body")
        flat_new, new_nesting = _flatten(new_states, "new states of foreach's body")
        if new_nesting != state_nesting:
            raise SymbolValueError(
                "The body changes the nesting of the states", expected=state_nesting, got=new_nesting
            )
        graph.close(flat_outputs, flat_new)
    locs = [graph.position(i, "data" if i < len(flat_data) else "states") for i in range(len(graph.formals))]
    outer_places = [i for i, outer in enumerate(graph.outer) if outer is not None]
    loop = _create(
        "_foreach",
        [graph.symbol],
        [*(symbol.outputs[0] for symbol in (*flat_data, *flat_states)), *graph.outer_entries(outer_places)],
        num_outputs=len(flat_outputs) + len(flat_new),
        num_out_data=len(flat_outputs),
        in_state_locs=locs[len(flat_data) :],
        in_data_locs=locs[: len(flat_data)],
        remain_locs=outer_places,
    )
    return _nest(loop[: len(flat_outputs)], output_nesting), _nest(loop[len(flat_outputs) :], state_nesting)


def while_loop(
    cond: Callable[..., Symbol],
    func: Callable[..., tuple[Nested, Nested]],
    loop_vars: Nested,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Nested, Nested]:
    """Run `func(*loop_vars) -> (outputs, new loop_vars)` as long as `cond(*loop_vars)` is not zero.

    Args:
        cond: the function that decides whether another step follows; it returns a symbol of one element.
        func: the function of one step.
        loop_vars: the variables before the first step: a symbol, or nested lists of symbols.
        max_iterations: the highest number of steps; required.
        name: the beginning of the names in the body; the loop's own node gets an automatic name.

    Returns:
        The outputs of all steps, stacked to (max_iterations, …) with zeros after the last step, and the loop variables
        after the last step.

    Raises:
        SymbolValueError: `max_iterations` or `loop_vars` is missing, or a step returns another number of variables.
        ComposeError: the step does not use some loop variable.
        SymbolTypeError: an element of `loop_vars` or of the functions' results is not a symbol.
    """
    if max_iterations is None:
        raise SymbolValueError("max_iterations should be specified")
    flat_vars, nesting = _flatten(loop_vars, "loop_vars of while_loop")
    if not flat_vars:
        raise SymbolValueError("loop_vars should contain at least one element")

    def call(function: Callable[..., Any], formals: list[Symbol]) -> Any:
        nested = _nest(formals, nesting)
        return function(*nested) if isinstance(nested, list) else function(nested)

    test, step = _Body(f"{name}_cond", flat_vars), _Body(f"{name}_func", flat_vars)
    with test:
        predicate = call(cond, test.formals)
        if not isinstance(predicate, Symbol) or len(predicate.outputs) != 1:
            raise SymbolTypeError(f"cond of while_loop must return one symbol, but returned {predicate!r}")
        test.close([predicate], [])
    with step:
        outputs, new_vars = call(func, step.formals)
        flat_outputs, output_nesting = _flatten([] if outputs is None else outputs, "output of while_loop's func")
        flat_new, _ = _flatten([] if new_vars is None else new_vars, "new loop_vars of while_loop's func")
        if len(flat_new) != len(flat_vars):
            raise SymbolValueError("The number of loop_vars should be consistent during the loop")
        step.close(flat_outputs, flat_new)
    places = [step.position(i, "loop_vars") for i in range(len(flat_vars))]
    inputs, (test_locs, step_locs) = _unite(test, step)
    loop = _create(
        "_while_loop",
        [test.symbol, step.symbol],
        inputs,
        max_iterations=int(max_iterations),
        cond_input_locs=test_locs,
        func_input_locs=step_locs,
        func_var_locs=places,
        num_out_data=len(flat_outputs),
        num_outputs=len(flat_outputs) + len(flat_new),
    )
    return _nest(loop[: len(flat_outputs)], output_nesting), _nest(loop[len(flat_outputs) :], nesting)


def cond(pred: Symbol, then_func: Callable[[], Nested], else_func: Callable[[], Nested], name: str = "cond") -> Nested:
    """Run `then_func()` if `pred` is not zero, else `else_func()`.

    Args:
        pred: a symbol of one element.
        then_func: makes the outputs of the first branch, from symbols outside; takes no arguments.
        else_func: makes those of the second branch; its outputs must have the shapes of the first branch's.
        name: the beginning of the names in the branches.

    Raises:
        SymbolValueError: `pred` is not a single output, or the branches have different numbers of outputs.
        SymbolTypeError: a branch returns something that is not a symbol.
    """
    if not isinstance(pred, Symbol) or len(pred.outputs) != 1:
        raise SymbolValueError("pred should always be a single output")
    bodies = [_Body(f"{name}_{part}", []) for part in ("pred", "then", "else")]
    nestings, counts = [], []
    for graph, function in zip(bodies, (lambda: pred, then_func, else_func), strict=True):
        with graph:
            outputs, nesting = _flatten(function(), "output of cond")
            graph.close(outputs, [])
            nestings.append(nesting)
            counts.append(len(outputs))
    if counts[1] != counts[2]:
        raise SymbolValueError("Number of outputs differs between then-branch and else-branch")
    inputs, locs = _unite(*bodies)
    conditional = _create(
        "_cond",
        [graph.symbol for graph in bodies],
        inputs,
        cond_input_locs=locs[0],
        then_input_locs=locs[1],
        else_input_locs=locs[2],
        num_outputs=counts[1],
    )
    return _nest(conditional, nestings[1])


# -- nested lists ----------------------------------------------------------------------------------------------------


def _flatten(nested: Nested, what: str) -> tuple[list[Symbol], Any]:
    """Return the symbols in order, and the nesting: 0 for a symbol, n for one of n outputs, a list for a list."""
    if isinstance(nested, Symbol):
        count = len(nested.outputs)
        return [Symbol([entry]) for entry in nested.outputs], count if count > 1 else 0
    if not isinstance(nested, (list, tuple)):
        raise SymbolTypeError(f"{what} must be a symbol or nested lists of symbols, but got {type(nested).__name__}")
    symbols, nesting = [], []
    for item in nested:
        flat, inner = _flatten(item, what)
        symbols += flat
        nesting.append(inner)
    return symbols, nesting


def _nest(symbols: Sequence[Symbol], nesting: Any) -> Nested:
    """Nest flat values, the reverse of `_flatten`."""
    remaining = iter(symbols)

    def build(part: Any) -> Nested:
        if isinstance(part, list):
            return [build(inner) for inner in part]
        if part == 0:
            return next(remaining)
        return Symbol([next(remaining).outputs[0] for _ in range(part)])

    return build(nesting)


# -- from what a function built to a subgraph ------------------------------------------------------------------------


class _Body:
    """A subgraph in the making. `with body:` marks the nodes made inside; `close` cuts them out.

    formals: fresh variables that stand for the given symbols. After `close`: symbol, the subgraph; variables, its
    inputs in order; outer, for each of them the outer entry that feeds it, None for a formal.
    """

    def __init__(self, name: str, actuals: Sequence[Symbol]):
        outer = AttrScope.current.get(None).get(_SCOPE, "")
        self._name = subgraph_name(f"{outer}${name}" if outer else name)
        self._scope = AttrScope(**{_SCOPE: self._name})
        self._actuals = actuals
        self.formals: list[Symbol] = []
        self.symbol = Symbol()
        self.variables: list[Node] = []
        self.outer: list[NodeEntry | None] = []

    def __enter__(self) -> None:
        self._scope.__enter__()
        for actual in self._actuals:
            entry = actual.outputs[0]
            node = create_variable_node(f"{entry.node.name}-{entry.index}", {_SCOPE: self._name})
            self.formals.append(Symbol([NodeEntry(node, 0, 0)]))

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)

    def close(self, outputs: Sequence[Symbol], states: Sequence[Symbol]) -> None:
        """Take what the function returned. An output that is an input, or no node of its own, is copied."""
        inputs = {node.name for node in post_order(e for s in (*outputs, *states) for e in s.outputs) if not node.op}
        taken = {output.name for output in outputs}

        def copy_if_outside(symbol: Symbol, names: set[str | None]) -> Symbol:
            node = symbol.outputs[0].node
            if node.name in names or node.attrs.dict.get(_SCOPE) != self._name:
                return create_operator(Op.get("_copy"), [symbol], {}, self._scope.get(None), None, "identity")
            return symbol

        heads = [copy_if_outside(output, set(inputs)) for output in outputs] + [
            copy_if_outside(state, inputs | taken) for state in states
        ]
        self._cut([head.outputs[0] for head in heads])

    def _cut(self, heads: list[NodeEntry]) -> None:
        """Copy the nodes made inside; a variable takes the place of each entry from outside."""

        def inside(node: Node) -> bool:
            return node.op is not None and node.attrs.dict.get(_SCOPE) == self._name

        outer_of: dict[Node, NodeEntry | None] = {symbol.outputs[0].node: None for symbol in self.formals}
        cut: dict[NodeEntry, NodeEntry] = {}

        def inner(entry: NodeEntry) -> NodeEntry:
            if entry.node in outer_of or inside(entry.node):
                return entry
            outer = entry._replace(version=0) if entry.node.is_variable else entry
            if outer not in cut:
                node = entry.node
                if node.is_variable:
                    made_here = node.attrs.dict.get(_SCOPE) == self._name
                    variable = create_variable_node(node.name, dict(node.attrs.dict) if made_here else {})
                else:
                    variable = create_variable_node(Symbol([entry]).list_outputs()[0])
                cut[outer] = NodeEntry(variable, 0, 0)
                outer_of[variable] = outer
            if not entry.node.is_variable:
                return cut[outer]
            counted = cut[outer].node.attrs.parsed
            counted.version = max(counted.version, entry.version)
            return cut[outer]._replace(version=entry.version)

        def cut_off(node: Node, draft: Node) -> Node:
            copy = node.copy() if draft is node else draft
            copy.inputs = [inner(entry) for entry in draft.inputs]
            copy.control_deps = [dep for dep in draft.control_deps if inside(dep)]
            return copy

        reached = post_order_nodes((head.node for head in heads), lambda node: successors(node) if inside(node) else [])
        body = rewrite(heads, cut_off, order=filter(inside, reached))
        self.symbol = Symbol(count_versions([inner(head) for head in body.outputs]))
        self.variables = [node for node in post_order(self.symbol.outputs) if node.is_variable]
        self.outer = [outer_of[node] for node in self.variables]

    def position(self, i: int, what: str) -> int:
        """Return the place of formal i among the variables. Raises UnusedInputError when the function did not use
        it."""
        node = self.formals[i].outputs[0].node
        if node not in self.variables:
            problem = f"The {what} must be used in the body of the loop, but {self._actuals[i].name!r} is not"
            raise UnusedInputError(problem, fix="Use it, or leave it out.")
        return self.variables.index(node)

    def outer_entries(self, positions: Sequence[int]) -> list[NodeEntry]:
        """Return the outer entries of some of the variables."""
        return [entry for i in positions if (entry := self.outer[i]) is not None]

    def actual_entries(self) -> list[NodeEntry]:
        """Return the entry that feeds each variable: the symbol that a formal stands for, or the outer entry."""
        actual = {f.outputs[0].node: a.outputs[0] for f, a in zip(self.formals, self._actuals, strict=True)}
        return [
            actual[node] if outer is None else outer for node, outer in zip(self.variables, self.outer, strict=True)
        ]


def _unite(*bodies: _Body) -> tuple[list[NodeEntry], list[list[int]]]:
    """Return the inputs of all bodies, each once, and for each body the numbers of those that feed its variables.
    Variables of one name are one input, as in MXNet: two branches may make the same one."""
    inputs: dict[NodeEntry | str, NodeEntry] = {}
    numbers: dict[NodeEntry | str, int] = {}

    def number(entry: NodeEntry) -> int:
        key = entry.node.name if entry.node.is_variable else entry
        inputs.setdefault(key, entry)
        return numbers.setdefault(key, len(numbers))

    locs = [[number(entry) for entry in body.actual_entries()] for body in bodies]
    return list(inputs.values()), locs


def _create(op: str, graphs: Sequence[Symbol], inputs: Sequence[NodeEntry], **params: object) -> list[Symbol]:
    """Create the node, as one symbol per output."""
    texts = {hidden_key(key): value for key, value in AttrScope.current.get(None).items()}
    texts |= {key: value_to_text(value) for key, value in params.items()}
    texts["num_args"] = str(len(graphs) + len(inputs))
    symbols = [*graphs, *(Symbol([entry]) for entry in inputs)]
    created = create_operator(Op.get(op), symbols, {}, texts, None, op)
    return [Symbol([entry]) for entry in created.outputs]
