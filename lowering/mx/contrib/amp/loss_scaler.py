"""`LossScaler`: the factor of a loss, so that its gradients fit into float16."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from lowering.mx import ndarray as nd
from lowering.mx.autograd import pause

_LARGER_AFTER = 2000
"""Steps without an overflow after which the factor doubles."""


class LossScaler:
    """A factor that halves when gradients overflow, and doubles after 2000 steps without; the next step uses it.

    It begins at 2¹⁶ and does not exceed 2²⁴.
    """

    def __init__(self) -> None:
        self._loss_scale = self._next_loss_scale = 2.0**16
        self._max_loss_scale = 2.0**24
        self._scale_seq_len = _LARGER_AFTER
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """Return the factor now."""
        return self._loss_scale

    def has_overflow(self, params: Iterable[Any]) -> bool:
        """Whether a gradient of a Parameter is not finite; the factor follows."""
        grads = [param.list_grad()[0].as_nd_ndarray() for param in params if param.grad_req != "null"]
        with pause():
            overflows = bool(grads) and not bool(nd.multi_all_finite(*grads, num_arrays=len(grads)).asscalar())
        self._loss_scale = self._next_loss_scale
        if overflows:
            self._next_loss_scale = self._loss_scale / 2
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
        else:
            self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return overflows
