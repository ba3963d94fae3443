"""`mx.metric`: MXNet's metrics as objects, over `lowering.training.metrics`, with MXNet's numbers.

Sums stay on the device until somebody looks. Mean errors are here means of the batches' means, as in MXNet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np_

from lowering.mx.ndarray.array import NDArray, as_jax
from lowering.training import metrics
from symjax_nnvm.errors import TrainingError, did_you_mean, listed


class EvalMetric:
    """Base class. A subclass of one's own says `update(labels, preds)`, which adds to `sum_metric` and `num_inst`.

    output_names, label_names: which of the network's it looks at; None: all. `reset_local` begins the sums of a log
    line anew, `reset` those of the epoch, too.
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
        """Take a batch into account."""
        raise NotImplementedError(f"{type(self).__name__} does not say update(labels, preds)")

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """As `update`, with arrays by name, of which it chooses its own."""
        self.update(
            [label[name] for name in (label if self.label_names is None else self.label_names)],
            [pred[name] for name in (pred if self.output_names is None else self.output_names)],
        )

    def reset(self) -> None:
        """Begin anew."""
        self.global_num_inst: float = 0
        self.global_sum_metric: float = 0.0
        self.reset_local()

    def reset_local(self) -> None:
        """Begin the local sums anew."""
        self.num_inst: float = 0
        self.sum_metric: float = 0.0

    def get(self) -> tuple[Any, Any]:
        """(name, value) of the local sums; NaN where nothing was seen."""
        return self.name, self.sum_metric / self.num_inst if self.num_inst else math.nan

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) of all since `reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self.global_sum_metric / self.global_num_inst if self.global_num_inst else math.nan

    def get_name_value(self) -> list[tuple[str, float]]:
        """The names and values of the local sums, as pairs."""
        return _pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """The same of all since `reset`."""
        return _pairs(self.get_global())

    def get_config(self) -> dict[str, Any]:
        """What it was made with."""
        names = {"name": self.name, "output_names": self.output_names, "label_names": self.label_names}
        return {**self._kwargs, "metric": type(self).__name__, **names}

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"


def _pairs(found: tuple[Any, Any]) -> list[tuple[str, float]]:
    names, values = (part if isinstance(part, list) else [part] for part in found)
    return list(zip(names, values, strict=True))


# -- by name ---------------------------------------------------------------------------------------------------------

_REGISTRY: dict[str, Callable[..., EvalMetric]] = {}


def register(cls: Any) -> Any:
    """Make a metric known by its class name, in any case; a decorator."""
    _REGISTRY[cls.__name__.lower()] = cls
    return cls


def alias(*names: str) -> Callable[[Any], Any]:
    """Make a metric known by further names; a decorator."""

    def known(cls: Any) -> Any:
        _REGISTRY.update((name.lower(), cls) for name in names)
        return register(cls)

    return known


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """A metric from its name, from several in a list, from a function (label, pred) of NumPy arrays, or from one.

    Raises TrainingError.
    """
    if isinstance(metric, EvalMetric):
        return metric
    if isinstance(metric, list | tuple):
        return CompositeEvalMetric([create(each, *args, **kwargs) for each in metric])
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    found = _REGISTRY.get(str(metric).lower())
    if found is None:
        known = sorted(_REGISTRY)
        problem = f"No metric is called {metric!r}"
        raise TrainingError(
            problem, expected=f"one of {listed(known, 30)}", fix=did_you_mean(str(metric), known) or None
        )
    return found(*args, **kwargs)


# -- those of the library --------------------------------------------------------------------------------------------


@lru_cache(64)
def _compiled(maker: Callable[..., metrics.Metric], *args: Any) -> tuple[metrics.Metric, Callable[..., Any]]:
    """A metric of the library and its jitted update, one for all objects of the same configuration."""
    made = maker(*args)
    return made, jax.jit(made.update)


class _Summed(EvalMetric):
    """A metric of `lowering.training.metrics`, whose state is sums: those of the log line, and those before it."""

    def __init__(self, made: Any, name: str, output_names: Any, label_names: Any, **config: Any):
        self._metric, self._update = made
        super().__init__(name, output_names, label_names, has_global_stats=True, **config)

    def reset(self) -> None:
        """Begin anew."""
        self._before = self._state = self._metric.init()

    def reset_local(self) -> None:
        """Begin the local sums anew."""
        self._before = self._all()
        self._state = self._metric.init()

    def _all(self) -> Any:
        return jax.tree.map(lambda a, b: a + b, self._before, self._state)

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError for shapes that do not fit."""
        self._state = self._update(self._state, _arrays(labels), _arrays(preds))

    def get(self) -> tuple[Any, Any]:
        """(name, value) of the local sums."""
        return self.name, self._metric.result(self._state)

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) of all since `reset`."""
        return self.name, self._metric.result(self._all())


def _arrays(given: Any) -> list[jax.Array]:
    return [as_jax(array) for array in ([given] if isinstance(given, NDArray) else given)]


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
        made = _compiled(metrics.top_k_accuracy, top_k)
        super().__init__(made, f"{name}_{top_k}", output_names, label_names, top_k=top_k)


@alias("ce")
class CrossEntropy(_Summed):
    """Mean of -log(p + eps), p being the probability of the label."""

    def __init__(
        self, eps: float = 1e-12, name: str = "cross-entropy", output_names: Any = None, label_names: Any = None
    ):
        super().__init__(_compiled(metrics.cross_entropy, eps), name, output_names, label_names, eps=eps)


@alias("nll_loss")
class NegativeLogLikelihood(_Summed):
    """As CrossEntropy, under its other name."""

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
        made = _compiled(metrics.perplexity, ignore_label, axis)
        super().__init__(made, name, output_names, label_names, ignore_label=ignore_label, axis=axis)

    def get(self) -> tuple[Any, Any]:
        """(name, value) of the local sums; NaN where nothing was seen."""
        return self.name, self._metric.result(self._state) if self._state["count"] else math.nan


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


class _MeanOfBatches(EvalMetric):
    """The mean over the batches, and the pairs in them, of what a function says of one pair."""

    def __init__(self, name: str, output_names: Any = None, label_names: Any = None, **config: Any):
        super().__init__(name, output_names, label_names, has_global_stats=True, **config)

    def _of(self, label: Any, pred: Any) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError."""
        check_label_shapes(labels, preds)
        for label, pred in zip(_arrays(labels), _arrays(preds), strict=True):
            self._take(self._of(label, pred), 1)

    def _take(self, value: float, count: float) -> None:
        self.sum_metric += value
        self.global_sum_metric += value
        self.num_inst += count
        self.global_num_inst += count


class _MeanError(_MeanOfBatches):
    """A mean error of the library, of one pair at a time."""

    maker: ClassVar[Any]

    def _of(self, label: Any, pred: Any) -> float:
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


# -- those that look at NumPy's arrays -------------------------------------------------------------------------------


@alias("pearsonr")
class PearsonCorrelation(_MeanOfBatches):
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

    def _of(self, label: Any, pred: Any) -> float:
        truth, found = (np_.asarray(x, np_.float64).ravel() for x in (label, pred))
        if self._average == "micro":
            self._seen.append((truth, found))
            return 0.0
        return float(np_.corrcoef(truth, found)[0, 1])

    def get(self) -> tuple[Any, Any]:
        """(name, value); NaN where nothing was seen."""
        if self._average != "micro" or not self._seen:
            return super().get()
        labels, preds = (np_.concatenate(part) for part in zip(*self._seen, strict=True))
        return self.name, float(np_.corrcoef(labels, preds)[0, 1])


@register
class PCC(EvalMetric):
    """Pearson's correlation of classes, of any number of them, by their confusion matrix: Matthews' for two."""

    def __init__(self, name: str = "pcc", output_names: Any = None, label_names: Any = None):
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def reset(self) -> None:
        """Begin anew."""
        self._all = np_.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        """Begin the local counts anew."""
        super().reset_local()
        self._local = np_.zeros((2, 2))

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account. Raises TrainingError."""
        check_label_shapes(labels, preds)
        for label, pred in zip(_arrays(labels), _arrays(preds), strict=True):
            truth = np_.asarray(label).astype(int)
            chosen = np_.asarray(pred)
            chosen = (chosen.argmax(1) if chosen.shape != truth.shape else chosen).astype(int)
            size = int(max(chosen.max(), truth.max(), len(self._all) - 1)) + 1
            counts = np_.zeros((size, size))
            np_.add.at(counts, (chosen.ravel(), truth.ravel()), 1)
            self._local, self._all = (_grown(seen, size) + counts for seen in (self._local, self._all))
        self.num_inst += 1
        self.global_num_inst += 1

    def get(self) -> tuple[Any, Any]:
        """(name, value) of the local counts."""
        return self.name, _correlation(self._local) if self.num_inst else math.nan

    def get_global(self) -> tuple[Any, Any]:
        """(name, value) of all since `reset`."""
        return self.name, _correlation(self._all) if self.global_num_inst else math.nan


def _grown(counts: np_.ndarray, size: int) -> np_.ndarray:
    return np_.pad(counts, (0, size - len(counts)))


def _correlation(counts: np_.ndarray) -> float:
    total, rows, columns = counts.sum(), counts.sum(1), counts.sum(0)
    spread = np_.sum(rows * (total - rows)) * np_.sum(columns * (total - columns))
    return float(np_.sum(counts.diagonal() * total - rows * columns) / spread**0.5) if spread else math.nan


@register
class CustomMetric(_MeanOfBatches):
    """What a function of NumPy's arrays says: feval(label, pred) → a number, or (sum, count)."""

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
        for label, pred in zip(_arrays(labels), _arrays(preds), strict=False):
            found = self._feval(np_.asarray(label), np_.asarray(pred))
            self._take(*(found if isinstance(found, tuple) else (found, 1)))


@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics as one."""

    def __init__(self, metrics: Any = None, name: str = "composite", output_names: Any = None, label_names: Any = None):
        self.metrics = [create(each) for each in metrics or ()]
        super().__init__(name, output_names, label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Add one."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """One of them, by number."""
        return self.metrics[index]

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account."""
        for metric in self.metrics:
            metric.update(labels, preds)

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """As `update`, with arrays by name."""
        labels = label if self.label_names is None else {name: label[name] for name in self.label_names}
        preds = pred if self.output_names is None else {name: pred[name] for name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def reset(self) -> None:
        """Begin anew."""
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        """Begin the local sums anew."""
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[Any, Any]:
        """(names, values) of the local sums."""
        return _transposed(metric.get_name_value() for metric in self.metrics)

    def get_global(self) -> tuple[Any, Any]:
        """(names, values) of all since `reset`."""
        return _transposed(metric.get_global_name_value() for metric in self.metrics)


def _transposed(rows: Any) -> tuple[list[str], list[float]]:
    pairs = [pair for row in rows for pair in row]
    return [name for name, _ in pairs], [value for _, value in pairs]


def np(
    numpy_feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """A metric of a function of NumPy's arrays; also a decorator."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Check that there are as many labels as outputs, or that they have one shape. wrap: arrays become lists.

    Raises TrainingError, a ValueError.
    """
    found = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if found[0] != found[1]:
        raise TrainingError(f"Shape of labels {found[0]} does not match shape of predictions {found[1]}")
    if wrap:
        return tuple([x] if isinstance(x, NDArray) else x for x in (labels, preds))  # pyright: ignore
    return labels, preds
