"""A jaxpr as plain equations: calls are inlined, what changes nothing is left out, constants are NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from lowering.native.unpromised import counts_of_scan

_INLINED = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_COPIES = ("copy", "copy_p", "optimization_barrier", "sharding_constraint", "pvary")
_FOLDED = {"abs": np.abs, "max": np.maximum, "min": np.minimum, "sign": np.sign, "eq": np.equal, "lt": np.less}
"""What is computed of numbers when the program is printed: these give the same bits everywhere."""


@dataclass(eq=False, slots=True)
class ComputedArray:
    """An array that an equation makes, or an input. Compared by identity."""

    shape: tuple[Any, ...]
    dtype: Any
    made_by: Equation | None = None


@dataclass(eq=False, slots=True)
class KnownArray:
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


Atom = ComputedArray | KnownArray


@dataclass(eq=False, slots=True)
class Equation:
    """A primitive of JAX, or an idiom, on atoms."""

    name: str
    inputs: list[Atom]
    outputs: list[ComputedArray]
    params: Mapping[str, Any] = field(default_factory=dict)
    bodies: tuple[Body, ...] = ()
    is_several: bool = False
    """Whether the function returns a tuple or a list, perhaps of one."""


@dataclass(eq=False, slots=True)
class Body:
    """Equations between inputs and results. outer: identities of the atoms of the body around it that it reads."""

    inputs: list[ComputedArray]
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
        return atom.made_by if isinstance(atom, ComputedArray) and id(atom) not in self.outer else None


def made(atom: Atom | None, name: str) -> Equation | None:
    """Return the equation that made an atom, if it is of this primitive."""
    maker = atom.made_by if isinstance(atom, ComputedArray) else None
    return maker if maker is not None and maker.name == name else None


def is_zero(atom: Atom) -> bool:
    """Return whether an array is zero everywhere."""
    source = repeated(atom)
    return isinstance(source, KnownArray) and not source.array.any()


def repeated(atom: Atom) -> Atom:
    """Return the operand if an atom only broadcasts it along new axes; else the atom."""
    spread = made(atom, "broadcast_in_dim")
    return repeated(spread.inputs[0]) if spread else atom


def _identity(atom: Atom) -> object:
    return (atom.dtype, atom.shape, atom.array.tobytes()) if isinstance(atom, KnownArray) else id(atom)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def dims_of(atom: Atom) -> tuple[int, ...]:
    """Return the axes along which an array is what it repeats, which has none of its own."""
    spread = made(atom, "broadcast_in_dim")
    return tuple(spread.params["broadcast_dimensions"]) if spread else tuple(range(len(atom.shape)))


def merge_equal(body: Body, same: dict[int, ComputedArray]) -> None:
    """Have equal equations done once, in a body and in those inside it. same: what values of outer bodies became."""
    first: dict[object, Equation] = {}
    same = dict(same)
    for e in body.equations():
        e.inputs = [same.get(id(atom), atom) for atom in e.inputs]
        for inner in e.bodies:
            inner.outer |= {id(same[outer]) for outer in inner.outer if outer in same}
            merge_equal(inner, same)
        if not e.bodies:
            params = tuple(e.params.items())
            key = (e.name, params, *map(_identity, e.inputs)) if _is_hashable(params) else id(e)
            other = first.setdefault(key, e)
            same |= {id(value): twin for value, twin in zip(e.outputs, other.outputs, strict=True) if value is not twin}
    body.results = [same.get(id(atom), atom) for atom in body.results]


def trace(function: Callable[..., Any], *arguments: Any) -> Body:
    """Return the equations of a function of arrays that are described."""
    return flatten(jax.make_jaxpr(function)(*arguments))


def flatten(closed: Any, outer: Sequence[Atom] = ()) -> Body:
    """Return the equations of a jaxpr. outer: what its first inputs are; the others become values."""
    inputs = [ComputedArray(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars[len(outer) :]]
    results = _inlined(closed.jaxpr, [*map(_constant, closed.consts), *outer, *inputs])
    return Body(inputs, results, frozenset(map(id, outer)))


def _with_bodies(eqn: Any, inputs: list[Atom]) -> tuple[list[Atom], tuple[Body, ...]]:
    """Return the inputs of a loop or a condition, those that its bodies read around them last, and these bodies."""
    params, jaxprs, outer = eqn.params, (), 0
    if eqn.primitive.name == "scan":
        jaxprs, outer = (params["jaxpr"],), counts_of_scan(eqn)[0]
    elif eqn.primitive.name == "while":
        first, second = params["cond_nconsts"], params["body_nconsts"]
        test, outer = flatten(params["cond_jaxpr"], inputs[:first]), first + second
        return [*inputs[outer:], *inputs[:outer]], (test, flatten(params["body_jaxpr"], inputs[first:outer]))
    elif eqn.primitive.name == "cond":
        inputs, jaxprs, outer = [*inputs[1:], inputs[0]], params["branches"], len(inputs) - 1
    return [*inputs[outer:], *inputs[:outer]], tuple(flatten(jaxpr, inputs[:outer]) for jaxpr in jaxprs)


def _constant(value: Any) -> KnownArray:
    return KnownArray(np.asarray(value))


def _inlined(jaxpr: Any, arguments: Sequence[Atom]) -> list[Atom]:
    atoms: dict[Any, Atom] = dict(zip((*jaxpr.constvars, *jaxpr.invars), arguments, strict=True))

    def read(atom: Any) -> Atom:
        if not hasattr(atom, "val"):  # it is not a literal
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
        params = {**params, "num_carry": counts_of_scan(eqn)[1]}
    if name == "call_hi_primitive":  # of JAX 0.12: what it is is a function of Python
        primitive = params["_prim"]
        inner = jax.make_jaxpr(primitive.expand)(*primitive.in_avals)
        return _inlined(inner.jaxpr, [*map(_constant, inner.consts), *inputs])
    if name in _INLINED:
        inner = next(params[key] for key in _INNER if key in params)
        if hasattr(inner, "consts"):
            return _inlined(inner.jaxpr, [*map(_constant, inner.consts), *inputs])
        return _inlined(inner, inputs)
    if name in _COPIES:
        return inputs
    if name == "cond" and made(inputs[0], "platform_index"):
        default = params["branches"][-1]  # what any platform runs
        return _inlined(default.jaxpr, [*map(_constant, default.consts), *inputs[1:]])
    if name in _FOLDED and all(isinstance(atom, KnownArray) and not atom.shape for atom in inputs):
        return [KnownArray(np.asarray(_FOLDED[name](*(atom.array for atom in inputs if isinstance(atom, KnownArray)))))]
    outputs = [ComputedArray(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
    if name == "iota" and len(outputs[0].shape) > 1:
        axis = params["dimension"]
        row = ComputedArray((outputs[0].shape[axis],), outputs[0].dtype)
        row.made_by = Equation(name, [], [row], {"shape": row.shape, "dtype": row.dtype})
        name, params = "broadcast_in_dim", {"shape": outputs[0].shape, "broadcast_dimensions": (axis,)}
        inputs = [*inputs, row]
    if inputs and (same := _same(name, inputs, params, outputs[0])) is not None:
        return [same]
    if inputs and len(outputs) == 1:
        name, inputs, params = _merged(name, inputs, params, outputs[0])
    inputs, bodies = _with_bodies(eqn, inputs)
    equation = Equation(name, inputs, outputs, params, bodies, eqn.primitive.multiple_results)
    for output in outputs:
        output.made_by = equation
    return outputs


def _same(name: str, inputs: list[Atom], params: Mapping[str, Any], out: ComputedArray) -> Atom | None:
    """Return the atom that an equation does not change."""
    first, second = inputs[0], inputs[-1]
    if name == "convert_element_type" and isinstance(first, KnownArray) and not first.shape:
        return KnownArray(first.array.astype(out.dtype))
    if name == "select_n" and isinstance(first, KnownArray) and not first.shape:
        return inputs[1 + int(first.array)]
    if name == "neg" and (negated := made(first, "neg")):
        return negated.inputs[0]
    if name == "reshape" and (before := made(first, "reshape")) and before.inputs[0].shape == out.shape:
        return before.inputs[0]
    if name == "slice" and params["strides"] is None and (together := made(first, "concatenate")):
        axis = together.params["dimension"]
        ends = itertools.accumulate(atom.shape[axis] for atom in together.inputs)
        for atom, end in zip(together.inputs, ends, strict=True):
            if atom.shape == out.shape and end == params["limit_indices"][axis]:
                return atom
    is_one = isinstance(one := repeated(second), KnownArray) and not one.shape and one.array == 1
    changes_nothing = (
        (name in ("mul", "div") and is_one)
        or (name == "stop_gradient" and isinstance(repeated(first), KnownArray))
        or (name in ("slice", "reshape", "convert_element_type"))
        or (name == "broadcast_in_dim")
    )
    return first if changes_nothing and (first.shape, first.dtype) == (out.shape, out.dtype) else None


def _merged(
    name: str, inputs: list[Atom], params: Mapping[str, Any], out: ComputedArray
) -> tuple[str, list[Atom], Mapping[str, Any]]:
    """Return an equation that does what this one and those before it do."""
    first = inputs[0]
    if name == "reshape" and (before := made(first, "reshape")):
        return _merged(name, before.inputs, params, out)
    if name == "broadcast_in_dim" and (inner := made(first, "broadcast_in_dim")):
        dims = [params["broadcast_dimensions"][d] for d in inner.params["broadcast_dimensions"]]
        return name, inner.inputs, {**params, "broadcast_dimensions": tuple(dims)}
    if name == "reshape" and isinstance(first, ComputedArray) and first.made_by:
        dims = list[int]()
        for axis, size in enumerate(out.shape):
            if len(dims) < len(first.shape) and size == first.shape[len(dims)]:
                dims.append(axis)
        if len(dims) == len(first.shape) and all(_is_unit(s) for i, s in enumerate(out.shape) if i not in dims):
            return "broadcast_in_dim", inputs, {"shape": out.shape, "broadcast_dimensions": tuple(dims)}
    if name in ("squeeze", "reshape") and (cut := made(first, "slice")):
        axes = params.get("dimensions") or tuple(axis for axis, size in enumerate(first.shape) if _is_unit(size))
        if tuple(size for axis, size in enumerate(first.shape) if axis not in axes) == out.shape:
            return "index", cut.inputs, {**cut.params, "axes": axes}
    return name, inputs, params


def _is_unit(size: Any) -> bool:
    return isinstance(size, int) and size == 1
