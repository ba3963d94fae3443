"""Idioms: functions of JAX that people write, recognised where JAX traces them to the very equations that a rule has.

No idiom can be wrong: what it stands for is what JAX makes of it, for the same shapes and dtypes. Two are patterns of
their own: a mean, and the maximum of slices that are the places of a window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.source.equations import Atom, Body, Constant, Equation, Value, trace
from lowering.source.expressions import dtype_text, number_text, tuple_text, value_text

__all__ = ["with_idioms"]


@dataclass(frozen=True)
class _Idiom:
    """A function of JAX of one array of the result's shape. last: the primitive of its last equation. options: of
    each way to call it. numbers: the names of numbers that the equations tell."""

    function: str
    last: str
    options: tuple[Mapping[str, Any], ...] = ({},)
    over_axis: bool = False

    def ways(self, ndim: int) -> Iterator[Mapping[str, Any]]:
        """Return the options of each way to call it on an array of so many axes."""
        for options in self.options:
            for axis in range(ndim) if self.over_axis else (None,):
                yield {**options, **({} if axis is None else {"axis": axis - ndim if axis == ndim - 1 else axis})}


_IDIOMS = (
    _Idiom("jax.nn.softmax", "div", over_axis=True),
    _Idiom("jax.nn.log_softmax", "sub", over_axis=True),
    _Idiom("jax.nn.gelu", "mul", ({"approximate": False}, {"approximate": True})),
    _Idiom("jax.nn.silu", "mul"),
    _Idiom("jax.nn.relu", "max"),
    _Idiom("jax.nn.relu6", "min"),
    _Idiom("jax.nn.softplus", "select_n"),
    _Idiom("jax.nn.soft_sign", "div"),
    _Idiom("jax.nn.elu", "select_n"),
    _Idiom("jax.nn.selu", "mul"),
)
_DRAWS = (
    ("jax.random.normal", "mul"),
    ("jax.random.uniform", "max"),
)


def _function(path: str) -> Callable[..., Any]:
    module, name = path.rsplit(".", 1)
    return getattr({"jax.nn": jax.nn, "jax.random": jax.random}[module], name)


@cache
def _pattern(path: str, shape: tuple[Any, ...], dtype: Any, options: tuple[tuple[str, Any], ...]) -> Body:
    described = jax.ShapeDtypeStruct(shape, dtype)
    if path.startswith("jax.random"):
        key = jax.eval_shape(lambda: jax.random.key(0))
        return trace(partial(_function(path), shape=shape, dtype=dtype), key)
    return trace(partial(_function(path), **dict(options)), described)


def with_idioms(body: Body) -> Body:
    """Put idioms in the place of the equations that they are, in a body and in the bodies inside it."""
    for equation in body.equations():
        for inner in equation.bodies:
            with_idioms(inner)
    results = set(map(id, body.results))
    for equation in reversed(body.equations()):
        if equation.name == "max" and not results.intersection(map(id, equation.outputs)):
            continue  # the larger of two numbers inside a formula is no activation
        idiom = _found(equation)
        if idiom is not None:
            equation.name, equation.inputs, equation.params = idiom.name, idiom.inputs, idiom.params
    return body


def _idiom(text: str, inputs: Sequence[Atom], **consts: str) -> Equation:
    return Equation("idiom", list(inputs), [], {"text": text, "consts": consts})


def _found(equation: Equation) -> Equation | None:
    if len(equation.outputs) != 1:
        return None
    (out,) = equation.outputs
    if jnp.issubdtype(out.dtype, jnp.floating):
        for idiom in _IDIOMS:
            if idiom.last == equation.name:
                for options in idiom.ways(len(out.shape)):
                    bound = _bound(equation, idiom.function, tuple(options.items()))
                    if bound:
                        given = "".join(f", {key}={{{key}}}" for key in options)
                        texts = {key: value_text(value) for key, value in options.items()}
                        return _idiom(f"{idiom.function}({{0}}{given})", bound, **texts)
        for path, last in _DRAWS:
            if last == equation.name and out.shape and out.dtype in (np.float32, np.float64):
                bound = _bound(equation, path, ())
                if bound and all(isinstance(size, int) for size in out.shape):
                    shape = tuple_text(out.shape)
                    return _idiom(f"{path}({{0}}, {{shape}}, {dtype_text(out.dtype)})", bound, shape=shape)
    return _mean(equation) or _windows(equation)


# -- matching ----------------------------------------------------------------------------------------------------------


def _bound(equation: Equation, path: str, options: tuple[tuple[str, Any], ...]) -> list[Atom] | None:
    """Return what the function's inputs are where it gives the equation's result; it is traced for the very shape
    only if the primitives of a small array's are those of the equation."""
    (out,) = equation.outputs
    alike = _pattern(path, (2,) * len(out.shape), out.dtype, options)
    if not _has_primitives(alike.results[0], out):
        return None
    return _unify(_pattern(path, out.shape, out.dtype, options), equation)


def _has_primitives(pattern: Atom, atom: Atom) -> bool:
    """Return whether an atom is made by primitives of the same names as a pattern's, broadcasts left aside."""
    if isinstance(pattern, Constant) or pattern.made_by is None or pattern.made_by.name == "broadcast_in_dim":
        return True
    made = atom.made_by if isinstance(atom, Value) else None
    return (
        made is not None
        and made.name == pattern.made_by.name
        and all(map(_has_primitives, pattern.made_by.inputs, made.inputs))
    )


