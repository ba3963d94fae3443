"""Metrics under MXNet's names, summed on the device: no step waits for them.

A metric is three pure functions. `update` runs in a compiled function after each step; numbers come to the host when
`result` reads them. Definitions are those of MXNet 1.9.1's `mx.metric`, except that the mean errors weigh every
element alike, where MXNet averages the means of the batches, so that a last, shorter batch counts for what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.jax_casts import cast
from lowering.messages.counts import check_count, check_number
from symjax_nnvm.errors import LabelError, TrainingError, did_you_mean, listed


@dataclass(frozen=True)
class Metric:
    """A metric as three functions.

    Attributes:
        name: the name in reports.
        init: () → state, a pytree of arrays.
        update: (state, labels, outputs) → state, in JAX; labels and outputs are lists.
        result: state → number, on the host.
        output_names: the network's outputs that it uses; None for all.
        label_names: the labels that it uses; None for all.
    """

    name: str
    init: Callable[[], Any]
    update: Callable[[Any, list[Array], list[Array]], Any]
    result: Callable[[Any], float]
    output_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None

    def select(
        self,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        name: str | None = None,
    ) -> Metric:
        """Return the same metric of some outputs and labels.

        Args:
            output_names: the outputs to use; None to leave them.
            label_names: the labels to use; None to leave them.
            name: the new name; None to leave it.
        """
        outputs = self.output_names if output_names is None else tuple(output_names)
        labels = self.label_names if label_names is None else tuple(label_names)
        return replace(self, output_names=outputs, label_names=labels, name=name or self.name)


def make_metric(metric: Any) -> Metric:
    """Return a metric.

    Args:
        metric: its name, a Metric, or three functions (init, update, result).

    Raises:
        TrainingError: `metric` is none of these.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        maker = _BY_NAME.get(metric.lower().replace("-", "_"))
        if maker is not None:
            return maker()
        fix = did_you_mean(metric.lower(), _BY_NAME) or None
        expected = f"one of {listed(sorted(_BY_NAME), 30)}"
        raise TrainingError(f"No metric is called {metric!r}", expected=expected, fix=fix)
    if _is_triple(metric):
        init, update, result = metric
        return Metric(getattr(update, "__name__", "metric"), init, update, result)
    expected = f"a name among {sorted(_BY_NAME)}, a Metric, or functions (init, update, result)"
    raise TrainingError("This is not a metric", expected=expected, got=repr(metric))


def make_metrics(metrics: Any) -> list[Metric]:
    """Return a list of metrics.

    Args:
        metrics: one argument of `make_metric`, an iterable of them, or None for no metric.

    Raises:
        TrainingError: an element is not a metric.
    """
    if metrics is None:
        return []
    if isinstance(metrics, Metric | str | Mapping) or _is_triple(metrics) or not isinstance(metrics, Iterable):
        return [make_metric(metrics)]
    ordered = sorted(metrics, key=str) if isinstance(metrics, set | frozenset) else metrics
    return [make_metric(metric) for metric in ordered]


def _is_triple(metric: Any) -> bool:
    return isinstance(metric, tuple) and len(metric) == 3 and all(map(callable, metric))


# -- sums that keep their digits -------------------------------------------------------------------------------------


def _start() -> dict[str, np.ndarray]:
    zero = np.zeros((), np.float32)
    return {"sum": zero, "lost": zero, "count": zero}


def _add(state: Mapping[str, Array], value: Array, count: Any) -> dict[str, Array]:
    """Add to a sum, and what rounding loses to another (Knuth): float32 alone stops growing after 10⁷ equal terms."""
    before, term = state["sum"], value.astype(jnp.float32)
    total = before + term
    added = total - before
    lost = (before - (total - added)) + (term - added)
    return {"sum": total, "lost": state["lost"] + lost, "count": state["count"] + count}


def _mean(state: Mapping[str, Any]) -> float:
    return (float(state["sum"]) + float(state["lost"])) / float(state["count"]) if state["count"] else math.nan


