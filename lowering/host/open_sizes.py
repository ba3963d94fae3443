"""Programs traced once for all sizes of some axes: symbols stand where the sizes were, and numbers take their places.

A program of another size is then neither traced nor lowered. Symbols are JAX's symbolic dimensions, which raise an
error where a rule depends on the number. But they compare as "not equal" where they may be equal: so a number is never
put for a symbol if it is small, or equal to another size or to a parameter of the network.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax

from lowering.native.unpromised import UndecidedSizeError, number_of
from lowering.xla.program_bound import Kept, bytes_of_plan
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.traverse import post_order

_LEAST = 3
"""The smallest number that takes a symbol's place: 1 broadcasts, 0 has no elements, rules look at pairs."""

_BEFORE, _REFUSED, _KEPT = 2, 2, 8
"""The number of sizes that are traced as numbers before some are left open (most functions see two, a full batch and
the last one); how often a function may refuse open sizes; and how many choices of open axes are kept."""

_REFUSALS = (NNVMError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError,
             NotImplementedError, UndecidedSizeError)  # fmt: skip
"""What a function may raise that computes with sizes as with numbers."""

Shapes = Sequence[tuple[int, ...]]


class TracedFunction(NamedTuple):
    """A function as equations. shapes: the shapes of its results, as `jax.make_jaxpr` returns them."""

    closed: Any
    shapes: Any


class _OpenTrace(NamedTuple):
    """What was traced with symbols. sizes: the sizes of each argument, of its axes: a number, or the name of a
    symbol."""

    sizes: list[tuple[int | str, ...]]
    traced: Any

    def numbers(self, shapes: Shapes, parameters: Collection[int]) -> dict[str, int] | None:
        """Return the numbers that take the symbols' places for these shapes; None where the program is not theirs."""
        numbers: dict[str, int] = {}
        fixed = {*parameters}
        for sizes, shape in zip(self.sizes, shapes, strict=True):
            for size, number in zip(sizes, shape, strict=True):
                if isinstance(size, int):
                    if size != number:
                        return None
                    fixed.add(number)
                elif numbers.setdefault(size, number) != number:
                    return None
        values = [*numbers.values()]
        is_clear = min(values) >= _LEAST and len({*values}) == len(values) and fixed.isdisjoint(values)
        return numbers if is_clear else None


def trace(function: Callable[..., Any], args: Sequence[Any]) -> TracedFunction:
    """A function of arrays as equations."""
    return TracedFunction(*jax.make_jaxpr(lambda *arrays: function(*arrays), return_shape=True)(*args))