def _unify(pattern: Body, equation: Equation) -> list[Atom] | None:
    """Return what the pattern's inputs are where its result is the equation's; None where it is another."""
    bound: dict[int, Atom] = {}
    (result,) = pattern.results
    if not isinstance(result, Value) or not result.made_by or not _same(result.made_by, equation, bound):
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
    if isinstance(atom := _number(atom), Constant) and isinstance(number := _number(pattern), Constant):
        return number.dtype == atom.dtype and np.array_equal(number.array, atom.array)
    if isinstance(pattern, Constant) or pattern.shape != atom.shape or pattern.dtype != atom.dtype:
        return False
    known = bound.get(id(pattern))
    if known is not None:
        return known is atom
    if pattern.made_by is None:
        bound[id(pattern)] = atom
        return True
    if not isinstance(atom, Value) or atom.made_by is None or not _same(pattern.made_by, atom.made_by, bound):
        return False
    bound[id(pattern)] = atom
    return True


def _number(atom: Atom) -> Atom:
    """Return the number that an atom repeats, or the atom."""
    made = _made(atom, "broadcast_in_dim")
    return made.inputs[0] if made and isinstance(made.inputs[0], Constant) and not made.inputs[0].shape else atom


def _equal_params(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        one[key] == other[key] or key in ("sharding", "out_sharding", "jvp_jaxpr_fun") for key in one
    )


# -- patterns ----------------------------------------------------------------------------------------------------------


def _made(atom: Atom, name: str) -> Equation | None:
    """Return the equation that made an atom, if it is of this primitive."""
    found = atom.made_by if isinstance(atom, Value) else None
    return found if found is not None and found.name == name else None


def _mean(equation: Equation) -> Equation | None:
    """sum / n → jnp.mean, of dtypes in which it sums."""
    if equation.name != "div" or equation.outputs[0].dtype not in (np.float32, np.float64):
        return None
    total, count = equation.inputs
    spread = _made(total, "broadcast_in_dim")
    summed = _made(spread.inputs[0] if spread else total, "reduce_sum")
    if summed is None:
        return None
    data, axes = summed.inputs[0], summed.params["axes"]
    size = math.prod(data.shape[axis] for axis in axes)
    if isinstance(count := _number(count), Constant):
        if count.shape or not isinstance(size, int) or size != count.array:
            return None
    else:
        cast = _made(count, "convert_element_type")
        number = cast and _made(cast.inputs[0], "dim_as_value")
        if not number or number.params["dim"] != size:
            return None
    which = "" if len(axes) == len(data.shape) else ", axis={axis}"
    if spread is not None:
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(data.shape))
        dims = tuple(axis for axis in range(len(data.shape)) if axis not in axes)
        if spread.outputs[0].shape != kept or tuple(spread.params["broadcast_dimensions"]) != dims:
            return None
        which += ", keepdims=True"
    axis = str(axes[0]) if len(axes) == 1 else tuple_text(axes)
    return _idiom(f"jnp.mean({{0}}{which})", [data], **({"axis": axis} if "axis" in which else {}))


_OF_WINDOWS = {"max": "lax.max", "add": "lax.add"}


def _windows(equation: Equation) -> Equation | None:
    """Return the maximum or the sum of slices, one for each place of a window, as reduce-window: they are equal, and
    the gradient of a maximum goes to one element of a window, as MXNet's does."""
    slices: list[Equation] = []
    name = equation.name
    if name not in _OF_WINDOWS:
        return None
    while equation.name == name:
        left, right = equation.inputs
        last, before = _made(right, "slice"), _made(left, name) or _made(left, "slice")
        if last is None or before is None:
            return None
        slices, equation = [last, *slices], before
    slices = [equation, *slices]
    source, ndim = slices[0].inputs[0], len(slices[0].inputs[0].shape)
    if len(slices) < 2 or any(s.name != "slice" or s.inputs[0] is not source for s in slices):
        return None
    starts = [tuple(s.params["start_indices"]) for s in slices]
    strides = {tuple(s.params["strides"] or (1,) * ndim) for s in slices}
    shape = slices[0].outputs[0].shape
    if len(strides) != 1 or any(s.outputs[0].shape != shape for s in slices) or any(starts[0]):
        return None
    window = tuple(last + 1 for last in starts[-1])
    if not all(isinstance(n, int) for n in window) or starts != list(itertools.product(*map(range, window))):
        return None
    (steps,) = strides
    # With one window the stride says nothing; the size of the result says how far windows go.
    sizes = [(n - 1) * s + k for n, s, k in zip(shape, steps, window, strict=True)]
    padded = _made(source, "pad")
    padding, data = [(0, 0)] * ndim, source
    is_float = jnp.issubdtype(source.dtype, jnp.floating)
    lowest = 0 if name == "add" else -np.inf if is_float else jnp.iinfo(source.dtype).min
    if padded is not None and isinstance(padded.inputs[1], Constant) and padded.inputs[1].array == lowest:
        config = padded.params["padding_config"]
        if all(low >= 0 and high >= 0 and not inner for low, high, inner in config):
            padding, data = [(low, high) for low, high, _ in config], padded.inputs[0]
    for axis, (size, whole) in enumerate(zip(sizes, source.shape, strict=True)):
        if window[axis] == 1 and steps[axis] == 1:
            continue
        # What no window reaches must be less than another step.
        if not isinstance(whole, int) or not size <= whole < size + steps[axis]:
            return None
    pads = "[" + ", ".join(map(tuple_text, padding)) + "]" if any(map(any, padding)) else '"VALID"'
    initial = number_text(np.asarray(lowest, source.dtype))
    return _idiom(
        f"lax.reduce_window({{0}}, {initial}, {_OF_WINDOWS[name]}, {{window}}, {{strides}}, {{padding}})",
        [data],
        window=tuple_text(window),
        strides=tuple_text(steps),
        padding=pads,
    )
