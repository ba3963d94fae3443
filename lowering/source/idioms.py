"""Idioms: functions of JAX that people write, recognised where JAX traces them to the equations that a rule has.

No idiom can be wrong: what it stands for is what JAX makes of it, for the same shapes and dtypes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from itertools import starmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.source.equations import (
    Atom,
    Body,
    ComputedArray,
    Equation,
    KnownArray,
    dims_of,
    made,
    merge_equal,
    repeated,
    trace,
)

_Way = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Arrays, or their descriptions, and the options with which a function may have been called on them."""


def _plainly(equation: Equation) -> Iterator[_Way]:
    yield (equation.outputs[0],), {}


def _along_an_axis(equation: Equation) -> Iterator[_Way]:
    ndim = len(equation.outputs[0].shape)
    for axis in range(ndim):
        yield (equation.outputs[0],), {"axis": -1 if axis == ndim - 1 else axis}


def _over_axes(equation: Equation) -> Iterator[_Way]:
    source = repeated(equation.inputs[0])
    total = made(source, "reduce_sum")
    if total is not None:
        axes, ndim = tuple(total.params["axes"]), len(total.inputs[0].shape)
        options = {} if len(axes) == ndim else {"axis": axes[0] if len(axes) == 1 else axes}
        yield tuple(total.inputs), options if source is equation.inputs[0] else {**options, "keepdims": True}


def _drawn(equation: Equation) -> Iterator[_Way]:
    out = equation.outputs[0]
    if out.shape and out.dtype in (np.float32, np.float64) and all(isinstance(size, int) for size in out.shape):
        yield (jax.eval_shape(lambda: jax.random.key(0)),), {"shape": out.shape, "dtype": out.dtype}


def _at_places(equation: Equation) -> Iterator[_Way]:
    (data, places), along = equation.inputs, equation.params["dimension_numbers"].start_index_map
    if len(along) == 1 and equation.params["mode"] == lax.GatherScatterMode.CLIP:
        yield (data, jax.ShapeDtypeStruct(places.shape[:-1], places.dtype)), {"axis": along[0], "mode": "clip"}


_IDIOMS = {
    "div": (
        ("jax.nn.softmax", "exp", _along_an_axis),
        ("jax.nn.soft_sign", "add", _plainly),
        ("jnp.mean", "reduce_sum", _over_axes),
    ),
    "sub": (("jax.nn.log_softmax", "log", _along_an_axis),),
    "mul": (("jax.random.normal", "erf_inv", _drawn),),
    "max": (("jax.random.uniform", "add", _drawn), ("jax.nn.relu", None, _plainly)),
    "gather": (("jnp.take", None, _at_places),),
}
"""Functions of arrays, by the primitive of their last equation, with one that makes an input of it."""

_MODULES = {"jax.nn": jax.nn, "jax.random": jax.random, "jnp": jnp}


@cache
def _pattern(path: str, arrays: tuple[tuple[Any, Any], ...], options: tuple[tuple[str, Any], ...]) -> Body:
    module, name = path.rsplit(".", 1)
    return trace(partial(getattr(_MODULES[module], name), **dict(options)), *starmap(jax.ShapeDtypeStruct, arrays))


def with_idioms(body: Body) -> Body:
    """Put idioms in place of the equations that they are, in a body and in the bodies inside it."""
    merge_equal(body, {})
    _put_idioms(body)
    return body


def _put_idioms(body: Body) -> None:
    for equation in body.equations():
        for inner in equation.bodies:
            _put_idioms(inner)
    results = set(map(id, body.results))
    read = set(results)
    for equation in reversed(body.equations()):
        outputs = set(map(id, equation.outputs))
        # The larger of an array and a number inside a formula is not an activation.
        is_inside = (
            equation.name == "max" and not outputs & results and isinstance(repeated(equation.inputs[1]), KnownArray)
        )
        if outputs & read and not is_inside:
            idiom = _function(equation) or _picked(equation) or _order(equation, read)
            if idiom is not None:
                equation.name, equation.inputs, equation.params = idiom
        if outputs & read:
            read.update(map(id, equation.inputs))


_Found = tuple[str, list[Atom], Mapping[str, Any]]
"""What an equation is instead: a function or a primitive, its inputs and options."""


def _function(equation: Equation) -> _Found | None:
    if equation.name != "gather" and not jnp.issubdtype(equation.outputs[0].dtype, jnp.floating):
        return None
    for path, before, ways in _IDIOMS.get(equation.name, ()):
        is_likely = before is None or any(made(repeated(atom), before) for atom in equation.inputs)
        for arrays, options in ways(equation) if is_likely else ():
            described = tuple((array.shape, array.dtype) for array in arrays)
            if (inputs := _unify(_pattern(path, described, tuple(options.items())), equation)) is not None:
                return path, inputs, options
    return None


