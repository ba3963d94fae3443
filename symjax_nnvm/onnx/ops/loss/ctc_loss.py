"""CTCLoss has no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    "CTCLoss",
    reason="it is a loss, a recursion over all alignments, that only training needs",
    fix="Cut the network before it, with symjax_nnvm.cut(net, name): its data are the scores to decode.",
)
