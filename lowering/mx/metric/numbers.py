"""Metrics that look at NumPy's arrays: correlations, and functions of one's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lowering.mx.metric.base import EvalMetric, MeanOfBatches, alias, arrays, check_label_shapes, register


@alias("pearsonr")
class PearsonCorrelation(MeanOfBatches):
    """Pearson's correlation of labels and outputs. average "macro": mean of the batches'; "micro": of everything."""

    def __init__(
        self, name: str = "pearsonr", output_names: Any = None, label_names: Any = None, average: str = "macro"
    ):
        self._average = average
        super().__init__(name, output_names, label_names, average=average)

    def reset(self) -> None:
        """Begin anew."""
        self._seen: list[tuple[Any, Any]] = []
        super().reset()

    def _value(self, label: Any, pred: Any) -> float:
        truth, predicted = (np.asarray(x, np.float64).ravel() for x in (label, pred))
        if self._average == "micro":
            self._seen.append((truth, predicted))
            return 0.0
        return float(np.corrcoef(truth, predicted)[0, 1])

    def get(self) -> tuple[Any, Any]:
        """(name, value); NaN where nothing was seen."""
        if self._average != "micro" or not self._seen:
            return super().get()
        labels, preds = (np.concatenate(part) for part in zip(*self._seen, strict=True))
        return self.name, float(np.corrcoef(labels, preds)[0, 1])


@register
class PCC(EvalMetric):
    """Pearson's correlation of classes, of any number of them, by their confusion matrix: Matthews' for two."""

    def __init__(self, name: str = "pcc", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        """Begin anew."""
        self._all = np.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        """Begin the local counts anew."""
        super().reset_local()
        self._local = np.zeros((2, 2))

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError."""
        check_label_shapes(labels, preds)
        for label, pred in zip(arrays(labels), arrays(preds), strict=True):
            truth = np.asarray(label).astype(int)
            chosen = np.asarray(pred)
            chosen = (chosen.argmax(1) if chosen.shape != truth.shape else chosen).astype(int)
            size = int(max(chosen.max(), truth.max(), len(self._all) - 1)) + 1
            counts = np.zeros((size, size))
            np.add.at(counts, (chosen.ravel(), truth.ravel()), 1)
            self._local, self._all = (_grown(seen, size) + counts for seen in (self._local, self._all))
        self.num_inst += 1
        self.global_num_inst += 1

    def get(self) -> tuple[Any, Any]:
        """(name, value) of the local counts."""
        return self.name, _correlation(self._local) if self.num_inst else math.nan

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) of all since `reset`."""
        return self.name, _correlation(self._all) if self.global_num_inst else math.nan


def _grown(counts: np.ndarray, size: int) -> np.ndarray:
    return np.pad(counts, (0, size - len(counts)))


def _correlation(counts: np.ndarray) -> float:
    total, rows, columns = counts.sum(), counts.sum(1), counts.sum(0)
    spread = np.sum(rows * (total - rows)) * np.sum(columns * (total - columns))
    return float(np.sum(counts.diagonal() * total - rows * columns) / spread**0.5) if spread else math.nan


@register
class CustomMetric(MeanOfBatches):
    """A metric that a function of NumPy's arrays computes: feval(label, pred) → a number, or (sum, count)."""

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Any = None,
        label_names: Any = None,
    ):
        called = getattr(feval, "__name__", type(feval).__name__)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs
        super().__init__(name or (f"custom({called})" if "<" in called else called), output_names, label_names)

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError."""
        if not self._allow_extra_outputs:
            check_label_shapes(labels, preds)
        for label, pred in zip(arrays(labels), arrays(preds), strict=False):
            result = self._feval(np.array(label), np.array(pred))  # copies, which the function may write
            self._take(*(result if isinstance(result, tuple) else (result, 1)))
