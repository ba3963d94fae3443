"""The functions that an executor runs: jitted, of lists of arrays, made on first use.

An argument's or a state's place in a list is fixed when the executor is made, so a call builds no dicts and infers
nothing. The graph is split where NNVM splits it (`GradientProgram`): the forward function leaves the values that the
backward function reads, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax

from lowering.core.cache import Programs
from lowering.core.gradient_program import GradientProgram
from lowering.core.rules import writes_in_backward
from lowering.core.segments import by_way
from lowering.executor.gradient_names import GradientNames, MonitorCall, Place, forward_calls
from lowering.host.numpy_keys import folded_in
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Account, Staged
from lowering.lanes.in_lanes import BatchFunction, InLanes, may_pay, of_rows
from lowering.xla.compile_options import jit
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.inspect.fixed_inputs import fixed_inputs
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.passes.plan_memory import BAD_STORAGE, EXTERNAL_STORAGE, plan_memory
from symjax_nnvm.pipeline import Options

Arrays = Sequence[jax.Array]

Randomness = tuple[jax.Array, int] | None
"""(the executor's key, number of the forward pass), or None for a graph that draws nothing."""


class ExecutorFunctions:
    """The functions of one graph for one choice of arguments to differentiate.

    programs: the programs of the graph. options: the options of training; wrt are the arguments whose gradients are
    computed. args and aux of every function follow `arg_names` and `aux_names`. Shared by executors of different
    shapes: `jax.jit` keeps an executable for each. quick: it is compiled quickly. evaluated: calls are evaluated first,
    where that can be; what is traced for it is kept there, by function. Raises the errors of the pipeline.
    """

    def __init__(
        self, programs: Programs, options: Options, quick: bool = False, evaluated: dict[Any, OpenTraces] | None = None
    ):
        self.symbol = programs.symbol
        self.wrt = list(options.wrt or ())
        self._programs, self._options, self.quick = programs, options, quick
        self._kept = Account(self)
        self.account = None if evaluated is None else self._kept
        self.traces: dict[Any, OpenTraces] = {} if evaluated is None else evaluated
        self._asked: dict[tuple[bool, bool], GradientProgram] = {}
        program = self.program(True)  # errors in the graph are raised here, not by the first run
        self.arg_names, self.aux_names = program.program.arg_names, program.program.aux_names
        self._jitted: dict[Any, Callable[..., Any]] = {}
        self._forgotten = False

    def forget(self, _: Any = None) -> None:
        """Drop all programs; later calls begin anew."""
        self._jitted, self._forgotten = {}, True

    def program(self, is_train: bool, monitored: bool = False) -> GradientProgram:
        """Return the lowered graph, in training or in inference. Both number their nodes and values alike.

        monitored: with the operators of the network, each as it was composed.
        """
        program = self._asked.get((is_train, monitored))
        if program is None:
            options = replace(self._options, is_train=is_train)
            if monitored:
                options = replace(options, without=options.without | {"AlterOpLayout", "PlaceSharding"})
            program = self._asked[is_train, monitored] = self._programs.gradient(options)
        return program

    def knows(self, arrays: Mapping[str, tuple[Shape, DType]]) -> None:
        """Infer all shapes from those of the variables, once for all that runs later.

        The first run raises what contradicts the graph.
        """
        with suppress(InferenceError):
            self.program(True).program.inference.of_variables(arrays)

    @property
    def is_due(self) -> bool:
        """Return whether other functions are to be called: calls have cost so much that those are compiled fully, or
        the programs were forgotten."""
        return self._forgotten or (self.account is not None and self.account.is_due)

    @property
    def is_forgotten(self) -> bool:
        """Return whether the programs were forgotten, and what was counted."""
        return self._forgotten

    def draws(self, is_train: bool) -> bool:
        """Return whether the graph draws random numbers."""
        return self.program(is_train).program.needs_key

    @cached_property
    def output_names(self) -> list[str]:
        """Return the names of the outputs."""
        return self.symbol.list_outputs()

    def planned_bytes(self, arrays: Mapping[str, tuple[Shape, DType]]) -> int:
        """Return the memory that NNVM plans for the values that are neither variables nor gradients of arguments.

        arrays: shape and dtype of the variables by name. Raises InferenceError.
        """
        program = self.program(True).program
        index, inferred = program.index, program.inference.of_variables(arrays)
        storage = [BAD_STORAGE] * index.num_node_entries
        for head in index.outputs[self.program(True).num_outputs :]:
            storage[index.entry_rptr[head.node_id] + head.index] = EXTERNAL_STORAGE
        planned = plan_memory(program.graph, shapes=inferred.shapes, dtypes=inferred.dtypes, storage=storage)
        return planned.attrs["storage_allocated_bytes"]

    @cached_property
    def in_segments(self) -> bool:
        """Return whether the graph runs in segments: operators of it are Python, or on several devices."""
        return self.program(True).program.segments is not None

    @property
    def begins(self) -> bool:
        """Return whether these functions can be those of first calls: calls are counted."""
        segments = self.program(True).program.segments
        return segments is None or segments.counts

    @cached_property
    def required_heads(self) -> list[bool]:
        """Return whether the gradients depend on the head gradient of each output."""
        return [nid is not None for nid in self.program(True).head_ids]

    @cached_property
    def written_in_forward(self) -> list[int]:
        """Return numbers of the states that are written whenever the forward part runs; the backward part of a training
        step writes the others, those of `writes_in_backward`, if it has a part for their operator."""
        states, program = self.program(True).states, self.program(True).program
        nodes = program.index.nodes
        writer = {slot: nodes[step.nid].source.op for step in program.steps for slot in step.outputs}
        return [i for i, name in enumerate(self.aux_names) if not writes_in_backward(writer[states[name]])]

    @cached_property
    def fixed(self) -> list[tuple[int, float]]:
        """Return numbers of the arguments that a forward pass sets, with what it sets them to, as in MXNet."""
        without = {node.name for node in self.program(True).program.graph.attrs.get("unreached", ())}
        fixed = fixed_inputs(self.symbol, lambda node: node.name not in without)
        return [(i, fixed[name]) for i, name in enumerate(self.arg_names) if name in fixed]

    # -- the functions ---------------------------------------------------------------------------------------------

    def forward(self, is_train: bool) -> Callable[..., Any]:
        """Return (args, aux, randomness) → (outputs, new states)."""

        def forward(args: Arrays, aux: Arrays, randomness: Randomness):
            program = self.program(is_train).forward
            outputs, new_aux = program.evaluate(self._args(args), self._aux(aux), _key(randomness))
            return outputs, self._listed(new_aux)

        return self._jit(("forward", is_train), forward)

    def forward_keeping(self, is_train: bool, monitored: bool = False) -> Callable[..., Any]:
        """Return a function (args, aux, randomness) → (outputs, new states, residuals, values of the forward steps if
        monitored)."""

        def forward_keeping(args: Arrays, aux: Arrays, randomness: Randomness):
            program = self.program(is_train, monitored)
            slots = None if monitored else program.kept_slots
            env = program.forward_values(self._args(args), self._aux(aux), _key(randomness), slots)
            outputs, new_aux = program.collect_forward(env)
            known_values = self._known_residuals(program, args, outputs)
            residuals = {slot: env[slot] for slot in program.residual_slots if slot not in known_values}
            reported = self._seen(program, program.forward_steps, env) if monitored else []
            return outputs, self._listed(new_aux), residuals, reported

        def samples(args: Arrays, aux: Arrays, randomness: Randomness) -> dict[str, jax.Array]:
            return self._data(args)

        return self._jit(("forward_keeping", is_train, monitored), forward_keeping, samples)

    def backward(self, is_train: bool, donate: bool = False, monitored: bool = False) -> Callable[..., Any]:
        """Return (args, outputs, residuals, randomness, head gradients, old gradients to add to, aux) → (gradients, new
        states by name, values).

        Lists of gradients follow `wrt`; an old gradient is None where the new one is only written. donate: consume the
        old gradients' memory. aux is read, and new states are returned, where the graph is Python that writes states.
        """

        def backward(
            args: Arrays,
            outputs: Arrays,
            residuals: Any,
            randomness: Randomness,
            heads: Any,
            old: Any,
            aux: Arrays = (),
        ):
            program = self.program(is_train, monitored)
            values = {
                **residuals,
                **self._known_residuals(program, args, outputs),
                **(program.states_now(self._aux(aux)) if aux else {}),
            }
            slots = None if monitored else program.written_slots
            onto = self._onto(program, old)
            env = program.backward_values(outputs, values, _key(randomness), heads, slots, onto)
            grads = program.collect_gradients(env)
            reported = self._seen(program, program.backward_steps, env) if monitored else []
            return self._add(grads, old, onto), program.collect_states(env), reported

        def samples(
            args: Arrays, outputs: Arrays, residuals: Any, randomness: Randomness, heads: Any, old: Any, *_: Any
        ):
            return of_rows(self._data(args), outputs=outputs, heads=heads, old=self._of_data(old))

        which = "backward", is_train, donate, monitored
        return self._jit(which, backward, samples, donate_argnums=(5,) if donate else ())

    def forward_backward(self, donate: bool = False) -> Callable[..., Any]:
        """Return (args, aux, randomness, head gradients, old gradients) → (outputs, gradients, new states)."""

        def forward_backward(args: Arrays, aux: Arrays, randomness: Randomness, heads: Any, old: Any):
            program = self.program(True)
            onto = self._onto(program, old)
            outputs, grads, new_aux = program(self._args(args), self._aux(aux), _key(randomness), heads, onto)
            return outputs, self._add(grads, old, onto), self._listed(new_aux)

        def samples(args: Arrays, aux: Arrays, randomness: Randomness, heads: Any, old: Any) -> Mapping[str, Any]:
            return of_rows(self._data(args), heads=heads, old=self._of_data(old))

        which = "forward_backward", donate
        return self._jit(which, forward_backward, samples, donate_argnums=(4,) if donate else ())

    def _jit(
        self, which: Any, function: Callable[..., Any], samples: Callable[..., Any] | None = None, **options: Any
    ) -> Callable[..., Any]:
        """Return a function, jitted. samples: as `BatchFunction` has it, of one that may run in lanes."""
        jitted = self._jitted.get(which)
        if jitted is None:
            options["whole"] = not self.in_segments
            platform = None if self.quick else self._options.platform
            options["name"] = f"{function.__name__} of {self.symbol.name or 'a group'}"
            options["kind"] = "quick" if self.quick else "full"
            jitted = jit(function, platform=platform, kept=self._kept, **options)
            if self.account and options["whole"]:
                compiled = jitted
                traces = self.traces.setdefault(which, OpenTraces(self.symbol.outputs))
                jitted = Staged(function, lambda _: compiled, [self.account], open_traces=traces)
            elif not options["whole"]:
                jitted = by_way(self.account or ("quick" if self.quick else "full"), jitted)
            elif options["whole"] and not self.quick and samples is not None:
                residuals = 2 if which[0] == "forward_keeping" else None
                batch_function = BatchFunction(function, jitted, samples, residuals=residuals)
                jitted = InLanes(batch_function, may_pay=may_pay([self.symbol]))
            self._jitted[which] = jitted
        return jitted

    def ways(self) -> list[str]:
        """Return lines of text: while calls are not fully compiled, how they run and until when; afterwards how
        training calls run, a line for each batch's shapes."""
        if self.account is not None:
            way = "evaluated by NumPy" if self.account.is_begun else "compiled quickly"
            return [f"{way}; {self.account}"]
        return [line for run in self._jitted.values() if isinstance(run, InLanes) for line in run.ways()]

    @cached_property
    def _learned(self) -> set[str]:
        return {node.name for node in learned_variables(self.symbol)}

    def _data(self, args: Arrays) -> dict[str, jax.Array]:
        return {name: array for name, array in self._args(args).items() if name not in self._learned}

    def _of_data(self, grads: Sequence[Any]) -> list[Any]:
        return [grad for name, grad in zip(self.wrt, grads, strict=True) if name not in self._learned]

    # -- lists, names and slots ------------------------------------------------------------------------------------

    def _args(self, args: Arrays) -> dict[str, jax.Array]:
        return dict(zip(self.arg_names, args, strict=True))

    def _aux(self, aux: Arrays) -> dict[str, jax.Array]:
        return dict(zip(self.aux_names, aux, strict=True))

    def _listed(self, aux: dict[str, jax.Array]) -> list[jax.Array]:
        return [aux[name] for name in self.aux_names]

    def _known_residuals(self, program: GradientProgram, args: Sequence[Any], outputs: Sequence[Any]) -> dict[int, Any]:
        """Return residuals that need not be kept, by slot: the executor holds its arguments and outputs anyway."""
        return program.known_residuals(self._args(args), outputs)

    def _onto(self, program: GradientProgram, old: Sequence[jax.Array | None]) -> dict[str, jax.Array]:
        """Return the old gradients that Python itself adds to, by name."""
        if not self.in_segments:
            return {}
        pairs = zip(self.wrt, old, strict=True)
        return {name: sum for name, sum in pairs if sum is not None and name in program.summed_by_python}

    def _add(
        self, grads: dict[str, jax.Array], old: Sequence[jax.Array | None], onto: Mapping[str, jax.Array]
    ) -> list[jax.Array]:
        """Return gradients and old ones together. onto: old ones to which theirs are added already."""
        sums = {n: sum for n, sum in zip(self.wrt, old, strict=True) if sum is not None and n not in onto}
        if self.in_segments:  # a gradient may be on another device than its sum
            grads = grads | {n: jax.device_put(grads[n], sum.sharding) for n, sum in sums.items()}
        return [sums[n] + grads[n] if n in sums else grads[n] for n in self.wrt]

    # -- monitoring ------------------------------------------------------------------------------------------------

    def _seen(self, program: GradientProgram, steps: Sequence[Any], env: Sequence[Any]) -> list[list[jax.Array]]:
        """Return inputs and outputs of steps: two lists one after the other for each step, in the order they run."""
        entry_rptr = program.program.index.entry_rptr
        reported: list[list[jax.Array]] = []
        for step in steps:
            visible = step.outputs[: entry_rptr[step.nid + 1] - entry_rptr[step.nid]]
            reported += [[env[slot] for slot in step.inputs], [env[slot] for slot in visible]]
        return reported

    def calls(self, forward: bool) -> list[MonitorCall]:
        """Return what a monitor receives from the steps that `_seen` reports, in the order of the calls."""
        program = self.program(True, monitored=True)
        return forward_calls(program) if forward else self._gradient_calls

    def reported(
        self, values: Sequence[Sequence[jax.Array]], *, forward: bool, monitor_all: bool
    ) -> Iterator[tuple[MonitorCall, jax.Array | None]]:
        """Yield what a monitor receives of a pass, with its values, None for one that is zeros. values: the values of
        the steps that `_seen` reports. monitor_all: operators' inputs, too."""
        for call in self.calls(forward):
            if monitor_all or not call.of_input:
                yield call, None if isinstance(call.value, str) else call.value.in_(values)

    def operator_of(self, call: MonitorCall) -> Op | None:
        """Return the operator whose value a monitor receives from a forward pass; None of a variable."""
        assert isinstance(call.value, Place)
        program = self.program(True, monitored=True)
        return program.program.index.nodes[program.forward_steps[call.value.number].nid].source.op

    @cached_property
    def _gradient_calls(self) -> list[MonitorCall]:
        return GradientNames(self.program(True, monitored=True)).calls()


def _key(randomness: Randomness) -> jax.Array | None:
    return None if randomness is None else folded_in(*randomness)
