"""`mx.metric`: MXNet's metrics as objects, with MXNet's numbers: mean errors are means of the batches' means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lowering.mx import ndarray as ndarray
from lowering.mx.metric.metric_base import REGISTRY
from lowering.mx.metric.metric_base import EvalMetric as EvalMetric
from lowering.mx.metric.metric_base import alias as alias
from lowering.mx.metric.metric_base import check_label_shapes as check_label_shapes
from lowering.mx.metric.metric_base import register as register
from lowering.mx.metric.numpy_metrics import PCC as PCC
from lowering.mx.metric.numpy_metrics import CustomMetric as CustomMetric
from lowering.mx.metric.numpy_metrics import PearsonCorrelation as PearsonCorrelation
from lowering.mx.metric.training_metrics import F1 as F1
from lowering.mx.metric.training_metrics import MAE as MAE
from lowering.mx.metric.training_metrics import MCC as MCC
from lowering.mx.metric.training_metrics import MSE as MSE
from lowering.mx.metric.training_metrics import RMSE as RMSE
from lowering.mx.metric.training_metrics import Accuracy as Accuracy
from lowering.mx.metric.training_metrics import Caffe as Caffe
from lowering.mx.metric.training_metrics import CrossEntropy as CrossEntropy
from lowering.mx.metric.training_metrics import Loss as Loss
from lowering.mx.metric.training_metrics import NegativeLogLikelihood as NegativeLogLikelihood
from lowering.mx.metric.training_metrics import Perplexity as Perplexity
from lowering.mx.metric.training_metrics import TopKAccuracy as TopKAccuracy
from lowering.mx.metric.training_metrics import Torch as Torch
from lowering.mx.ndarray.array import NDArray
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import TrainingError, did_you_mean, listed


class UnknownMetricError(TrainingError, AssertionError):
    """A name that no metric has."""


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """Return a metric.

    Args:
        metric: a name, a list of several, a function (label, pred) of NumPy arrays, a configuration (`get_config`) or
            its JSON, or the JSON of [name, parameters].
        args: parameters for a name.
        kwargs: parameters for a name.

    Raises:
        TrainingError: `metric` is none of these.
        UnknownMetricError: the name is unknown; the error is an AssertionError, too.
    """
    if isinstance(metric, EvalMetric):
        return metric
    if isinstance(metric, str) and metric.lstrip()[:1] == "{":
        metric = _configuration(metric)
    elif isinstance(metric, str) and metric.lstrip()[:1] == "[":
        metric, *parameters = _configuration(metric)
        return create(metric, *args, **dict(*parameters), **kwargs)
    if isinstance(metric, Mapping):
        config = dict(metric)
        return create(config.pop("metric", ""), *args, **config, **kwargs)
    if isinstance(metric, list | tuple):
        return CompositeEvalMetric([create(one_metric, *args, **kwargs) for one_metric in metric])
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    metric_class = REGISTRY.get(str(metric).lower())
    if metric_class is None:
        names = sorted(REGISTRY)
        problem = f"No metric is called {metric!r}"
        raise UnknownMetricError(
            problem, expected=f"one of {listed(names, 30)}", fix=did_you_mean(str(metric), names) or None
        )
    return metric_class(*args, **kwargs)


def _configuration(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TrainingError("The configuration of a metric must be JSON", got=str(error)) from None


@explained_by(EvalMetric)
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics as one.

    Args:
        metrics: the metrics.
    """

    def __init__(
        self,
        metrics: Any = None,
        name: str = "composite",
        output_names: Sequence[str] | None = None,
        label_names: Any = None,
    ):
        if isinstance(metrics, str) or not isinstance(metrics, Iterable | None):
            problem = "CompositeEvalMetric takes a list of metrics"
            raise UnknownMetricError(problem, got=repr(metrics), fix=f"Write [{metrics!r}].")
        self.metrics = [create(metric) for metric in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Add a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """Return a metric by its number."""
        return self.metrics[index]

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account."""
        for metric in self.metrics:
            metric.update(labels, preds)

    def update_dict(self, labels: Mapping[str, NDArray], preds: Mapping[str, NDArray]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update every metric, with arrays by name."""
        labels = labels if self.label_names is None else {name: labels[name] for name in self.label_names}
        preds = preds if self.output_names is None else {name: preds[name] for name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def reset(self) -> None:
        """Forget all batches: sums and counts are 0 again."""
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        """Begin the local sums anew."""
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[Any, Any]:
        """Return the names and the values of the local sums."""
        return _transposed(metric.get_name_value() for metric in self.metrics)

    def get_global(self) -> tuple[Any, Any]:
        """Return the names and the values of all batches since `reset`."""
        return _transposed(metric.get_global_name_value() for metric in self.metrics)


def _transposed(rows: Any) -> tuple[list[str], list[float]]:
    pairs = [pair for row in rows for pair in row]
    return [name for name, _ in pairs], [value for _, value in pairs]


def np(
    numpy_feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """A metric of a function of NumPy's arrays; also a decorator."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
