"""Metrics that look at NumPy's arrays: correlations, and functions of your own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowering.mx.metric.metric_base import EvalMetric, MeanOfBatches, alias, arrays, check_label_shapes, register
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import CallError, TrainingError


@explained_by(EvalMetric)
@alias("pearsonr")
class PearsonCorrelation(MeanOfBatches):
    """Pearson's correlation of labels and outputs.

    Args:
        average: "macro" for the mean over batches, "micro" for the correlation of all batches together.
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: Sequence[str] | None = None,
        label_names: Any = None,
        average: str = "macro",
    ):
        self.average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        """Forget all batches: sums and counts are 0 again."""
        self._seen: list[tuple[Any, Any]] = []
        super().reset()

    def _value(self, label: Any, pred: Any) -> float:
        check_label_shapes(label, pred, shape=True)
        truth, predicted = (np.asarray(x, np.float64).ravel() for x in (label, pred))
        if self.average == "micro":
            self._seen.append((truth, predicted))
            return 0.0
        return float(np.corrcoef(truth, predicted)[0, 1])

    def get(self) -> tuple[Any, Any]:
        """Return the name and the value; NaN before the first batch."""
        if self.average != "micro" or not self._seen:
            return super().get()
        labels, preds = (np.concatenate(part) for part in zip(*self._seen, strict=True))
        return self.name, float(np.corrcoef(labels, preds)[0, 1])


@explained_by(EvalMetric)
@register
class PCC(EvalMetric):
    """Pearson's correlation of any number of classes, from their confusion matrix; Matthews' coefficient for two.

    Args:
        has_global_stats: as `EvalMetric` takes it.

    Attributes:
        lcm: the confusion matrix (k, k) of this log line, a row for each given class.
        gcm: the confusion matrix since `reset`.
    """

    def __init__(
        self,
        name: str = "pcc",
        output_names: Sequence[str] | None = None,
        label_names: Any = None,
        has_global_stats: bool = True,
    ):
        self.k = 2
        super().__init__(name, output_names, label_names, has_global_stats=has_global_stats)

    def reset(self) -> None:
        """Forget all batches: sums and counts are 0 again."""
        self.gcm = np.zeros((self.k, self.k))
        self.global_num_inst = 0.0
        self.reset_local()

    def reset_local(self) -> None:
        """Begin the local counts anew."""
        self.num_inst = 0.0
        self.lcm = np.zeros((self.k, self.k))

    @property
    def sum_metric(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the local value, multiplied by the number of batches."""
        return _correlation(self.lcm) * self.num_inst

    @property
    def global_sum_metric(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the value since `reset`, multiplied by the number of batches."""
        return _correlation(self.gcm) * self.global_num_inst

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError."""
        check_label_shapes(labels, preds)
        for label, pred in zip(arrays(labels), arrays(preds), strict=True):
            truth = np.asarray(label).astype(int)
            chosen = np.asarray(pred)
            chosen = (chosen.argmax(1) if chosen.shape != truth.shape else chosen).astype(int)
            if chosen.size != truth.size:
                problem = "Shapes of labels and outputs do not fit metric 'pcc'"
                raise TrainingError(problem, expected=f"{chosen.size} labels", got=f"shape {truth.shape}")
            self.k = int(max(chosen.max(), truth.max(), self.k - 1)) + 1
            counts = np.zeros((self.k, self.k))
            np.add.at(counts, (chosen.ravel(), truth.ravel()), 1)
            self.lcm, self.gcm = (np.pad(matrix, (0, self.k - len(matrix))) + counts for matrix in (self.lcm, self.gcm))
        self.num_inst += 1
        self.global_num_inst += 1

    def get(self) -> tuple[Any, Any]:
        """Return the name and the value of the local counts."""
        return self.name, _correlation(self.lcm) if self.num_inst else math.nan

    def get_global(self) -> tuple[Any, Any]:
        """Return the name and the value of all batches since `reset`."""
        return self.name, _correlation(self.gcm) if self.global_num_inst else math.nan


def _correlation(counts: np.ndarray) -> float:
    total, rows, columns = counts.sum(), counts.sum(1), counts.sum(0)
    spread = np.sum(rows * (total - rows)) * np.sum(columns * (total - columns))
    return float(np.sum(counts.diagonal() * total - rows * columns) / spread**0.5) if spread else math.nan


@explained_by(EvalMetric)
@register
class CustomMetric(MeanOfBatches):
    """A metric that a function of NumPy arrays computes.

    Args:
        feval: feval(label, pred) returns a number, or (sum, count).
        allow_extra_outputs: accept more outputs than labels.
    """

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ):
        if not callable(feval):
            raise CallError("A custom metric must be a function of (labels, outputs)", got=repr(feval))
        called = getattr(feval, "__name__", type(feval).__name__)
        self._feval, self.gcmow_extra_outputs = feval, allow_extra_outputs
        super().__init__(name or (f"custom({called})" if "<" in called else called), output_names, label_names)

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError."""
        if not self.gcmow_extra_outputs:
            check_label_shapes(labels, preds)
        for label, pred in zip(arrays(labels), arrays(preds), strict=False):
            result = self._feval(np.array(label), np.array(pred))  # copies, which the function may write
            self._take(*(result if isinstance(result, tuple) else (result, 1)))
