"""Symbols evaluated at once: what `mx.nd`'s functions do with the symbol of the same function.

An expression is a small symbol over variables a0, a1, …; equal expressions share one program, and one jitted function
for all shapes. It is the program of any symbol (`lowering/core/cache.py`): operators have one meaning here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, lru_cache, partial
from math import prod
from typing import Any

import jax
import numpy as np

from lowering.core.cache import Programs
from lowering.core.gradient_program import GradientProgram
from lowering.core.program import Program
from lowering.core.python_calls import is_python
from lowering.core.rules import FLowering
from lowering.host.numpy_keys import as_key
from lowering.host.open_sizes import OpenTraces
from lowering.host.placed import placed_one
from lowering.host.staged import Staged
from lowering.initializer.initializer_base import counts_elements
from lowering.mx.keys import next_words
from lowering.mx.tape import policy
from lowering.mx.tape.recording import Arrays, Call, Function, Given
from lowering.xla.program_bound import Kept, jitted
from symjax_nnvm.errors import CallError, listed
from symjax_nnvm.inspect.fixed_inputs import fixed_inputs
from symjax_nnvm.ir.attributes import FDraws, FInference
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.pipeline import ANY, Options
from symjax_nnvm.symbol.symbol import Symbol


def is_wide() -> bool:
    """Return whether this thread is in JAX's 64-bit mode."""
    return jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


class Expression(Function):
    """A symbol over the variables a0, a1, …, for training or inference, on a platform.

    names: its variables, in the order of `list_inputs()`. changing: parameters that do not distinguish it. account:
    counts what its programs keep, but for what they were compiled to. Equal by what they compute.
    """

    functions = None

    def __init__(self, symbol: Symbol, is_train: bool, platform: str, changing: tuple[str, ...] = ()):
        nodes = post_order(symbol.outputs)
        self.symbol, self.platform = symbol, platform
        self.names = [node.name for node in nodes if node.is_variable]
        self.is_train = is_train and any(map(_differs_in_training, nodes))
        self.calls_python = any(map(is_python, nodes))
        self._key = (self.is_train, platform, changing, _structure(symbol, changing))
        self._backwards: dict[tuple[str, ...], tuple[Any, GradientProgram]] = {}
        self.account = Kept(self)

    @property
    def family(self) -> Expression:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Itself: it has no shapes."""
        return self

    @property
    def operator(self) -> str:
        """The name of the operator that makes its first output."""
        return getattr(self.symbol.outputs[0].node.op, "name", "null")

    @cached_property
    def positions(self) -> list[int]:
        """The numbers of its variables, of those that `variable_name` names."""
        return [int(name[1:]) for name in self.names]

    @cached_property
    def programs(self) -> Programs:
        """The programs of this expression, which count among those that are kept."""
        self.account.grow(policy.BYTES_OF_GRAPHS)
        return Programs(self.symbol, mixes_dtypes=False)

    def forget(self, _: Any) -> None:
        """Let go of all programs; the next call makes new ones."""
        for name in ("programs", "program", "forward"):
            vars(self).pop(name, None)
        self._backwards = {}

    @cached_property
    def forward(self) -> Any:
        """(values of the variables in their order, words of a key) → (outputs, new states by name)."""
        return self._staged(self._forward_for)

    def _forward_for(self, platform: str) -> Any:
        """Return `forward` for a platform."""
        program = self.programs.forward(Options(is_train=self.is_train, platform=platform))
        states = program.aux_names

        def forward(values: Sequence[jax.Array], drawn: Any) -> tuple[list[jax.Array], Arrays]:
            named = dict(zip(self.names, values, strict=True))
            args = {name: value for name, value in named.items() if name not in states}
            return program.evaluate(args, {name: named[name] for name in states}, as_key(drawn))

        return forward

    @cached_property
    def longer(self) -> tuple[Expression, tuple[int, ...]] | None:
        """The expression of a size of its own that draws the same numbers first, and the shape of this one's: so no
        shape has a program of its own. None where it draws other things, or too many."""
        node = self.symbol.outputs[0].node
        rule = FLowering.get(node.op)
        if self.platform != "cpu" or node.op is None or rule is None or not rule.one_by_one:
            return None
        shape = node.attrs.parsed.shape
        sizes = [size for size in policy.SIZES_OF_DRAWS if 0 < prod(shape or (1,)) <= size]
        if shape is None or not sizes or len(self.symbol.outputs) > 1:
            return None
        longer = Symbol.create_functor(node.op, {**node.attrs.dict, "shape": f"({sizes[0]},)"})
        return first_of_equal(Expression(longer(), self.is_train, self.platform)), shape

    @cached_property
    def program(self) -> Program:
        """What computes its outputs."""
        return self.programs.forward(Options(is_train=self.is_train, platform=self.platform))

    @cached_property
    def fixed(self) -> list[tuple[int, float]]:
        """The positions of arrays that a call sets to a number, as in MXNet, with their numbers."""
        return [(int(name[1:]), number) for name, number in fixed_inputs(self.symbol).items()]

    def written(self, wrt: tuple[str, ...]) -> Collection[str]:
        """The states that a call changes which is recorded for the gradients of these variables: as in an executor,
        those of an operator such as BatchNorm only if one of the gradients passes through it."""
        if not self.is_train:
            return self.program.aux_names
        return self._backward(wrt)[1].program.written

    def gradients(
        self, wrt: tuple[str, ...], call: Call | Given, heads: Sequence[jax.Array], states: Arrays, onto: Arrays
    ) -> tuple[Arrays, Arrays]:
        """As of `Function`. What computed the call is not run again, unless the gradients need more of it than its
        inputs and outputs."""
        run, _ = self._backward(wrt)
        return run(list(call.values), call.drawn, list(heads), list(call.outputs), dict(states), dict(onto))

    def traced_gradients(self, wrt: tuple[str, ...], call: Call | Given, heads: Sequence[jax.Array]) -> Arrays:
        """As of `Function`."""
        return self._backward_for(wrt, self.platform)(call.values, call.drawn, heads, call.outputs, {}, {})[0]

    def summed_by_python(self, wrt: tuple[str, ...]) -> Collection[str]:
        """As of `Function`."""
        return self._backward(wrt)[1].summed_by_python.keys() if self.calls_python else ()

    def _backward(self, wrt: tuple[str, ...]) -> tuple[Any, GradientProgram]:
        """Return what `gradients` calls, made once, and the program that it runs."""
        backward = self._backwards.get(wrt)
        if backward is None:
            run = self._staged(partial(self._backward_for, wrt))
            backward = self._backwards[wrt] = run, self._gradient_program(wrt, self.platform)
        return backward

    def _gradient_program(self, wrt: tuple[str, ...], platform: str) -> GradientProgram:
        return self.programs.gradient(Options(is_train=self.is_train, wrt=wrt, platform=platform))

    def _backward_for(self, wrt: tuple[str, ...], platform: str) -> Any:
        """Return it for a platform."""
        program = self._gradient_program(wrt, platform)
        names = program.program.aux_names

        def backward(
            values: Sequence[jax.Array],
            drawn: Any,
            heads: Sequence[jax.Array],
            outputs: Sequence[jax.Array],
            states: Arrays,
            onto: Arrays,
        ) -> Any:
            named, key = dict(zip(self.names, values, strict=True)), as_key(drawn)
            residuals = program.known_residuals(named, outputs) | program.states_now(states)
            if residuals.keys() == set(program.residual_slots):
                env = program.backward_values(outputs, residuals, key, heads, program.written_slots, onto)
                return program.collect_gradients(env), program.collect_states(env)
            args = {name: value for name, value in named.items() if name not in names}
            return program(args, {name: named[name] for name in names}, key, heads, onto)[1], {}

        return backward

    def _staged(self, function_for: Callable[[str], Any]) -> Any:
        """Return the function that is made for a platform, compiled when that pays; what calls Python is not."""
        function = function_for(self.platform)
        if self.calls_python:
            return function
        traces = OpenTraces(self.symbol.outputs)
        return Staged(function_for(ANY), partial(jitted, function), open_traces=traces, few=True)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self._key == other._key


def _differs_in_training(node: Node) -> bool:
    """Return whether a node's operator may do something else in training than in inference."""
    rule = FLowering.get(node.op)
    asks = rule is not None and "is_train" in rule.needs
    return asks or node.op in FDraws or node.op in FInference or bool(node.attrs.subgraphs)


