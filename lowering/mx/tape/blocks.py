"""`CachedProgram`: a symbol, such as a traced block, as compiled programs: one forward, and one backward from what the
forward kept.

They are an executor's functions (`lowering/executor/jitted_functions.py`), and a `Predictor` for inference: the tape
records a call of the whole block as one call, which computes its gradients from residuals, and waits for its backward
pass if it can (`programs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from lowering.convolutions.backends import OWNED
from lowering.core.cache import Programs
from lowering.core.python_calls import refuse_without_client
from lowering.executor.bound_arrays import Place, fill, writing
from lowering.executor.jitted_functions import ExecutorFunctions, Randomness
from lowering.executor.ways import Ways
from lowering.host.numpy_keys import key_of_seed
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import chosen_effort, may_evaluate
from lowering.mx.context import Context
from lowering.mx.keys import next_randomness
from lowering.mx.ndarray.array import NDArray, like_jax
from lowering.mx.tape import policy, recording
from lowering.mx.tape.backward import has_gradient
from lowering.mx.tape.expressions import is_wide
from lowering.mx.tape.programs import WaitingCall, ways_of
from lowering.mx.tape.recording import Arrays, Call, Given, origin
from lowering.mx.tape.serving import Serving
from lowering.xla.platforms import current_platform, kind_of
from symjax_nnvm.inspect.fixed_inputs import fixed_inputs
from symjax_nnvm.pipeline import Options
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.symbol import Symbol

OpHook = tuple[Callable[[str, str, NDArray], Any], bool]
"""(a function of the names of a value and of its operator, and the value; whether it gets inputs, too)."""


class CachedProgram:
    """A symbol as a function of NDArrays, in the order of `list_inputs()`; what runs is compiled at the first call of
    its kind. data_names: the inputs that every call gives; the others are parameters. effort: as `Ways` takes it.
    op_hook: is called for the operators of each forward pass."""

    def __init__(self, symbol: Symbol, data_names: Collection[str], effort: str | None = None):
        self._effort = effort
        self.symbol, self.names = symbol, symbol.list_inputs()
        self._states = {name: self.names.index(name) for name in symbol.list_auxiliary_states()}
        self._programs = Programs(symbol, mixes_dtypes=False)
        self._ways: Recent[Any, Ways] = Recent(policy.KEPT_TAPES)
        self._functions: Recent[Any, _Function] = Recent(policy.KEPT_TAPES)
        fixed = [fixed_inputs(symbol, lambda _, recorded=recorded: recorded) for recorded in (False, True)]
        self._fixed = [[(self.names.index(name), number) for name, number in numbers.items()] for numbers in fixed]
        """The inputs that a call sets to a number, by whether it is recorded."""
        self._serving = Serving(symbol, self._programs, data_names)
        self.op_hook: OpHook | None = None

    def __call__(self, arrays: Sequence[NDArray], context: Context) -> list[NDArray]:
        """The outputs, on the context of the arrays; states are written, and the call is recorded: it waits if it
        writes none."""
        refuse_without_client()
        is_recording, is_train, hook = recording.is_recording(), recording.is_training(), self.op_hook
        for i, number in self._fixed[is_recording]:
            fill(arrays[i].cell, number)
        if is_train:
            self._serving.forget()
        entries = self._entries(arrays) if is_recording else []
        wrt = tuple([name for name, entry in zip(self.names, entries, strict=False) if entry is not None])
        function = self._function(wrt, is_train, arrays, context.device)
        functions = function.functions
        if not wrt and not is_train and hook is None and not functions.quick:
            outputs = self._serving.outputs([array.value for array in arrays], context)
            if outputs is not None:
                return [like_jax(output, context) for output in outputs]
        drawn = next_randomness() if functions.draws(is_train) else None
        if wrt and hook is None and not self._states and not functions.in_segments:
            return WaitingCall(function, arrays, entries, drawn, context.device).arrays(context)
        written = [
            (i, arrays[self._states[name]].cell)
            for i, name in enumerate(functions.aux_names)
            if is_train or i in functions.written_in_forward
        ]
        with nullcontext() if functions.in_segments else writing(*(cell for _, cell in written)):
            values = [array.value for array in arrays]
            args, aux = function.listed(values)
            residuals, reported = None, []
            if wrt or hook is not None:
                run = functions.forward_keeping(is_train, monitored=hook is not None)
                outputs, states, residuals, reported = run(args, aux, drawn)
            else:
                outputs, states = functions.forward(is_train)(args, aux, drawn)
            for i, cell in written:
                cell.assign(states[i])
        results = [like_jax(output, context) for output in outputs]
        if hook is not None:
            _tell(hook, functions, reported, context)
        if wrt:
            state_arrays = {name: arrays[i] for name, i in self._states.items()} if functions.in_segments else {}
            Call(function, values, entries, drawn, outputs, state_arrays, residuals).made(results)
        return results

    def ways(self) -> list[str]:
        """Return lines of text: how the passes of each batch's shapes run that train."""
        return [line for _, ways in self._ways.items() for line in ways.lines()] + ways_of(self.symbol)

    def _entries(self, arrays: Sequence[NDArray]) -> list[recording.Entry | None]:
        """Return where the inputs came from that gradients may go to."""
        return [
            None if array.entry is None or name in self._states or not has_gradient(array.cell.dtype) else origin(array)
            for name, array in zip(self.names, arrays, strict=True)
        ]

    def _function(self, wrt: tuple[str, ...], is_train: bool, arrays: Sequence[NDArray], device: Place) -> _Function:
        """Return the function of the next call with these arrays."""
        platform = current_platform() if device is None else kind_of(device)
        kinds = tuple([(array.cell.shape, array.cell.dtype) for array in arrays])
        monitored = self.op_hook is not None
        key = (wrt, is_train, monitored, platform, is_wide(), chosen_effort(self._effort), may_evaluate(), kinds)
        function = self._functions.get(key)
        if function is None or function.functions.is_due:
            ways = self._ways.get((wrt, platform))
            if ways is None:
                options = Options(is_train=True, wrt=wrt, platform=platform, backend=OWNED)
                ways = self._ways[wrt, platform] = Ways(self._programs, options, self._effort)
            function = _Function(ways.functions(kinds), self.symbol, self.names, is_train, monitored, kinds)
            self._functions[key] = function
        return function


