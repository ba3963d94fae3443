"""ONNX forms of what needs values, which are refused, and of values put where a mask holds."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing.mask_assign import MaskAssignScalarParams

refuses(
    "_npi_unique",
    "_npx_nonzero",
    reason="the length of its result depends on values",
    fix="Find it after the network has run.",
)
refuses(
    "_npi_boolean_mask_assign_tensor",
    "_values_at_mask",
    reason="which value goes where depends on the mask's values",
    fix="Choose between two arrays with where.",
)


@onnx_form("_npi_boolean_mask_assign_scalar")
def _assign_scalar(g: Builder, p: MaskAssignScalarParams, data: Tensor, mask: Tensor) -> Tensor:
    holds = g.cast(mask, "bool")
    after = data.ndim - p.start_axis - mask.ndim
    axes = [*range(p.start_axis), *range(data.ndim - after, data.ndim)]
    return g.op("Where", g.unsqueeze(holds, *axes) if axes else holds, g.constant(p.value, data.dtype), data)
