"""The base class of modules trains, scores and predicts over an iterator, with a few methods of each subclass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx import metric as metrics
from lowering.mx.accepted_types import Logger
from lowering.mx.init import Uniform
from lowering.mx.io.desc import DataBatch, DataIter
from lowering.mx.module.module_checkpoints import BatchEndParam
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array, concatenate
from lowering.mx.ndarray.saved_arrays import load, save
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol.runnable import Symbol
from symjax_nnvm.errors import CallError, TrainingError
from symjax_nnvm.mxnet.array_names import split_kinds, with_kinds

UNIFORM = Uniform(0.01)
"""The initialiser of parameters where the caller gives none."""

KEPT = 128
"""The number of combinations of shapes, or keys of buckets, whose executors are kept: the last used ones."""

Params = dict[str, NDArray]
Callbacks = Callable[..., Any] | Sequence[Callable[..., Any]] | None
"""A function, or a list of them, or None."""


class NotReadyError(TrainingError, AssertionError):
    """A method of a module that was called too early."""


def _require_batches(data: Any) -> None:
    """Raise CallError for what gives no batches: an array. Whatever can be reset and iterated does, as in MXNet."""
    if not (hasattr(data, "reset") and isinstance(data, Iterable)):
        problem = "eval_data must be a DataIter"
        raise CallError(problem, got=type(data).__name__, fix="mx.io.NDArrayIter(x, y, batch_size=32)")


def _unsaid(name: str) -> Any:
    """Return a method that a subclass must define; until then it raises NotImplementedError."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define {name}")

    return method


