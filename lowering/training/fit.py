"""The training loop: epochs of batches, metrics, callbacks, checkpoints, and a look at whether numbers are finite."""

from __future__ import annotations

import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, Protocol

import jax
import jax.numpy as jnp

from lowering.messages.arguments import may_be_iterated
from lowering.sharding.placement import Placement
from lowering.training.history import EpochRecord, History, StepEvent
from lowering.training.inputs import Inputs
from lowering.training.metrics import make_metrics
from lowering.training.placing import gives_whole, put_batch
from lowering.training.processes import Preemption, Team
from lowering.training.state import TrainState
from lowering.training.tracking import Tracker
from symjax_nnvm.errors import CheckpointError, TrainingError, cut
from symjax_nnvm.progress import bar

LOOK_EVERY = 0.5
"""Seconds between two looks at the metrics. Each waits for the device; steps in between are only put in its queue."""

_HOW_TO_FIND = ' fit(..., check_finite="step") stops before that update and names the first node.'

CheckFinite = Literal["interval", "step"] | None


class Driven(Protocol):
    """Describes the part of `Trainer` that a run uses."""

    state: TrainState | None

    @property
    def inputs(self) -> Inputs:
        """Return which arguments come with the batches."""
        ...

    @property
    def placement(self) -> Placement:
        """Return the placement of batches."""
        ...

    def require_state(self) -> TrainState:
        """Return the state. Raises TrainingError before there is one."""
        ...

    def step(self, batch: Any) -> list[jax.Array]:
        """Make one update; return the outputs."""
        ...

    def compile_fully(self) -> None:
        """Have every step from now on compiled fully."""
        ...

    def tracker(self, metrics: Any, *, numbers: bool = False) -> Tracker:
        """Return metrics of the network, at their start."""
        ...

    def evaluate(self, data: Iterable[Any], metrics: Any) -> dict[str, float]:
        """Return metrics over all batches, in test mode."""
        ...

    def diagnose(self, batch: Any) -> object:
        """Return the nodes that turn finite numbers into others, printed as lines."""
        ...

    def about(self) -> dict[str, Any]:
        """Return facts that distinguish this run from others."""
        ...


