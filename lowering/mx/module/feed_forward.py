"""FeedForward: MXNet's first model class, over Module."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lowering.mx import metric as metrics
from lowering.mx.accepted_types import ContextsLike, Logger
from lowering.mx.callback import LogValidationMetricsCallback
from lowering.mx.io import DataBatch, DataIter, NDArrayIter, as_desc
from lowering.mx.module import BucketingModule, Module
from lowering.mx.module.base_module import UNIFORM, BaseModule, NotReadyError, call_each
from lowering.mx.module.module_arguments import as_contexts
from lowering.mx.module.module_checkpoints import BatchEndParam, load_checkpoint, save_checkpoint
from lowering.mx.ndarray.array import NDArray
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol.runnable import Symbol, as_symbol
from symjax_nnvm.errors import CallError, TrainingError
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol

_LOG = LogValidationMetricsCallback()


@explained_by(BaseModule.fit)
class FeedForward:
    """A network with its parameters, which `fit` trains over arrays or an iterator; MXNet's older form of Module.

    Args:
        symbol: the network, or a function of a bucket's key that returns one.
        ctx: a context or a list of them.
        epoch_size: the number of batches in an epoch; None for all.
        numpy_batch_size: the batch size for arrays.
        allow_extra_params: ignore values that the network does not have.
        kwargs: parameters of the optimiser.
    """

    def __init__(
        self,
        symbol: GraphSymbol | Callable[[Any], GraphSymbol],
        ctx: ContextsLike = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = UNIFORM,
        numpy_batch_size: int = 128,
        arg_params: Mapping[str, Any] | None = None,
        aux_params: Mapping[str, Any] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ):
        message = "mxnet.model.FeedForward has been deprecated. Please use mxnet.mod.Module instead."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        if isinstance(symbol, GraphSymbol):
            self.symbol: Symbol | None = as_symbol(symbol)
            self.sym_gen = None
        else:
            assert callable(symbol)
            self.symbol, self.sym_gen = None, symbol
        self.arg_params, self.aux_params = arg_params, aux_params
        self.allow_extra_params = allow_extra_params
        self.argument_checked = self.sym_gen is None
        """MXNet's: a network's names are unlike; networks by key are looked at when they are made."""
        self.ctx, self.num_epoch = as_contexts(ctx), num_epoch
        self.epoch_size, self.begin_epoch = epoch_size, begin_epoch
        self.optimizer, self.initializer, self.numpy_batch_size = optimizer, initializer, numpy_batch_size
        self.kwargs = dict(kwargs)
        self._predictor: Module | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_predictor": None}

    # -- what comes in -----------------------------------------------------------------------------------------------

    def _iterator(self, X: Any, y: Any, is_train: bool) -> DataIter:
        """Return an iterator over arrays, or the one given. Raises TrainingError, CallError."""
        if isinstance(X, DataIter):
            return X
        if not isinstance(X, np.ndarray | NDArray):
            raise CallError("X must be DataIter, NDArray or numpy.ndarray", got=type(X).__name__)
        if y is None:
            if is_train:
                raise TrainingError("y must be specified when X is numpy.ndarray")
            y = np.zeros(X.shape[0])
        if not isinstance(y, np.ndarray | NDArray):
            raise CallError("y must be ndarray when X is numpy.ndarray", got=type(y).__name__)
        if X.shape[0] != y.shape[0]:
            raise TrainingError("The numbers of data points and labels not equal", expected=X.shape[0], got=y.shape[0])
        labels = np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim != 1:
            problem = "Label must be 1D or 2D (with 2nd dimension being 1)"
            raise TrainingError(problem, got=f"shape {labels.shape}")
        options = {"shuffle": True, "last_batch_handle": "roll_over"} if is_train else {}
        return NDArrayIter(X, labels, min(X.shape[0], self.numpy_batch_size), **options)

    def _eval_iterator(self, eval_data: Any) -> DataIter | None:
        if eval_data is None or isinstance(eval_data, DataIter):
            return eval_data
        if not isinstance(eval_data, list | tuple) or len(eval_data) != 2:
            problem = "Eval data must be DataIter, or NDArray/numpy.ndarray/list pair"
            raise CallError(problem, got=type(eval_data).__name__)
        data, label = eval_data
        if data is None:
            raise TrainingError("Eval data is NONE")
        if label is None and isinstance(data, DataIter):
            return data
        data, label = (np.array(values) if isinstance(values, list) else values for values in (data, label))
        return self._iterator(data, label, True)

    # -- training ----------------------------------------------------------------------------------------------------

    @explained_by(BaseModule.fit)
    def fit(
        self,
        X: Any,
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Logger | None = None,
        work_load_list: Any = None,
        monitor: Any = None,
        eval_end_callback: Any = _LOG,
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train on an iterator or on arrays; it raises what `Module.fit` raises.

        Batches are counted from 1, and the iterator is reset before an evaluation.

        Args:
            X: an iterator, or an array (n, ...).
            y: the labels (n,) of an array.
            eval_data: an iterator or a pair of arrays to evaluate on.
            logger: the logger.
            work_load_list: how much of a batch each context takes.
        """
        if self.num_epoch is None:
            raise NotReadyError("please specify number of epochs", fix="FeedForward(symbol, num_epoch=10)")
        data, validation = self._iterator(X, y, True), self._eval_iterator(eval_data)
        logger = logger or logging
        module = self._module(data, logger, work_load_list)
        logger.info("Start training with %s", self.ctx)
        module.bind(data.provide_data, data.provide_label)
        if monitor is not None:
            module.install_monitor(monitor)
        module.init_params(self.initializer, *self._current_parameters(), allow_missing=True)
        module.init_optimizer(kvstore, self.optimizer, self.kwargs)
        metric = metrics.create(eval_metric)
        data.reset()
        for epoch in range(self.begin_epoch, self.num_epoch):
            tic = time.time()
            metric.reset()
            for nbatch, batch in enumerate(self._batches(data, epoch, logger), 1):
                if monitor is not None:
                    monitor.tic()
                module.forward_backward(batch)
                module.update()
                if monitor is not None:
                    monitor.toc_print()
                module.update_metric(metric, batch.label)
                call_each(batch_end_callback, BatchEndParam(epoch, nbatch, metric, locals()))
            logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            if epoch_end_callback is not None:
                call_each(epoch_end_callback, epoch, self.symbol, *module.get_params())
            if validation is not None:
                callbacks = {"batch_end_callback": eval_batch_end_callback, "score_end_callback": eval_end_callback}
                module.score(validation, metric, **callbacks, epoch=epoch)
                validation.reset()
        self.arg_params, self.aux_params = module.get_params()
        self._predictor = None

    def _batches(self, data: DataIter, epoch: int, logger: Logger) -> Iterator[DataBatch]:
        """Yield the batches of an epoch. An iterator that ends begins anew, also before `epoch_size` batches are over.

        Raises TrainingError for an iterator that has none.
        """
        count, is_new = 0, False
        while True:
            before = count
            for batch in data:
                yield batch
                count += 1
                if count == self.epoch_size:
                    return
            if is_new and count == before:
                raise TrainingError(
                    "The iterator has no batches", fix="Check that its reset() starts again at the first batch."
                )
            logger.info("Epoch[%d] Resetting Data Iterator", epoch)
            data.reset()
            is_new = True
            if self.epoch_size is None:
                return

    def _module(self, data: DataIter, logger: Logger, loads: Any) -> Module | BucketingModule:
        """Return the module that trains over an iterator."""
        descriptions = data.provide_data, data.provide_label
        names, labels = ([as_desc(desc).name for desc in described] for described in descriptions)
        if self.sym_gen is None:
            assert self.symbol is not None
            return Module(self.symbol, names, labels, logger, self.ctx, loads)
        generate, key = self.sym_gen, data.default_bucket_key  # pyright: ignore[reportAttributeAccessIssue]
        self.symbol = as_symbol(generate(key))
        return BucketingModule(lambda key: (as_symbol(generate(key)), names, labels), key, logger, self.ctx, loads)

    def _current_parameters(self) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """Return the parameters and states that there are; of those that the network has, where others are allowed."""
        if not self.allow_extra_params or self.symbol is None:
            return self.arg_params, self.aux_params
        arguments, states = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
        return _those_of(arguments, self.arg_params), _those_of(states, self.aux_params)

    # -- prediction --------------------------------------------------------------------------------------------------

    def _bound(self, data: DataIter) -> Module:
        """Return a module of the parameters, in inference. Raises TrainingError where there are none."""
        if self.symbol is None or self.arg_params is None:
            fix = "model.fit(X, y), or FeedForward.load(prefix, epoch)."
            raise TrainingError("The model has no parameters", fix=fix)
        described = [as_desc(desc) for desc in data.provide_data]
        names = [desc.name for desc in described]
        if self._predictor is None or self._predictor.data_names != names:
            args, states = self._current_parameters()
            labels = [n for n in self.symbol.list_arguments() if n not in names and n not in self.arg_params]
            self._predictor = Module(self.symbol, names, labels, context=self.ctx[0])
            self._predictor.bind(described, for_training=False)
            self._predictor.set_params(args or {}, states or {}, allow_extra=self.allow_extra_params)
        return self._predictor

    def predict(self, X: Any, num_batch: int | None = None, return_data: bool = False, reset: bool = True) -> Any:
        """Return the outputs for an iterator or an array: a NumPy array, or a list of several outputs.

        Args:
            X: an iterator or an array.
            num_batch: the highest number of batches; None for all.
            return_data: return (outputs, data, labels).
            reset: reset the iterator first.

        Raises:
            TrainingError: batches have different numbers of outputs, or there are none.
        """
        data = self._iterator(X, None, False)
        rows: list[list[list[np.ndarray]]] = []
        for outputs, _, batch in self._bound(data).iter_predict(data, num_batch, reset):
            size = data.batch_size - (batch.pad or 0)
            fed = ([np.asarray(values)[:size] for values in arrays] for arrays in (batch.data, batch.label or ()))
            rows.append([[output.asnumpy() for output in outputs], *fed])
        joined = [_joined(parts) for parts in zip(*rows, strict=True)]
        return tuple(joined) if return_data else joined[0]

    @explained_by(BaseModule.score)
    def score(
        self,
        X: Any,
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> Any:
        """Return a metric's value over an iterator.

        Args:
            X: the iterator.

        Raises:
            TrainingError: the batches do not fit the network.
        """
        metric, data = metrics.create(eval_metric), self._iterator(X, None, False)
        module = self._bound(data)
        if reset:
            data.reset()
        callbacks = batch_end_callback if isinstance(batch_end_callback, list | tuple) else [batch_end_callback]
        for nbatch, batch in enumerate(data):
            if nbatch == num_batch:
                break
            module.forward(batch, is_train=False)
            metric.update(batch.label, module.get_outputs())
            for callback in callbacks:
                if callback is not None:
                    callback(BatchEndParam(0, nbatch, metric, locals()))
        return metric.get()[1]

    # -- files -------------------------------------------------------------------------------------------------------

    @explained_by(save_checkpoint)
    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write a checkpoint.

        Args:
            epoch: the number of the epoch; None for `num_epoch`.

        Raises:
            OSError: a file cannot be written.
        """
        number = self.num_epoch if epoch is None else epoch
        assert number is not None
        save_checkpoint(prefix, number, self.symbol, self.arg_params or {}, self.aux_params or {}, remove_amp_cast)

    @staticmethod
    @explained_by(save_checkpoint)
    def load(prefix: str, epoch: int, ctx: ContextsLike = None, **kwargs: Any) -> FeedForward:
        """Return the model of a checkpoint; it raises what `load_checkpoint` raises.

        Args:
            ctx: a context or a list of them.
            kwargs: further arguments of the class.
        """
        symbol, args, states = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=args, aux_params=states, begin_epoch=epoch, **kwargs)

    @staticmethod
    @explained_by(fit)
    def create(
        symbol: Any,
        X: Any,
        y: Any = None,
        ctx: ContextsLike = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = UNIFORM,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Logger | None = None,
        work_load_list: Any = None,
        eval_end_callback: Any = _LOG,
        eval_batch_end_callback: Any = None,
        **kwargs: Any,
    ) -> FeedForward:
        """Make a model and train it: the class and `fit` as one function.

        Args:
            symbol: as in FeedForward.
            ctx: as in FeedForward.
            num_epoch: the number of the epoch to stop before.
            epoch_size: as in FeedForward.
            optimizer: an optimiser or its name.
            initializer: the initialiser of values that are missing.
            kwargs: further arguments of the class.
        """
        model = FeedForward(symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs)
        model.fit(
            X,
            y,
            eval_data,
            eval_metric,
            epoch_end_callback,
            batch_end_callback,
            kvstore,
            logger,
            work_load_list,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
        )
        return model


def _those_of(names: Sequence[str], values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if name in names}


def _joined(batches: Sequence[Sequence[np.ndarray]]) -> Any:
    """Return the arrays of batches, joined; alone where there is one."""
    arrays = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return arrays[0] if len(arrays) == 1 else arrays
