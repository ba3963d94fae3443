"""ONNX' convolutions."""

from __future__ import annotations

import math
from typing import Any

from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import onnx_import
from symjax_nnvm.onnx.imports.ops.arithmetic import add
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cut, need_float, pad, reshape
from symjax_nnvm.onnx.imports.ops.windows import OnnxWindow, window


def _kernel(g: Composer, weight: Value) -> tuple[int, ...]:
    return tuple(g.attr("kernel_shape") or g.static(weight)[2:])


def _padded(g: Composer, x: Value, w: OnnxWindow) -> tuple[Value, tuple[int, ...]]:
    """Return data and the padding that an operator is left to do, which is the same on both sides."""
    if w.symmetric:
        return x, w.before
    return pad(g, x, (0, 0, *w.before), (0, 0, *w.after)), (0,) * len(w.before)


@onnx_import("Conv")
def convolve(g: Composer, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """A convolution of floats, by the node's attributes."""
    need_float(g, x)
    w = window(g, x, _kernel(g, weight))
    data, sides = _padded(g, x, w)
    return g.op(
        "Convolution",
        *(data, weight, *([] if bias is None else [bias])),
        kernel=w.kernel,
        stride=w.stride,
        dilate=w.dilate,
        pad=sides,
        num_filter=g.static(weight, [0])[0],
        num_group=g.attr("group", 1),
        no_bias=bias is None,
    )


@onnx_import("ConvTranspose")
def _conv_transpose(g: Composer, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Cut the borders of the result by padding; where its sides differ, a slice cuts the rest. What is wanted behind
    the last window has only the bias."""
    need_float(g, x)
    w = window(g, x, _kernel(g, weight))
    rank, groups = len(w.kernel), g.attr("group", 1)
    extra = tuple(g.attr("output_padding", [0] * rank))
    shape = g.attr("output_shape")
    if shape is not None or g.attr("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        w, extra = _of_output(g, x, w, extra, shape)
    sides = tuple(min(pair) for pair in zip(w.before, w.after, strict=True))
    late = [max(e - (a - s), 0) for e, a, s in zip(extra, w.after, sides, strict=True)]
    end_cuts = [max(a - s - e, 0) for e, a, s in zip(extra, w.after, sides, strict=True)]
    spare = [max(count - stride + 1, 0) for count, stride in zip(late, w.stride, strict=True)]
    inside = [] if bias is None or any(spare) else [bias]
    out = g.op(
        "Deconvolution",
        *(x, weight, *inside),
        kernel=w.kernel,
        stride=w.stride,
        dilate=w.dilate,
        pad=sides,
        adj=tuple(count - more for count, more in zip(late, spare, strict=True)),
        num_filter=g.static(weight, [1])[1] * groups,
        num_group=groups,
        no_bias=not inside,
    )
    if any(spare):
        out = pad(g, out, (0,) * (2 + rank), (0, 0, *spare))
        if bias is not None:
            out = add(g, out, reshape(g, bias, [(*shape, *(1,) * rank) for shape in bias.shapes]))
    for axis, (first, side, last) in enumerate(zip(w.before, sides, end_cuts, strict=True), 2):
        out = cut(g, out, axis, first - side, -last or None)
    return out


def _of_output(
    g: Composer, x: Value, w: OnnxWindow, extra: tuple[int, ...], shape: list[int] | None
) -> tuple[OnnxWindow, tuple[int, ...]]:
    """Return the window with the padding, and the output padding, that give an output of a shape, else of stride times
    the data's. Raises OnnxError for automatic padding of an output that its windows do not fill."""
    auto = g.attr("auto_pad", "NOTSET")
    sizes = g.static(x, range(2, x.ndim))[2:]
    out_sizes = shape[-len(sizes) :] if shape else [n * s for n, s in zip(sizes, w.stride, strict=True)]
    before, after, behind = [], [], []
    for n, s, span, more, size in zip(sizes, w.stride, w.spans, extra, out_sizes, strict=True):
        total = s * (n - 1) + more + span - size
        if total < 0 and auto in ("SAME_UPPER", "SAME_LOWER"):
            g.refuse(
                f"its windows make {size + total} elements of an axis where {size} are wanted, and runtimes differ in "
                f"where {auto} puts the rest",
                "Leave out auto_pad and output_shape, and give pads and output_padding.",
            )
        small, large = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
        behind.append(more + max(-total, 0))
    return OnnxWindow(w.kernel, w.stride, w.dilate, tuple(before), tuple(after)), tuple(behind)


@onnx_import("DeformConv")
def _deform_conv(
    g: Composer, x: Value, weight: Value, offset: Value, bias: Value | None = None, mask: Value | None = None
) -> Value:
    """A deformable convolution; without a mask it is the modulated form of a mask of ones: MXNet's form without one
    repeats the last row and column beyond the border, where ONNX and the modulated form fade to 0."""
    w = window(g, x, _kernel(g, weight))
    if len(w.kernel) != 2:
        g.refuse("MXNet's deformable convolution is over two axes")
    x, sides = _padded(g, x, w)
    if mask is None:
        mask = g.op("ones_like", cut(g, offset, 1, 0, math.prod(w.kernel) * g.attr("offset_group", 1)))
    return g.op(
        "_contrib_ModulatedDeformableConvolution",
        *(x, offset, mask, weight, *([] if bias is None else [bias])),
        kernel=w.kernel,
        stride=w.stride,
        dilate=w.dilate,
        pad=sides,
        num_filter=g.static(weight, [0])[0],
        num_group=g.attr("group", 1),
        num_deformable_group=g.attr("offset_group", 1),
        no_bias=bias is None,
    )


@onnx_import("Col2Im")
def _col2im(g: Composer, x: Value, image: Value, block: Value) -> Value:
    size, kernel = (tuple(int(n) for n in g.constant_value(value, "shape")) for value in (image, block))
    rank = len(kernel)
    pads = tuple(g.attr("pads", [0] * 2 * rank))
    if rank != 2 or pads[:rank] != pads[rank:]:
        g.refuse("MXNet's col2im is over two axes with the same padding on both sides")
    how: dict[str, Any] = {"stride": tuple(g.attr("strides", [1, 1])), "dilate": tuple(g.attr("dilations", [1, 1]))}
    return g.op("col2im", x, output_size=size, kernel=kernel, pad=pads[:rank], **how)