@dataclass
class Run:
    """One call of `fit`; see `Trainer.fit` for the arguments."""

    trainer: Driven
    data: Iterable[Any]
    epochs: int
    validation: Iterable[Any] | None
    metrics: Any
    callbacks: Iterable[Any] | None
    checkpoints: Any
    progress: bool
    begin_epoch: int
    check_finite: CheckFinite
    check_labels: bool
    exit_when_lost: bool
    history: History = field(default_factory=History)

    def __post_init__(self) -> None:
        if not (self.check_finite is None or str(self.check_finite) in ("interval", "step")):
            expected = "'interval', 'step' or None"
            raise TrainingError("Wrong check_finite", expected=expected, got=repr(self.check_finite))
        self._check_arguments()
        self.metrics = make_metrics(self.metrics)  # an iterator would end with the first epoch
        if self.checkpoints is not None:
            self.trainer.compile_fully()
        self._tracker = self.trainer.tracker(self.metrics, numbers=self.check_labels)
        self._last_look = 0.0
        self._next_look = 0  # with several processes, which look after the same step
        self._team = Team(self.trainer.placement, self.exit_when_lost)

    def _check_arguments(self) -> None:
        """Raise TrainingError for whole arrays in place of batches, and for callbacks without a method that `fit`
        calls."""
        names = ", ".join(
            f"{name!r}: {letter}" for name, letter in zip(self.trainer.inputs.names, "xyzuvw", strict=False)
        )
        batches = f"lowering.Batches({{{names}}}, batch_size=32)"
        pair = isinstance(self.data, tuple) and len(self.data) == 2 and all(map(_is_array, self.data))
        pair = pair or (_is_array(self.epochs) and self.epochs.shape != ())  # pyright: ignore
        if _is_array(self.data) or pair:
            raise TrainingError(
                "fit needs batches and a number of epochs",
                got="whole arrays" if pair else "one array",
                fix=f"Cut arrays into batches: trainer.fit({batches}, epochs=10).",
            )
        if isinstance(self.data, Mapping):
            fix = f"One dict is one batch: use trainer.step(batch), or cut whole arrays into batches: {batches}."
            raise TrainingError("fit needs an iterable of batches", got="one dict", fix=fix)
        if not may_be_iterated(self.data):
            got = cut(repr(self.data), 100)
            raise TrainingError("fit needs an iterable of batches", got=got, fix=f"For example {batches}.")
        for name, number in (("epochs", self.epochs), ("begin_epoch", self.begin_epoch)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise TrainingError(f"Wrong {name}", expected="a whole number from 0 on", got=cut(repr(number), 100))
        if not (self.validation is None or isinstance(self.validation, Iterable)):
            got = cut(repr(self.validation), 100)
            raise TrainingError("validation must be an iterable of batches", got=got, fix=f"validation={batches}.")
        if not (self.checkpoints is None or all(hasattr(self.checkpoints, n) for n in ("save", "restore", "wait"))):
            fix = "checkpoints=lowering.Checkpoints('folder')."
            raise TrainingError("checkpoints must be a store of states", got=cut(repr(self.checkpoints), 100), fix=fix)
        self._callbacks = _listed(self.callbacks)
        for callback in self._callbacks:
            if not (hasattr(callback, "on_step_end") or hasattr(callback, "on_epoch_end")):
                raise TrainingError(
                    "A callback has no method that fit calls",
                    expected="a list of objects with on_step_end(trainer, event) or on_epoch_end(trainer, record)",
                    got=cut(repr(callback), 100),
                    fix="class Mine: def on_epoch_end(self, trainer, record): ...; then callbacks=[Mine()].",
                )

    def __call__(self) -> History:
        """Train. Raises TrainingError, CheckpointError."""
        claim = getattr(self.checkpoints, "claim", None)  # other stores than `Checkpoints` belong to one run
        lives = self._team.check_alive if self._team.size > 1 else None
        with (
            self._team,
            nullcontext() if claim is None else claim(self.trainer.about(), lives),
            Preemption(self._team, self.checkpoints is not None) as self._preemption,
        ):
            return self._train_all()

    def _train_all(self) -> History:
        self._team.check_lengths(_length(self.data))
        epoch, batch = self._resume()
        self._step = self._saved = self._looked = int(self.trainer.require_state().step)
        steps = _length(self.data)
        total = None if steps is None else steps * (self.epochs - self.begin_epoch)
        done = 0 if steps is None else steps * (epoch - self.begin_epoch) + batch
        with self._all_written():
            self._begun, self._shown = self._step - done, self.progress and self._team.first
            with bar(self._words(epoch, {}), total, self._shown, at_once=True) as self._advance:
                for number in range(epoch, self.epochs):
                    stopped = self._epoch(number, batch)
                    epoch, batch = number + 1, 0
                    self._save_if_due(epoch, batch)
                    if stopped:
                        break
            if self.checkpoints is not None and self._step != self._saved:
                self._save(epoch, batch)
        return self.history

    @contextmanager
    def _all_written(self) -> Iterator[None]:
        """Let a run that is interrupted leave no save in the air, unless a process is lost that has a part in it."""
        try:
            try:
                yield
            finally:
                if self.checkpoints is not None and not self._team.broken_by(sys.exception()):
                    self.checkpoints.wait()
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            abandon = getattr(self.checkpoints, "abandon", None)
            if abandon is not None and self._team.broken_by(error):
                abandon()
            raise

    def _epoch(self, epoch: int, start: int) -> bool:
        """Run one epoch from a batch on, and return whether a callback stopped the run."""
        began, number = time.perf_counter(), start
        stopped = False
        self._start = start
        batches = map(self._on_device, self._batches(epoch, start))
        batch = next(batches, None)
        while batch is not None:
            self._save_if_due(epoch, number)
            outputs = self._train(batch, epoch, number)
            batch = next(batches, None)  # it goes to the devices while they are at work
            self._advance(self._step - self._begun)
            stopped = self._call("on_step_end", StepEvent(epoch, number, self._step, outputs)) or stopped
            number += 1
            self._look(epoch)
        if number == 0:
            raise TrainingError(
                f"Epoch {epoch} has no batches. Is the data an iterator that has already run out? Every epoch runs "
                "through it again: pass a list, lowering.Batches(arrays, batch_size), or an object with __iter__."
            )
        self._look(epoch, now=True)
        record = EpochRecord(epoch, number, time.perf_counter() - began, self._tracker.results(), self._validate())
        self._tracker.reset()
        self.history.epochs.append(record)
        if self._shown:
            print(f"{self._words(epoch, record.shown)}  {record.seconds:.1f} s", flush=True)
        return bool(self._team.largest(self._call("on_epoch_end", record) or stopped))

    def _train(self, batch: dict[str, Any], epoch: int, number: int) -> list[jax.Array]:
        before = jax.tree.map(jnp.copy, self.trainer.state) if self.check_finite == "step" else None
        outputs = self.trainer.step(batch)
        self._step += 1
        self._tracker.update(batch, outputs)
        if before is not None:
            self._check_step(before, batch, epoch, number)
        return outputs

    def _on_device(self, item: Any) -> dict[str, Any]:
        """Return a batch on the devices: once, for the step and the metrics."""
        batch = self.trainer.inputs.as_batch(item)
        placed = put_batch(self.trainer.placement, batch, whole=gives_whole(self.data))
        return jax.device_put(placed) if self.trainer.placement.mesh is None else placed

    def _check_step(self, before: Any, batch: Any, epoch: int, number: int) -> None:
        """Raise if the step made a number that is not finite; the state is then that before it."""
        after = self.trainer.require_state()
        try:
            self._tracker.check_numbers(epoch, self._start)
        except TrainingError:
            self.trainer.state = before
            raise
        try:
            self._tracker.check_finite(epoch, self._start)
        except TrainingError as error:
            self.trainer.state = before
            raise TrainingError(f"{error}\n{self.trainer.diagnose(batch)}") from None
        finite = all(bool(jnp.all(jnp.isfinite(value))) for value in after.params.values())
        if not finite:
            self.trainer.state = before
            where = f"Batch {number} of epoch {epoch} made a parameter infinite or NaN."
            raise TrainingError(f"{where}\n{self.trainer.diagnose(batch)}")

    def _look(self, epoch: int, *, now: bool = False) -> None:
        """Show the metrics and check that outputs are finite, if it is time to."""
        if not now and not self._is_time():
            return
        self._check(epoch)
        self._advance(self._step - self._begun, self._words(epoch, self._tracker.results()))
        self._last_look = time.perf_counter()

    def _words(self, epoch: int, metrics: dict[str, float]) -> str:
        """An epoch and its metrics; the last of 8 is epoch 7 (8 of 8), since epochs count from 0, as in MXNet's log."""
        listed = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        return f"epoch {epoch} ({epoch + 1} of {self.epochs})  {listed}"

    def _is_time(self) -> bool:
        """Return whether half a second has passed since the last check. Several processes answer alike after the same
        step: a process that stops because of the check must not leave the others waiting."""
        passed = time.perf_counter() - self._last_look
        if self._team.size == 1:
            return passed >= LOOK_EVERY
        if self._step < self._next_look:
            return False
        steps = max(1, self._step - self._looked)
        self._looked = self._step
        self._next_look = self._step + self._team.largest(max(1, min(2 * steps, int(steps * LOOK_EVERY / passed))))
        return True

    def _check(self, epoch: int) -> None:
        """Raise for labels that number no class, and for outputs that are not finite."""
        self._tracker.check_numbers(epoch, self._start)
        if self.check_finite is not None:
            self._tracker.check_finite(epoch, self._start, _HOW_TO_FIND)

    def _validate(self) -> dict[str, float]:
        return {} if self.validation is None else self.trainer.evaluate(self.validation, self.metrics)

    def _call(self, method: str, event: Any) -> bool:
        """Call a method of all callbacks; whether one returned True, which ends the run after this epoch."""
        answers = [getattr(c, method)(self.trainer, event) for c in self._callbacks if hasattr(c, method)]
        return any(answer is True for answer in answers)

    def _batches(self, epoch: int, start: int) -> Iterator[Any]:
        if hasattr(self.data, "epoch"):
            return iter(self.data.epoch(epoch, start))  # pyright: ignore[reportAttributeAccessIssue]
        return islice(self.data, start, None)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def _save_if_due(self, epoch: int, batch: int) -> None:
        """Save before the next step, so that at an epoch's end its record is saved, too. A failed save warns.

        Raises SystemExit, as SIGTERM's own doing, when that came and the state is saved.
        """
        if self._preemption.reached(self._step):
            self._end(epoch, batch)
        if self.checkpoints is None or self._step == self._saved or self._step % self.checkpoints.every:
            return
        try:
            self._save(epoch, batch)
        except CheckpointError as error:
            if self._team.size > 1:  # the others have written their parts: they must learn of the error
                raise
            warnings.warn(f"{error} Training goes on.", stacklevel=5)

    def _end(self, epoch: int, batch: int) -> None:
        saved = "without a checkpoint"
        if self.checkpoints is not None:
            if self._step != self._saved:
                self._save(epoch, batch)
            self.checkpoints.wait()
            where = getattr(self.checkpoints, "directory", "the checkpoints")
            saved = f"saved in {where}; the same call of fit goes on from there"
        if self._team.first:
            print(f"SIGTERM: the run ends at step {self._step}, {saved}.", file=sys.stderr, flush=True)
        raise SystemExit(128 + signal.SIGTERM)

    def _save(self, epoch: int, batch: int) -> None:
        self._check(epoch)
        position = {"epoch": epoch, "batch": batch, "metrics": self._tracker.saved(), "history": self.history.to_json()}
        self.checkpoints.save(self._step, self.trainer.require_state(), position)
        self._saved = self._step

    def _resume(self) -> tuple[int, int]:
        """Restore state, metrics and history from the latest checkpoint; return the (epoch, batch) to go on with."""
        restored = None if self.checkpoints is None else self.checkpoints.restore(self.trainer.require_state())
        if restored is None:
            return self.begin_epoch, 0
        self.trainer.state, position = restored
        self._tracker.restore(position["metrics"])
        self.history = History.from_json(position["history"])
        return position["epoch"], position["batch"]


def _listed(callbacks: Any) -> list[Any]:
    """Return callbacks, of one, of several, or of None."""
    if callbacks is None:
        return []
    one = hasattr(callbacks, "on_step_end") or hasattr(callbacks, "on_epoch_end")
    return [callbacks] if one or not isinstance(callbacks, Iterable) else list(callbacks)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _length(data: Iterable[Any]) -> int | None:
    return len(data) if hasattr(data, "__len__") else None  # pyright: ignore[reportArgumentType]