class OpenTraces:
    """What was traced with open sizes of one function, or of several that compute the same. entries: the entries of the
    network that it computes, whose parameters' numbers no open size may have."""

    def __init__(self, entries: Sequence[NodeEntry] = ()):
        self._entries = entries
        self._families: dict[Any, _Family] = {}

    @cached_property
    def _parameters(self) -> frozenset[int]:
        return frozenset(_parameters(self._entries))

    def traced(self, function: Callable[..., Any], args: Sequence[Any]) -> TracedFunction | None:
        """Return the function's equations for the sizes of these arguments, traced now if needed; None if they cannot
        be."""
        found = self._found(function, args)
        return None if found is None else TracedFunction(found[1](found[0].closed), found[0].shapes)

    def result(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Shapes and dtypes of the function's results, as of `jax.eval_shape`."""
        found = self._found(function, args)
        if found is None:
            return jax.eval_shape(function, *args)
        numbered = lambda kind: jax.ShapeDtypeStruct(found[1](kind.shape), kind.dtype)  # noqa: E731
        return jax.tree_util.tree_map(numbered, found[0].shapes)

    def _found(self, function: Callable[..., Any], args: Sequence[Any]) -> tuple[TracedFunction, _Numbered] | None:
        leaves, tree = jax.tree_util.tree_flatten(args)
        kinds = [*map(jax.typeof, leaves)]
        is_wide = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        key = is_wide, tree, *[(kind.ndim, kind.dtype, kind.weak_type) for kind in kinds]
        family = self._families.get(key)
        if family is None:
            family = self._families[key] = _Family(Kept(self, key), self._parameters)

        def with_symbols(shapes: Sequence[tuple[Any, ...]]) -> TracedFunction:
            models = [
                jax.ShapeDtypeStruct(shape, kind.dtype, weak_type=kind.weak_type)
                for shape, kind in zip(shapes, kinds, strict=True)
            ]
            return trace(function, jax.tree_util.tree_unflatten(tree, models))

        return family.found([kind.shape for kind in kinds], with_symbols)

    def forget(self, key: Any) -> None:
        """Drop the equations for arguments of one structure."""
        self._families.pop(key, None)


class _Family:
    """Holds equations for arguments of one structure, of the same dtypes and numbers of axes. kept: counts them.
    parameters: numbers that no open size may have."""

    def __init__(self, kept: Kept, parameters: Collection[int] = ()):
        self._kept, self._parameters = kept, parameters
        self._last: Shapes = ()
        self._met, self._refused = 0, 0
        self._traces: deque[_OpenTrace] = deque(maxlen=_KEPT)

    def found(
        self, shapes: Shapes, trace: Callable[[Sequence[tuple[Any, ...]]], TracedFunction]
    ) -> tuple[TracedFunction, _Numbered] | None:
        """Return what was traced with open sizes that these shapes have, or is now, and what puts the numbers there.

        trace: traces the function for shapes that hold symbols.
        """
        found = self._known(shapes)
        if found is None and self._met >= _BEFORE and self._refused < _REFUSED:
            self._add(shapes, trace)
            found = self._known(shapes)
        self._last, self._met = shapes, self._met + 1
        return found

    def _known(self, shapes: Shapes) -> tuple[TracedFunction, _Numbered] | None:
        for open_trace in self._traces:
            numbers = open_trace.numbers(shapes, self._parameters)
            if numbers is not None:
                self._kept.use()
                return open_trace.traced, _Numbered(numbers)
        return None

    def _add(self, shapes: Shapes, trace: Callable[[Sequence[tuple[Any, ...]]], TracedFunction]) -> None:
        """Trace the function with symbols for the sizes that are not as they were last; equal ones changed alike."""
        names: dict[tuple[int, int], str] = {}
        sizes: list[tuple[int | str, ...]] = [
            tuple(new if old == new else names.setdefault((old, new), f"n{len(names)}") for old, new in pairs)
            for pairs in (zip(before, shape, strict=True) for before, shape in zip(self._last, shapes, strict=True))
        ]
        if not names or _OpenTrace(sizes, None).numbers(shapes, self._parameters) is None:
            return
        self._refused += 1  # until it is known that it does not
        constraints = [f"{name} >= {_LEAST}" for name in names.values()]
        try:
            symbols = jax.export.symbolic_shape(",".join(names.values()), constraints=constraints)
            by_name = dict(zip(names.values(), symbols, strict=True))
            traced = trace([tuple(by_name.get(size, size) for size in shape) for shape in sizes])  # pyright: ignore
        except _REFUSALS:
            return
        numbers = dict.fromkeys(by_name, _LEAST)
        if any(number_of(symbol, numbers) != _LEAST for symbol in symbols):  # this JAX has another way to number them
            return
        self._refused -= 1
        self._traces.appendleft(_OpenTrace(sizes, traced))
        self._kept.grow(bytes_of_plan(traced.closed.jaxpr))


def _parameters(entries: Iterable[NodeEntry]) -> Iterator[int]:
    """Return the integers in the parameters of a network."""
    for node in post_order(entries):
        if not node.is_variable:
            yield from _integers(vars(node.attrs.parsed))
            for subgraph in node.attrs.subgraphs:
                yield from _parameters(subgraph.outputs)


def _integers(value: Any) -> Iterator[int]:
    """Return the integers in a parameter's value."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping | tuple | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _integers(part)


class _Numbered:
    """Returns parts of a jaxpr with numbers in the places of symbols: new ones where they have any, else themselves."""

    def __init__(self, numbers: dict[str, int]):
        self._numbers = numbers
        self._variables: dict[Any, Any] = {}

    def __call__(self, part: Any) -> Any:
        if isinstance(part, tuple | list):
            parts = [*map(self, part)]
            if all(new is old for new, old in zip(parts, part, strict=True)):
                return part
            return type(part)(*parts) if hasattr(part, "_fields") else type(part)(parts)  # pyright: ignore
        if hasattr(part, "consts"):
            return SimpleNamespace(jaxpr=self._program(part.jaxpr), consts=part.consts)
        if hasattr(part, "eqns"):
            return self._program(part)
        return number_of(part, self._numbers)

    def _program(self, jaxpr: Any) -> Any:
        variables = {name: [*map(self._variable, getattr(jaxpr, name))] for name in ("constvars", "invars", "outvars")}
        return SimpleNamespace(**variables, eqns=[*map(self._equation, jaxpr.eqns)])

    def _equation(self, equation: Any) -> Any:
        ins, outs = [*map(self._variable, equation.invars)], [*map(self._variable, equation.outvars)]
        params = {name: self(value) for name, value in equation.params.items()}
        return SimpleNamespace(
            primitive=equation.primitive, params=params, invars=ins, outvars=outs, effects=equation.effects
        )

    def _variable(self, variable: Any) -> Any:
        if hasattr(variable, "val"):
            return variable
        numbered = self._variables.get(variable)
        if numbered is None:
            shape = self(getattr(variable.aval, "shape", ()))
            numbered = variable
            if shape is not getattr(variable.aval, "shape", shape):
                numbered = _Variable(SimpleNamespace(shape=shape, ndim=len(shape), dtype=variable.aval.dtype))
            self._variables[variable] = numbered
        return numbered


class _Variable:
    """A variable of an equation. aval: its shape, its number of axes and its dtype."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval
