"""Handlers of what happens while an Estimator trains: they count, measure, log, stop and update."""

from __future__ import annotations

import math
import operator
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from lowering.messages.counts import check_count
from lowering.mx.gluon.contrib.estimator.checkpoint_files import CheckpointFiles
from lowering.mx.gluon.contrib.estimator.utils import metrics_of, shown
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError
from lowering.mx.metric import CompositeEvalMetric, EvalMetric
from lowering.mx.metric import Loss as LossMetric
from symjax_nnvm.io.files import StrPath, path_text

Metrics = EvalMetric | Sequence[EvalMetric] | None


def _period(number: int | None, param: str) -> int | None:
    """Return a period, which may be None or 0 for never. Raises CountError for anything that is not a number of
    times."""
    return None if number is None else check_count(number, param, least=0)


class EventHandler:
    """Base class. A subclass derives from those of the events that it handles; handlers of a lower `priority` come
    first, and without one it is 0."""


class TrainBegin(EventHandler):
    """Handles the begin of training."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Do nothing; a subclass does."""


class TrainEnd(EventHandler):
    """Handles the end of training."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Do nothing; a subclass does."""


class EpochBegin(EventHandler):
    """Handles the begin of an epoch."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Do nothing; a subclass does."""


class EpochEnd(EventHandler):
    """Handles the end of an epoch."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Return whether training ends."""
        return False


class BatchBegin(EventHandler):
    """Handles the begin of a batch, which comes as batch=."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Do nothing; a subclass does."""


class BatchEnd(EventHandler):
    """Handles the end of a batch; batch=, pred=, label= and loss= are what was computed."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        """Return whether the epoch ends here."""
        return False


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends training after the number of epochs or batches that `fit` got.

    Args:
        max_epoch: the number of epochs; None for `fit`'s.
        max_batch: the number of batches; None for `fit`'s.
    """

    def __init__(self, max_epoch: int | None = None, max_batch: int | None = None):
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from 0."""
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count a batch."""
        self.current_batch += 1
        self.stop_training = self.stop_training or self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Count an epoch."""
        self.current_epoch += 1
        self.stop_training = self.stop_training or self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Updates metrics at the end of each batch; they start again with each epoch.

    Args:
        metrics: the metrics.
        priority: handlers with smaller numbers run first.
    """

    def __init__(self, metrics: Metrics, priority: float = -1000):
        self.metrics = metrics_of(metrics)
        self.priority = priority

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Reset the metrics."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update the metrics: those of a loss by it, the others by labels and predictions."""
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update([], kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates after every `epoch_period` epochs and every `batch_period` batches.

    Args:
        val_data: the data to evaluate on.
        eval_fn: a function like `Estimator.evaluate`; it gets val_data=, batch_axis= and event_handlers=.
        epoch_period: the number of epochs between two evaluations; None or 0 for never.
        batch_period: the number of batches between two evaluations; None or 0 for never.
        priority: handlers with smaller numbers run first.
        event_handlers: handlers of the evaluation.

    Raises:
        CountError: a period is below 0.
    """

    def __init__(
        self,
        val_data: Any,
        eval_fn: Callable[..., Any],
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        priority: float = -1000,
        event_handlers: Any = None,
    ):
        self.val_data, self.eval_fn = val_data, eval_fn
        self.epoch_period = _period(epoch_period, "epoch_period")
        self.batch_period = _period(batch_period, "batch_period")
        self.current_batch = self.current_epoch = 0
        self.priority = priority
        self.event_handlers = event_handlers

    def _evaluate(self, estimator: Any) -> None:
        self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers)

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from 0."""
        self.current_batch = self.current_epoch = 0

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count a batch; evaluate if it is time."""
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._evaluate(estimator)

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count an epoch; evaluate if it is time."""
        self.current_epoch += 1
        if self.epoch_period and self.current_epoch % self.epoch_period == 0:
            self._evaluate(estimator)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs settings, times and metrics to the Estimator's logger.

    Args:
        log_interval: "epoch", or a number of batches.
        metrics: the metrics.
        priority: handlers with smaller numbers run first.

    Raises:
        BlockValueError: `log_interval` is something else.
    """

    def __init__(self, log_interval: int | str = "epoch", metrics: Metrics = None, priority: float = math.inf):
        if log_interval != "epoch" and not (isinstance(log_interval, int) and log_interval > 0):
            problem = "log_interval must be either an integer or string 'epoch'"
            raise BlockValueError(problem, got=log_interval, fix="Give a number of batches, at least 1.")
        self.metrics = metrics_of(metrics)
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.priority = priority
        self.log_interval = log_interval
        self.log_interval_time = 0.0

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the optimiser and the number of epochs or batches."""
        self.train_start = time.time()
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(estimator.trainer.optimizer).__name__,
            estimator.trainer.learning_rate,
        )
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0.0

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the time and the last values."""
        seconds = time.time() - self.train_start
        head = f"Train finished using total {int(seconds)}s with {self.current_epoch} epochs. "
        estimator.logger.info((head + shown(self.metrics)).rstrip(", "))

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Record the time."""
        self.batch_start = time.time()

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the values after every log_interval batches."""
        if isinstance(self.log_interval, int):
            self.log_interval_time += time.time() - self.batch_start
            self.processed_samples += kwargs["batch"][0].shape[0]
            if self.batch_index % self.log_interval == 0:
                head = f"[Epoch {self.current_epoch}][Batch {self.batch_index}][Samples {self.processed_samples}] "
                head += f"time/interval: {self.log_interval_time:.3f}s "
                self.log_interval_time = 0.0
                estimator.logger.info((head + shown(self.metrics)).rstrip(", "))
        self.batch_index += 1

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the learning rate if a metric's name contains "training", else the beginning of an evaluation."""
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            rate = estimator.trainer.learning_rate
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch, rate)
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log the time and the values of an epoch."""
        head = f"[Epoch {self.current_epoch}] Finished in {time.time() - self.epoch_start:.3f}s, "
        estimator.logger.info((head + shown(self.metrics)).rstrip(", "))
        self.current_epoch += 1
        self.batch_index = 0


class _Monitor:
    """Decides whether a metric has improved."""

    monitor: Any
    monitor_op: Callable[[Any, Any], bool]

    def _compare(self, mode: str, what: str) -> None:
        """Choose how values are compared: "max", "min", or by the metric's name."""
        if mode not in ("auto", "min", "max"):
            warnings.warn(f"{what} mode {mode} is unknown, fallback to auto mode.", RuntimeWarning, stacklevel=4)
            mode = "auto"
        name = str(self.monitor.get()[0])
        larger = any(part in name.lower() for part in ("acc", "f1")) if mode == "auto" else mode == "max"
        if mode == "auto":
            chosen, other = ("greater", "min") if larger else ("less", "max")
            warnings.warn(
                f"`{chosen}` operator will be used to determine if {name} has improved. Specify `mode='{other}'` for "
                f"the other one, or `mode='{'max' if larger else 'min'}'` to disable this warning.",
                stacklevel=4,
            )
        self.monitor_op = operator.gt if larger else operator.lt

    @property
    def _worst(self) -> float:
        return math.inf if self.monitor_op is operator.lt else -math.inf

    def _value(self) -> tuple[str, float | None]:
        """Return the metric's name and value; None, and a warning, where nothing has updated it."""
        name, value = self.monitor.get()
        if not math.isnan(value):
            return name, value
        warnings.warn(
            f"{name} is not updated, make sure you pass one of the metric objects from estimator.train_metrics and "
            "estimator.val_metrics as monitor.",
            RuntimeWarning,
            stacklevel=4,
        )
        return name, None


