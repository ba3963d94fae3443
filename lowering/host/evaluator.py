"""A jaxpr as a list of calls of NumPy's functions."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import numpy as np

from lowering.host.placed import empty
from lowering.host.primitives import (
    ROWS,
    WITH_KEYS,
    Arrays,
    JaxEquation,
    NotEvaluated,
    dtype_of,
    evaluates,
    is_key,
    is_of_keys,
    require,
    shape_of,
)
from lowering.host.short_axes import ELEMENT_WISE, along_longer_axes

_OF_AN_EQUATION, _OF_AN_ELEMENT = 3.0, 0.25e-3
"""Microseconds by which an equation is slower than compiled: calls of NumPy's and of ours, and reading and writing an
element. Measured with 30,000 and 1,000,000 elements on one core with AVX-512: NumPy's call alone 0.8 to 2; of the
elements of one equation -0.1e-3 to 0.25e-3, of programs of 3 to 58 that XLA fuses 0.08e-3 to 0.2e-3 for each of their
equations. With AVX2, an operator called from `mx.nd` takes 80 more and 5 to 10 for each equation."""

_TIMES = {
    **dict.fromkeys(("slice", "squeeze", "transpose", "broadcast_in_dim"), 0),
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "pow", "sin", "cos", "cbrt"), 8),
    **dict.fromkeys(("gather", "convert_element_type"), 4),
    **dict.fromkeys(("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"), 24),
    **dict.fromkeys(("random_bits", "random_split"), 80),
    **dict.fromkeys(("erf", "erfc"), 250),
    "erf_inv": 32,
    "top_k": 120,
    "lgamma": 350,
    "digamma": 100,
    "polygamma": 200,
}
"""How many times as long an element takes with some primitives, measured likewise: none where NumPy returns a view; exp
and its like are no slower than XLA's where NumPy has them for AVX-512, and so much where it has not."""

profiled = threading.Event()
"""Set while a profiler records what computes: each equation is recorded."""

TURNS = 16
"""The expected number of turns of a loop without a fixed number."""

for _rows in ("arithmetic", "convolved", "gamma_functions", "threefry_bits", "indexing", "reductions", "shapes"):
    importlib.import_module(f"lowering.host.{_rows}")


