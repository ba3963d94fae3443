"""Updates of weights have no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses
from symjax_nnvm.ops.optimizer import multi_update, update

refuses(
    *(row.name for row in (*update.UPDATES, *multi_update.UPDATES)),
    "multi_lars",
    reason="it is a step of an optimiser, and a file holds what a network computes at inference",
    fix="Train with lowering.Trainer, and export the network with the weights that it leaves.",
)