def _averaged(name: str, term: Callable[[Array, Array], tuple[Array, Any]]) -> Metric:
    """Return the mean over everything seen; term: (label, output) → (sum, count)."""

    def update(state: Any, labels: list[Array], outputs: list[Array]) -> Any:
        for label, output in _pairs(name, labels, outputs):
            state = _add(state, *term(label, output))
        return state

    return Metric(name, _start, update, _mean)


def _pairs(name: str, labels: list[Array], outputs: list[Array]) -> list[tuple[Array, Array]]:
    if not labels:
        raise TrainingError(
            f"Metric {name!r} needs labels, and the batch has none. For a network whose outputs are losses use "
            "metrics='loss'."
        )
    if len(labels) != len(outputs):
        raise TrainingError(
            f"Metric {name!r} compares each label with one output",
            expected=f"{len(labels)} outputs",
            got=len(outputs),
            fix="Choose the two: metrics.accuracy().select(output_names=[...], label_names=[...]).",
        )
    return list(zip(labels, outputs, strict=True))


# -- classification --------------------------------------------------------------------------------------------------


def accuracy(axis: int | None = 1) -> Metric:
    """Return the metric that measures the share of labels whose class has the largest output.

    The label (n, …) has class numbers. The output has probabilities, with the classes along `axis`, or class numbers in
    the label's shape.

    Args:
        axis: the axis of the classes; None: the output, whatever its shape, has the classes of one sample.
    """
    number = None if axis is None else _axis_number("accuracy", axis)

    def classes(output: Array) -> Array:
        return jnp.argmax(output, None if number is None else _axis("accuracy", output, number))

    def term(label: Array, output: Array) -> tuple[Array, int]:
        chosen = output if output.shape == label.shape else classes(output)
        _check_size("accuracy", label, chosen)
        return jnp.sum(cast(chosen, jnp.int32).ravel() == cast(label, jnp.int32).ravel()), label.size

    return _averaged("accuracy", term)


def top_k_accuracy(top_k: int) -> Metric:
    """Return the metric that measures the share of labels (n,) among the `top_k` largest outputs of (n, classes)."""
    check_count(top_k, "top_k")

    def term(label: Array, output: Array) -> tuple[Array, int]:
        if output.ndim != 2:
            problem = "Metric 'top_k_accuracy' needs a row of classes for each label"
            raise TrainingError(problem, expected="an output of shape (n, classes)", got=output.shape)
        if top_k > output.shape[1]:
            problem = f"Metric 'top_k_accuracy' with top_k={top_k} needs at least {top_k} classes"
            raise TrainingError(problem, expected=f"an output of shape (n, {top_k} or more)", got=output.shape)
        _check_size("top_k_accuracy", label, output[:, 0])
        _, best = jax.lax.top_k(output.astype(jnp.float32), top_k)
        return jnp.sum(best == cast(label, jnp.int32).reshape(-1, 1)), label.size

    return _averaged(f"top_k_accuracy_{top_k}", term)


def cross_entropy(eps: float = 1e-12, name: str = "cross-entropy") -> Metric:
    """Return the metric that measures the mean of -log(p + eps), where p is the probability of the label.

    The label is (n,), the output (n, classes). Negative labels count from the last class, as NumPy's indices do.
    `result` raises LabelError, an IndexError, if a label was not a class.

    Args:
        eps: the number added to probabilities.
        name: the name in reports.
    """
    check_number(eps, "eps")

    def update(state: Any, labels: list[Array], outputs: list[Array]) -> Any:
        no_class = state["no_class"]
        for label, output in _pairs(name, labels, outputs):
            rows, index = _rows(name, label, output, axis=-1)
            classes = rows.shape[1]
            picked = jnp.take_along_axis(rows, jnp.where(index < 0, index + classes, index), axis=1, mode="clip")
            state = _add(state, -jnp.sum(jnp.log(picked + eps)), label.size)
            inside = (index >= -classes) & (index < classes) & ~jnp.isnan(label.reshape(-1, 1))
            no_class += jnp.sum(~inside)
        return {**state, "no_class": no_class}

    def result(state: Any) -> float:
        if state["no_class"]:
            problem = f"Metric {name!r}: {int(state['no_class'])} labels are not classes of the output"
            raise LabelError(problem, expected="whole numbers from 0, below the number of classes")
        return _mean(state)

    return Metric(name, lambda: {**_start(), "no_class": np.zeros((), np.int32)}, update, result)


