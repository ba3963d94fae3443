"""`CachedProgram`: a symbol, such as a traced block, as compiled programs: one forward, and one backward from what the
forward kept.

They are an executor's functions (`lowering/executor/functions.py`), and a `Predictor` for inference: the tape records
a call of the whole block as one call, which computes its gradients from residuals, and waits for its backward pass if
it can (`waiting.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lowering.convolutions.backends import OWNED
from lowering.core.cache import Programs
from lowering.core.inference import refuse_mixed
from lowering.core.python_calls import refuse_without_client
from lowering.executor.arrays import Place, fill, writing
from lowering.executor.functions import ExecutorFunctions, Randomness
from lowering.executor.ways import Ways
from lowering.host.staged import chosen_effort
from lowering.mx.context import Context, MixedContextsError, current_context
from lowering.mx.keys import next_randomness
from lowering.mx.ndarray.array import NDArray, like_jax, write_outputs
from lowering.mx.tape import policy, recording
from lowering.mx.tape.expressions import is_wide
from lowering.mx.tape.waiting import WaitingCall
from lowering.serving.predictor import Predictor
from lowering.xla.platforms import current_platform, kind_of
from symjax_nnvm.errors import CallError, listed
from symjax_nnvm.inspect.fixed_inputs import fixed_inputs
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.pipeline import Options
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.symbol import Symbol

_is_number = lru_cache(lambda dtype: jnp.issubdtype(dtype, jnp.number))


OpHook = tuple[Callable[[str, str, NDArray], Any], bool]
"""(what is called with the names of a value and of its operator, and the value; whether inputs are told, too)."""


class CachedProgram:
    """A symbol as a function of NDArrays, in the order of `list_inputs()`; what runs is compiled at the first call of
    its kind. data_names: the inputs that every call gives; the others are parameters. effort: as `Ways` takes it.
    op_hook: is told of the operators of each forward pass."""

    def __init__(self, symbol: Symbol, data_names: Collection[str], effort: str | None = None):
        self._effort = effort
        self.symbol, self.names = symbol, symbol.list_inputs()
        self._is_data = [name in data_names for name in self.names]
        self._states = {name: self.names.index(name) for name in symbol.list_auxiliary_states()}
        self._programs = Programs(symbol, mixes_dtypes=False)
        self._ways: Recent[Any, Ways] = Recent(policy.KEPT_BY_A_BLOCK)
        self._waiting: Recent[Any, _Waiting] = Recent(policy.KEPT_BY_A_BLOCK)
        self._fixed = {  # by whether a call is recorded
            recorded: [
                (self.names.index(name), number)
                for name, number in fixed_inputs(symbol, lambda _, recorded=recorded: recorded).items()
            ]
            for recorded in (False, True)
        }
        self._serving = _Serving(symbol, self._programs, self.names, self._is_data)
        self.op_hook: OpHook | None = None

    def __call__(self, arrays: Sequence[NDArray], context: Context) -> list[NDArray]:
        """The outputs, on the context of the arrays; states are written, and the call is recorded."""
        refuse_without_client()
        for i, number in self._fixed[recording.is_recording()]:
            fill(arrays[i].cell, number)
        is_train, hook = recording.is_training(), self.op_hook
        if is_train:
            self._serving.forget()
        entries = [*map(recording.origin, arrays)] if recording.is_recording() else []
        if entries and hook is None and not self._states:
            waiting = self._waiting_outputs(is_train, arrays, entries, context)
            if waiting is not None:
                return waiting
        wanted = self._wanted(arrays, entries)
        functions = self._functions_of(wanted, arrays, context.device)
        if not wanted and not is_train and hook is None and not functions.quick:
            outputs = self._serving.outputs([array.value for array in arrays], context)
            if outputs is not None:
                return [like_jax(output, context) for output in outputs]
        randomness = next_randomness() if functions.draws(is_train) else None
        written = [
            (i, arrays[self._states[name]].cell)
            for i, name in enumerate(functions.aux_names)
            if is_train or i in functions.written_in_forward
        ]
        with nullcontext() if functions.calls_python else writing(*(cell for _, cell in written)):
            values = [array.value for array in arrays]
            args, aux = _listed(functions, self.names, values)
            seen = []
            if wanted or hook is not None:
                run = functions.forward_keeping(is_train, monitored=hook is not None)
                outputs, states, residuals, seen = run(args, aux, randomness)
            else:
                (outputs, states), residuals = functions.forward(is_train)(args, aux, randomness), None
            for i, cell in written:
                cell.assign(states[i])
        results = [like_jax(output, context) for output in outputs]
        if hook is not None:
            _tell(hook, functions, seen, context)
        if wanted:
            function = _Function(functions, self.symbol, self.names, is_train, hook is not None)
            kept = {name: arrays[i] for name, i in self._states.items()} if functions.calls_python else {}
            origins = self._origins(functions, entries)
            call = recording.Call(function, values, origins, randomness, outputs, kept, residuals)
            for i, array in enumerate(results):
                array.entry = (call, i)
        return results

    def _waiting_outputs(
        self,
        is_train: bool,
        arrays: Sequence[NDArray],
        entries: Sequence[recording.Entry | None],
        context: Context,
    ) -> list[NDArray] | None:
        """Return the outputs of a call on the tape, which are computed when they are read, or with its gradients; None
        where the call cannot wait."""
        device = context.device
        kinds = [(entry is None, each.cell.shape, each.cell.dtype) for entry, each in zip(entries, arrays, strict=True)]
        asked = (is_train, is_wide(), chosen_effort(self._effort), _platform_of(device), *kinds)
        known = self._waiting.get(asked)
        if known is not None and known.function.functions.is_due:
            known = None
        randomness = next_randomness() if known is not None and known.draws else None
        if known is None:
            wanted = self._wanted(arrays, entries)
            functions = self._functions_of(wanted, arrays, device)
            if not wanted or functions.calls_python:
                return None
            draws = functions.draws(is_train)
            randomness = next_randomness() if draws else None
            function = _Function(functions, self.symbol, self.names, is_train)
            structs = [jax.ShapeDtypeStruct(shape, dtype) for _, shape, dtype in kinds]
            outputs, _ = jax.eval_shape(function.forward, structs, randomness)  # the errors of a graph are raised here
            known = self._waiting[asked] = _Waiting(function, draws, outputs)
        origins = self._origins(known.function.functions, entries)
        call = WaitingCall(known.function, arrays, origins, randomness, device)
        return call.arrays(known.outputs, context)

    def _wanted(self, arrays: Sequence[NDArray], entries: Sequence[recording.Entry | None]) -> tuple[str, ...]:
        """Return the names of inputs that gradients go to. entries: where they came from; none off the tape."""
        return tuple(
            name
            for name, entry, array in zip(self.names, entries, arrays, strict=False)
            if entry is not None and name not in self._states and _is_number(array.cell.dtype)
        )

    def _origins(
        self, functions: ExecutorFunctions, entries: Sequence[recording.Entry | None]
    ) -> list[recording.Entry | None]:
        """Return where the inputs came from that gradients are computed of."""
        return [entry if name in functions.wrt else None for name, entry in zip(self.names, entries, strict=True)]

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


def _tell(hook: OpHook, functions: ExecutorFunctions, seen: Sequence[Any], context: Context) -> None:
    """Call a hook for the operators of a monitored forward pass, in the order in which they ran."""
    callback, monitor_all = hook
    program = functions.program(True, monitored=True)
    for call in functions.calls(forward=True):
        if isinstance(call.value, str) or (call.of_input and not monitor_all):
            continue
        value = call.value.in_(seen)
        operator = program.program.index.nodes[program.forward_steps[call.value.number].nid].source.op
        if value is not None and operator is not None:
            callback(call.names[-1], operator.name, like_jax(value, context))


class CachedOp:
    """MXNet's `mx.nd.CachedOp`: a symbol as a function of NDArrays, in the order of `list_inputs()`, which is compiled
    at its first call and is one call on the tape. flags, thread_safe: MXNet's; nothing to do here."""

    def __init__(self, sym: Symbol, flags: Any = (), thread_safe: bool = False):
        self._program = CachedProgram(sym, sym.list_inputs())

    def __call__(self, *args: NDArray, out: Any = None, default_ctx: Context | None = None) -> Any:
        """An array, or a list of several outputs. out: arrays that they are written to, too. Raises CallError."""
        names = self._program.names
        if len(args) != len(names) or not all(isinstance(array, NDArray) for array in args):
            expected, got = f"{len(names)} arrays: {listed(names)}", [type(array).__name__ for array in args]
            raise CallError("A CachedOp takes an NDArray for each input", expected=expected, got=got)
        context = args[0].context if args else default_ctx or current_context()
        for name, array in zip(names, args, strict=True):
            if array.context != context:
                problem = "CachedOp requires all inputs to live on the same context."
                raise MixedContextsError(f"{problem} But {names[0]} is on {context} while {name} is on {array.context}")
        results = self._program(args, context)
        if out is not None:
            write_outputs([out] if isinstance(out, NDArray) else list(out), results, out)
            return out
        return results[0] if len(results) == 1 else results