class Evaluator:
    """Evaluates a jaxpr. Raises NotEvaluated where the table lacks a primitive, or one of its forms.

    microseconds: about how much longer a call takes than that of a compiled program.
    """

    def __init__(self, jaxpr: Any, constants: Sequence[Any]):
        self._slots: dict[Any, int] = {}
        self._numbers: dict[Any, int] = {}
        """The slots of numbers in the program, by their bits."""
        self._results: dict[Any, tuple[int, ...]] = {}
        """The slots of results, by what computes them: rules repeat equations, which XLA makes one."""
        self._given: list[Any] = []
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            self._slot(variable, as_numpy(value)[...])  # a part, so that no result is the constant itself
        self._inputs = [self._slot(variable) for variable in jaxpr.invars]
        dtypes = [variable.aval.dtype for variable in jaxpr.invars]
        self._dtypes = [None if is_key(dtype) else dtype for dtype in dtypes]
        self._calls: list[tuple[Arrays, tuple[int, ...], tuple[int, ...] | int, tuple[int, ...]]] = []
        self._names: list[str] = []
        self.microseconds = 0.0
        for equation in _used(jaxpr):
            self._add(equation)
        self._outputs = [self._read(variable) for variable in jaxpr.outvars]
        self._free_what_is_read_last()
        for names in (self._slots, self._numbers, self._results):
            names.clear()  # they hold parts of the jaxpr, and calls do not read them

    def _free_what_is_read_last(self) -> None:
        """Let each call free the values that no later one reads: a network's would not fit in memory together."""
        read = {*self._outputs}
        for i, (function, ins, outs, _) in reversed([*enumerate(self._calls)]):
            last = {*ins, *((outs,) if type(outs) is int else outs)} - read  # pyright: ignore
            self._calls[i] = function, ins, outs, tuple(last)
            read |= last

    def _slot(self, variable: Any, value: Any = None) -> int:
        self._given.append(value)
        self._slots[variable] = len(self._given) - 1
        return len(self._given) - 1

    def _read(self, variable: Any) -> int:
        if hasattr(variable, "val"):  # a number in the program
            number = np.asarray(variable.val, variable.aval.dtype)[...]  # pyright: ignore
            key = number.dtype, number.shape, number.tobytes()
            if key not in self._numbers:
                self._given.append(number)
                self._numbers[key] = len(self._given) - 1
            return self._numbers[key]
        return self._slots[variable]

    def _add(self, equation: Any) -> None:
        name = equation.primitive.name
        ins = tuple(map(self._read, equation.invars))
        key = None if equation.effects else _key_of(equation, ins)
        if key is not None and key in self._results:
            self._slots.update(zip(equation.outvars, self._results[key], strict=True))
            return
        row = ROWS.get(name)
        has_keys = any(map(is_of_keys, (*equation.invars, *equation.outvars)))
        if row is None or (has_keys and name not in WITH_KEYS):
            raise NotEvaluated(name)
        try:
            function = row(equation)
        except NotEvaluated as error:
            raise NotEvaluated(str(error) or name) from None
        read_and_written = sum(prod(v.aval.shape) for v in (*equation.invars, *equation.outvars))
        elements = getattr(function, "elements", 0) + _TIMES.get(name, 1) * read_and_written
        self.microseconds += _OF_AN_EQUATION + _OF_AN_ELEMENT * elements + getattr(function, "microseconds", 0)
        if name in ELEMENT_WISE:
            function = along_longer_axes(function, shape_of(equation.outvars[0]), dtype_of(equation.outvars[0]))
        outs = tuple(self._slot(variable) for variable in equation.outvars)
        if key is not None:
            self._results[key] = outs
        self._names.append(name)
        self._calls.append((function, ins, outs if equation.primitive.multiple_results else outs[0], ()))

    def taken(self, arrays: Sequence[Any]) -> list[Any]:
        """NumPy's arrays of what a call is given: JAX's arrays, NumPy's of any width, numbers."""
        for array in arrays:
            if hasattr(array, "block_until_ready"):
                array.block_until_ready()  # raises where memory was not allocated: reading it would end the process
        return [
            as_numpy(array) if dtype is None else np.asarray(array, dtype)
            for array, dtype in zip(arrays, self._dtypes, strict=True)
        ]

    def __call__(self, *arrays: Any) -> list[Any]:
        """The values of the outputs for NumPy's arrays."""
        values = [*self._given]
        for slot, array in zip(self._inputs, arrays, strict=True):
            values[slot] = array
        calls = self._recorded_calls() if profiled.is_set() else self._calls
        for function, ins, outs, last in calls:
            result = function(*[values[i] for i in ins])
            if type(outs) is int:
                values[outs] = result
            else:
                for slot, part in zip(outs, result, strict=True):  # pyright: ignore
                    values[slot] = part
            for slot in last:
                values[slot] = None
        return [values[slot] for slot in self._outputs]

    def _recorded_calls(self) -> list[Any]:
        """Return the calls as they are while a profiler records them; programs in programs record their own."""
        return [
            call if hasattr(call[0], "microseconds") else (partial(_recorded, name, call[0]), *call[1:])
            for name, call in zip(self._names, self._calls, strict=True)
        ]


def _recorded(name: str, function: Arrays, *arrays: Any) -> Any:
    with jax.profiler.TraceAnnotation(name, category="operator"):
        return function(*arrays)


def _key_of(equation: Any, ins: tuple[int, ...]) -> Any:
    """Return what equations share that compute the same; None where parameters do not compare."""
    key = equation.primitive, ins, tuple(equation.params.items()), len(equation.outvars)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _used(jaxpr: Any) -> list[Any]:
    """Return the equations that outputs are computed from: tracing leaves others, which XLA drops."""
    read, used = {variable for variable in jaxpr.outvars if not hasattr(variable, "val")}, []
    for equation in reversed(jaxpr.eqns):
        if not read.isdisjoint(equation.outvars) or equation.effects:
            used.append(equation)
            read.update(variable for variable in equation.invars if not hasattr(variable, "val"))
    return used[::-1]


