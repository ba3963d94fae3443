"""SVRGModule: a Module whose gradients have less variance, by the full gradient of some epochs ago."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from lowering.mx.io.desc import DataBatch, DataIter
from lowering.mx.module.group import executors_of
from lowering.mx.module.module import Module
from lowering.mx.module.svrg_optimizer import SVRGOptimizer
from lowering.mx.ndarray import NDArray, zeros
from lowering.mx.optimizer import Optimizer
from symjax_nnvm.errors import CallError, TrainingError
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol


class SVRGModule(Module):
    """A Module that updates by g(w) - g(w₀) + G(w₀): the batch's gradients at the parameters w and at those of some
    epochs ago, w₀, and the mean gradient of all batches at w₀.

    update_freq: every how many epochs w₀ and G are taken anew. Other arguments are Module's. Raises CallError, a
    TypeError, for an update_freq that is no whole number, TrainingError, a ValueError, for one below 1.
    """

    def __init__(
        self,
        symbol: GraphSymbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Any = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
        update_freq: int | None = None,
    ):
        given = symbol, data_names, label_names, logger, context, work_load_list
        rest = fixed_param_names, state_names, group2ctxs, compression_params
        super().__init__(*given, *rest)
        told = "update_freq in SVRGModule must be a positive integer to represent the frequency for full gradients"
        if not isinstance(update_freq, int):
            raise CallError(told, got=repr(update_freq))
        if update_freq <= 0:
            raise TrainingError(told, got=update_freq)
        self.update_freq = update_freq
        self._mod_aux = Module(*given, *rest)
        self._ctx_len = len(self._contexts)
        self._param_dict: list[dict[str, NDArray]] = []

    def bind(
        self,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Bind both modules, the second one for training."""
        data_shapes, label_shapes = list(data_shapes), list(label_shapes or ())
        given = data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module, grad_req
        super().bind(*given)
        if for_training and (force_rebind or not self._mod_aux.binded):
            self._mod_aux.bind(*given)

    def reshape(self, data_shapes: Sequence[Any], label_shapes: Sequence[Any] | None = None) -> None:
        """Bind both for other shapes."""
        data_shapes, label_shapes = list(data_shapes), list(label_shapes or ())
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    # -- the optimiser -----------------------------------------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Make the optimiser, and begin with a full gradient of zeros."""
        args, _ = self.get_params()
        self._param_dict = [
            {name: zeros(value.shape, context, value.dtype) for name, value in args.items()}
            for context in self._contexts
        ]
        made = self._create_optimizer(SVRGOptimizer.__name__, optimizer, kvstore, optimizer_params)
        super().init_optimizer(kvstore, made, optimizer_params, force_init)

    def _create_optimizer(self, optimizer: str, default_opt: Any, kvstore: Any, optimizer_params: Any) -> Optimizer:
        """Return the optimiser, whose gradients are multiplied with 1 / batch size unless optimizer_params says
        otherwise."""
        params = dict(optimizer_params)
        params.setdefault("rescale_grad", self._rescale_grad(kvstore))
        names = [*self._param_names, *(f"{name}_full" for name in self._param_names)]
        numbered: Mapping[int, str] = dict(enumerate(names))
        return Optimizer.create_optimizer(
            optimizer, default_optimizer=default_opt, param_idx2name=numbered, sym=self._symbol, **params
        )

    # -- gradients ---------------------------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Run a batch; in training by both modules."""
        super().forward(data_batch, is_train)
        if is_train:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute both modules' gradients."""
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def forward_backward(self, data_batch: DataBatch) -> None:
        """Both in training, as one program of each module."""
        self._run_both(data_batch)
        self._mod_aux.forward_backward(data_batch)

    def update(self) -> None:
        """Update the parameters by the gradients of less variance."""
        self._update_svrg_gradients()
        super().update()

    def update_full_grads(self, train_data: DataIter) -> None:
        """Take the parameters as w₀ and compute their mean gradient over an iterator, which is reset. What fills up the
        last batch counts for a part of a batch, as in MXNet; its sums begin with the mean of before, these with 0."""
        self._mod_aux.set_params(*self.get_params())
        for each in self._param_dict:
            for array in each.values():
                array[:] = 0
        train_data.reset()
        batches, padding = 0, 0
        for batch in train_data:
            self._mod_aux.forward_backward(batch)
            for sums, grads in zip(self._param_dict, _gradients(self._mod_aux), strict=True):
                for name, gradient in grads.items():
                    sums[name] += gradient
            batches, padding = batches + 1, batch.pad or 0
        count = batches - padding / train_data.batch_size
        for name in self._param_dict[0]:
            self._accumulate_kvstore(name, [each[name] / count for each in self._param_dict])

    def _accumulate_kvstore(self, key: str, value: Sequence[NDArray]) -> None:
        """Sum a parameter's full gradient over contexts and workers."""
        total = self._store.summed([sum(value[1:], value[0])])[0]
        self._allocate_gradients(key, [total] * self._ctx_len)

    def _allocate_gradients(self, key: str, value: Sequence[NDArray]) -> None:
        """Give each context its part of it."""
        for each, total in zip(self._param_dict, value, strict=True):
            each[key] = total / self._ctx_len

    def _svrg_grads_update_rule(
        self,
        g_curr_batch_curr_weight: Sequence[NDArray],
        g_curr_batch_special_weight: Sequence[NDArray],
        g_special_weight_all_batch: Sequence[NDArray],
    ) -> Sequence[NDArray]:
        """Compute g(w) - g(w₀) + G(w₀), written to the first."""
        three = g_curr_batch_curr_weight, g_curr_batch_special_weight, g_special_weight_all_batch
        for now, before, mean in zip(*three, strict=True):
            now[:] = now - before + mean
        return g_curr_batch_curr_weight

    def _update_svrg_gradients(self) -> None:
        for now, before, mean in zip(_gradients(self), _gradients(self._mod_aux), self._param_dict, strict=True):
            names = list(now)
            self._svrg_grads_update_rule(*([each[name] for name in names] for each in (now, before, mean)))

    def _epoch(
        self, epoch: int, train_data: DataIter, eval_metric: Any, callback: Any, monitor: Any, row_ids: Any
    ) -> list[tuple[str, float]]:
        """Train on every batch, after a full gradient where it is its turn."""
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        train_data.reset()
        return super()._epoch(epoch, train_data, eval_metric, callback, monitor, row_ids)

    def _end_epoch(self, train_data: DataIter) -> None:
        """Do nothing: an epoch begins with a reset, and one more would shuffle once more than MXNet does."""


def _gradients(module: Module) -> list[dict[str, NDArray]]:
    """Return the gradients of a module's parameters by name, on each context."""
    by_context = [{name: each.grad_dict[name] for name in module._param_names} for each in executors_of(module._bound)]
    return [{name: array for name, array in gradients.items() if array is not None} for gradients in by_context]
