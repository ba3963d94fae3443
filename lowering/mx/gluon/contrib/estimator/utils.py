"""Metrics as an Estimator and its handlers take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lowering.mx.gluon.gluon_errors import BlockValueError
from lowering.mx.metric import CompositeEvalMetric, EvalMetric


def metrics_of(metrics: Any) -> list[EvalMetric]:
    """A metric, or several, as a list; the parts of one that is composed. Raises BlockValueError for others."""
    if isinstance(metrics, CompositeEvalMetric):
        return [part for metric in metrics.metrics for part in metrics_of(metric)]
    several = [metrics] if isinstance(metrics, EvalMetric) else list(metrics or [])
    if not all(isinstance(metric, EvalMetric) for metric in several):
        raise BlockValueError("metrics must be a Metric or a list of Metric", got=metrics)
    return several


def shown(metrics: Iterable[EvalMetric]) -> str:
    """The values of metrics in a line of a log."""
    return ", ".join(f"{name}: {value:.4f}" for metric in metrics for name, value in metric.get_name_value())


def refuse_other_metrics(handlers: Iterable[Any], metrics: Sequence[EvalMetric]) -> None:
    """Raise BlockValueError for a handler that refers to a metric which the Estimator does not update."""
    for handler in handlers:
        for attribute in (name for name in dir(handler) if "metric" in name):
            value = getattr(handler, attribute)
            for metric in value if isinstance(value, list) else [value] if value else []:
                if not any(metric is other for other in metrics):
                    raise BlockValueError(
                        f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of the "
                        "known training and validation metrics",
                        fix="Use the metrics of estimator.train_metrics and estimator.val_metrics.",
                    )