def evaluator_of(closed: Any) -> Evaluator:
    """The evaluator of a closed jaxpr, which has its constants. Raises NotEvaluated."""
    return Evaluator(closed.jaxpr, closed.consts)


def as_numpy(value: Any) -> Any:
    """An array in NumPy's memory; a key as its words."""
    if isinstance(value, jax.Array) and is_key(value.dtype):
        value = jax.random.key_data(value)
    return np.asarray(value)


# -- programs in programs ----------------------------------------------------------------------------------------------


@evaluates("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
def _called(equation: JaxEquation) -> Arrays:
    params = equation.params
    inner: Any = params.get("jaxpr") or params.get("call_jaxpr") or params.get("fun_jaxpr")
    require(inner is not None)
    evaluator = evaluator_of(inner) if hasattr(inner, "consts") else Evaluator(inner, ())
    return _with_cost(lambda *arrays: evaluator(*arrays), evaluator)


def _with_cost(function: Arrays, *inner: Evaluator, turns: int = 1) -> Arrays:
    """Return a function with the estimated time of its programs over a number of turns."""
    vars(function)["microseconds"] = turns * sum(evaluator.microseconds for evaluator in inner)
    return function


@evaluates("platform_index")
def _platform_index(equation: JaxEquation) -> Arrays:
    platforms = equation.params["platforms"]
    (place,) = [i for i, names in enumerate(platforms) if names is None or "cpu" in names][:1]
    return lambda: np.int32(place)


@evaluates("cond")
def _cond(equation: JaxEquation) -> Arrays:
    branches = [evaluator_of(branch) for branch in equation.params["branches"]]
    last = len(branches) - 1

    def choose(which: Any, *arrays: Any) -> Any:
        return branches[min(max(int(which), 0), last)](*arrays)

    return _with_cost(choose, *branches)


@evaluates("while")
def _while(equation: JaxEquation) -> Arrays:
    params = equation.params
    condition, body = evaluator_of(params["cond_jaxpr"]), evaluator_of(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def loop(*arrays: Any) -> Any:
        """A loop over a batch runs until all elements have ended; an element that has ended keeps its state."""
        condition_constants, used, state = arrays[:first], arrays[first:second], arrays[second:]
        while np.any(goes_on := condition(*condition_constants, *state)[0]):
            following = body(*used, *state)
            if goes_on.ndim:
                axes = [(..., *[None] * (np.ndim(old) - goes_on.ndim)) for old in state]
                pairs = zip(axes, following, state, strict=True)
                following = [np.where(goes_on[axis], new, old) for axis, new, old in pairs]
            state = following
        return state

    return _with_cost(loop, condition, body, turns=TURNS)


@evaluates("scan")
def _scan(equation: JaxEquation) -> Arrays:
    params = equation.params
    body, steps = evaluator_of(params["jaxpr"]), params["length"]
    inner = params["jaxpr"].jaxpr  # what has an axis less in the body is a row of each step
    carried = sum(out.aval.ndim == own.aval.ndim for out, own in zip(equation.outvars, inner.outvars, strict=True))
    rows = sum(operand.aval.ndim > own.aval.ndim for operand, own in zip(equation.invars, inner.invars, strict=True))
    constants = len(equation.invars) - carried - rows
    stacked = equation.outvars[carried:]
    order = range(steps - 1, -1, -1) if params["reverse"] else range(steps)

    def loop(*arrays: Any) -> Any:
        used, state, rows = arrays[:constants], arrays[constants : constants + carried], arrays[constants + carried :]
        results = [empty(shape_of(variable), dtype_of(variable)) for variable in stacked]
        for step in order:
            outputs = body(*used, *state, *[array[step] for array in rows])
            state = outputs[:carried]
            for result, part in zip(results, outputs[carried:], strict=True):
                result[step] = part
        return [*state, *results]

    return _with_cost(loop, body, turns=steps)