def nll_loss(eps: float = 1e-12) -> Metric:
    """Return the metric of negative log-likelihood, which is `cross_entropy` under another name."""
    return cross_entropy(eps, "nll-loss")


def perplexity(ignore_label: int | None = None, axis: int = -1) -> Metric:
    """Return the metric that measures the exponential of the mean of -log p, where p is the probability of the label.

    A label that is not a class counts as the nearest one.

    Args:
        ignore_label: the label that does not count; None to count all.
        axis: the axis of the output's classes.
    """
    number = _axis_number("perplexity", axis)
    if ignore_label is not None:
        check_number(ignore_label, "ignore_label")

    def update(state: Any, labels: list[Array], outputs: list[Array]) -> Any:
        for label, output in _pairs("perplexity", labels, outputs):
            rows, index = _rows("perplexity", label, output, number)
            picked = jnp.take_along_axis(rows, jnp.clip(index, 0, rows.shape[1] - 1), axis=1)[:, 0]
            counted = jnp.ones_like(picked) if ignore_label is None else label.ravel() != ignore_label
            logs = jnp.where(counted, jnp.log(jnp.maximum(picked, 1e-10)), 0)
            state = _add(state, -jnp.sum(logs), jnp.sum(counted))
        return state

    return Metric("perplexity", _start, update, lambda state: math.exp(_mean(state)))


def _rows(name: str, label: Array, output: Array, axis: int) -> tuple[Array, Array]:
    """Return the probabilities (n, classes) in float32, and the labels (n, 1) as indices."""
    rows = jnp.moveaxis(output.astype(jnp.float32), _axis(name, output, axis), -1)
    rows = rows.reshape(-1, rows.shape[-1])
    _check_size(name, label, rows[:, 0])
    return rows, cast(label, jnp.int32).reshape(-1, 1)


def _axis_number(name: str, axis: Any) -> int:
    """Return an axis, a number or its text, as a number. Raises TrainingError if it is neither."""
    try:
        return int(str(axis))
    except ValueError:
        problem = f"Metric {name!r}: wrong axis"
        raise TrainingError(problem, expected="a whole number, such as axis=1", got=f"axis={axis!r}") from None


def _axis(name: str, output: Array, axis: int) -> int:
    """Return the axis of the classes. Raises TrainingError where the output lacks this axis."""
    if not -output.ndim <= axis < output.ndim:
        expected = f"an axis from {-output.ndim} to {output.ndim - 1}"
        raise TrainingError(f"Metric {name!r}: the output has no such axis", expected=expected, got=axis)
    return axis


def _check_size(name: str, label: Array, chosen: Array) -> None:
    if label.size != chosen.size:
        problem = f"Shapes of labels and outputs do not fit metric {name!r}"
        raise TrainingError(problem, expected=f"{chosen.size} labels", got=f"shape {label.shape}")


# -- two classes -----------------------------------------------------------------------------------------------------


def f1(average: str = "macro") -> Metric:
    """Return the metric that measures F1 of class 1 against class 0.

    Args:
        average: "macro" for the mean over batches of each batch's F1, "micro" for the F1 of all batches together.
    """
    return _binary("f1", _f1, average)


def mcc(average: str = "macro") -> Metric:
    """Return the metric that measures Matthews' correlation coefficient of two classes; `average` is that of `f1`."""
    return _binary("mcc", _mcc, average)


