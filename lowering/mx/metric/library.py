"""The metrics of `lowering.training.metrics` under MXNet's classes. Sums stay on the device until `get` reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np

from lowering.mx.metric.base import EvalMetric, MeanOfBatches, alias, arrays, register
from lowering.training import metrics
from symjax_nnvm.errors import TrainingError


@lru_cache(64)
def _compiled(maker: Callable[..., metrics.Metric], *args: Any) -> tuple[metrics.Metric, Callable[..., Any]]:
    """A metric of the library and its jitted update, one for all objects of the same configuration."""
    metric = maker(*args)
    return metric, jax.jit(metric.update)


class _Summed(EvalMetric):
    """A metric of `lowering.training.metrics`, whose state is sums: those of the log line, and those before it."""

    def __init__(self, metric: Any, name: str, output_names: Any, label_names: Any, **config: Any):
        self._metric, self._update = metric
        super().__init__(name, output_names, label_names, has_global_stats=True, **config)

    def reset(self) -> None:
        """Begin anew."""
        self._before = self._state = self._metric.init()

    def reset_local(self) -> None:
        """Begin the local sums anew."""
        self._before = self._all()
        self._state = self._metric.init()

    def _all(self) -> Any:
        return jax.tree.map(lambda a, b: np.asarray(a, np.float64) + np.asarray(b), self._before, self._state)

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError for shapes that do not fit."""
        self._state = self._update(self._state, arrays(labels), arrays(preds))

    @property
    def num_inst(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many the local sums are of."""
        return _count(self._state)

    @property
    def global_num_inst(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many were seen since `reset`."""
        return _count(self._all())

    @property
    def sum_metric(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The local sum, whose mean is the value."""
        return _sum(self._metric, self._state)

    @property
    def global_sum_metric(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The sum since `reset`."""
        return _sum(self._metric, self._all())

    def get(self) -> tuple[Any, Any]:
        """(name, value) of the local sums."""
        return self.name, self._metric.result(self._state)

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) of all since `reset`."""
        return self.name, self._metric.result(self._all())


def _count(state: Any) -> int:
    """The number of samples or batches that a metric's state is of: of a confusion matrix the sum of its cells."""
    return int(state["count"] if isinstance(state, Mapping) else np.sum(state))


def _sum(metric: metrics.Metric, state: Any) -> float:
    """The sum that a metric's state holds; of a confusion matrix the value as often as samples were seen."""
    if isinstance(state, Mapping):
        return float(state["sum"]) + float(state["lost"])
    count = _count(state)
    return metric.result(state) * count if count else 0.0


@alias("acc")
class Accuracy(_Summed):
    """Share of the labels that are the class of the largest output along an axis."""

    def __init__(self, axis: int = 1, name: str = "accuracy", output_names: Any = None, label_names: Any = None):
        super().__init__(_compiled(metrics.accuracy, axis), name, output_names, label_names, axis=axis)


@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(_Summed):
    """Share of the labels that are among the top_k largest outputs."""

    def __init__(self, top_k: int = 1, name: str = "top_k_accuracy", output_names: Any = None, label_names: Any = None):
        if top_k < 2:
            raise TrainingError("TopKAccuracy needs top_k above 1", got=top_k, fix="For 1 there is Accuracy.")
        metric = _compiled(metrics.top_k_accuracy, top_k)
        super().__init__(metric, f"{name}_{top_k}", output_names, label_names, top_k=top_k)


@alias("ce")
class CrossEntropy(_Summed):
    """Mean of -log(p + eps), p being the probability of the label."""

    def __init__(
        self, eps: float = 1e-12, name: str = "cross-entropy", output_names: Any = None, label_names: Any = None
    ):
        super().__init__(_compiled(metrics.cross_entropy, eps), name, output_names, label_names, eps=eps)


@alias("nll_loss")
class NegativeLogLikelihood(_Summed):
    """CrossEntropy under its other name."""

    def __init__(self, eps: float = 1e-12, name: str = "nll-loss", output_names: Any = None, label_names: Any = None):
        super().__init__(_compiled(metrics.nll_loss, eps), name, output_names, label_names, eps=eps)


@register
class Perplexity(_Summed):
    """exp of the mean of -log p over the labels that are not ignore_label."""

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Any = None,
        label_names: Any = None,
    ):
        metric = _compiled(metrics.perplexity, ignore_label, axis)
        super().__init__(metric, name, output_names, label_names, ignore_label=ignore_label, axis=axis)


@register
class F1(_Summed):
    """F1 of class 1 against class 0. average "macro": the mean of the batches'; "micro": that of everything."""

    def __init__(self, name: str = "f1", output_names: Any = None, label_names: Any = None, average: str = "macro"):
        super().__init__(_compiled(metrics.f1, average), name, output_names, label_names, average=average)


@register
class MCC(_Summed):
    """Matthews' correlation coefficient of two classes; average as for F1."""

    def __init__(self, name: str = "mcc", output_names: Any = None, label_names: Any = None, average: str = "macro"):
        super().__init__(_compiled(metrics.mcc, average), name, output_names, label_names, average=average)


@alias("torch", "caffe")
class Loss(_Summed):
    """Mean of all elements of the outputs: for networks whose outputs are losses."""

    def __init__(self, name: str = "loss", output_names: Any = None, label_names: Any = None):
        super().__init__(_compiled(metrics.loss), name, output_names, label_names)

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account; labels are not looked at."""
        super().update([], preds)


class Torch(Loss):
    """`Loss` under another name: MXNet's, for networks that Torch's criteria end."""

    def __init__(self, name: str = "torch", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)


class Caffe(Loss):
    """`Loss` under another name: MXNet's, for networks that Caffe's layers end."""

    def __init__(self, name: str = "caffe", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)


class _MeanError(MeanOfBatches):
    """A mean error of the library, of one pair at a time."""

    maker: ClassVar[Any]

    def _value(self, label: Any, pred: Any) -> float:
        metric, update = _compiled(type(self).maker)
        return metric.result(update(metric.init(), [label], [pred]))


@register
class MAE(_MeanError):
    """Mean of the batches' means of |label - output|."""

    maker = staticmethod(metrics.mae)

    def __init__(self, name: str = "mae", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)


@register
class MSE(_MeanError):
    """Mean of the batches' means of (label - output)²."""

    maker = staticmethod(metrics.mse)

    def __init__(self, name: str = "mse", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)


@register
class RMSE(_MeanError):
    """Mean of the batches' √mean (label - output)²."""

    maker = staticmethod(metrics.rmse)

    def __init__(self, name: str = "rmse", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)
