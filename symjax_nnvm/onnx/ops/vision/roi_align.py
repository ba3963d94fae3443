"""The ONNX form of ROIAlign."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import roi_align as ops


def own_images(g: Builder, data: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """(the number of each region's image, of those there are; whether there is such an image, (r, 1, 1, 1))."""
    number = g.cast(g.reshape(g.slice(rois, 1, 0, 1), -1), "int64")
    count = g.size(data, 0)
    last = count - 1 if isinstance(count, int) else g.op("Sub", count, 1)
    exists = g.op("And", g.op("GreaterOrEqual", number, 0), g.op("LessOrEqual", number, last))
    return g.op("Max", g.op("Min", number, last), 0), g.op("Unsqueeze", exists, [1, 2, 3])


@onnx_form("_contrib_ROIAlign")
def _roi_align(g: Builder, p: ops.ROIAlignParams, data: Tensor, rois: Tensor) -> Tensor:
    if p.position_sensitive:
        fix = "Take position_sensitive=False, and the channels of each bin afterwards."
        g.refuse("ONNX' RoiAlign takes all bins from the same channels", fix)
    number, exists = own_images(g, data, rois)
    height, width = p.pooled_size
    pooled = g.op(
        "RoiAlign",
        data,
        g.slice(rois, 1, 1, 5),
        number,
        output_height=height,
        output_width=width,
        sampling_ratio=max(p.sample_ratio, 0),
        spatial_scale=p.spatial_scale,
        coordinate_transformation_mode="half_pixel" if p.aligned else "output_half_pixel",
    )
    return g.op("Where", exists, pooled, g.constant(0, data.dtype))


refuses("_contrib_RROIAlign", reason="ONNX' RoiAlign does not turn regions")