class _Function:
    """Runs a program and its gradient as calls on the tape do, those that wait among them.

    names: of its inputs. monitored: its values are kept, too. tapes: so many different tapes called it.
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
        self.tapes = 0

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
        aux = [states[name] for name in functions.aux_names] if states and functions.calls_python else []
        run = functions.backward(self._is_train, monitored=self._monitored)
        gradients, written, _ = run(args, outputs, residuals, drawn, needed, [None] * len(functions.wrt), aux)
        named = dict(zip(functions.wrt, gradients, strict=True))
        return {name: named[name] for name in wrt}, written


class _Waiting(NamedTuple):
    """What calls of one kind that wait have in common. draws: whether they draw random numbers. outputs: what has
    the outputs' shapes and dtypes."""

    function: _Function
    draws: bool
    outputs: Sequence[jax.ShapeDtypeStruct]


class _Serving:
    """Serves a network in inference: by a `Predictor` of its parameters, as long as they do not change.

    The first parameters get one at once. Those that come after a change get one when they have stayed the same for
    some calls, which are more each time: a network that is validated while it trains does without.
    """

    def __init__(self, symbol: Symbol, programs: Programs, names: Sequence[str], is_data: Sequence[bool]):
        self._symbol, self._programs, self._names, self._is_data = symbol, programs, names, is_data
        self._states = frozenset(symbol.list_auxiliary_states())
        self._parameters: list[jax.Array] = []
        self._predictor: Predictor | None = None
        self._dtypes: set[tuple[Any, ...]] = set()
        """Of inputs that fit the parameters'."""
        self._calls = self._patience = 0

    def outputs(self, values: Sequence[jax.Array], context: Context) -> list[jax.Array] | None:
        """Return the outputs, or None where no Predictor serves."""
        if context.device is not None or not self.may_serve:
            return None
        parameters = [value for value, data in zip(values, self._is_data, strict=True) if not data]
        if len(parameters) != len(self._parameters) or any(
            new is not old for new, old in zip(parameters, self._parameters, strict=True)
        ):
            self.forget()
            self._parameters = parameters
        self._calls += 1
        predictor = self._predictor
        if predictor is None:
            if self._calls <= self._patience:
                return None
            named = {n: v for n, v, data in zip(self._names, values, self._is_data, strict=True) if not data}
            args = {name: value for name, value in named.items() if name not in self._states}
            aux = {name: value for name, value in named.items() if name in self._states}
            predictor = self._predictor = Predictor(self._symbol, args, aux, effort="full")
        inputs = {n: v for n, v, data in zip(self._names, values, self._is_data, strict=True) if data}
        dtypes = tuple(value.dtype for value in inputs.values())
        if dtypes not in self._dtypes:
            network = self._programs.pipeline.graph
            refuse_mixed(network, {n: v.dtype.name for n, v in zip(self._names, values, strict=True)})
            self._dtypes.add(dtypes)
        return predictor(**inputs)

    def forget(self) -> None:
        """Free the parameters, which change or are about to: what comes next waits."""
        if self._parameters:
            self._patience = max(
                policy.PATIENCE_WITH_PARAMETERS,
                policy.MORE_PATIENCE * self._patience if self._predictor else self._patience,
            )
        self._parameters, self._predictor, self._calls = [], None, 0
        self._dtypes.clear()

    @cached_property
    def may_serve(self) -> bool:
        """Return whether a Predictor computes the same: not of graphs that draw, call Python or read labels."""
        program = self._programs.forward(Options())
        labels = label_variables(self._symbol)
        return any(self._is_data) and not (program.needs_key or program.segments or labels)
