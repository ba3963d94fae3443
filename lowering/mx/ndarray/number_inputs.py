"""Operators whose numbers are not constants of programs, so that calls with other numbers run the same one.

Outside of `record()` that needs rules that take numbers as arrays (`OfAnyNumber`). Inside, the numbers become inputs
(`Form`): a slice becomes `take` of its indices, `clip` a minimum of a maximum, an operator with a scalar that of two
arrays. The first numbers of an operator stay parameters: a network has few, and their programs are faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import isfinite, prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lowering.core.python_calls import is_called_back
from lowering.core.rules import FLowering
from lowering.host.placed import placed
from lowering.mx.tape import policy
from lowering.mx.tape.expressions import Expression, first_of_equal, is_wide, shared_expression, variable_name
from lowering.mx.tape.recording import Arrays
from symjax_nnvm.errors import ParamError
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ops.shape.slice import axis_piece, kept_indices
from symjax_nnvm.pipeline import Options
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol import function_named
from symjax_nnvm.symbol.symbol import Symbol


class OfAnyNumber(Expression):
    """An expression of one operator with some parameters as arguments: a change of such a parameter, for example the
    learning rate, compiles nothing anew. It has no gradients: the numbers are not in its graph."""

    def __init__(self, expression: Expression, changing: tuple[str, ...]):
        super().__init__(expression.symbol, expression.is_train, expression.platform, changing)
        self.changing = changing

    def outputs(self, values: Sequence[jax.Array], numbers: Sequence[Any]) -> tuple[list[jax.Array], Arrays]:
        """(outputs, new states by name) for the values of the variables in their order, and the parameters."""
        if not is_called_back():  # Python that a program waits for may not use such arrays
            wide = is_wide()
            numbers = [_array_of(number, wide) if number else number for number in numbers]  # -0.0 equals 0.0
        return self.forward(values, numbers)

    def _forward_for(self, platform: str) -> Any:
        options = Options(is_train=self.is_train, platform=platform)
        program = self.programs.as_given(options)  # stages would read the numbers
        (step,) = program.steps

        def forward(values: Sequence[jax.Array], numbers: Sequence[Any]) -> tuple[list[jax.Array], Arrays]:
            named = dict(zip(self.names, values, strict=True))
            states = {name: named.pop(name) for name in program.aux_names}
            params = type(step.params)(**{**vars(step.params), **dict(zip(self.changing, numbers, strict=True))})
            env = program.environment(program.bind(named, states))
            program.run_steps([replace(step, params=params)], env, None)
            return program.collect(env)

        return forward


@lru_cache(policy.KEPT_NUMBERS, typed=True)
def _array_of(number: Any, wide: bool) -> jax.Array:
    """Return a number as an array, which a compiled function takes faster. wide: whether JAX is in its 64-bit mode."""
    with jax.ensure_compile_time_eval():
        return jnp.asarray(number)


def of_any_number(expression: Expression) -> tuple[OfAnyNumber, list[Any]] | None:
    """What computes an expression for any numbers, the same for all that differ only in these, and its numbers; None
    where no rule takes a number as an array."""
    operators = [node for node in post_order(expression.symbol.outputs) if not node.is_variable]
    rule = FLowering.get(operators[0].op) if len(operators) == 1 else None
    params = {} if rule is None else vars(operators[0].attrs.parsed)
    changing = () if rule is None else tuple(name for name in rule.changing if name in params)
    if not changing:
        return None
    return first_of_equal(OfAnyNumber(expression, changing)), [params[name] for name in changing]


class Form(NamedTuple):
    """An expression of an array a0 and of numbers, and the numbers as arrays."""

    expression: Expression
    numbers: Sequence[jax.Array]


FormOf = Callable[[tuple[int, ...], np.dtype, Any], Form | None]
"""(shape and dtype of an array, the device that the numbers go to, None where JAX decides) → the form; None where only
the operator itself knows the result, or the error."""


_OF_TWO = {
    "_plus_scalar": "broadcast_add",
    "_minus_scalar": "broadcast_sub",
    "_rminus_scalar": "broadcast_sub",
    "_rdiv_scalar": "broadcast_div",
    **{f"_{name}_scalar": f"broadcast_{name}" for name in ("mul", "div", "maximum", "minimum", "hypot")},
    **{f"_{name}_scalar": f"broadcast_{name}" for name in ("greater", "greater_equal", "lesser", "lesser_equal")},
}

_numbers: Recent[Any, set[Any]] = Recent(policy.KEPT_EXPRESSIONS)
"""The numbers that are parameters, by operator and by what else distinguishes its calls."""


def form_for(expression: Expression) -> FormOf | None:
    """What gives the form of an expression; None where its numbers stay parameters."""
    node, name = expression.symbol.outputs[0].node, expression.operator
    form = _FORMS.get(name)
    if form is None or len(node.inputs) != 1 or not node.inputs[0].node.is_variable:
        return None
    p = node.attrs.parsed
    numbers = tuple(vars(p).values())
    first = _numbers.setdefault((name, *map(type, numbers)), set())
    if len(first) < policy.NUMBERS_AS_PARAMETERS:
        first.add(numbers)
    if numbers in first:
        return None

    def form_of(shape: tuple[int, ...], dtype: np.dtype, device: Any) -> Form | None:
        is_clear = shape and 0 not in shape and not is_called_back()  # Python that a program waits for makes no arrays
        made = form(name, p, shape, dtype) if is_clear else None
        if made is None:
            return None
        symbol, arrays = made
        form_expression = shared_expression(symbol, 1 + len(arrays), expression.is_train, expression.platform)
        return Form(form_expression, placed(arrays, device))

    return form_of


def _scalar(name: str, p: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Symbol, list[np.ndarray]] | None:
    if not jnp.issubdtype(dtype, jnp.floating) or not isfinite(p.scalar):
        return None
    return _of_two(_OF_TWO[name], name.startswith("_r")), [_number(p.scalar, dtype)]


def _clip(_: str, p: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Symbol, list[np.ndarray]] | None:
    if not jnp.issubdtype(dtype, jnp.floating) or not (isfinite(p.a_min) and isfinite(p.a_max)):
        return None
    return _of_clip(), [_number(p.a_min, dtype), _number(p.a_max, dtype)]


def _number(number: float, dtype: np.dtype) -> np.ndarray:
    with np.errstate(over="ignore"):  # of half precision it may be infinite
        return np.array([number], dtype)


def _slice(name: str, p: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Symbol, list[np.ndarray]] | None:
    if name == "slice_axis":
        if not -len(shape) <= p.axis < len(shape):
            return None
        axis = p.axis % len(shape)
        try:
            ranges = {axis: range(*axis_piece(p, shape[axis]).indices(shape[axis]))}
        except ParamError:
            return None
    elif len(p.begin) <= len(shape):
        ranges = {axis: kept_indices(p, axis, length) for axis, length in enumerate(shape)}
    else:
        return None
    cut = {axis: indices for axis, indices in ranges.items() if indices != range(shape[axis])}
    if not cut or not all(cut.values()):
        return None
    if prod(len(ranges.get(axis, range(length))) for axis, length in enumerate(shape)) > policy.LARGEST_TAKEN:
        return None
    return _of_slice(tuple(cut)), [np.asarray(indices, np.int32) for indices in cut.values()]


def _variables(count: int) -> list[Symbol]:
    return [Symbol.create_variable(variable_name(i)) for i in range(count)]


@lru_cache
def _of_two(name: str, is_reflected: bool) -> Symbol:
    data, number = _variables(2)
    return function_named(name)(*((number, data) if is_reflected else (data, number)))


@lru_cache
def _of_clip() -> Symbol:
    data, low, high = _variables(3)
    return function_named("broadcast_minimum")(function_named("broadcast_maximum")(data, low), high)


@lru_cache
def _of_slice(axes: tuple[int, ...]) -> Symbol:
    data, *indices = _variables(1 + len(axes))
    take: Any = function_named("take")
    for axis, places in zip(axes, indices, strict=True):
        data = take(data, places, axis=axis)
    return data


_FORMS = {**dict.fromkeys(_OF_TWO, _scalar), "clip": _clip, "slice": _slice, "slice_axis": _slice}
