"""The metrics of `lowering.training.metrics` under MXNet's classes. Sums stay on the device until `get` reads them."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np

from lowering.host.staged import Staged
from lowering.messages.counts import CountError
from lowering.mx.metric.metric_base import EvalMetric, MeanOfBatches, alias, arrays, register
from lowering.mx.metric.two_classes import TwoClasses
from lowering.mx.shared_arguments import Varied, explained_by
from lowering.training import metrics
from lowering.xla.out_of_memory import telling_memory
from symjax_nnvm.errors import CallError


@lru_cache(64, typed=True)  # 1.0 is no axis, though it equals 1
def _compiled(maker: Callable[..., metrics.Metric], *args: Any) -> tuple[metrics.Metric, Callable[..., Any]]:
    """Return a metric of the library and its update, evaluated at first, one for all objects of the same
    configuration."""
    metric = maker(*args)
    return metric, Staged(metric.update, few=True)


class _Summed(EvalMetric):
    """A metric of `lowering.training.metrics`, whose state is sums: those of the log line, and those before it.

    config: what the metric is made with, which are attributes, too: another value counts from the next batch on. The
    functions are not kept here, so that a metric can be pickled.
    """

    maker: ClassVar[Any]

    def __init__(self, name: str, output_names: Sequence[str] | None, label_names: Any, **config: Any):
        vars(self).update(config)
        self._parameters = tuple(config)
        self._before = self._state = self._metric.init()
        super().__init__(name, output_names, label_names, has_global_stats=True, **config)

    @property
    def _compiled(self) -> tuple[metrics.Metric, Callable[..., Any]]:
        values = [getattr(self, name) for name in self._parameters]
        compiled = _compiled if all(isinstance(value, Hashable) for value in values) else _compiled.__wrapped__
        return compiled(type(self).maker, *values)

    @property
    def _metric(self) -> metrics.Metric:
        return self._compiled[0]

    def reset(self) -> None:
        """Forget all batches: sums and counts are 0 again."""
        self._before = self._state = self._metric.init()

    def reset_local(self) -> None:
        """Begin the local sums anew."""
        self._before = self._all()
        self._state = self._metric.init()

    def _all(self) -> Any:
        with telling_memory:
            return jax.tree.map(lambda a, b: np.asarray(a, np.float64) + np.asarray(b), self._before, self._state)

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError for shapes that do not fit."""
        _, update = self._compiled
        self._state = update(self._state, arrays(labels), arrays(preds))

    @property
    def num_inst(self) -> float:
        """Return how many the local sums are of."""
        return _count(self._state)

    @num_inst.setter
    def num_inst(self, value: float) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._set_local(count=value)

    @property
    def global_num_inst(self) -> float:
        """Return how many were seen since `reset`."""
        return _count(self._all())

    @global_num_inst.setter
    def global_num_inst(self, value: float) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._before = _with(self._before, count=value - self.num_inst)

    @property
    def sum_metric(self) -> float:
        """Return the local sum, whose mean is the value."""
        return _sum(self._metric, self._state)

    @sum_metric.setter
    def sum_metric(self, value: float) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._set_local(sum=value)

    @property
    def global_sum_metric(self) -> float:
        """Return the sum since `reset`."""
        return _sum(self._metric, self._all())

    @global_sum_metric.setter
    def global_sum_metric(self, value: float) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._before = _with(self._before, sum=value - self.sum_metric)

    def _set_local(self, **values: float) -> None:
        """Write a local sum, as the `update` of a subclass does; those since `reset` stay."""
        everything, self._state = self._all(), _with(self._state, **values)
        self._before = jax.tree.map(lambda a, b: a - np.asarray(b), everything, self._state)

    def get(self) -> tuple[Any, Any]:
        """Return (name, value) of the local sums."""
        with telling_memory:
            return self.name, self._metric.result(self._state)

    def get_global(self) -> tuple[Any, Any]:
        """Return (name, value) of all since `reset`."""
        return self.name, self._metric.result(self._all())


def _with(state: Any, **values: float) -> dict[str, Any]:
    """Return a state with another sum or count. Raises CallError for a confusion matrix, which is not of sums."""
    if not isinstance(state, Mapping):
        problem = "The sums of a metric that keeps a confusion matrix cannot be assigned"
        raise CallError(problem, fix="Write the metric as a subclass of mx.metric.EvalMetric.")
    return {**state, **values, **({"lost": 0.0} if "sum" in values else {})}


def _count(state: Any) -> float:
    """Return the number of samples or batches in a metric's state: for a confusion matrix the sum of its cells."""
    count = float(state["count"] if isinstance(state, Mapping) else np.sum(state))
    return int(count) if count.is_integer() else count


def _sum(metric: metrics.Metric, state: Any) -> float:
    """Return the sum that a metric's state holds; of a confusion matrix the value as often as samples were seen."""
    if isinstance(state, Mapping):
        return float(state["sum"]) + float(state["lost"])
    count = _count(state)
    return metric.result(state) * count if count else 0.0


