"""What an Estimator does with one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.mx import autograd
from lowering.mx.context import Context
from lowering.mx.gluon.utils import split_and_load
from lowering.mx.ndarray.array import NDArray

Parts = list[NDArray]
"""An array for each context."""


class BatchProcessor:
    """Computes the batches of an Estimator in training and evaluation; a subclass may change both.

    Both methods return (data, labels, predictions, losses), each a list with an array for each context.
    """

    def _get_data_and_label(self, batch: Any, ctx: Sequence[Context], batch_axis: int = 0) -> tuple[Parts, Parts]:
        """Return a batch's data and labels, split over the contexts."""
        return split_and_load(batch[0], ctx, batch_axis), split_and_load(batch[1], ctx, batch_axis)

    def evaluate_batch(self, estimator: Any, val_batch: Any, batch_axis: int = 0) -> tuple[Parts, Parts, Parts, Parts]:
        """Compute a batch with the network for validation."""
        data, labels = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        predictions = [estimator.val_net(x) for x in data]
        losses = [estimator.val_loss(output, label) for output, label in zip(predictions, labels, strict=True)]
        return data, labels, predictions, losses

    def fit_batch(self, estimator: Any, train_batch: Any, batch_axis: int = 0) -> tuple[Parts, Parts, Parts, Parts]:
        """Compute a batch and the gradients of its losses; GradientUpdateHandler updates the parameters."""
        data, labels = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            predictions = [estimator.net(x) for x in data]
            losses = [estimator.loss(output, label) for output, label in zip(predictions, labels, strict=True)]
        for loss in losses:
            loss.backward()
        return data, labels, predictions, losses