class CheckpointHandler(_Monitor, TrainBegin, BatchEnd, EpochEnd):
    """Writes parameters and the trainer's states during training, and the network once, if it is hybridised.

    The files are `PREFIX-epoch1batch8.params`, `PREFIX-epoch1batch8.states` and `PREFIX-symbol.json`.

    Args:
        model_dir: the folder.
        model_prefix: PREFIX.
        monitor: the metric for `save_best`.
        verbose: 1 logs each checkpoint.
        save_best: write `PREFIX-best.params` and `PREFIX-best.states` whenever `monitor` is better than before.
        mode: whether "max" or "min" is better, or "auto" to go by the metric's name.
        epoch_period: the number of epochs between two checkpoints; None or 0 for never.
        batch_period: the number of batches between two checkpoints; None or 0 for never.
        max_checkpoints: how many checkpoints of this handler to keep.
        resume_from_checkpoint: continue from the latest one, for the rest of the epochs or batches.

    Raises:
        BlockValueError: an argument is of another kind.
        CountError: a period or `max_checkpoints` is wrong.
    """

    def __init__(
        self,
        model_dir: StrPath,
        model_prefix: str = "model",
        monitor: EvalMetric | None = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ):
        self.monitor, self.verbose, self.save_best = monitor, verbose, save_best
        self.model_dir, self.model_prefix = path_text(model_dir, "model_dir"), model_prefix
        self.epoch_period = _period(epoch_period, "epoch_period")
        self.batch_period = _period(batch_period, "batch_period")
        self.current_batch = self.current_epoch = 0
        self.trained_batch = self.trained_epoch = -1
        self.max_checkpoints = check_count(max_checkpoints, "max_checkpoints", least=0)
        self.resume_from_checkpoint = resume_from_checkpoint
        self._files = CheckpointFiles(model_dir, model_prefix, self.max_checkpoints)
        if save_best:
            if not isinstance(monitor, EvalMetric):
                raise BlockValueError(
                    "To save best model only, please provide one of the metric objects from estimator.train_metrics "
                    "and estimator.val_metrics as monitor.",
                    got=monitor,
                )
            self._compare(mode, "ModelCheckpoint")
            self.best = self._worst

    @property
    def saved_checkpoints(self) -> list[str]:
        """Return the beginnings of the names of the files that this handler wrote and kept, the oldest first."""
        return self._files.names

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from 0, and load the latest checkpoint when resuming."""
        self.current_epoch = self.current_batch = 0
        if self.save_best:
            self.best = self._worst
        if self.resume_from_checkpoint:
            self._resume(estimator)

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Write the network after the first batch, and a checkpoint if it is time."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Write a checkpoint if it is time."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    def _save_symbol(self, estimator: Any) -> None:
        path = self._files.path("symbol.json")
        if getattr(estimator.net, "_cached_graph", None):
            estimator.net._cached_graph[1].save(path)
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and "
                "call net.hybridize() before passing to Estimator in order to save model architecture as %s.",
                path,
            )

    def _save_checkpoint(self, estimator: Any) -> None:
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (not estimator.max_epoch)  # at the end of an epoch it is counted already
        name = self._files.save(estimator, epoch, batch)
        if self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: trained total %d batches, saving model at %s with prefix: %s",
                *(self.current_epoch, self.current_batch + 1, self.model_dir, name),
            )
        if self.save_best:
            self._save_best(estimator)

    def _save_best(self, estimator: Any) -> None:
        name, value = self._value()
        if value is None:
            return
        before, better = self.best, self.monitor_op(value, self.best)
        if better:
            self._files.save_best(estimator)
            self.best = value
        if self.verbose > 0 and better:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: %s improved from %0.5f to %0.5f, updating best model at %s with prefix: "
                "%s-best",
                *(self.current_epoch, name, before, value, self.model_dir, self.model_prefix),
            )
        elif self.verbose > 0:
            message = "[Epoch %d] CheckpointHandler: %s did not improve from %0.5f, skipping updating best model"
            estimator.logger.info(message, self.current_epoch, name, before)

    def _resume(self, estimator: Any) -> None:
        by_epochs, other = bool(estimator.max_epoch), self.batch_period if estimator.max_epoch else self.epoch_period
        unit, most = ("epochs", estimator.max_epoch) if by_epochs else ("batches", estimator.max_batch)
        if not (self.epoch_period if by_epochs else self.batch_period) or other:
            raise MismatchError(
                f"fit counts {unit}, so resume_from_checkpoint needs checkpoints that count {unit}",
                fix="epoch_period=1, batch_period=None"
                if by_epochs
                else "epoch_period=None, batch_period=a number of batches",
            )
        latest = self._files.latest()
        self.trained_epoch, self.trained_batch = latest or (-1, -1)
        if latest is None:
            message = "CheckpointHandler: No checkpoint found, training from scratch for %d %s"
            estimator.logger.info(message, most, unit)
            return
        periods_left = most - (self.trained_epoch if by_epochs else self.trained_batch) - 1
        if periods_left <= 0:
            raise BlockValueError(
                f"Found checkpoint with maximum number of {unit} {most} reached",
                fix="resume_from_checkpoint=False (default value) trains from scratch.",
            )
        if by_epochs:
            estimator.max_epoch = periods_left
        else:
            estimator.max_batch = periods_left
        self._files.load(estimator, *latest)
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, continue to train for %d %s ",
            *(*latest, periods_left, unit),
        )


class EarlyStoppingHandler(_Monitor, TrainBegin, EpochEnd, TrainEnd):
    """Ends training when a metric has not improved for some epochs.

    Args:
        monitor: the metric.
        min_delta: the smallest change that counts as an improvement.
        patience: the number of epochs to wait.
        mode: whether "max" or "min" is better, or "auto" to go by the metric's name.
        baseline: the value to compare the first one with.

    Raises:
        BlockValueError: `monitor` is not a metric, or one composed of several.
    """

    def __init__(
        self,
        monitor: EvalMetric,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ):
        if not isinstance(monitor, EvalMetric) or isinstance(monitor, CompositeEvalMetric):
            raise BlockValueError(
                "Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as "
                "monitor, which is not composed of others.",
                got=monitor,
            )
        self.monitor, self.baseline, self.patience = monitor, baseline, patience
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self._compare(mode, "EarlyStopping")
        self.min_delta = min_delta if self.monitor_op is operator.gt else -min_delta

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Count from 0."""
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training = False
        self.best = self._worst if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        """Return whether the metric has not improved for too long."""
        _, value = self._value()
        if value is not None and self.monitor_op(value - self.min_delta, self.best):
            self.best, self.wait = value, 0
        elif value is not None:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Log why training has ended."""
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving",
                *(self.stopped_epoch, self.monitor.get()[0]),
            )


class GradientUpdateHandler(BatchEnd):
    """Updates the parameters at the end of each batch, before other handlers.

    Args:
        priority: handlers with smaller numbers run first.
    """

    def __init__(self, priority: float = -2000):
        self.priority = priority

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        """Update by the gradients, divided by the number of losses."""
        losses = kwargs["loss"] if isinstance(kwargs["loss"], list) else [kwargs["loss"]]
        estimator.trainer.step(sum(loss.shape[0] for loss in losses))