@explained_by(EvalMetric)
@alias("acc")
class Accuracy(_Summed):
    """The share of labels whose class has the largest output.

    Args:
        axis: the axis of the classes.
    """

    maker = staticmethod(metrics.accuracy)
    axis: int | None

    def __init__(
        self,
        axis: int | None = 1,
        name: str = "accuracy",
        output_names: Sequence[str] | None = None,
        label_names: Any = None,
    ):
        super().__init__(name, output_names, label_names, axis=axis)


@explained_by(EvalMetric)
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(_Summed):
    """The share of labels among the `top_k` largest outputs.

    Args:
        top_k: the number of outputs.
    """

    maker = staticmethod(metrics.top_k_accuracy)
    top_k: int

    def __init__(
        self,
        top_k: int = 1,
        name: str = "top_k_accuracy",
        output_names: Sequence[str] | None = None,
        label_names: Any = None,
    ):
        if not isinstance(top_k, numbers.Integral) or top_k < 2:
            raise CountError(
                "TopKAccuracy needs a whole number top_k above 1", got=repr(top_k), fix="Use Accuracy for top_k=1."
            )
        super().__init__(f"{name}_{top_k}", output_names, label_names, top_k=top_k)


@explained_by(EvalMetric)
class _LogLikelihood(Varied, _Summed):
    """The mean of -log(p + eps).

    Args:
        eps: the number added to probabilities.
    """

    eps: float

    def __init__(
        self, eps: float = 1e-12, name: str = "", output_names: Sequence[str] | None = None, label_names: Any = None
    ):
        super().__init__(name, output_names, label_names, eps=eps)


@alias("ce")
class CrossEntropy(_LogLikelihood, name="cross-entropy"):
    """The mean of -log(p + eps), where p is the probability of the label."""

    maker = staticmethod(metrics.cross_entropy)


@alias("nll_loss")
class NegativeLogLikelihood(_LogLikelihood, name="nll-loss"):
    """CrossEntropy under another name."""

    maker = staticmethod(metrics.nll_loss)


@explained_by(EvalMetric)
@register
class Perplexity(_Summed):
    """The exponential of the mean of -log p, where p is the probability of the label.

    Args:
        ignore_label: the label that does not count; None to count all.
        axis: the axis of the classes.
    """

    maker = staticmethod(metrics.perplexity)
    ignore_label: int | None
    axis: int

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ):
        super().__init__(name, output_names, label_names, ignore_label=ignore_label, axis=axis)


@explained_by(EvalMetric)
class _OfTwoClasses(Varied, _Summed):
    """A score of class 1 against class 0."""

    average: str

    def __init__(
        self,
        name: str = "",
        output_names: Sequence[str] | None = None,
        label_names: Any = None,
        average: str = "macro",
    ):
        super().__init__(name, output_names, label_names, average=average)


@register
class F1(_OfTwoClasses, name="f1"):
    """F1 of class 1 against class 0.

    Args:
        average: "macro" for the mean over batches of each batch's F1, "micro" for the F1 of all batches together.
    """

    maker = staticmethod(metrics.f1)

    @property
    def metrics(self) -> TwoClasses:
        """Return the counts of both classes: for "micro" since the last log line, and since `reset`; for "macro", which
        begins anew at every batch, none."""
        if self.average == "macro":
            return TwoClasses()
        counts = [int(count) for state in (self._state, self._all()) for count in np.asarray(state)]
        return TwoClasses(*counts)


@register
class MCC(_OfTwoClasses, name="mcc"):
    """Matthews' correlation coefficient of two classes.

    Args:
        average: "macro" for the mean over batches, "micro" for the coefficient of all batches together.
    """

    maker = staticmethod(metrics.mcc)


@explained_by(EvalMetric)
@register
class Loss(Varied, _Summed):
    """The mean of all output elements, for networks whose outputs are losses."""

    maker = staticmethod(metrics.loss)

    def __init__(self, name: str = "loss", output_names: Sequence[str] | None = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch; labels are not used."""
        super().update([], preds)


@register
class Torch(Loss, name="torch"):
    """`Loss` under another name: MXNet's, for networks that Torch's criteria end."""


@register
class Caffe(Loss, name="caffe"):
    """`Loss` under another name: MXNet's, for networks that Caffe's layers end."""


@explained_by(EvalMetric)
class _MeanError(Varied, MeanOfBatches):
    """A mean error of the library, of one pair at a time."""

    maker: ClassVar[Any]

    def __init__(self, name: str = "", output_names: Sequence[str] | None = None, label_names: Any = None):
        super().__init__(name, output_names, label_names)

    def _value(self, label: Any, pred: Any) -> float:
        metric, update = _compiled(type(self).maker)
        return metric.result(update(metric.init(), [label], [pred]))


@register
class MAE(_MeanError, name="mae"):
    """The mean over batches of the mean of |label - output|."""

    maker = staticmethod(metrics.mae)


@register
class MSE(_MeanError, name="mse"):
    """The mean over batches of the mean of (label - output)²."""

    maker = staticmethod(metrics.mse)


@register
class RMSE(_MeanError, name="rmse"):
    """The mean over batches of √mean (label - output)²."""

    maker = staticmethod(metrics.rmse)
