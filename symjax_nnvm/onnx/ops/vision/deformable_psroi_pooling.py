"""DeformablePSROIPooling has no ONNX form."""

from __future__ import annotations

from symjax_nnvm.onnx.forms import refuses

refuses(
    "_contrib_DeformablePSROIPooling",
    reason="ONNX has no position-sensitive pooling; composed of other operators it would copy the maps for each region",
    fix="Cut the network before it, with symjax_nnvm.cut(net, name).",
)
