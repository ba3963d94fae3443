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
from lowering.core.options import DATA_AXIS, chosen_options, first_options
from lowering.host.keys import folded_in
from lowering.host.staged import Staged, checked_effort
from lowering.initializer import init_params
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
from lowering.sharding.placement import Rules, make_placement
from lowering.training.accumulate import Reduction, parse_accumulate
from lowering.training.classes import Numbers
from lowering.training.diagnosis import Diagnosis, diagnose
from lowering.training.evaluation import Evaluation
from lowering.training.fit import CheckFinite, Run
from lowering.training.history import History
from lowering.training.inputs import Batch, find_inputs
from lowering.training.placing import first_optimizer_state, first_value, on_host, put_batch, put_whole
from lowering.training.processes import on_first
from lowering.training.state import TrainState
from lowering.training.step import BatchStatistics, StepFunction, make_step
from lowering.training.tracking import Tracker
from lowering.xla.host_memory import kept_memory
from lowering.xla.options import jit
from symjax_nnvm.check.remedies import shape_remedy
from symjax_nnvm.errors import (
    MAX_LISTED,
    InferenceError,
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
from symjax_nnvm.surgery.statistics import frozen_batch_norms
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import table_html

_RUN_KEY = 0x72756E  # "run": the keys of steps, apart from those that initialise parameters

_INIT = "trainer.init(0, data=(32, 3, 224, 224))"
_FIT = "trainer.fit(lowering.Batches({'data': x, 'softmax_label': y}, 32), epochs=10, metrics=['accuracy'])"


class Trainer:
    """Trains a symbol: what MXNet's Module does, as one compiled step.

    symbol: a network whose outputs are loss heads (or grouped with BlockGrad outputs). optimizer: one of MXNet's names
    (`lowering.training.list_optimizers()`), with MXNet's parameters in optimizer_params, or an Optax
    GradientTransformation. As in Module, gradients are multiplied with 1 / batch size unless optimizer_params says
    another `rescale_grad`: loss heads sum over the batch.

    data_names, label_names: which arguments come with the batches; labels are by default those that end in "label".
    wrt: the parameters to train, default all others. initializer: of `lowering.initializer`, default MXNet's.
    compute_dtype: "bfloat16" to compute products and convolutions in, with parameters, their updates, batch statistics
    and loss heads in float32 (`passes.reduce_precision` lists which operator runs in which). accumulate: micro-batches
    per step, see `training.accumulate`. clip_global_norm: limit of the norm of all gradients together, after rescaling.
    mirror: what the backward part computes again rather than keeps, as in `grad_fn`. frozen_statistics: batch norms
    whose gamma and beta are not in wrt normalise with their moving averages, which stay (`use_global_stats`); the
    symbol itself, and what `export` writes, stay as they are.

    mesh: devices that share the work, `jax.make_mesh((8,), ("data",))`; batches are split over its data_axis, or axes.
    sharding: "replicate", every device has all parameters; "fsdp", parameters and what the optimiser keeps of them are
    split over the data axis; "zero1", what the optimiser keeps is; or rules, pairs of a pattern over parameter names
    and a PartitionSpec. The numbers are those of one device, up to rounding. batch_statistics: "global", BatchNorm
    normalises with the statistics of the whole batch, as MXNet's SyncBatchNorm; "device", with those of each device's
    part, as MXNet's BatchNorm on several devices. effort: how the step comes to be, "auto", "quick" or "full", as in
    `lowering.effort`; None: as the block says in which a step is made. With checkpoints, and over a mesh, it is "full".

    `state` is the `TrainState`, None before `init`. Raises TrainingError, ParamError, GradientError, LoweringError.
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
    ):
        self.symbol = require_symbol(symbol, "Trainer")
        self.inputs = find_inputs(symbol, data_names, label_names)
        rest = [name for name in symbol.list_arguments() if name not in self.inputs.names]
        self.wrt = rest if wrt is None else [wrt] if isinstance(wrt, str) else list(wrt)
        refuse_unknown(TrainingError, "Cannot train", self.wrt, rest, "parameters")
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
        self.step_fn = jit(step_of(partial(programs.gradient, options)), whole=whole, donate_argnums=0)
        self._evaluation = Evaluation(programs, self.inputs, evaluated, self.placement)
        self._step: StepFunction = self.step_fn
        effort = checked_effort(effort)
        first = first_options(options)
        if whole and first is not None and effort != "full":
            self._step = Staged(
                step_of(partial(programs.gradient, first)),
                lambda _: self.step_fn,
                effort=effort,
                told_by=lambda state, batch: batch,
                network=True,
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
        """Make the first state, and keep it in `state`.

        key: a PRNG key, or a seed. args, aux: values that are known, copied; the initialiser makes the others. shapes:
        of the inputs, `data=(32, 1, 28, 28)`; those of labels may be left out where they follow.
        Raises TrainingError for names or shapes that do not fit, listing all of them; InferenceError.
        """
        for what, values in (("args", args), ("aux", aux)):
            if values is not None and not isinstance(values, Mapping):
                fix = "Pass dicts by name, as load_checkpoint returns them: trainer.init(0, args, aux, data=shape)."
                raise TrainingError(f"{what} of init must be a dict", got=type(values).__name__, fix=fix)
        base_key = prng_key(key)
        require_key(base_key)
        args, aux = (_arrays(arrays or {}) for arrays in (args, aux))
        self._check_names(shapes)
        known = shapes_by_name(shapes, "shapes", _INIT)
        self._check_shapes(known, args, aux)
        self._seed = key if isinstance(key, int) else jax.random.key_data(base_key).tolist()
        self.state = self._first_state(base_key, known, args, aux)
        return self.state

    def _first_state(
        self, key: jax.Array, shapes: Mapping[str, Any], args: Mapping[str, Any], aux: Mapping[str, Any]
    ) -> TrainState:
        """Return the state of values that are given, and drawn ones: each goes to its place before the next is made."""
        names, states = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        arg_types, _, aux_types = self.symbol.infer_type_partial()
        wanted = dict(zip([*names, *states], [*arg_types, *aux_types], strict=True))
        arg_shapes, _, aux_shapes = self.symbol.infer_shape_partial(**shapes)
        known = dict(zip([*names, *states], [*arg_shapes, *aux_shapes], strict=True))
        known |= {name: np.shape(value) for name, value in {**args, **aux}.items()}
        parameters = {name: known[name] or () for name in names if name not in self.inputs.names}
        where = self.placement.parameters(parameters)
        where |= self.placement.states({name: known[name] or () for name in states})

        def first(name: str, value: Any) -> jax.Array:
            return first_value(value, wanted[name] or np.float32, where.get(name))

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
        unknown = [name for name in shapes if name not in self.symbol.list_arguments()]
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
        for values, names, known in (
            (args, self.symbol.list_arguments(), arg_shapes),
            (aux, self.symbol.list_auxiliary_states(), aux_shapes),
        ):
            wanted = {n: s for n, s in zip(names, known, strict=True) if n not in self.inputs.names}
            for name, value in values.items():
                if name not in wanted:
                    surplus.append(name)
                elif wanted[name] and 0 not in wanted[name] and np.shape(value) != wanted[name]:
                    problems.append(f"{name} has shape {np.shape(value)}, the network needs {wanted[name]}")
        if surplus or problems:
            raise TrainingError(self._misfit(surplus, problems, {**shapes, **args, **aux}))

    def _misfit(self, surplus: list[str], problems: list[str], given: Mapping[str, Any]) -> str:
        """Return the error for values given to `init` that the network lacks, or that have other shapes."""
        states = self.symbol.list_auxiliary_states()
        wanted = [*self.wrt, *states]
        every = [*(f"{name} is not in the network" for name in surplus), *problems]
        shown = every[:MAX_LISTED] + ([f"and {len(every) - MAX_LISTED} more"] if len(every) > MAX_LISTED else [])
        ways = [close_names(surplus, [name for name in wanted if name not in given])] if surplus else []
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
            known = {name: np.shape(value) if hasattr(value, "shape") else value for name, value in given.items()}
            fitting = {name: shape for name, shape in known.items() if name not in surplus}
            ways.append(shape_remedy(self.symbol, fitting))
        return " ".join(filter(None, (f"Values given to init do not fit the network: {'; '.join(shown)}.", *ways)))

    def require_state(self) -> TrainState:
        """Return the state. Raises TrainingError before `init`."""
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
        """Change the learning rate; nothing is compiled again. Raises TrainingError where a schedule sets it."""
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
        """One step: `state` becomes the next one; returns the outputs, in training mode.

        batch: {argument name: array}; a new batch size compiles once more. With several processes: global arrays, or
        the rows of this process. Nothing is waited for.
        """
        state = self.state
        if state is None:
            state = self.require_state()
        self.state, outputs = self._step(state, put_batch(self.placement, self.inputs.as_batch(batch)))
        if self._step is not self.step_fn:
            _consume(state, self.state)
        return outputs

    def ways(self) -> list[str]:
        """Return lines of text: the batches that were trained on, how each runs, and when it moves up."""
        return self._step.ways() if isinstance(self._step, Staged) else ["all steps: compiled"]

    def compile_fully(self) -> None:
        """Have every step from now on compiled fully: a run that is resumed computes the bits of one that is not."""
        self._step = self.step_fn

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
        """Train up to `epochs` epochs, from begin_epoch on, counted from 0; returns metrics by epoch.

        data, validation: any re-iterable of batches (dicts or (data, label)), or `Batches`. metrics: see
        `training.metrics`. callbacks: objects with `on_step_end(trainer, StepEvent)` and/or `on_epoch_end(trainer,
        EpochRecord)`; one that returns True ends the run after the epoch. checkpoints: `Checkpoints`; the run goes on
        from the latest one. progress: a bar, or on no terminal a line per epoch.
        check_finite: "interval" looks twice a second and at each epoch's end whether outputs are finite; "step" looks
        after each step, undoes the step that was not, and names the first node (slow); None never looks. check_labels:
        look as often whether labels and indices number a class, or a row, that is there. keep_memory: until fit
        returns, freed memory stays with the process, then it goes back to the system. That spares steps of hundreds of
        megabytes page faults where the environment has MALLOC_ARENA_MAX=1; elsewhere JAX's threads are out of reach by
        now, and `lowering.keep_memory()` as the application's first line is what helps. exit_when_lost: of several
        processes, those that are left end with exit code 1 and a line that names the lost one, also where they wait in
        an operation that nothing can interrupt; without it, they raise TrainingError where the operation fails, and
        leave the rest to JAX.
        Raises TrainingError; CheckpointError when the last checkpoint cannot be written, or another run writes there.
        """
        run = Run(
            self, data, epochs, validation, metrics, callbacks, checkpoints, progress, begin_epoch, check_finite,
            check_labels, exit_when_lost,
        )  # fmt: skip
        with kept_memory() if keep_memory else nullcontext():
            return run()

    def tracker(self, metrics: Any, *, numbers: bool = False) -> Tracker:
        """Return metrics of this network, at their start. numbers: also look at labels and indices."""
        numbered = Numbers(self.symbol, self.inputs.names) if numbers else None
        return Tracker(metrics, self.inputs, self.symbol.list_outputs(), numbered, self.placement)

    def about(self) -> dict[str, Any]:
        """Return facts that distinguish this run from others, as plain data: network, parameters, seed."""
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
        """Return metrics by name over all batches, in test mode. Rows that only pad a batch do not count.

        Warns (NonFiniteWarning) of outputs that are NaN or infinite, with the sample and the node.
        """
        return self._evaluation.evaluate(self.require_state(), data, self.tracker(metrics))

    @with_migration_hints("Trainer.predict", "trainer.predict(data)")
    def predict(self, data: Iterable[Any]) -> list[np.ndarray]:
        """Return every output over all batches, joined along axis 0, in test mode. Labels may be left out.

        data: batches, or one batch: an array or a dict. Warns (NonFiniteWarning) of outputs that are NaN or infinite.
        """
        return self._evaluation.predict(self.require_state(), data)

    def diagnose(self, batch: Any) -> Diagnosis:
        """Run the forward and backward pass of a batch and list parameters, states and arrays of the batch that are not
        finite, and the nodes that turn finite numbers into others."""
        return diagnose(self.program, self.inputs, self.require_state(), self.inputs.as_batch(batch))

    @with_migration_hints("Trainer.export", "trainer.export('net', 3)")
    def export(self, prefix: str | os.PathLike[str], epoch: int) -> None:
        """Write `prefix-symbol.json` and `prefix-0000.params`, which MXNet reads: of several processes, which all call
        it, the first writes. Raises ParamsFormatError, OSError."""
        state = self.require_state()
        args, aux = (on_host(self.placement, each) for each in ({**state.params, **state.frozen}, state.aux))
        on_first(lambda: save_checkpoint(prefix, epoch, self.symbol, args, aux), f"write {os.fspath(prefix)}")

    if not TYPE_CHECKING:  # so that checkers still know which attributes there are

        def __getattr__(self, name: str) -> Any:
            unknown_attribute("Trainer", name, dir(type(self)))


def _consume(old: TrainState, new: TrainState) -> None:
    """Delete the arrays of a state that a step was given, as compiled steps do that write them: who goes back to an old
    state is told at once."""
    if old.step.is_deleted():
        return
    left = {*map(id, jax.tree.leaves(new))}
    for array in jax.tree.leaves(old):
        if id(array) not in left:
            array.delete()


def _arrays(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for `init`. Raises TrainingError."""
    arrays = {name: as_array(value, name, TrainingError) for name, value in given.items()}
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
    asked = compute_dtype_of(compute_dtype)
    if asked not in (None, "bfloat16"):
        fix = "float16 has too few exponents for gradients without a loss scale." if asked == "float16" else None
        raise TrainingError("Wrong compute_dtype", expected="None or 'bfloat16'", got=repr(compute_dtype), fix=fix)