def _structure(symbol: Symbol, without: Collection[str] = ()) -> tuple[Any, ...]:
    """Return a key that distinguishes symbols: operators, attributes, some excepted, and wiring. Subgraphs are equal to
    themselves alone."""
    nodes = post_order(symbol.outputs)
    number = {node: i for i, node in enumerate(nodes)}
    rows = tuple(
        (
            node.attrs.op,
            node.name if node.is_variable else None,
            tuple((name, text) for name, text in node.attrs.dict.items() if name not in without),
            tuple((number[entry.node], entry.index, entry.version) for entry in node.inputs),
            tuple(node.attrs.subgraphs),
        )
        for node in nodes
    )
    return rows, tuple((number[entry.node], entry.index) for entry in symbol.outputs)


first_of_equal: Any = lru_cache(policy.KEPT_EXPRESSIONS)(lambda expression: expression)
"""Returns the first of all equal expressions."""


def shared_expression(symbol: Symbol, count: int, is_train: bool, platform: str) -> Expression:
    """The expression of a symbol over a0, a1, …; count: the number of them that have values.

    Raises CallError for variables that an operator made because an input was left out.
    """
    expression = Expression(symbol, is_train, platform)
    if not expression.calls_python:  # each call of a CustomOp has one of its own, as in MXNet
        expression = first_of_equal(expression)
    names = {variable_name(i) for i in range(count)}
    missing = [name for name in expression.names if name not in names]
    if missing:
        inputs = [name.partition("_")[2] or name for name in missing]
        raise CallError(
            f"Operator {expression.operator} is missing inputs",
            expected=f"arrays for {listed(inputs)}, too",
            fix="Pass every array: missing inputs become parameters only in a graph of mx.sym.",
        )
    return expression


def variable_name(number: int) -> str:
    """The name of the variable of an argument."""
    return f"a{number}"


def evaluate(expression: Expression, values: Sequence[jax.Array]) -> tuple[list[jax.Array], Arrays, Any]:
    """(outputs, new states by name, the words of the key that was used) of an expression for the values of its
    variables."""
    expression.account.use()
    key = next_words() if expression.program.needs_key else None
    if expression.longer is None or not counts_elements(key):
        return *expression.forward(values, key), key
    longer, shape = expression.longer
    (numbers,), _ = longer.forward([], key)
    return [placed_one(np.array(np.asarray(numbers)[: prod(shape)]).reshape(shape), None)], {}, key
