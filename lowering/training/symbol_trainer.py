"""`Trainer`: a symbol, an optimiser, and the loop around them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from lowering.convolutions.backends import OWNED
from lowering.core.cache import Programs
from lowering.core.chosen_options import DATA_AXIS, chosen_options, first_options
from lowering.core.segments import by_way
from lowering.host.numpy_keys import folded_in
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged, checked_effort
from lowering.initializer import init_params
from lowering.lanes.in_lanes import BatchFunction, InLanes, may_pay
from lowering.messages.arguments import (
    as_array,
    compute_dtype_of,
    prng_key,
    require_key,
    require_symbol,
    shapes_by_name,
)
from lowering.messages.doors import STEP, says_how_to_call
from lowering.messages.migration_hints import keyword_hint, unknown_attribute, with_migration_hints
from lowering.optim.optimizers import make_optimizer
from lowering.sharding.explicit_axes import under_auto_axes
from lowering.sharding.placement import Rules, make_placement
from lowering.training.accumulate import Reduction, parse_accumulate
from lowering.training.diagnosis import Diagnosis, diagnose
from lowering.training.evaluation import Evaluation
from lowering.training.fit import CheckFinite, Run
from lowering.training.history import History
from lowering.training.inputs import Batch, find_inputs
from lowering.training.numbered_inputs import ClassNumbers
from lowering.training.placing import first_optimizer_state, first_value, on_host, put_batch, put_whole
from lowering.training.processes import on_first
from lowering.training.state import TrainState
from lowering.training.step import BatchStatistics, StepFunction, make_step
from lowering.training.tracking import Tracker
from lowering.xla.compile_options import jit
from lowering.xla.host_memory import kept_memory
from lowering.xla.interrupts import Held
from symjax_nnvm.check.remedies import shape_remedy
from symjax_nnvm.errors import (
    MAX_LISTED,
    InferenceError,
    OutOfMemoryError,
    TrainingError,
    close_names,
    listed,
    plain_list,
    refuse_unknown,
)
from symjax_nnvm.inspect.fixed_inputs import fixed_inputs
from symjax_nnvm.mxnet.checkpoint import save_checkpoint
from symjax_nnvm.passes.mirror import Mirror
from symjax_nnvm.pipeline import Options
from symjax_nnvm.surgery.dequantized import refuse_untrainable
from symjax_nnvm.surgery.statistics import frozen_batch_norms
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import table_html

_RUN_KEY = 0x72756E  # "run": the keys of steps, apart from those that initialise parameters

_INIT = "trainer.init(0, data=(32, 3, 224, 224))"
_FIT = "trainer.fit(lowering.Batches({'data': x, 'softmax_label': y}, 32), epochs=10, metrics=['accuracy'])"


class Trainer:
    """Trains a symbol: what MXNet's Module does, as one compiled step.

    As in Module, gradients are multiplied with 1 / batch size, unless `optimizer_params` has another `rescale_grad`:
    loss heads sum over the batch.

    Args:
        symbol: a network whose outputs are loss heads (or grouped with BlockGrad outputs).
        optimizer: the name of one of MXNet's (`lowering.training.list_optimizers()`), or an Optax
            GradientTransformation.
        optimizer_params: MXNet's parameters of a named optimiser.
        data_names: arguments that come with the batches as data.
        label_names: arguments that come with the batches as labels; None for those whose names end in "label".
        wrt: the parameters to train; None for all other arguments.
        initializer: an initialiser of `lowering.initializer`; None for MXNet's default.
        compute_dtype: "bfloat16" for products and convolutions; parameters, their updates, batch statistics and loss
            heads stay float32 (`passes.reduce_precision` lists the dtype of each operator).
        accumulate: the number of micro-batches in each step; see `training.accumulate`.
        clip_global_norm: the limit for the norm of all gradients together, after rescaling.
        mirror: what the backward part computes again instead of keeping it, as in `grad_fn`.
        frozen_statistics: batch norms whose gamma and beta are not in `wrt` use their moving averages and do not change
            them (`use_global_stats`). The symbol itself, and what `export` writes, stay as they are.
        mesh: devices that share the work, such as `jax.make_mesh((8,), ("data",))`. The numbers are those of one
            device, except for rounding.
        sharding: "replicate": every device has all parameters; "fsdp": parameters and the optimiser's arrays for them
            are split over the data axis; "zero1": only the optimiser's arrays are; or pairs of a pattern over parameter
            names and a PartitionSpec.
        data_axis: the mesh axis, or axes, along which batches are split.
        batch_statistics: "global": BatchNorm uses the statistics of the whole batch, as MXNet's SyncBatchNorm;
            "device": those of each device's part, as MXNet's BatchNorm on several devices.
        effort: how the step and its metrics are made: "auto", "quick" or "full", as in `lowering.effort`; None for the
            effort of the block around a step. With checkpoints, and over a mesh, it is "full".
        lanes: "auto": on a CPU each core computes samples of its own where an estimate says that this is faster; "off":
            never; a number: that many lanes, wherever the network can be split; None: as the block around a step says
            (`lowering.in_lanes`). `ways()` lists the steps that are.

    Attributes:
        state: the `TrainState`; None before `init`.

    Raises:
        TrainingError: names, the optimiser, the mesh or another option is wrong.
        ParamError: a parameter of the optimiser is wrong.
        GradientError: the gradients cannot be built.
        GraphError: a parameter is below operators on 8-bit integers, where gradients end.
        LoweringError: the network cannot be translated.
    """

    @with_migration_hints("Trainer", "lowering.Trainer(symbol, 'sgd', {'learning_rate': 0.1, 'momentum': 0.9})")
    def __init__(
        self,
        symbol: Symbol,
        optimizer: Any = "sgd",
        optimizer_params: Mapping[str, Any] | None = None,
        *,
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] | None = None,
        wrt: Sequence[str] | None = None,
        initializer: Any = None,
        compute_dtype: DTypeLike | None = None,
        accumulate: int | tuple[int, Reduction] = 1,
        clip_global_norm: float | None = None,
        mirror: Mirror = None,
        frozen_statistics: bool = False,
        mesh: jax.sharding.Mesh | None = None,
        sharding: str | Rules = "replicate",
        data_axis: str | Sequence[str] = DATA_AXIS,
        batch_statistics: BatchStatistics = "global",
        effort: str | None = None,
        lanes: str | int | None = None,
    ):
        self.symbol = require_symbol(symbol, "Trainer")
        self.inputs = find_inputs(symbol, data_names, label_names)
        parameters = [name for name in symbol.list_arguments() if name not in self.inputs.names]
        self.wrt = parameters if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
        refuse_unknown(TrainingError, "Cannot train", self.wrt, parameters, "parameters")
        refuse_untrainable(symbol, self.wrt, "wrt=[…] trains only the others.")
        self.initializer = initializer
        self.optimizer = make_optimizer(optimizer, optimizer_params, symbol, self.wrt)
        self.state: TrainState | None = None
        self._seed: list[int] | int | None = None
        computed = frozen_batch_norms(symbol, self.wrt) if frozen_statistics else symbol
        programs = Programs(computed)
        if clip_global_norm is not None and not clip_global_norm > 0:
            expected = "a limit above 0, or None"
            raise TrainingError("Wrong clip_global_norm", expected=expected, got=repr(clip_global_norm))
        self.placement = make_placement(mesh, sharding, data_axis, symbol)
        _check_half_precision(compute_dtype)
        options = Options(is_train=True, wrt=tuple(self.wrt), mirror=mirror, backend=OWNED)
        options = chosen_options(options, compute_dtype, mesh, data_axis)
        self.program = programs.gradient(options)
        _check_statistics(mesh, batch_statistics)
        step_of = partial(
            make_step,
            optimizer=self.optimizer,
            inputs=self.inputs,
            accumulation=parse_accumulate(accumulate),
            clip_global_norm=clip_global_norm,
            placement=self.placement,
            batch_statistics=batch_statistics,
            fixed={name: number for name, number in fixed_inputs(computed).items() if name in self.wrt},
        )
        whole, evaluated = self.program.program.segments is None, replace(options, is_train=False, wrt=None)
        step = step_of(partial(programs.gradient, options))
        self.step_fn = jit(under_auto_axes(step.step), whole=whole, donate_argnums=0)
        gradients = BatchFunction(
            step.gradients,
            self.step_fn,
            lambda _, batch: batch,
            finish=jit(step.update_by_lanes, kind="few", donate_argnums=1),
            same_shapes=True,
        )
        self._lanes = InLanes(gradients, lanes=lanes, may_pay=may_pay([computed]))
        self._evaluation = Evaluation(programs, self.inputs, evaluated, self.placement)
        fully = self.step_fn if whole else by_way("full", self.step_fn)
        self._compiled: StepFunction = self._lanes if whole and mesh is None else fully
        self._effort = effort = checked_effort(effort)
        self._step: StepFunction = self._compiled if whole else by_way(effort, self.step_fn)
        first = first_options(options)
        if effort == "full":
            self.compile_fully()
        elif whole and first is not None:
            self._step = Staged(
                under_auto_axes(step_of(partial(programs.gradient, first)).step),
                lambda _: self._compiled,
                effort=effort,
                told_by=lambda state, batch: batch,
                network=True,
                open_traces=OpenTraces(computed.outputs),
            )

    # -- state -----------------------------------------------------------------------------------------------------

    @with_migration_hints("Trainer.init", _INIT)
    def init(
        self,
        key: jax.Array | int,
        args: Mapping[str, Any] | None = None,
        aux: Mapping[str, Any] | None = None,
        **shapes: Sequence[int],
    ) -> TrainState:
        """Make the first state; it is kept in `state`.

        Args:
            key: a PRNG key or a seed.
            args: values of arguments that are known, by name; they are copied. The initialiser makes the others.
            aux: values of auxiliary states that are known, likewise.
            shapes: shapes of inputs, `data=(32, 1, 28, 28)`; those of labels may be missing if they follow.

        Returns:
            The state.

        Raises:
            TrainingError: names or shapes do not fit; the message lists all.
            InferenceError: shapes contradict the graph.
        """
        for what, values in (("args", args), ("aux", aux)):
            if values is not None and not isinstance(values, Mapping):
                fix = "Pass dicts by name, as load_checkpoint returns them: trainer.init(0, args, aux, data=shape)."
                raise TrainingError(f"{what} of init must be a dict", got=type(values).__name__, fix=fix)
        base_key = prng_key(key)
        require_key(base_key)
        args, aux = (_arrays(arrays or {}) for arrays in (args, aux))
        self._check_names(shapes)
        input_shapes = shapes_by_name(shapes, "shapes", _INIT)
        self._check_shapes(input_shapes, args, aux)
        self._seed = key if isinstance(key, int) else jax.random.key_data(base_key).tolist()
        self.state = self._first_state(base_key, input_shapes, args, aux)
        return self.state

    def _first_state(
        self, key: jax.Array, shapes: Mapping[str, Any], args: Mapping[str, Any], aux: Mapping[str, Any]
    ) -> TrainState:
        """Return the state of values that are given, and drawn ones: each goes to its place before the next is made."""
        names, states = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        arg_types, _, aux_types = self.symbol.infer_type_partial()
        dtypes = dict(zip([*names, *states], [*arg_types, *aux_types], strict=True))
        arg_shapes, _, aux_shapes = self.symbol.infer_shape_partial(**shapes)
        all_shapes = dict(zip([*names, *states], [*arg_shapes, *aux_shapes], strict=True))
        all_shapes |= {name: np.shape(value) for name, value in {**args, **aux}.items()}
        parameters = {name: all_shapes[name] or () for name in names if name not in self.inputs.names}
        where = self.placement.parameters(parameters)
        where |= self.placement.states({name: all_shapes[name] or () for name in states})

        def first(name: str, value: Any) -> jax.Array:
            return first_value(value, dtypes[name] or np.float32, where.get(name))

        without = [*args, *aux, *self.inputs.names]
        new_args, new_aux = init_params(self.symbol, shapes, key, self.initializer, without=without, place=first)
        values = {**new_args, **new_aux} | {name: first(name, value) for name, value in {**args, **aux}.items()}
        absent = [name for name in names if name not in self.inputs.names and name not in values]
        if absent:
            fix = (
                "Name labels with Trainer(symbol, label_names=[...]), or pass a value: trainer.init(0, {name: value})."
            )
            raise TrainingError(f"No initialiser has values for {listed(absent)}, which looks like a label", fix=fix)
        params = {name: values[name] for name in self.wrt}
        return TrainState(
            params=params,
            frozen={n: v for n, v in values.items() if n not in params and n not in states},
            aux={name: values[name] for name in states},
            opt_state=first_optimizer_state(self.placement, self.optimizer.init, params),
            key=put_whole(self.placement, folded_in(key, _RUN_KEY)),
            step=put_whole(self.placement, jnp.zeros((), jnp.int32)),
        )

    def _check_names(self, shapes: Mapping[str, Any]) -> None:
        missing = [name for name in self.inputs.data if name not in shapes]
        arguments = {*self.symbol.list_arguments()}
        unknown = [name for name in shapes if name not in arguments]
        if missing or unknown:
            got = f"unknown names {listed(unknown)}" if unknown else f"no shape for {listed(missing)}"
            hints = [keyword_hint("Trainer.init", name, list(self.inputs.names)) for name in unknown[:3]]
            fix = " ".join(filter(None, (*hints, f"For example: {_INIT}.")))
            raise TrainingError(
                "init needs the shapes of the inputs", expected=list(self.inputs.names), got=got, fix=fix
            )

    def _check_shapes(self, shapes: Mapping[str, Any], args: Mapping[str, Any], aux: Mapping[str, Any]) -> None:
        try:
            arg_shapes, _, aux_shapes = self.symbol.infer_shape_partial(**shapes)
        except InferenceError as error:
            raise InferenceError(f"{error} {shape_remedy(self.symbol, shapes)}".rstrip(), error.node) from error
        surplus: list[str] = []
        problems: list[str] = []
        for values, names, inferred in (
            (args, self.symbol.list_arguments(), arg_shapes),
            (aux, self.symbol.list_auxiliary_states(), aux_shapes),
        ):
            needed_shapes = {n: s for n, s in zip(names, inferred, strict=True) if n not in self.inputs.names}
            for name, value in values.items():
                if name not in needed_shapes:
                    surplus.append(name)
                elif needed_shapes[name] and 0 not in needed_shapes[name] and np.shape(value) != needed_shapes[name]:
                    problems.append(f"{name} has shape {np.shape(value)}, the network needs {needed_shapes[name]}")
        if surplus or problems:
            raise TrainingError(self._misfit(surplus, problems, {**shapes, **args, **aux}))

    def _misfit(self, surplus: list[str], problems: list[str], values: Mapping[str, Any]) -> str:
        """Return the error for values given to `init` that the network lacks, or that have other shapes."""
        states = self.symbol.list_auxiliary_states()
        names = [*self.wrt, *states]
        every = [*(f"{name} is not in the network" for name in surplus), *problems]
        shown = every[:MAX_LISTED] + ([f"and {len(every) - MAX_LISTED} more"] if len(every) > MAX_LISTED else [])
        ways = [close_names(surplus, [name for name in names if name not in values])] if surplus else []
        if any(name in states or name in self.symbol.list_arguments() for name in surplus):
            ways.append(
                "Pass arguments and states as two dicts, without data and labels: trainer.init(seed, args, aux, ...)."
            )
        elif surplus:
            ways.append(
                "To leave out those of a larger network: args, aux = symjax_nnvm.subset(symbol, args, aux, "
                "new=[names that have no values yet])."
            )
        if problems:
            shapes = {name: np.shape(value) if hasattr(value, "shape") else value for name, value in values.items()}
            fitting = {name: shape for name, shape in shapes.items() if name not in surplus}
            ways.append(shape_remedy(self.symbol, fitting))
        return " ".join(filter(None, (f"Values given to init do not fit the network: {'; '.join(shown)}.", *ways)))

    def require_state(self) -> TrainState:
        """Return the state; before `init` it raises TrainingError."""
        if self.state is None:
            raise TrainingError("The trainer has no state yet. Call trainer.init(seed, data=(batch size, ...)) first.")
        return self.state

    @property
    def learning_rate(self) -> float:
        """Return the learning rate of the next update, before multipliers."""
        schedule = getattr(self.optimizer, "schedule", None)
        state = self.require_state()
        if schedule is not None:
            return float(schedule(int(state.step) + self.optimizer.begin_num_update + 1))  # pyright: ignore
        return float(self._rate_state(state)["learning_rate"])

    @with_migration_hints("Trainer.set_learning_rate", "trainer.set_learning_rate(0.01)")
    def set_learning_rate(self, value: float) -> None:
        """Change the learning rate; nothing is compiled again.

        Args:
            value: the new rate.

        Raises:
            TrainingError: a schedule sets the rate.
        """
        state = self.require_state()
        rate = {**self._rate_state(state), "learning_rate": put_whole(self.placement, jnp.asarray(value, jnp.float32))}
        self.state = TrainState(state.params, state.frozen, state.aux, rate, state.key, state.step)

    def _rate_state(self, state: TrainState) -> dict[str, Any]:
        if isinstance(state.opt_state, dict) and "learning_rate" in state.opt_state:
            return state.opt_state
        raise TrainingError("The learning rate belongs to a schedule or to Optax, and is not stored as a number.")

    # -- training --------------------------------------------------------------------------------------------------

    @says_how_to_call(STEP)
    def step(self, batch: Batch) -> list[jax.Array]:
        """Train on one batch: `state` becomes the next one. The call does not wait for the device.

        Args:
            batch: arrays by argument name. A new batch size compiles once more. With several processes: global arrays,
                or the rows of this process.

        Returns:
            The outputs in training mode.

        Raises:
            OutOfMemoryError: memory does not hold the step. The state is as before, unless the error says that it is
                lost.
        """
        state = self.state
        if state is None:
            state = self.require_state()
        placed_batch = put_batch(self.placement, self.inputs.as_batch(batch))
        try:
            with Held():
                self.state, outputs = self._step(state, placed_batch)
        except OutOfMemoryError as error:
            if state.step.is_deleted():
                self.state = None
                fix = "Call trainer.init, or restore a checkpoint, before a step with a smaller batch."
                raise OutOfMemoryError(
                    f"{error} The step had consumed the trainer's state, which is lost", fix=fix
                ) from error
            raise
        if isinstance(self._step, Staged):
            _consume(state, self.state)
        return outputs

    def ways(self) -> list[str]:
        """Return lines of text: the batches of past steps, how each runs, and when it will be compiled further."""
        ways = self._step.ways() if isinstance(self._step, Staged) else ["all steps: compiled"]
        return ways + self._lanes.ways()

    def compile_fully(self) -> None:
        """Compile every step and metric from now on fully: a resumed run computes the bits of an uninterrupted one."""
        self._step = self._compiled
        self._lanes.at_once()

    @with_migration_hints("Trainer.fit", _FIT)
    def fit(
        self,
        data: Iterable[Any],
        epochs: int,
        validation: Iterable[Any] | None = None,
        metrics: Any = ("accuracy",),
        callbacks: Iterable[Any] | None = (),
        checkpoints: Any = None,
        progress: bool = True,
        *,
        begin_epoch: int = 0,
        check_finite: CheckFinite = "interval",
        check_labels: bool = True,
        keep_memory: bool = False,
        exit_when_lost: bool = False,
    ) -> History:
        """Train for several epochs.

        Args:
            data: any re-iterable of batches (dicts, or pairs of data and label), or `Batches`.
            epochs: the number of the epoch to stop before; epochs are counted from 0.
            validation: batches to evaluate after each epoch.
            metrics: see `training.metrics`.
            callbacks: objects with a method `on_step_end(trainer, StepEvent)`, `on_epoch_end(trainer, EpochRecord)` or
                both; one that returns True ends the run after the epoch.
            checkpoints: `Checkpoints`; the run continues from the latest one.
            progress: show a bar, or a line for each epoch where there is no terminal.
            begin_epoch: the number of the first epoch.
            check_finite: "interval" checks twice a second and at each epoch's end whether outputs are finite; "step"
                checks after each step, undoes a step with other outputs and names the first node at fault (slow); None
                never checks.
            check_labels: check, as often, whether labels and indices are numbers of classes and rows that exist.
            keep_memory: keep freed memory in the process until fit returns. This saves page faults in steps of hundreds
                of megabytes where the environment has MALLOC_ARENA_MAX=1. Elsewhere JAX's threads have started already:
                call `lowering.keep_memory()` first in the application instead.
            exit_when_lost: if one of several processes is lost, the others end with exit code 1 and a line that names
                it, even if they wait in an operation that cannot be interrupted. Otherwise they raise TrainingError
                where the operation fails, and JAX does the rest.

        Returns:
            The metrics of each epoch.

        Raises:
            TrainingError: batches do not fit, `init` was not called, or numbers are not finite.
            CheckpointError: the last checkpoint cannot be written, or another run writes to the directory.
        """
        run = Run(
            self, data, epochs, validation, metrics, callbacks, checkpoints, progress, begin_epoch, check_finite,
            check_labels, exit_when_lost,
        )  # fmt: skip
        with kept_memory() if keep_memory else nullcontext():
            return run()

    def tracker(self, metrics: Any, *, numbers: bool = False) -> Tracker:
        """Return metrics of this network before their first batch.

        Args:
            metrics: see `training.metrics`.
            numbers: also check labels and indices.
        """
        numbered = ClassNumbers(self.symbol, self.inputs.names) if numbers else None
        effort = "full" if self._step is self._compiled else self._effort
        return Tracker(metrics, self.inputs, self.symbol.list_outputs(), numbered, self.placement, effort)

    def about(self) -> dict[str, Any]:
        """Return plain data that distinguishes this run from others: network, parameters, seed."""
        outputs = self.symbol.list_outputs()
        return {
            "network": ", ".join(outputs[:3]) + (" …" if len(outputs) > 3 else ""),
            "parameters": sum(value.size for value in self.require_state().params.values()),
            "seed": self._seed,
        }

    def _repr_html_(self) -> str:
        state = self.state
        rows = [
            ("network", repr(self.symbol)),
            ("inputs", plain_list(self.inputs.names)),
            ("trained", f"{len(self.wrt)}: {plain_list(self.wrt)}"),
            ("optimizer", repr(self.optimizer)),
            ("steps", "none: call trainer.init(seed, data=shape) first" if state is None else str(int(state.step))),
        ]
        return table_html(("trainer", ""), rows)

    # -- using the network -----------------------------------------------------------------------------------------

    @with_migration_hints("Trainer.evaluate", "trainer.evaluate(data, metrics=['accuracy'])")
    def evaluate(self, data: Iterable[Any], metrics: Any = ("accuracy",)) -> dict[str, float]:
        """Return metrics over all batches, in test mode; rows that only fill up a batch do not count.

        A NonFiniteWarning names sample and node of outputs that are NaN or infinite.

        Args:
            data: batches, as in `fit`.
            metrics: see `training.metrics`.

        Returns:
            The metrics' values by name.
        """
        return self._evaluation.evaluate(self.require_state(), data, self.tracker(metrics))

    @with_migration_hints("Trainer.predict", "trainer.predict(data)")
    def predict(self, data: Iterable[Any]) -> list[np.ndarray]:
        """Return every output over all batches, joined along axis 0, in test mode.

        A NonFiniteWarning reports outputs that are NaN or infinite.

        Args:
            data: batches, or one batch as an array or a dict; labels may be missing.
        """
        return self._evaluation.predict(self.require_state(), data)

    def diagnose(self, batch: Any) -> Diagnosis:
        """Run the forward and backward pass of a batch to find the source of NaN and infinity.

        Args:
            batch: the batch.

        Returns:
            The parameters, states and arrays of the batch that are not finite, and the nodes that turn finite numbers
            into others.
        """
        return diagnose(self.program, self.inputs, self.require_state(), self.inputs.as_batch(batch))

    @with_migration_hints("Trainer.export", "trainer.export('net', 3)")
    def export(self, prefix: str | os.PathLike[str], epoch: int) -> None:
        """Write `prefix-symbol.json` and `prefix-0000.params`, which MXNet reads.

        Several processes all call it; the first one writes.

        Args:
            prefix: the part of the path before `-symbol.json`.
            epoch: the number in the name of the second file.

        Raises:
            ParamsFormatError: MXNet's file cannot hold an array's dtype.
            OSError: a file cannot be written.
        """
        state = self.require_state()
        args, aux = (on_host(self.placement, arrays) for arrays in ({**state.params, **state.frozen}, state.aux))
        on_first(lambda: save_checkpoint(prefix, epoch, self.symbol, args, aux), f"write {os.fspath(prefix)}")

    if not TYPE_CHECKING:  # so that type checkers still see the attributes

        def __getattr__(self, name: str) -> Any:
            unknown_attribute("Trainer", name, dir(type(self)))


def _consume(old: TrainState, new: TrainState) -> None:
    """Delete the arrays of a state that a step has consumed, as compiled steps do, which overwrite them: using an old
    state is an error at once."""
    if old.step.is_deleted():
        return
    new_ids = {*map(id, jax.tree.leaves(new))}
    for array in jax.tree.leaves(old):
        if id(array) not in new_ids:
            array.delete()


def _arrays(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for `init`. Raises TrainingError."""
    arrays = {name: as_array(value, name, TrainingError) for name, value in values.items()}
    return {name: array if hasattr(array, "shape") else np.asarray(array) for name, array in arrays.items()}


def _check_statistics(mesh: Any, batch_statistics: Any) -> None:
    """Raise TrainingError for a word that means nothing, or nothing without a mesh."""
    if batch_statistics not in ("global", "device"):
        got = repr(batch_statistics)
        raise TrainingError(
            "Unknown batch_statistics", param="batch_statistics", expected="'global' or 'device'", got=got
        )
    if mesh is None and batch_statistics != "global":
        fix = "Trainer(..., mesh=jax.make_mesh((jax.device_count(),), ('data',)), batch_statistics='device')."
        raise TrainingError("batch_statistics needs a mesh", expected="mesh=...", got="no mesh", fix=fix)


def _check_half_precision(compute_dtype: DTypeLike | None) -> None:
    """Raise TrainingError for a dtype that training cannot compute in."""
    dtype = compute_dtype_of(compute_dtype)
    if dtype not in (None, "bfloat16"):
        fix = "float16 has too few exponents for gradients without a loss scale." if dtype == "float16" else None
        raise TrainingError("Wrong compute_dtype", expected="None or 'bfloat16'", got=repr(compute_dtype), fix=fix)
