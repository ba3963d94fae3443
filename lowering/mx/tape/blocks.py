"""`CachedProgram`: a symbol, such as a traced block, as compiled programs: one forward, and one backward from what the
forward kept.

They are an executor's functions (`lowering/executor/jitted_functions.py`), and a `Predictor` for inference: the tape
records a call of the whole block as one call, which computes its gradients from residuals, and waits for its backward
pass if it can (`waiting.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from lowering.convolutions.backends import OWNED
from lowering.core.cache import Programs
from lowering.core.python_calls import refuse_without_client
from lowering.executor.bound_arrays import Place, fill, writing
from lowering.executor.jitted_functions import ExecutorFunctions, Randomness
from lowering.executor.ways import Ways
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import chosen_effort
from lowering.mx.context import Context
from lowering.mx.keys import next_randomness
from lowering.mx.ndarray.array import NDArray, like_jax
from lowering.mx.tape import policy, recording
from lowering.mx.tape.expressions import is_wide
from lowering.mx.tape.serving import Serving
from lowering.mx.tape.waiting import WaitingCall
from lowering.xla.platforms import current_platform, kind_of
from symjax_nnvm.inspect.fixed_inputs import fixed_inputs
from symjax_nnvm.pipeline import Options
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.symbol import Symbol

_is_number = lru_cache(lambda dtype: jnp.issubdtype(dtype, jnp.number))


OpHook = tuple[Callable[[str, str, NDArray], Any], bool]
"""(a function of the names of a value and of its operator, and the value; whether it gets inputs, too)."""


class CachedProgram:
    """A symbol as a function of NDArrays, in the order of `list_inputs()`; what runs is compiled at the first call of
    its kind. data_names: the inputs that every call gives; the others are parameters. effort: as `Ways` takes it.
    op_hook: is called for the operators of each forward pass."""

    def __init__(self, symbol: Symbol, data_names: Collection[str], effort: str | None = None):
        self._effort = effort
        self.symbol, self.names = symbol, symbol.list_inputs()
        self._is_data = [name in data_names for name in self.names]
        self._states = {name: self.names.index(name) for name in symbol.list_auxiliary_states()}
        self._is_state = [name in self._states for name in self.names]
        self._programs = Programs(symbol, mixes_dtypes=False)
        self._ways: Recent[Any, Ways] = Recent(policy.KEPT_TAPES)
        self._waiting: Recent[Any, _Function] = Recent(policy.KEPT_TAPES)
        self._fixed = {  # by whether a call is recorded
            recorded: [
                (self.names.index(name), number)
                for name, number in fixed_inputs(symbol, lambda _, recorded=recorded: recorded).items()
            ]
            for recorded in (False, True)
        }
        self._serving = Serving(symbol, self._programs, self.names, self._is_data)
        self.op_hook: OpHook | None = None

    def __call__(self, arrays: Sequence[NDArray], context: Context) -> list[NDArray]:
        """The outputs, on the context of the arrays; states are written, and the call is recorded."""
        refuse_without_client()
        for i, number in self._fixed[recording.is_recording()]:
            fill(arrays[i].cell, number)
        is_train, hook = recording.is_training(), self.op_hook
        if is_train:
            self._serving.forget()
        entries = self._entries(arrays) if recording.is_recording() else []
        wrt = tuple([name for name, entry in zip(self.names, entries, strict=False) if entry is not None])
        if wrt and hook is None and not self._states:
            outputs = self._waiting_outputs(is_train, arrays, entries, wrt, context)
            if outputs is not None:
                return outputs
        functions = self._functions_of(wrt, arrays, context.device)
        if not wrt and not is_train and hook is None and not functions.quick:
            outputs = self._serving.outputs([array.value for array in arrays], context)
            if outputs is not None:
                return [like_jax(output, context) for output in outputs]
        randomness = next_randomness() if functions.draws(is_train) else None
        written = [
            (i, arrays[self._states[name]].cell)
            for i, name in enumerate(functions.aux_names)
            if is_train or i in functions.written_in_forward
        ]
        with nullcontext() if functions.in_segments else writing(*(cell for _, cell in written)):
            values = [array.value for array in arrays]
            args, aux = _listed(functions, self.names, values)
            reported = []
            if wrt or hook is not None:
                run = functions.forward_keeping(is_train, monitored=hook is not None)
                outputs, states, residuals, reported = run(args, aux, randomness)
            else:
                (outputs, states), residuals = functions.forward(is_train)(args, aux, randomness), None
            for i, cell in written:
                cell.assign(states[i])
        results = [like_jax(output, context) for output in outputs]
        if hook is not None:
            _tell(hook, functions, reported, context)
        if wrt:
            function = _Function(functions, self.symbol, self.names, is_train, hook is not None)
            state_arrays = {name: arrays[i] for name, i in self._states.items()} if functions.in_segments else {}
            call = recording.Call(function, values, entries, randomness, outputs, state_arrays, residuals)
            for i, array in enumerate(results):
                array.entry = (call, i)
        return results

    def _waiting_outputs(
        self,
        is_train: bool,
        arrays: Sequence[NDArray],
        entries: Sequence[recording.Entry | None],
        wrt: tuple[str, ...],
        context: Context,
    ) -> list[NDArray] | None:
        """Return the outputs of a call on the tape, which are computed when they are read, or with its gradients; None
        where the call cannot wait."""
        device = context.device
        kinds = [(array.cell.shape, array.cell.dtype) for array in arrays]
        key = (is_train, is_wide(), chosen_effort(self._effort), _platform_of(device), wrt, *kinds)
        function = self._waiting.get(key)
        if function is None or function.functions.is_due:
            functions = self._functions_of(wrt, arrays, device)
            if functions.in_segments:
                return None
            function = self._waiting[key] = _Function(functions, self.symbol, self.names, is_train)
            function.draws, function.dtypes = functions.draws(is_train), [dtype for _, dtype in kinds]
        randomness = next_randomness() if function.draws else None
        if not function.kinds:  # the errors of a graph are raised here
            structs = [jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype)) for shape, dtype in kinds]
            traces = function.functions.traces.setdefault(("kinds", is_train), OpenTraces(self.symbol.outputs))
            function.kinds, _ = traces.result(function.forward, (structs, randomness))
        return WaitingCall(function, arrays, entries, randomness, device).arrays(context)

    def _entries(self, arrays: Sequence[NDArray]) -> list[recording.Entry | None]:
        """Return where the inputs came from that gradients may go to."""
        return [
            None if is_state or array.entry is None or not _is_number(array.cell.dtype) else recording.origin(array)
            for is_state, array in zip(self._is_state, arrays, strict=True)
        ]

    def _functions_of(self, wrt: tuple[str, ...], arrays: Sequence[NDArray], device: Place) -> ExecutorFunctions:
        """Return the functions of the next call with these arrays."""
        platform = _platform_of(device)
        ways = self._ways.get((wrt, platform))
        if ways is None:
            options = Options(is_train=True, wrt=wrt, platform=platform, backend=OWNED)
            ways = self._ways[wrt, platform] = Ways(self._programs, options, self._effort)
        return ways.functions(tuple([(array.cell.shape, array.cell.dtype) for array in arrays]))


def _platform_of(device: Place) -> str:
    return current_platform() if device is None else kind_of(device)


def _listed(
    functions: ExecutorFunctions, names: Sequence[str], values: Sequence[jax.Array]
) -> tuple[list[Any], list[Any]]:
    """Return arguments and states in the order of the functions."""
    named = dict(zip(names, values, strict=True))
    return [named[name] for name in functions.arg_names], [named[name] for name in functions.aux_names]


def _tell(hook: OpHook, functions: ExecutorFunctions, reported: Sequence[Any], context: Context) -> None:
    """Call a hook for the operators of a monitored forward pass, in the order in which they ran."""
    callback, monitor_all = hook
    program = functions.program(True, monitored=True)
    for call in functions.calls(forward=True):
        if isinstance(call.value, str) or (call.of_input and not monitor_all):
            continue
        value = call.value.in_(reported)
        operator = program.program.index.nodes[program.forward_steps[call.value.number].nid].source.op
        if value is not None and operator is not None:
            callback(call.names[-1], operator.name, like_jax(value, context))


class _Function:
    """What computes calls on the tape, those that wait among them.

    names: of its inputs. family: the same of all that compute the same of other shapes. monitored: its values are kept,
    too. tapes: the number of different tapes that called it. Of calls that
    wait: dtypes: of the inputs. kinds: what has the shapes and dtypes of the outputs. draws: whether they draw random
    numbers.
    """

    def __init__(
        self,
        functions: ExecutorFunctions,
        symbol: Symbol,
        names: Sequence[str],
        is_train: bool,
        monitored: bool = False,
    ):
        self.functions, self.symbol, self.names = functions, symbol, names
        self._is_train, self._monitored = is_train, monitored
        self.family = (*symbol.outputs, is_train, *functions.wrt)
        self.kinds: Sequence[jax.ShapeDtypeStruct] = ()
        self.dtypes: Sequence[Any] = ()
        self.draws, self.tapes = False, 0

    def forward(self, values: Sequence[jax.Array], drawn: Randomness) -> tuple[Sequence[jax.Array], Any]:
        """Return the outputs, and the residuals that the gradient reads."""
        args, aux = _listed(self.functions, self.names, values)
        outputs, _, residuals, _ = self.functions.forward_keeping(self._is_train, self._monitored)(args, aux, drawn)
        return outputs, residuals

    def summed_by_python(self, wrt: tuple[str, ...]) -> Collection[str]:
        """Return none: what Python adds to is the executor's."""
        return ()

    def backward_of(self, wrt: tuple[str, ...]) -> Callable[..., Mapping[str, jax.Array]]:
        """Return (values, drawn, heads, outputs, residuals) → gradients by name."""
        return lambda values, drawn, heads, outputs, residuals: self.gradients(
            wrt, values, drawn, heads, outputs, residuals, {}, {}
        )[0]

    def gradients(
        self,
        wrt: tuple[str, ...],
        values: Sequence[jax.Array],
        drawn: Randomness,
        heads: Sequence[jax.Array],
        outputs: Sequence[jax.Array],
        residuals: Any,
        states: Mapping[str, jax.Array],
        onto: Mapping[str, jax.Array],
    ) -> tuple[Mapping[str, jax.Array], Mapping[str, jax.Array]]:
        """Return gradients by name, and states that computing them wrote, where Python writes them."""
        functions = self.functions
        needed = [head if needs else None for needs, head in zip(functions.required_heads, heads, strict=True)]
        args, _ = _listed(functions, self.names, values)
        aux = [states[name] for name in functions.aux_names] if states and functions.in_segments else []
        run = functions.backward(self._is_train, monitored=self._monitored)
        gradients, written, _ = run(args, outputs, residuals, drawn, needed, [None] * len(functions.wrt), aux)
        named = dict(zip(functions.wrt, gradients, strict=True))
        return {name: named[name] for name in wrt}, written
