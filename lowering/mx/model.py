"""`mx.model`: checkpoints, what callbacks are given, and FeedForward."""

from __future__ import annotations

from lowering.mx.checkpoints import BatchEndParam as BatchEndParam
from lowering.mx.checkpoints import load_checkpoint as load_checkpoint
from lowering.mx.checkpoints import load_params as load_params
from lowering.mx.checkpoints import save_checkpoint as save_checkpoint
from lowering.mx.feed_forward import FeedForward as FeedForward
