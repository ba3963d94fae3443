"""The log likelihood of a Hawkes process has no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    "_contrib_hawkesll",
    reason="it is a loss, a recursion over the marks of a process, that only training needs",
    fix="Cut the network before it, with symjax_nnvm.cut(net, name).",
)
