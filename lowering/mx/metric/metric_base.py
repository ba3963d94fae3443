"""The base class of metrics, their registry by name, and metrics that are means over batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from lowering.mx.ndarray.array import NDArray, as_jax, require_arrays
from symjax_nnvm.errors import CallError, TrainingError, UnknownArrayError, listed


class EvalMetric:
    """The base class of metrics; a subclass defines `update(labels, preds)`, which adds to `sum_metric` and `num_inst`.

    `reset_local` clears the sums of a log line, `reset` those of the epoch, too.

    Args:
        name: the name in reports.
        output_names: the network's outputs that it uses; None for all.
        label_names: the labels that it uses; None for all.
        kwargs: further settings, which `get_config` returns.
    """

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        **kwargs: Any,
    ):
        self.name = str(name)
        self.output_names, self.label_names = output_names, label_names
        self._has_global_stats = bool(kwargs.pop("has_global_stats", False))
        self._kwargs = kwargs
        self.reset()

    def update(self, labels: Sequence[NDArray], preds: Sequence[NDArray]) -> None:
        """Add a batch.

        Args:
            labels: the labels.
            preds: the outputs.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update(labels, preds)")

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Add a batch of arrays by name, from which the metric chooses its own.

        Args:
            label: labels by name.
            pred: outputs by name.
        """
        self.update(_by_name(label, self.label_names, "label_names"), _by_name(pred, self.output_names, "output_names"))

    def reset(self) -> None:
        """Clear all sums."""
        self.global_num_inst: float = 0
        self.global_sum_metric: float = 0.0
        self.reset_local()

    def reset_local(self) -> None:
        """Clear the local sums."""
        self.num_inst: float = 0
        self.sum_metric: float = 0.0

    def get(self) -> tuple[Any, Any]:
        """Return the name and the value of the local sums; NaN before the first batch."""
        return self.name, self.sum_metric / self.num_inst if self.num_inst else math.nan

    def get_global(self) -> tuple[Any, Any]:
        """Return the name and the value of all batches since `reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self.global_sum_metric / self.global_num_inst if self.global_num_inst else math.nan

    def get_name_value(self) -> list[tuple[str, float]]:
        """Return the names and values of the local sums, as pairs."""
        return pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """Return the names and values of all batches since `reset`, as pairs."""
        return pairs(self.get_global())

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that the metric was made with."""
        names = {"name": self.name, "output_names": self.output_names, "label_names": self.label_names}
        return {**self._kwargs, "metric": type(self).__name__, **names}

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"


def _by_name(batch: Mapping[str, NDArray], names: Sequence[str] | None, param: str) -> list[NDArray]:
    """The arrays that a metric reads. Raises UnknownArrayError, a KeyError, for a name that the batch lacks."""
    if missing := [name for name in names or () if name not in batch]:
        problem = f"The batch has no array {missing[0]!r}, which the metric's {param} name"
        raise UnknownArrayError(problem, expected=f"names among {listed(list(batch), 30)}", got=list(names or ()))
    return [batch[name] for name in (batch if names is None else names)]


def pairs(result: tuple[Any, Any]) -> list[tuple[str, float]]:
    """The names and values that `get` gives, as pairs."""
    names, values = (part if isinstance(part, list) else [part] for part in result)
    return list(zip(names, values, strict=True))


# -- by name ---------------------------------------------------------------------------------------------------------

C = TypeVar("C", bound=type)

REGISTRY: dict[str, Callable[..., EvalMetric]] = {}


def register(cls: C) -> C:
    """Register a metric by its class name, in any case; a decorator."""
    REGISTRY[cls.__name__.lower()] = cls
    return cls


def alias(*names: str) -> Callable[[C], C]:
    """Register a metric by further names; a decorator."""

    def decorate(cls: C) -> C:
        REGISTRY.update((name.lower(), cls) for name in names)
        return register(cls)

    return decorate


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Check that there are as many labels as outputs, or that both have one shape.

    Args:
        labels: the labels.
        preds: the outputs.
        wrap: put single arrays into lists.
        shape: compare shapes instead of numbers.

    Returns:
        The labels and the outputs.

    Raises:
        TrainingError: they differ; the error is a ValueError, too.
    """
    sizes = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if sizes[0] != sizes[1]:
        raise TrainingError(f"Shape of labels {sizes[0]} does not match shape of predictions {sizes[1]}")
    if wrap:
        return tuple([x] if isinstance(x, NDArray) else x for x in (labels, preds))  # pyright: ignore
    return labels, preds


def arrays(values: Any) -> list[jax.Array]:
    """The jax.Arrays of an array or of several. Raises CallError for what is neither."""
    if not isinstance(values, Iterable):
        raise CallError("Labels and outputs of a metric must be arrays, or lists of arrays", got=repr(values))
    several = [values] if isinstance(values, NDArray) else list(values)
    require_arrays([array for array in several if not isinstance(array, np.ndarray | jax.Array)], "Labels and outputs")
    return [as_jax(array) for array in several]


class MeanOfBatches(EvalMetric):
    """The mean of a function's values over the pairs of (label, output) of all batches."""

    def __init__(self, name: str, output_names: Sequence[str] | None = None, label_names: Any = None, **config: Any):
        super().__init__(name, output_names, label_names, has_global_stats=True, **config)

    def _value(self, label: Any, pred: Any) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError."""
        check_label_shapes(labels, preds)
        for label, pred in zip(arrays(labels), arrays(preds), strict=True):
            self._take(self._value(label, pred), 1)

    def _take(self, value: float, count: float) -> None:
        self.sum_metric += value
        self.global_sum_metric += value
        self.num_inst += count
        self.global_num_inst += count
