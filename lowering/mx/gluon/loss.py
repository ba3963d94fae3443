"""`gluon.loss`: losses as blocks, a vector with one number for each sample of the batch."""

from __future__ import annotations

import math
from typing import Any

from lowering.messages.counts import checks_flags
from lowering.mx import ndarray as nd
from lowering.mx.base import numeric_types
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.shared_arguments import explained_by
from lowering.mx.util import is_np_array

__all__ = [
    "CTCLoss", "CosineEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss", "L1Loss", "L2Loss", "LogisticLoss", "Loss",
    "PoissonNLLLoss", "SDMLLoss", "SigmoidBCELoss", "SigmoidBinaryCrossEntropyLoss", "SoftmaxCELoss",
    "SoftmaxCrossEntropyLoss", "SquaredHingeLoss", "TripletLoss",
]  # fmt: skip

_TINY = 1e-12


def _apply_weighting(F: Any, loss: Any, weight: Any = None, sample_weight: Any = None) -> Any:
    """Return a loss times the weights of samples, which broadcast, and times a number."""
    if sample_weight is not None:
        loss = loss * sample_weight if is_np_array() else F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, numeric_types):
            raise MismatchError("weight must be a number", got=type(weight).__name__)
        loss = loss * weight
    return loss


def _reshape_like(F: Any, x: Any, y: Any) -> Any:
    """Return x in the shape of y."""
    return x.reshape(y.shape) if F is nd else (F.npx if is_np_array() else F).reshape_like(x, y)


class Loss(HybridBlock):
    """The base class of losses.

    Args:
        weight: a number that the losses are multiplied with; None for 1.
        batch_axis: the axis of the samples.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(self, weight: Any, batch_axis: int, **kwargs: Any):
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _mean(self, F: Any, loss: Any, sample_weight: Any, weight: Any = None) -> Any:
        """Return the weighted mean of each sample."""
        loss = _apply_weighting(F, loss, self._weight if weight is None else weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)


@explained_by(Loss)
class L2Loss(Loss):
    """½ · (label - pred)², averaged over each sample."""

    def __init__(self, weight: Any = 1.0, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the mean of each sample."""
        loss = F.square(_reshape_like(F, label, pred) - pred)
        return self._mean(F, loss, sample_weight, self._weight / 2)