def _order(equation: Equation, read: set[int]) -> _Found | None:
    """Return a sort of which only the places are read, as an argsort."""
    if equation.name != "sort" or len(equation.outputs) != 2 or id(equation.outputs[0]) in read:
        return None
    p, (data, places) = equation.params, equation.inputs
    if made(repeated(places), "iota") is None or dims_of(places) != (p["dimension"],) or p["num_keys"] != 1:
        return None
    if places.dtype != jax.dtypes.canonicalize_dtype(np.int64):  # jnp.argsort's
        return None
    equation.outputs, equation.is_several = equation.outputs[1:], False
    return "jnp.argsort", [data], {"axis": p["dimension"], "stable": p["is_stable"]}


def _picked(equation: Equation) -> _Found | None:
    """Return a gather of one element along an axis, for each place in the axes before it."""
    if equation.name != "gather":
        return None
    p, (data, places) = equation.params, equation.inputs
    n, ndim, index = p["dimension_numbers"], len(data.shape), repeated(places)
    axis, is_one = len(n.operand_batching_dims), len(n.collapsed_slice_dims) == 0
    before, sizes = tuple(range(axis)), (*(1 for _ in range(axis + 1)), *data.shape[axis + 1 :])
    expected = (before, before, (axis,), tuple(range(axis + (not is_one), ndim)), sizes, tuple(range(len(index.shape))))
    numbers = (n.operand_batching_dims, n.start_indices_batching_dims, n.start_index_map, n.offset_dims)
    actual = (*numbers, p["slice_sizes"], dims_of(places))
    shape = (*data.shape[:axis], *places.shape[axis : len(places.shape) - 1])
    if not axis or tuple(map(tuple, actual)) != expected or index.shape != shape or len(shape) != axis + (not is_one):
        return None
    mode, counted = lax.GatherScatterMode(p["mode"]), _from_either_end(index, data.shape[axis])
    if mode != lax.GatherScatterMode.PROMISE_IN_BOUNDS and (counted is None or mode != lax.GatherScatterMode.CLIP):
        return None
    index = index if counted is None else counted
    if ndim > len(shape):
        column = ComputedArray((*shape, *(1 for _ in range(ndim - len(shape)))), index.dtype)
        dims = {"shape": column.shape, "broadcast_dimensions": tuple(range(len(shape)))}
        column.made_by = Equation("broadcast_in_dim", [index], [column], dims)
        index = column
    return "jnp.take_along_axis", [data, index], {"axis": axis, "mode": "clip" if counted else "promise_in_bounds"}


def _from_either_end(index: Atom, size: Any) -> Atom | None:
    """Return the indices, of which negative ones count from the end, that these are counted from the start."""
    if (chosen := made(index, "select_n")) is None or len(chosen.inputs) != 3:
        return None
    (which, plain, wrapped), zero = chosen.inputs, np.zeros((), index.dtype)
    below, above = made(which, "lt"), made(wrapped, "add")
    if below is None or above is None or not below.inputs[0] is above.inputs[0] is plain:
        return None
    bounds = [repeated(e.inputs[1]) for e in (below, above)]
    numbers = [bound.array for bound in bounds if isinstance(bound, KnownArray) and not bound.shape]
    return plain if numbers == [zero, size] else None


# -- matching ----------------------------------------------------------------------------------------------------------


def _unify(pattern: Body, equation: Equation) -> list[Atom] | None:
    """Return what the pattern's inputs are where its result is the equation's; None where it is another."""
    bound: dict[int, Atom] = {}
    (result,) = pattern.results
    if not isinstance(result, ComputedArray) or not result.made_by or not _same(result.made_by, equation, bound):
        return None
    return [bound[id(value)] for value in pattern.inputs] if len(bound) >= len(pattern.inputs) else None


def _same(pattern: Equation, equation: Equation, bound: dict[int, Atom]) -> bool:
    return (
        pattern.name == equation.name
        and len(pattern.inputs) == len(equation.inputs)
        and not pattern.bodies
        and _equal_params(pattern.params, equation.params)
        and all(_match(a, b, bound) for a, b in zip(pattern.inputs, equation.inputs, strict=True))
    )


def _match(pattern: Atom, atom: Atom, bound: dict[int, Atom]) -> bool:
    if isinstance(atom := _number(atom), KnownArray) and isinstance(number := _number(pattern), KnownArray):
        return number.dtype == atom.dtype and np.array_equal(number.array, atom.array)
    if isinstance(pattern, KnownArray) or pattern.shape != atom.shape or pattern.dtype != atom.dtype:
        return False
    partner = bound.get(id(pattern))
    if partner is not None:
        return partner is atom
    if pattern.made_by is not None:
        maker = made(atom, pattern.made_by.name)
        if maker is None or not _same(pattern.made_by, maker, bound):
            return False
    bound[id(pattern)] = atom
    return True


def _number(atom: Atom) -> Atom:
    """Return the number that an atom repeats, or the atom."""
    source = repeated(atom)
    return source if isinstance(source, KnownArray) and not source.shape else atom


def _equal_params(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        one[key] == other[key] or key in ("sharding", "out_sharding", "jvp_jaxpr_fun") for key in one
    )