def _tell(hook: OpHook, functions: ExecutorFunctions, values: Sequence[Any], context: Context) -> None:
    """Call a hook for the operators of a monitored forward pass, in the order in which they ran."""
    callback, monitor_all = hook
    for call, value in functions.reported(values, forward=True, monitor_all=monitor_all):
        operator = functions.operator_of(call)
        if value is not None and operator is not None:
            callback(call.names[-1], operator.name, like_jax(value, context))


@dataclass(eq=False)
class _Function(recording.Function):
    """What computes the calls of one kind. functions: the executor's. monitored: its values are kept, too. kinds: the
    shapes and dtypes of its inputs. tapes: the number of different tapes that called it."""

    functions: ExecutorFunctions  # pyright: ignore[reportIncompatibleVariableOverride]
    symbol: Symbol
    names: Sequence[str]
    is_train: bool
    monitored: bool
    kinds: Sequence[tuple[tuple[int, ...], Any]]
    tapes: int = 0

    def __post_init__(self) -> None:
        self.family = (*self.symbol.outputs, self.is_train, *self.functions.wrt)

    @cached_property
    def inputs(self) -> Sequence[jax.ShapeDtypeStruct]:
        """Return what has the shapes and dtypes of the inputs."""
        return [jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype)) for shape, dtype in self.kinds]

    def listed(self, values: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        """Return arguments and states in the order of the functions."""
        named = dict(zip(self.names, values, strict=True))
        return [named[name] for name in self.functions.arg_names], [named[name] for name in self.functions.aux_names]

    def forward(self, values: Sequence[jax.Array], drawn: Randomness) -> tuple[Sequence[jax.Array], Any]:
        """Return the outputs, and the residuals that the gradient reads."""
        run = self.functions.forward_keeping(self.is_train, self.monitored)
        outputs, _, residuals, _ = run(*self.listed(values), drawn)
        return outputs, residuals

    @cached_property
    def outputs(self) -> Sequence[jax.ShapeDtypeStruct]:
        """Return what has the shapes and dtypes of the outputs. Raises the errors of the graph."""
        traces = self.functions.traces.setdefault(("kinds", self.is_train), OpenTraces(self.symbol.outputs))
        drawn = (key_of_seed(0), 0) if self.functions.draws(self.is_train) else None
        return traces.result(self.forward, (self.inputs, drawn))[0]

    def gradients(
        self, wrt: tuple[str, ...], call: Call | Given, heads: Sequence[jax.Array], states: Arrays, onto: Arrays
    ) -> tuple[Arrays, Arrays]:
        """As of `Function`; states are written where Python writes them."""
        functions = self.functions
        needed = [head if needs else None for needs, head in zip(functions.required_heads, heads, strict=True)]
        args, _ = self.listed(call.values)
        aux = [states[name] for name in functions.aux_names] if states else []
        run = functions.backward(self.is_train, monitored=self.monitored)
        no_sums = [None] * len(functions.wrt)
        gradients, written, _ = run(args, call.outputs, call.residuals, call.drawn, needed, no_sums, aux)
        named = dict(zip(functions.wrt, gradients, strict=True))
        return {name: named[name] for name in wrt}, written