@explained_by(Loss)
class L1Loss(Loss):
    """label - pred|, averaged over each sample."""

    def __init__(self, weight: Any = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the mean of each sample."""
        return self._mean(F, F.abs(_reshape_like(F, label, pred) - pred), sample_weight)


@explained_by(Loss)
class SigmoidBinaryCrossEntropyLoss(Loss):
    """The cross entropy of a class that is present or absent.

    Args:
        from_sigmoid: pred is a probability, not its logit.
    """

    @checks_flags
    def __init__(self, from_sigmoid: bool = False, weight: Any = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(
        self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None, pos_weight: Tensor | None = None
    ) -> Any:
        """Return the mean of each sample; `pos_weight` multiplies samples with label 1 and is broadcast."""
        label = _reshape_like(F, label, pred)
        if self._from_sigmoid:
            positive = F.log(pred + _TINY) * label
            positive = positive if pos_weight is None else F.broadcast_mul(positive, pos_weight)
            loss = -(positive + F.log(1.0 - pred + _TINY) * (1.0 - label))
        elif pos_weight is None:
            loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        else:
            log_weight = 1 + F.broadcast_mul(pos_weight - 1, label)
            logarithm = F.Activation(-F.abs(pred), act_type="softrelu") + F.relu(-pred)
            loss = pred - pred * label + log_weight * logarithm
        return self._mean(F, loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


@explained_by(Loss)
class SoftmaxCrossEntropyLoss(Loss):
    """The cross entropy of classes along an axis.

    Args:
        axis: the axis of the classes.
        sparse_label: labels are numbers of classes, not probabilities.
        from_logits: pred has log-probabilities already.
    """

    @checks_flags
    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: Any = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ):
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the mean of each sample."""
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        if self._sparse_label:
            loss = -F.pick(pred, label, axis=self._axis, keepdims=True)
        else:
            label = _reshape_like(F, label, pred)
            loss = -(pred * label).sum(axis=self._axis, keepdims=True)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return loss.mean(axis=self._batch_axis, exclude=True)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


@explained_by(SoftmaxCrossEntropyLoss)
class KLDivLoss(Loss):
    """The Kullback-Leibler divergence of label from pred, summed over each sample."""

    @checks_flags
    def __init__(
        self, from_logits: bool = True, axis: int = -1, weight: Any = None, batch_axis: int = 0, **kwargs: Any
    ):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the sum of each sample."""
        if not self._from_logits:
            pred = F.log_softmax(pred, self._axis)
        loss = label * (F.log(label + _TINY) - pred)
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.sum(loss, axis=self._batch_axis, exclude=True)


@explained_by(Loss)
class CTCLoss(Loss):
    """The loss of sequences without alignment; the last class is the blank.

    Args:
        layout: the layout of pred, "NTC" or "TNC".
        label_layout: the layout of label, "NT" or "TN".

    Raises:
        MismatchError: a layout is another one.
    """

    def __init__(self, layout: str = "NTC", label_layout: str = "NT", weight: Any = None, **kwargs: Any):
        if layout not in ("NTC", "TNC"):
            raise MismatchError(f"Only 'NTC' and 'TNC' layouts for pred are supported. Got: {layout}")
        if label_layout not in ("NT", "TN"):
            raise MismatchError(f"Only 'NT' and 'TN' layouts for label are supported. Got: {label_layout}")
        self._layout, self._label_layout = layout, label_layout
        super().__init__(weight, label_layout.find("N"), **kwargs)

    def hybrid_forward(
        self,
        F: Any,
        pred: Tensor,
        label: Tensor,
        pred_lengths: Tensor | None = None,
        label_lengths: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Any:
        """Return the loss of each sequence; without lengths all are whole, and labels end at -1."""
        if self._layout == "NTC":
            pred = F.swapaxes(pred, 0, 1)
        if self._batch_axis == 1:
            label = F.swapaxes(label, 0, 1)
        lengths = {"data_lengths": pred_lengths, "label_lengths": label_lengths}
        passed_lengths = {name: value for name, value in lengths.items() if value is not None}
        flags = {f"use_{name}": name in passed_lengths for name in lengths}
        loss = F.CTCLoss(pred, label, **passed_lengths, **flags, blank_label="last")
        return _apply_weighting(F, loss, self._weight, sample_weight)


@explained_by(Loss)
class HuberLoss(Loss):
    """½ · (label - pred)² / rho where |label - pred| is at most rho, |label - pred| - ½ · rho elsewhere.

    Args:
        rho: the bound.
    """

    def __init__(self, rho: float = 1, weight: Any = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the mean of each sample."""
        loss = F.abs(_reshape_like(F, label, pred) - pred)
        loss = F.where(loss > self._rho, loss - 0.5 * self._rho, (0.5 / self._rho) * F.square(loss))
        return self._mean(F, loss, sample_weight)


@explained_by(Loss)
class HingeLoss(Loss):
    """max(0, margin - pred · label), with labels 1 and -1.

    Args:
        margin: the margin.
    """

    def __init__(self, margin: float = 1, weight: Any = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the mean of each sample."""
        return self._mean(F, F.relu(self._margin - pred * _reshape_like(F, label, pred)), sample_weight)


@explained_by(HingeLoss)
class SquaredHingeLoss(HingeLoss):
    """The square of max(0, margin - pred · label), with labels 1 and -1."""

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the mean of each sample."""
        loss = F.square(F.relu(self._margin - pred * _reshape_like(F, label, pred)))
        return self._mean(F, loss, sample_weight)


@explained_by(Loss)
class LogisticLoss(Loss):
    """log(1 + exp(-pred · label)).

    Args:
        label_format: "signed" for labels 1 and -1, "binary" for 1 and 0.

    Raises:
        BlockValueError: `label_format` is another word.
    """

    def __init__(self, weight: Any = None, batch_axis: int = 0, label_format: str = "signed", **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._label_format = label_format
        if label_format not in ("signed", "binary"):
            raise BlockValueError(f"label_format can only be signed or binary, recieved {label_format}.")

    def hybrid_forward(self, F: Any, pred: Tensor, label: Tensor, sample_weight: Tensor | None = None) -> Any:
        """Return the mean of each sample."""
        label = _reshape_like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._mean(F, loss, sample_weight)


@explained_by(Loss)
class TripletLoss(Loss):
    """max(0, |positive - pred|² - |negative - pred|² + margin).

    Args:
        margin: the margin.
    """

    def __init__(self, margin: float = 1, weight: Any = None, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Tensor, positive: Tensor, negative: Tensor) -> Any:
        """Return the loss of each sample."""
        positive, negative = _reshape_like(F, positive, pred), _reshape_like(F, negative, pred)
        distance = F.square(positive - pred) - F.square(negative - pred)
        loss = F.relu(F.sum(distance, axis=self._batch_axis, exclude=True) + self._margin)
        return _apply_weighting(F, loss, self._weight, None)


@explained_by(Loss)
class PoissonNLLLoss(Loss):
    """The negative log-likelihood of counts.

    Args:
        from_logits: pred is the logarithm of the rate.
        compute_full: add Stirling's term, which does not depend on pred.
    """

    @checks_flags
    def __init__(
        self,
        weight: Any = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Any,
    ):
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def hybrid_forward(
        self, F: Any, pred: Tensor, target: Tensor, sample_weight: Tensor | None = None, epsilon: float = 1e-08
    ) -> Any:
        """Return the mean of the whole batch."""
        target = _reshape_like(F, target, pred)
        if self._from_logits:
            loss = F.exp(pred) - target * pred
        else:
            loss = pred - target * F.log(pred + epsilon)
        if self._compute_full:
            stirling = target * F.log(target) - target + 0.5 * F.log(2 * target * math.pi)
            loss = loss + stirling * (target > 1)
        return F.mean(_apply_weighting(F, loss, self._weight, sample_weight))


@explained_by(TripletLoss)
class CosineEmbeddingLoss(Loss):
    """1 - cos of two vectors with label 1, max(0, cos - margin) with label -1."""

    def __init__(self, weight: Any = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(
        self, F: Any, input1: Tensor, input2: Tensor, label: Tensor, sample_weight: Tensor | None = None
    ) -> Any:
        """Return the loss of each pair, (n, 1)."""
        input1 = _reshape_like(F, input1, input2)
        label = label.reshape((-1, 1))
        cosine = self._cosine_similarity(F, input1, input2)
        distant = F.relu((label == -1) * (cosine - self._margin))
        return _apply_weighting(F, (1 - cosine) * (label == 1) + distant, self._weight, sample_weight)

    def _cosine_similarity(self, F: Any, x: Any, y: Any, axis: int = -1) -> Any:
        norms = F.norm(x, axis=axis).reshape((-1, 1)) * F.norm(y, axis=axis).reshape((-1, 1))
        return F.sum(x * y, axis=axis).reshape((-1, 1)) / F.maximum(norms, _TINY)


@explained_by(Loss)
class SDMLLoss(Loss):
    """The smoothed deep metric loss of pairs: each row of one batch is near the same row of the other, far from all
    others.

    Args:
        smoothing_parameter: the probability that all other rows share.
    """

    def __init__(self, smoothing_parameter: float = 0.3, weight: Any = 1.0, batch_axis: int = 0, **kwargs: Any):
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x1: Any, x2: Any) -> Any:
        """Return the loss of each row, only for arrays, as in MXNet, which reads their shapes; symbols raise
        MismatchError."""
        if x1.shape != x2.shape:
            raise MismatchError("SDMLLoss needs two batches of the same shape", got=f"{x1.shape} and {x2.shape}")
        rows = x1.shape[0]
        difference = F.broadcast_sub(x1.expand_dims(1), x2.expand_dims(0))
        distances = F.square(difference).sum(axis=2)
        gold = F.eye(rows)
        labels = gold * (1 - self.smoothing_parameter) + (1 - gold) * self.smoothing_parameter / (rows - 1)
        return self.kl_loss(F.log_softmax(-distances, axis=1), labels.as_in_context(distances.context))