def _binary(name: str, score: Callable[[Array], Array], average: str) -> Metric:
    if average not in ("macro", "micro"):
        raise TrainingError(f"{name} has no such average", expected="'macro' or 'micro'", got=repr(average))

    def counts(label: Array, output: Array) -> Array:
        """Return true positives, false positives, false negatives, true negatives."""
        positive = cast(label, jnp.int32).ravel() == 1
        chosen = jnp.argmax(output, axis=_axis(name, output, 1)).ravel() == 1
        _check_size(name, label, chosen)
        cells = (chosen & positive, chosen & ~positive, ~chosen & positive, ~chosen & ~positive)
        return jnp.stack([jnp.sum(cell) for cell in cells]).astype(jnp.float32)

    def update(state: Any, labels: list[Array], outputs: list[Array]) -> Any:
        totals = sum((counts(label, output) for label, output in _pairs(name, labels, outputs)), jnp.zeros(4))
        return _add(state, score(totals), 1) if average == "macro" else state + totals

    if average == "macro":
        return Metric(name, _start, update, _mean)

    def result(state: Any) -> float:
        return float(score(jnp.asarray(state))) if np.sum(state) else math.nan

    return Metric(name, lambda: np.zeros(4, np.float32), update, result)


def _f1(counts: Array) -> Array:
    true_pos, false_pos, false_neg, _ = counts
    denominator = 2 * true_pos + false_pos + false_neg
    return jnp.where(denominator > 0, 2 * true_pos / jnp.where(denominator > 0, denominator, 1), 0.0)


def _mcc(counts: Array) -> Array:
    true_pos, false_pos, false_neg, true_neg = counts
    sums = jnp.stack([true_pos + false_pos, true_pos + false_neg, true_neg + false_pos, true_neg + false_neg])
    return (true_pos * true_neg - false_pos * false_neg) / jnp.prod(jnp.sqrt(jnp.where(sums > 0, sums, 1)))


# -- regression ------------------------------------------------------------------------------------------------------


def mae() -> Metric:
    """Return the metric that measures the mean of |label - output| over all elements."""
    return _averaged("mae", lambda label, output: _errors(label, output, jnp.abs))


def mse() -> Metric:
    """Return the metric that measures the mean of (label - output)² over all elements."""
    return _averaged("mse", lambda label, output: _errors(label, output, jnp.square))


def rmse() -> Metric:
    """Return the metric that measures √mean (label - output)² of each batch, averaged with the batches' lengths as
    weights."""

    def term(label: Array, output: Array) -> tuple[Array, int]:
        total, count = _errors(label, output, jnp.square)
        return jnp.sqrt(total / count) * label.shape[0], label.shape[0]

    return _averaged("rmse", term)


def _errors(label: Array, output: Array, of: Callable[[Array], Array]) -> tuple[Array, int]:
    columns = [x.reshape(-1, 1) if x.ndim == 1 else x for x in (label, output)]
    try:
        np.broadcast_shapes(columns[0].shape, columns[1].shape)
    except ValueError:
        problem = "A mean error compares each label with an output"
        raise TrainingError(problem, expected=f"labels of shape {output.shape}", got=label.shape) from None
    difference = columns[0].astype(jnp.float32) - columns[1].astype(jnp.float32)
    return jnp.sum(of(difference)), difference.size


def loss() -> Metric:
    """Return the metric that measures the mean of all output elements, for networks whose outputs are losses."""

    def update(state: Any, labels: list[Array], outputs: list[Array]) -> Any:
        for output in outputs:
            state = _add(state, jnp.sum(output.astype(jnp.float32)), output.size)
        return state

    return Metric("loss", _start, update, _mean)


def _needs_top_k() -> Metric:
    raise TrainingError("Metric 'top_k_accuracy' needs its k. Pass lowering.training.metrics.top_k_accuracy(5).")


_BY_NAME: dict[str, Callable[[], Metric]] = {
    "accuracy": accuracy, "acc": accuracy, "top_k_accuracy": _needs_top_k, "top_k_acc": _needs_top_k,
    "topkaccuracy": _needs_top_k, "crossentropy": cross_entropy, "negativeloglikelihood": nll_loss,
    "cross_entropy": cross_entropy, "ce": cross_entropy, "nll_loss": nll_loss, "perplexity": perplexity, "f1": f1,
    "mcc": mcc, "mae": mae, "mse": mse, "rmse": rmse, "loss": loss,
}  # fmt: skip