class BaseModule:
    """A network with its arrays and its optimiser. Its subclasses define the methods that raise here."""

    _symbol: Symbol
    bind: Callable[..., None] = _unsaid("bind")
    init_params: Callable[..., None] = _unsaid("init_params")
    init_optimizer: Callable[..., None] = _unsaid("init_optimizer")
    get_params: Callable[..., tuple[Params, Params]] = _unsaid("get_params")
    forward: Callable[..., None] = _unsaid("forward")
    backward: Callable[..., None] = _unsaid("backward")
    update: Callable[[], None] = _unsaid("update")
    get_outputs: Callable[..., Any] = _unsaid("get_outputs")
    get_input_grads: Callable[..., Any] = _unsaid("get_input_grads")
    update_metric: Callable[..., None] = _unsaid("update_metric")
    install_monitor: Callable[[Any], None] = _unsaid("install_monitor")

    def __init__(self, logger: Logger = logging):
        self.logger = logger
        self.binded = self.for_training = self.inputs_need_grad = False
        self.params_initialized = self.optimizer_initialized = False
        self._fitting: dict[str, Any] = {}
        """The variables of `fit` while it runs, which callbacks find in `param.locals`."""

    @property
    def symbol(self) -> Symbol:
        """Return the network."""
        return self._symbol

    def _require(self, *, params: bool = True, optimizer: bool = False) -> None:
        """Raise NotReadyError for a method that is called too early."""
        missing = [
            way
            for needed, there, way in (
                (True, self.binded, "bind(data_shapes=[('data', (32, 784))], label_shapes=[('softmax_label', (32,))])"),
                (params, self.params_initialized, "init_params()"),
                (optimizer, self.optimizer_initialized, "init_optimizer()"),
            )
            if needed and not there
        ]
        if missing:
            raise NotReadyError("The module is not ready", fix=f"Call module.{', then module.'.join(missing)} first.")

    @checks_flags
    def set_params(
        self,
        arg_params: Mapping[str, Any],
        aux_params: Mapping[str, Any],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Copy values into parameters and states; values that the network does not have are ignored, as in MXNet.

        Raises what `init_params` raises.

        Args:
            arg_params: parameters by name.
            aux_params: auxiliary states by name.
            allow_missing: leave parameters as they are that have no value.
            force_init: do it again where it has been done.
            allow_extra: ignore values that the network does not have.

        Raises:
            TrainingError: the network does not have a name, with `allow_missing` and without `allow_extra`.
        """
        if allow_missing and not allow_extra:
            self._refuse_surplus(arg_params, aux_params)
        self.init_params(None, arg_params, aux_params, allow_missing, force_init, allow_extra)

    def _refuse_surplus(self, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any]) -> None:
        """Raise TrainingError for values that the network lacks."""

    def forward_backward(self, data_batch: DataBatch) -> None:
        """Run a batch in training mode and compute its gradients."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """Return the states that the caller sets; this class has none."""
        self._require()
        return []

    def set_states(self, states: Sequence[Any] | None = None, value: float | None = None) -> None:
        """Do nothing: this class has no states. A state or value raises AssertionError."""
        self._require()
        assert not states, f"{type(self).__name__} has no states"
        assert not value, f"{type(self).__name__} has no states"

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Prepare for a batch; this class does nothing."""

    # -- over an iterator --------------------------------------------------------------------------------------------

    @checks_flags
    def score(
        self,
        eval_data: DataIter,
        eval_metric: Any,
        num_batch: int | None = None,
        batch_end_callback: Callbacks = None,
        score_end_callback: Callbacks = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> list[tuple[str, float]]:
        """Return the metrics over an iterator, in inference mode, as (name, value) pairs.

        Args:
            eval_data: the iterator.
            eval_metric: a metric, its name, or several.
            num_batch: the highest number of batches; None for all.
            batch_end_callback: a function, or several, called with a BatchEndParam after each batch.
            score_end_callback: a function, or several, called with a BatchEndParam at the end.
            reset: reset the iterator first.
            epoch: the number of the epoch.
            sparse_row_id_fn: accepted and ignored.
        """
        self._require()
        _require_batches(eval_data)
        if reset:
            eval_data.reset()
        eval_metric = metrics.create(eval_metric)
        eval_metric.reset()
        count = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self.update_metric(eval_metric, eval_batch.label)
            call_each(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            count += 1
        call_each(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return eval_metric.get_name_value()

    @explained_by(score)
    def iter_predict(
        self, eval_data: DataIter, num_batch: int | None = None, reset: bool = True, sparse_row_id_fn: Any = None
    ) -> Iterator[tuple[list[NDArray], int, DataBatch]]:
        """Return an iterator over (outputs, number of the batch, batch); outputs leave out samples that only fill up a
        batch.
        """
        self._require()
        _require_batches(eval_data)
        if reset:
            eval_data.reset()
        for nbatch, batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn)
            self.forward(batch, is_train=False)
            yield [out[: out.shape[0] - (batch.pad or 0)] for out in self.get_outputs()], nbatch, batch

    @checks_flags
    @explained_by(score)
    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """Return the outputs over an iterator, or for one array.

        Args:
            eval_data: the iterator, or an array.
            merge_batches: join the batches into one array for each output; False returns a list for each batch.
            always_output_list: return a list where there is one output, too.

        Raises:
            TrainingError: batches have different numbers of outputs.
            CallError: `eval_data` is neither an iterator nor an array.
        """
        self._require()
        if isinstance(eval_data, NDArray | np.ndarray):
            data = eval_data if isinstance(eval_data, NDArray) else array(eval_data)
            self.forward(DataBatch([data]), is_train=False)
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            problem = "eval_data must be of type NDArray or DataIter"
            raise CallError(problem, got=type(eval_data).__name__, fix="mx.io.NDArrayIter(x, batch_size=32)")
        batches = [outputs for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)]
        if not batches or not merge_batches:
            return batches
        if len({len(outputs) for outputs in batches}) > 1:
            raise TrainingError("Batches have different numbers of outputs", fix="predict(..., merge_batches=False)")
        merged = [concatenate(list(parts)) for parts in zip(*batches, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    @checks_flags
    def fit(
        self,
        train_data: DataIter,
        eval_data: DataIter | None = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Callbacks = None,
        batch_end_callback: Callbacks = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        eval_end_callback: Callbacks = None,
        eval_batch_end_callback: Callbacks = None,
        initializer: Any = UNIFORM,
        arg_params: Mapping[str, Any] | None = None,
        aux_params: Mapping[str, Any] | None = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
    ) -> None:
        """Train the network; lines go to the logger.

        Raises what `bind`, `init_params` and `init_optimizer` raise.

        Args:
            train_data: the iterator of batches to train on.
            eval_data: the iterator of batches to evaluate after each epoch.
            eval_metric: a metric, its name, or several.
            epoch_end_callback: a function, or several, called with (epoch, symbol, arguments, states) after each epoch.
            batch_end_callback: a function, or several, called with a BatchEndParam after each batch.
            kvstore: a KVStore, its name or None.
            optimizer: an optimiser or its name.
            optimizer_params: the parameters of a named optimiser.
            eval_end_callback: a function, or several, called with a BatchEndParam after each evaluation.
            eval_batch_end_callback: a function, or several, called with a BatchEndParam after each batch of an
                evaluation.
            initializer: the initialiser of values that are missing.
            arg_params: parameters by name.
            aux_params: auxiliary states by name.
            allow_missing: let the initialiser make values that are missing.
            force_rebind: bind again where it is bound.
            force_init: initialise parameters again that have values.
            begin_epoch: the number of the first epoch.
            num_epoch: the number of the epoch to stop before.
            validation_metric: the metric of the evaluation; None for `eval_metric`.
            monitor: a Monitor.
            sparse_row_id_fn: accepted and ignored.

        Raises:
            TrainingError: `num_epoch` is missing, or batches do not fit the network.
        """
        if num_epoch is None:
            raise NotReadyError("please specify number of epochs", fix="module.fit(train_data, num_epoch=10)")
        shapes = {"data_shapes": train_data.provide_data, "label_shapes": train_data.provide_label}
        self.bind(**shapes, for_training=True, force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        if not self.params_initialized or force_init:
            values = {"initializer": initializer, "arg_params": arg_params, "aux_params": aux_params}
            self.init_params(**values, allow_missing=allow_missing, force_init=force_init)
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        eval_metric = metrics.create(eval_metric)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        for epoch in range(begin_epoch, num_epoch):
            tic = time.time()
            self._fitting = locals()
            totals = self._epoch(epoch, train_data, eval_metric, batch_end_callback, monitor, sparse_row_id_fn)
            for name, value in totals:
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            params = self.get_params()
            self.set_params(*params)  # on several contexts all go on with the mean of their states
            if epoch_end_callback is not None:
                call_each(epoch_end_callback, epoch, self.symbol, *params)
            if eval_data is not None:
                params = self.score(
                    eval_data,
                    validation_metric,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                )
                for name, value in params:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()
        self._fitting = {}

    def _epoch(
        self, epoch: int, train_data: DataIter, eval_metric: Any, callback: Callbacks, monitor: Any, row_ids: Any
    ) -> list[tuple[str, float]]:
        """Train on every batch; the metrics of all of them, taken before the last callback may reset them."""
        eval_metric.reset()
        totals: list[tuple[str, float]] = []
        batches = iter(train_data)
        next_batch = next(batches, None)
        nbatch = 0
        while next_batch is not None:
            data_batch = next_batch
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            self.update_metric(eval_metric, data_batch.label)
            next_batch = next(batches, None)
            if next_batch is None:
                totals = eval_metric.get_global_name_value()
            else:
                self.prepare(next_batch, row_ids)
            if monitor is not None:
                monitor.toc_print()
            call_each(callback, BatchEndParam(epoch, nbatch, eval_metric, self._fitting | locals()))
            nbatch += 1
        return totals

    # -- files -------------------------------------------------------------------------------------------------------

    def save_params(self, fname: str) -> None:
        """Write arguments and states to a file; if that fails, it raises OSError."""
        save(fname, with_kinds(*self.get_params()))

    def load_params(self, fname: str) -> None:
        """Load arguments and states from a file.

        Args:
            fname: the file's path.

        Raises:
            ParamsFormatError: the file is malformed.
            OSError: the file cannot be read.
        """
        arrays = load(fname)
        if isinstance(arrays, list):
            raise TrainingError("Invalid param file: its arrays have no names", got=fname, fix="module.save_params.")
        self.set_params(*split_kinds(arrays))


def call_each(callbacks: Callbacks, *args: Any) -> None:
    """Call one callback, each of several, or none."""
    callback_list = [] if callbacks is None else [callbacks] if callable(callbacks) else callbacks
    for callback in callback_list:
        callback(*args)
