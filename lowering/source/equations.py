"""A jaxpr as plain equations: calls are inlined, what changes nothing is left out, constants are NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from lowering.native.unpromised import counts_of_scan

__all__ = ["Atom", "Body", "Constant", "Equation", "Value", "flatten", "is_zero", "made", "repeated", "trace"]

_INLINED = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_SAME = ("copy", "copy_p", "optimization_barrier", "sharding_constraint", "pvary")
_FOLDED = {"abs": np.abs, "max": np.maximum, "min": np.minimum}
"""What is computed of numbers when the program is printed: these give the same bits everywhere."""
_ALIASES = {"reshape": "new_sizes", "broadcast_in_dim": "shape"}


@dataclass(eq=False, slots=True)
class Value:
    """An array that an equation makes, or an input. Compared by identity."""

    shape: tuple[Any, ...]
    dtype: Any
    made_by: Equation | None = None


@dataclass(eq=False, slots=True)
class Constant:
    """A number, or an array that is known when the program is printed."""

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape."""
        return self.array.shape

    @property
    def dtype(self) -> Any:
        """Return the dtype."""
        return self.array.dtype


Atom = Value | Constant


@dataclass(eq=False, slots=True)
class Equation:
    """A primitive of JAX, or an idiom, on atoms."""

    name: str
    inputs: list[Atom]
    outputs: list[Value]
    params: Mapping[str, Any] = field(default_factory=dict)
    bodies: tuple[Body, ...] = ()
    is_several: bool = False
    """Whether the function returns a tuple or a list, perhaps of one."""


@dataclass(eq=False, slots=True)
class Body:
    """Equations between inputs and results. outer: identities of the atoms of the body around it that it reads."""

    inputs: list[Value]
    results: list[Atom]
    outer: frozenset[int] = frozenset()

    def equations(self) -> list[Equation]:
        """Return the equations that results need, each after those it needs itself."""
        order: list[Equation] = []
        visited: set[int] = set()
        stack: list[tuple[Equation, bool]] = [(e, False) for r in reversed(self.results) if (e := self._maker(r))]
        while stack:
            equation, done = stack.pop()
            if done:
                order.append(equation)
            elif id(equation) not in visited:
                visited.add(id(equation))
                stack.append((equation, True))
                stack += [(e, False) for atom in reversed(equation.inputs) if (e := self._maker(atom))]
        return order

    def _maker(self, atom: Atom) -> Equation | None:
        return atom.made_by if isinstance(atom, Value) and id(atom) not in self.outer else None


def made(atom: Atom | None, name: str) -> Equation | None:
    """Return the equation that made an atom, if it is of this primitive."""
    maker = atom.made_by if isinstance(atom, Value) else None
    return maker if maker is not None and maker.name == name else None


def is_zero(atom: Atom) -> bool:
    """Return whether an array is zero everywhere."""
    source = repeated(atom)
    return isinstance(source, Constant) and not source.array.any()


def repeated(atom: Atom) -> Atom:
    """Return what an atom repeats along new axes, or the atom."""
    spread = made(atom, "broadcast_in_dim")
    return repeated(spread.inputs[0]) if spread else atom


def trace(function: Callable[..., Any], *arguments: Any) -> Body:
    """Return the equations of a function of arrays that are described."""
    return flatten(jax.make_jaxpr(function)(*arguments))


def flatten(closed: Any, outer: Sequence[Atom] = ()) -> Body:
    """Return the equations of a jaxpr. outer: what its first inputs are; the others become values."""
    inputs = [Value(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars[len(outer) :]]
    results = _inlined(closed.jaxpr, [*map(_constant, closed.consts), *outer, *inputs])
    return Body(inputs, results, frozenset(map(id, outer)))


def _bodies(name: str, params: Mapping[str, Any], inputs: Sequence[Atom]) -> tuple[Body, ...]:
    """Return the bodies of a loop or the branches of a condition, over the atoms around them."""
    if name == "scan":
        return (flatten(params["jaxpr"], inputs[: params["num_consts"]]),)
    if name == "while":
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        return flatten(params["cond_jaxpr"], inputs[:first]), flatten(params["body_jaxpr"], inputs[first:second])
    return tuple(flatten(branch, inputs[1:]) for branch in params["branches"]) if name == "cond" else ()


def _constant(value: Any) -> Constant:
    return Constant(np.asarray(value))


def _inlined(jaxpr: Any, arguments: Sequence[Atom]) -> list[Atom]:
    atoms: dict[Any, Atom] = dict(zip((*jaxpr.constvars, *jaxpr.invars), arguments, strict=True))

    def read(atom: Any) -> Atom:
        if not hasattr(atom, "val"):  # it is no literal
            return atoms[atom]
        aval: Any = atom.aval
        return _constant(np.asarray(atom.val, aval.dtype))

    for eqn in jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        atoms.update(zip(eqn.outvars, _results(eqn, inputs), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _results(eqn: Any, inputs: list[Atom]) -> Sequence[Atom]:
    name, params = eqn.primitive.name, eqn.params
    if name == "scan":
        params = {**params, **dict(zip(("num_consts", "num_carry"), counts_of_scan(eqn), strict=True))}
    if name == "call_hi_primitive":  # of JAX 0.12: what it is is a function of Python
        primitive = params["_prim"]
        inner = jax.make_jaxpr(primitive.expand)(*primitive.in_avals)
        return _inlined(inner.jaxpr, [*map(_constant, inner.consts), *inputs])
    if name in _INLINED:
        inner = next(params[key] for key in _INNER if key in params)
        if hasattr(inner, "consts"):
            return _inlined(inner.jaxpr, [*map(_constant, inner.consts), *inputs])
        return _inlined(inner, inputs)
    if name in _SAME:
        return inputs
    (first, *_) = inputs or [None]
    if name == "cond" and made(first, "platform_index"):
        default = params["branches"][-1]  # what any platform runs
        return _inlined(default.jaxpr, [*map(_constant, default.consts), *inputs[1:]])
    if name == "convert_element_type" and first is not None:
        if params["new_dtype"] == first.dtype:
            return [first]
        if isinstance(first, Constant) and not first.shape:
            return [Constant(first.array.astype(params["new_dtype"]))]
    if inputs and all(isinstance(atom, Constant) and not atom.shape for atom in inputs):
        numbers = [atom.array for atom in inputs if isinstance(atom, Constant)]
        if name in _FOLDED:
            return [Constant(np.asarray(_FOLDED[name](*numbers)))]
        if name == "mul" and numbers[1] == 1:
            return [inputs[0]]
    if name == "stop_gradient" and first is not None and isinstance(repeated(first), Constant):
        return [first]
    if name == "neg" and (negated := made(first, "neg")):
        return negated.inputs
    if name == "slice" and first is not None and eqn.outvars[0].aval.shape == first.shape:
        return [first]
    if name in _ALIASES and first is not None and tuple(params[_ALIASES[name]]) == first.shape:
        return [first]
    outputs = [Value(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
    equation = Equation(name, inputs, outputs, params, _bodies(name, params, inputs), eqn.primitive.multiple_results)
    for output in outputs:
        output.made_by = equation
    return outputs
