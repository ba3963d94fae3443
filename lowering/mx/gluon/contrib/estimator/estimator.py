"""`Estimator`: trains a block on data, and evaluates it, with metrics, logs and handlers."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from lowering.messages.counts import check_count
from lowering.mx.context import Context, cpu, gpu, num_gpus
from lowering.mx.gluon.basic_block import Block
from lowering.mx.gluon.contrib.estimator import event_handler as events
from lowering.mx.gluon.contrib.estimator.batch_processor import BatchProcessor
from lowering.mx.gluon.contrib.estimator.utils import metrics_of, refuse_other_metrics
from lowering.mx.gluon.data import DataLoader
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError, NotInitializedError
from lowering.mx.gluon.loss import Loss, SoftmaxCrossEntropyLoss
from lowering.mx.gluon.trainer import Trainer
from lowering.mx.metric import Accuracy, EvalMetric
from lowering.mx.metric import Loss as LossMetric
from symjax_nnvm.errors import plain_list

Handlers = events.EventHandler | Sequence[events.EventHandler] | None


class Estimator:
    """A block with its loss, its metrics and its trainer.

    The names of metrics begin with "training " and "validation ". `logger` writes INFO and above to the standard
    output.

    Args:
        net: a Gluon block.
        loss: a Gluon loss.
        train_metrics: a metric or several; None for the loss, and for the accuracy where the loss is a softmax loss.
        val_metrics: the metrics of validation; None for copies of those.
        initializer: the initialiser of parameters that are not initialised yet.
        trainer: a Gluon trainer; None for SGD at 0.001, with a warning.
        context: a context or several; None for the first GPU, or the CPU.
        val_net: the block for validation; None for `net`.
        val_loss: the loss for validation; None for `loss`.
        batch_processor: an object with `fit_batch` and `evaluate_batch`; None for a BatchProcessor.

    Raises:
        BlockValueError: an argument is of another kind; the error is a ValueError, too.
        MismatchError: a context does not exist; the error is an AssertionError, too.
    """

    logger: Any = None
    max_epoch: int | None = None
    max_batch: int | None = None
    batch_axis = 0

    def __init__(
        self,
        net: Block,
        loss: Loss,
        train_metrics: events.Metrics = None,
        val_metrics: events.Metrics = None,
        initializer: Any = None,
        trainer: Trainer | None = None,
        context: Context | list[Context] | None = None,
        val_net: Block | None = None,
        val_loss: Loss | None = None,
        batch_processor: BatchProcessor | None = None,
    ):
        self.net, self.val_net = net, net if val_net is None else val_net
        self.loss = _loss(loss)
        self.val_loss = self.loss if val_loss is None else _loss(val_loss)
        self._train_metrics = metrics_of(train_metrics) or _metrics_for(self.loss)
        for metric in self._train_metrics:
            metric.name = f"training {metric.name}"
        self._val_metrics = metrics_of(val_metrics) or [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            trains = "training" in metric.name
            metric.name = metric.name.replace("training", "validation") if trains else f"validation {metric.name}"
        self.logger = logging.Logger("Estimator", logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = _contexts(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        for method in ("fit_batch", "evaluate_batch") if batch_processor is not None else ():
            if not callable(getattr(batch_processor, method, None)):
                raise BlockValueError(
                    "Customized Batch Processor must contain fit_batch() and evaluate_batch() methods",
                    got=type(batch_processor).__name__,
                )
        self.batch_processor = BatchProcessor() if batch_processor is None else batch_processor

    @property
    def train_metrics(self) -> list[EvalMetric]:
        """Return the metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self) -> list[EvalMetric]:
        """Return the metrics of validation."""
        return self._val_metrics

    def _initialize(self, initializer: Any) -> None:
        """Initialise what is not initialised."""
        if not _is_initialized(self.net):
            self.net.initialize(**({"init": initializer} if initializer else {}), ctx=self.context)
        elif initializer:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to pass initializer if you "
                "already initialized your net. You can use net.initialize(init=your_initializer, force_reinit=True) to "
                "force re-initialize.",
                stacklevel=3,
            )

    def _checked_trainer(self, trainer: Any) -> Trainer:
        if trainer is None:
            message = "No trainer specified, default SGD optimizer with learning rate 0.001 is used."
            warnings.warn(message, stacklevel=3)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise BlockValueError("Trainer must be a Gluon Trainer instance, refer to gluon.Trainer", got=trainer)
        return trainer

    def evaluate(self, val_data: DataLoader, batch_axis: int = 0, event_handlers: Handlers = None) -> None:
        """Evaluate on the batches of a loader; `val_metrics` then have the values.

        Args:
            val_data: the loader.
            batch_axis: the axis of the samples.
            event_handlers: further handlers; a MetricHandler or LoggingHandler among them replaces the automatic one.

        Raises:
            BlockValueError: an argument is of another kind.
        """
        _refuse_others(val_data)
        for metric in self.val_metrics:
            metric.reset()
        defaults = [events.MetricHandler(self.val_metrics), events.LoggingHandler(metrics=self.val_metrics)]
        handlers = _with_defaults(event_handlers, defaults, self.val_metrics)
        for handler in _of(handlers, events.EpochBegin):
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in _of(handlers, events.BatchBegin):
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in _of(handlers, events.BatchEnd):
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in _of(handlers, events.EpochEnd):
            handler.epoch_end(self)

    def fit(
        self,
        train_data: DataLoader,
        val_data: DataLoader | None = None,
        epochs: int | None = None,
        event_handlers: Handlers = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train on the batches of a loader, for a number of epochs or of batches.

        Args:
            train_data: the loader.
            val_data: a loader to evaluate after each epoch.
            epochs: the number of epochs; give this or `batches`.
            event_handlers: further handlers besides a StoppingHandler; a GradientUpdateHandler, MetricHandler,
                ValidationHandler or LoggingHandler among them replaces the automatic one.
            batches: the number of batches.
            batch_axis: the axis of the samples.

        Raises:
            BlockValueError: an argument is of another kind.
            CountError: a number is below 1.
        """
        _refuse_others(train_data)
        if bool(epochs) == bool(batches):
            raise BlockValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or number of batches",
                fix="Give one of epochs= and batches=.",
            )
        if epochs:
            check_count(epochs, "epochs")
        else:
            check_count(batches, "batches")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        for handler in _of(handlers, events.TrainBegin):
            handler.train_begin(self)
        ended = False
        while not ended:
            for handler in _of(handlers, events.EpochBegin):
                handler.epoch_begin(self)
            for batch in train_data:
                for handler in _of(handlers, events.BatchBegin):
                    handler.batch_begin(self, batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                results = {"batch": batch, "pred": pred, "label": label, "loss": loss}
                if any([handler.batch_end(self, **results) for handler in _of(handlers, events.BatchEnd)]):  # noqa: C419
                    break  # all handlers have run
            ended = any([handler.epoch_end(self) for handler in _of(handlers, events.EpochEnd)])  # noqa: C419
        for handler in _of(handlers, events.TrainEnd):
            handler.train_end(self)

    def _prepare_default_handlers(
        self, val_data: DataLoader | None, event_handlers: Handlers
    ) -> list[events.EventHandler]:
        """Return the handlers of training."""
        defaults: list[events.EventHandler] = [
            events.StoppingHandler(self.max_epoch, self.max_batch),
            events.GradientUpdateHandler(),
            events.MetricHandler(self.train_metrics),
        ]
        if val_data:
            defaults.append(events.ValidationHandler(val_data, self.evaluate))
        defaults.append(events.LoggingHandler(metrics=self.train_metrics))
        return _with_defaults(event_handlers, defaults, [*self.train_metrics, *self.val_metrics])


def _with_defaults(
    own: Handlers, defaults: Sequence[events.EventHandler], metrics: list[EvalMetric]
) -> list[events.EventHandler]:
    """Return handlers in the order of their priorities: the user's, and each default of a class that the user's lack.

    metrics: those that handlers may refer to if both kinds are there. Raises BlockValueError.
    """
    handlers = [own] if isinstance(own, events.EventHandler) else list(own or [])
    if not all(isinstance(handler, events.EventHandler) for handler in handlers):
        raise BlockValueError("handlers must be an EventHandler or a list of EventHandler", got=own)
    added = [
        default
        for default in defaults
        if isinstance(default, events.StoppingHandler) or not any(isinstance(h, type(default)) for h in handlers)
    ]
    if handlers and added:
        refuse_other_metrics([*handlers, *added], metrics)
    return sorted([*handlers, *added], key=lambda handler: getattr(handler, "priority", 0))


def _of(handlers: list[events.EventHandler], event: type[Any]) -> list[Any]:
    """Return the handlers of an event."""
    return [handler for handler in handlers if isinstance(handler, event)]


def _loss(loss: Any) -> Loss:
    if not isinstance(loss, Loss):
        raise BlockValueError("loss must be a Loss, refer to gluon.loss.Loss", got=loss)
    return loss


def _metrics_for(loss: Loss) -> list[EvalMetric]:
    """Return what is measured of a network with this loss."""
    named: EvalMetric = LossMetric(loss.name.rstrip("1234567890"))
    return [Accuracy(), named] if isinstance(loss, SoftmaxCrossEntropyLoss) else [named]


def _contexts(context: Any) -> list[Context]:
    """Return the contexts, by default the first GPU or the processor. Raises BlockValueError."""
    gpus = [gpu(i) for i in range(num_gpus())]
    if not context:
        if len(gpus) > 1:
            warnings.warn(
                "You have multiple GPUs, gpu(0) will be used by default. To utilize all your GPUs, specify context as "
                "a list of gpus, e.g. context=[mx.gpu(0), mx.gpu(1)]",
                stacklevel=3,
            )
        return gpus[:1] or [cpu()]
    contexts = [context] if isinstance(context, Context) else context
    if not isinstance(contexts, list) or not all(isinstance(device, Context) for device in contexts):
        raise BlockValueError(
            "context must be a Context or a list of Context, for example mx.cpu() or [mx.gpu(0), mx.gpu(1)]",
            got=context,
        )
    for device in contexts:
        if device not in gpus and not str(device).startswith("cpu"):
            raise MismatchError(
                f"{device} is not available", expected=f"one of mx.cpu(), {plain_list(gpus)}".rstrip(", ")
            )
    return contexts


def _is_initialized(net: Block) -> bool:
    """Return whether each parameter has contexts, be it that its shape is still open."""
    try:
        for param in net.collect_params().values():
            param.list_ctx()
    except NotInitializedError:
        return False
    return True


def _refuse_others(data: Any) -> None:
    if not isinstance(data, DataLoader):
        raise BlockValueError(
            "Estimator only support input as Gluon DataLoader",
            got=type(data).__name__,
            fix="gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size) makes one of arrays.",
        )
