"""PythonModule and PythonLossModule: modules without parameters, whose computation is Python's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from lowering.messages.counts import checks_flags
from lowering.mx.accepted_types import Logger
from lowering.mx.io.desc import DataBatch, as_desc
from lowering.mx.module.base_module import UNIFORM, BaseModule, Params
from lowering.mx.module.module import Module
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import MXNetError


class PythonModule(BaseModule):
    """A module without parameters.

    A subclass defines `_compute_output_shapes`, `forward`, `backward`, `get_outputs` and `get_input_grads`.

    Args:
        data_names: the names of the data.
        label_names: the names of the labels, or None.
        output_names: the names of the outputs.
        logger: the logger.
    """

    _symbol: Any = None

    def __init__(
        self, data_names: Sequence[str], label_names: Sequence[str] | None, output_names: Any, logger: Logger = logging
    ):
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = output_names
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        """Return the names of the data."""
        return self._data_names

    @property
    def output_names(self) -> Any:
        """Return the names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        """Return the shapes that were bound for the data; None before."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """Return the shapes that were bound for the labels."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """(name, shape) of the outputs."""
        return self._output_shapes

    @checks_flags
    @explained_by(Module.bind)
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
        """Set the shapes of data and labels.

        Args:
            shared_module: accepted and ignored.
            grad_req: "write".

        Raises:
            AssertionError: names are not the module's, or `grad_req` is not "write".
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        assert grad_req == "write", "Python module only support write gradient"
        data_shapes, label_shapes = list(data_shapes), None if label_shapes is None else list(label_shapes)
        assert [as_desc(desc).name for desc in data_shapes] == self._data_names, (
            "the names in data_shapes must be data_names"
        )
        if label_shapes is not None:
            names = [as_desc(desc).name for desc in label_shapes]
            assert names == self._label_names, "the names in label_shapes must be label_names"
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes, self._label_shapes = data_shapes, label_shapes
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> Any:
        """Return (name, shape) of the outputs, by the shapes that were bound."""
        raise NotImplementedError(f"{type(self).__name__} must define _compute_output_shapes(self)")

    def get_params(self) -> tuple[Params, Params]:
        """Return two empty dicts: there are no parameters."""
        return {}, {}

    def init_params(
        self,
        initializer: Any = UNIFORM,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Do nothing: there are no parameters."""
        self.params_initialized = True

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Do nothing: there is nothing to update."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Do nothing: there are no parameters."""

    @explained_by(Module.update_metric)
    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the outputs, if labels were bound.

        Raises:
            MXNetError: `pre_sliced` is true; the error is a RuntimeError, too.
        """
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise MXNetError("PythonModule does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())


class PythonLossModule(PythonModule):
    """A loss over the scores of the module before, which are its output.

    A subclass may define `_backward_impl`, which sets `_scores_grad`, instead of `grad_func`.

    Args:
        name: the beginning of the output's name.
        data_names: the name of the scores.
        label_names: the name of the labels.
        logger: the logger.
        grad_func: `grad_func(scores, labels)` returns the gradient of the scores, as an NDArray or NumPy array.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Logger = logging,
        grad_func: Callable[[NDArray, NDArray], Any] | None = None,
    ):
        super().__init__(data_names, label_names, [f"{name}_output"], logger)
        assert len(data_names) == 1
        assert len(label_names) == 1
        assert grad_func is None or callable(grad_func)
        self._name, self._grad_func = name, grad_func
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None

    def _compute_output_shapes(self) -> Any:
        return [(f"{self._name}_output", as_desc(self._data_shapes[0]).shape)]

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Keep the scores, and in training the labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = next(iter(data_batch.label or ()))

    def get_outputs(self, merge_multi_context: bool = True) -> list[NDArray]:
        """Return the scores."""
        assert merge_multi_context is True
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradient of the scores; head gradients, or a pass in inference mode, raise AssertionError."""
        assert out_grads is None, "For a loss module, out_grads should be None"
        assert self.for_training
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError(f"{type(self).__name__} needs a grad_func, or must define _backward_impl(self)")
        gradient = self._grad_func(self._scores, self._labels)
        self._scores_grad = gradient if isinstance(gradient, NDArray) else array(gradient)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[NDArray]:
        """Return the gradient of the scores."""
        assert merge_multi_context is True
        return [self._scores_grad]

    def install_monitor(self, mon: Any) -> None:
        """Raises NotImplementedError: there is no graph to watch."""
        raise NotImplementedError("A PythonLossModule has no graph, so no monitor can be installed")
