"""ONNX' operators that take parts of arrays: slices, indices, the largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.onnx.imports.composer import STATIC, WIDER, Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import no_import, onnx_import
from symjax_nnvm.onnx.imports.ops.arithmetic import where
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cast, cut, expand_dims, need_float, pad, reshape, transpose


@onnx_import("Slice")
def _slice(
    g: Composer,
    x: Value,
    starts: Value | None = None,
    ends: Value | None = None,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Value:
    """Return parts of some axes; before opset 10 they are attributes."""
    if starts is None or ends is None:
        rows = [(g.attr("starts"), g.attr("ends"))] * g.count
    elif starts.arrays is None or ends.arrays is None:
        g.refuse("its starts and ends are computed at run time", STATIC)
    else:
        rows = [(a.tolist(), b.tolist()) for a, b in zip(starts.arrays, ends.arrays, strict=True)]
    places = g.numbers("axes", axes, list(range(len(rows[0][0]))))
    strides = [1] * len(places) if steps is None else g.numbers("steps", steps)
    parts: list[Any] = [(None, None, None)] * x.ndim
    for i, place in enumerate(places):
        axis = g.axis(place, x.ndim)
        bounds = [(row[0][i], row[1][i]) for row in rows]
        parts[axis] = _slice_bounds(g, x, axis, bounds, strides[i])
    cut_axes = [axis for axis, part in enumerate(parts) if part != (None, None, None)]
    if not cut_axes:
        return x
    begin, end, step = parts[cut_axes[0]]
    if len(cut_axes) == 1 and step in (None, 1):
        return cut(g, x, cut_axes[0], begin or 0, end)
    columns = list(zip(*parts, strict=True))
    return g.op("slice", x, begin=columns[0], end=columns[1], step=columns[2], gives=x.dtype)


def _slice_bounds(g: Composer, x: Value, axis: int, bounds: list[tuple[int, int]], step: int) -> tuple[Any, Any, Any]:
    """Return (begin, end, step) of an axis: None for its ends. Raises OnnxError where run time decides others."""
    if step == 0:
        g.refuse("its step is 0")
    sizes = x.sizes[axis]
    lengths = [len(range(*slice(a, b, step).indices(n))) for (a, b), n in zip(bounds, sizes, strict=True)]
    firsts = [slice(a, b, step).indices(n) for (a, b), n in zip(bounds, sizes, strict=True)]
    if min(lengths) < 1:
        g.refuse(f"nothing is left of axis {axis}, and MXNet has no empty arrays")
    begins = {None if (a == 0 if step > 0 else a == n - 1) else a for (a, _, _), n in zip(firsts, sizes, strict=True)}
    ends = {None if (b == n if step > 0 else b == -1) else b for (_, b, _), n in zip(firsts, sizes, strict=True)}
    if len(begins) > 1:  # counted from the end, perhaps
        begins = {a - n for (a, _, _), n in zip(firsts, sizes, strict=True)}
    if len(ends) > 1:
        ends = {b - n for (_, b, _), n in zip(firsts, sizes, strict=True)}
    if len(begins) > 1 or len(ends) > 1:
        g.refuse(f"the part of axis {axis} that it takes is known only at run time", STATIC)
    (begin,), (end,) = begins, ends
    return (begin, end, step if step != 1 else None) if (begin, end, step) != (None, None, 1) else (None, None, None)


@onnx_import("Pad")
def _pad(
    g: Composer, x: Value, pads: Value | None = None, value: Value | None = None, axes: Value | None = None
) -> Value:
    mode = g.attr("mode", "constant")
    if mode not in ("constant", "edge", "reflect"):
        g.refuse(f"MXNet's Pad has no mode {mode!r}")
    numbers = g.numbers("pads", pads)
    places = [g.axis(axis, x.ndim) for axis in g.numbers("axes", axes, list(range(x.ndim)))]
    if len(numbers) != 2 * len(places):
        g.refuse(f"it needs two widths for each of {len(places)} axes, and has {len(numbers)}")
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, low, high in zip(places, numbers[: len(places)], numbers[len(places) :], strict=True):
        before[axis], after[axis] = low, high
    number = g.attr("value", 0.0) if value is None else float(g.constant_value(value, "value").item())
    return pad(g, x, before, after, number, mode)


@onnx_import("Gather")
def _gather(g: Composer, data: Value, indices: Value) -> Value:
    """Take elements by indices: negative ones count from the end, as MXNet's do that wrap around."""
    axis = g.axis(g.attr("axis", 0), data.ndim)
    array = indices.array
    if array is not None and array.size == 1 and indices.ndim <= 1:
        i = int(array.item())
        part = cut(g, data, axis, i, i + 1 or None)
        gone = [tuple(size for k, size in enumerate(shape) if k != axis) for shape in part.shapes]
        return part if indices.ndim else reshape(g, part, gone)
    if array is not None:
        indices = g.constant(array, "int32", "indices")
    taken = g.op("take", data, indices, axis=axis, mode="wrap", gives=data.dtype)
    shapes = [(*d[:axis], *i, *d[axis + 1 :]) for d, i in zip(data.shapes, indices.shapes, strict=True)]
    return reshape(g, taken, shapes) if list(shapes) != taken.shapes else taken


@onnx_import("GatherElements")
def _gather_elements(g: Composer, data: Value, indices: Value) -> Value:
    """Use MXNet's pick for one element of an axis; else our own operator."""
    axis = g.axis(g.attr("axis", 0), data.ndim)
    others = [k for k in range(data.ndim) if k != axis]
    if indices.shape[axis] == 1 and all(data.sizes[k] == indices.sizes[k] for k in others):
        return g.op("pick", data, indices, axis=axis, keepdims=True, mode="wrap", gives=data.dtype)
    if any(data.sizes[k] != indices.sizes[k] for k in others):
        g.refuse("its indices must have the data's shape on all axes but its own")
    size = g.static(data, [axis])[axis]
    wrapped = g.op("_mod_scalar", indices, scalar=float(size))
    return g.op("_take_along_axis", data, wrapped, axis=axis, gives=data.dtype)


@onnx_import("GatherND")
def _gather_nd(g: Composer, data: Value, indices: Value) -> Value:
    """MXNet's indices have the axis of coordinates in front; the numbers of a batch's elements are coordinates more."""
    batch = g.attr("batch_dims", 0)
    if batch:
        if not 0 < batch < indices.ndim:
            g.refuse(f"its indices have {indices.ndim} axes, of which {batch} cannot be those of a batch")
        g.symbol(indices)
        rows = reshape(g, cut(g, indices, indices.ndim - 1, 0, 1), [shape[:-1] for shape in indices.shapes])
        numbers = cast(g, g.op("_contrib_index_array", rows, axes=tuple(range(batch))), indices.held)
        indices = g.op("Concat", numbers, indices, dim=indices.ndim - 1)
    if indices.ndim > 1 or indices.shape[0] != data.ndim:
        return g.op("gather_nd", data, _coordinates_first(g, indices), gives=data.dtype)
    g.symbol(indices)  # of one element, which MXNet has with an axis
    column = reshape(g, indices, [(*shape, 1) for shape in indices.shapes])
    taken = g.op("gather_nd", data, column, gives=data.dtype)
    return reshape(g, taken, [()] * g.count)


def _coordinates_first(g: Composer, indices: Value) -> Value:
    return transpose(g, indices, [indices.ndim - 1, *range(indices.ndim - 1)])


@onnx_import("ScatterND")
def _scatter_nd(g: Composer, data: Value, indices: Value, updates: Value) -> Value:
    if g.attr("reduction", "none") != "none":
        g.refuse(f"it combines old and new elements by {g.attr('reduction')!r}, and MXNet replaces them")
    places = _coordinates_first(g, indices)
    return g.op("_scatter_set_nd", data, updates, places, shape=g.static(data), gives=data.dtype)


@onnx_import("OneHot")
def _one_hot(g: Composer, indices: Value, depth: Value, values: Value) -> Value:
    """Negative indices count from the end; those beyond the depth on either side are nowhere, as in MXNet's."""
    off, on = (float(number) for number in g.constant_value(values, "values"))
    count = int(g.constant_value(depth, "depth").item())
    g.symbol(indices)
    ids = indices if indices.held in ("int32", "int64") else cast(g, indices, "int32")
    below = g.op("_mul_scalar", g.op("_lesser_scalar", ids, scalar=0.0), scalar=float(count))
    dtype = "float32" if values.dtype in ("bool", *WIDER) else values.dtype
    how = {"depth": count, "on_value": on, "off_value": off, "dtype": dtype}
    rows = g.op("one_hot", g.op("elemwise_add", ids, below), gives=values.dtype, **how)
    shapes = [(*shape, count) for shape in indices.shapes]
    rows = reshape(g, rows, shapes)
    axis = g.axis(g.attr("axis", -1), rows.ndim)
    order = list(range(rows.ndim - 1))
    order.insert(axis, rows.ndim - 1)
    return transpose(g, rows, order)


@onnx_import("TopK", ignores=("sorted",))
def _top_k(g: Composer, x: Value, k: Value | None = None) -> list[Value]:
    count = g.attr("k") if k is None else int(g.constant_value(k, "k").item())
    axis = g.axis(g.attr("axis", -1), x.ndim)
    ascending = not g.attr("largest", 1)
    values, places = g.ops("topk", x, axis=axis, k=count, ret_typ="both", is_ascend=ascending, dtype="int32")
    places.dtype = "int64"
    return [values, places]


def _extreme(op: str) -> Any:
    def form(g: Composer, x: Value) -> Value:
        """Return the first of equal elements; with select_last_index the last. MXNet's numbers are floats."""
        axis, keep = g.axis(g.attr("axis", 0), x.ndim), bool(g.attr("keepdims", 1))
        last = bool(g.attr("select_last_index", 0))
        data = g.op("reverse", x, axis=axis) if last else x
        indices = g.op(op, data, axis=axis, keepdims=keep)
        if last:
            indices = g.op("_rminus_scalar", indices, scalar=float(g.static(x, [axis])[axis] - 1))
        shapes = [
            tuple(1 if k == axis else size for k, size in enumerate(shape) if keep or k != axis) for shape in x.shapes
        ]
        whole = cast(g, indices, "int32")
        return Value(whole.name, "int64", shapes, None, whole.symbol, whole.held)

    return form


onnx_import("ArgMax")(_extreme("argmax"))
onnx_import("ArgMin")(_extreme("argmin"))


@onnx_import("CumSum")
def _cum_sum(g: Composer, x: Value, axis: Value) -> Value:
    along = g.axis(int(g.constant_value(axis, "axis").item()), x.ndim)
    turned = g.op("reverse", x, axis=along) if g.attr("reverse", 0) else x
    sums = g.op("_np_cumsum", turned, axis=along)
    if g.attr("exclusive", 0):
        sums = g.op("elemwise_sub", sums, turned)
    return g.op("reverse", sums, axis=along) if g.attr("reverse", 0) else sums


@onnx_import("ReverseSequence")
def _reverse_sequence(g: Composer, x: Value, lengths: Value) -> Value:
    time, batch = g.attr("time_axis", 0), g.attr("batch_axis", 1)
    if sorted((time, batch)) != [0, 1]:
        g.refuse("steps and batch must be the first two axes")
    order = [1, 0, *range(2, x.ndim)] if time else list(range(x.ndim))
    reversed_rows = g.op("SequenceReverse", transpose(g, x, order), cast(g, lengths, "int32"), use_sequence_length=True)
    return transpose(g, reversed_rows, order)


@onnx_import("Compress")
def _compress(g: Composer, x: Value, condition: Value) -> Value:
    mask = g.constant_value(condition, "condition").astype(bool)
    axis = g.attr("axis")
    if axis is None:
        g.refuse("without an axis it flattens its data", "Reshape the data before, and name an axis.")
    g.reserve(mask.size, dtype="int64")
    return g.op("take", x, g.constant(np.flatnonzero(mask), "int32", "indices"), axis=g.axis(axis, x.ndim))


@onnx_import("GridSample")
def _grid_sample(g: Composer, x: Value, grid: Value) -> Value:
    """Use MXNet's sampler: bilinear, corners aligned, zeros around."""
    if x.ndim != 4 or g.attr("mode", "linear") not in ("linear", "bilinear"):
        g.refuse("MXNet can sample images only bilinearly")
    if not g.attr("align_corners", 0) or g.attr("padding_mode", "zeros") != "zeros":
        g.refuse(
            "MXNet's sampler has aligned corners, and zeros around the image", "Export it with align_corners=True."
        )
    need_float(g, x)
    return g.op("BilinearSampler", x, transpose(g, grid, (0, 3, 1, 2)))


@onnx_import("MaxRoiPool")
def _max_roi_pool(g: Composer, x: Value, rois: Value) -> Value:
    return g.op(
        "ROIPooling", x, rois, pooled_size=tuple(g.attr("pooled_shape")), spatial_scale=g.attr("spatial_scale", 1.0)
    )


@onnx_import("RoiAlign")
def _roi_align(g: Composer, x: Value, rois: Value, numbers: Value) -> Value:
    """A region without height or width has no samples where their number follows from its size: ONNX gives it 0, and
    MXNet one sample."""
    if g.attr("mode", "avg") != "avg":
        g.refuse("MXNet's ROIAlign can take only means")
    default = "half_pixel" if g.opset >= 16 else "output_half_pixel"
    aligned = g.attr("coordinate_transformation_mode", default) == "half_pixel"
    ratio = g.attr("sampling_ratio", 0)
    column = reshape(g, cast(g, numbers, rois.held or rois.dtype), [(*shape, 1) for shape in numbers.shapes])
    means = g.op(
        "_contrib_ROIAlign",
        x,
        g.op("Concat", column, rois, dim=1),
        pooled_size=(g.attr("output_height", 1), g.attr("output_width", 1)),
        spatial_scale=g.attr("spatial_scale", 1.0),
        sample_ratio=ratio or -1,
        aligned=aligned,
    )
    if not aligned or ratio:
        return means
    shorter = g.op("min", g.op("elemwise_sub", cut(g, rois, 1, 2, 4), cut(g, rois, 1, 0, 2)), axis=1)
    sampled = expand_dims(g, g.op("_greater_scalar", shorter, scalar=0.0), (1, 2, 3))
    return where(g, sampled, means, g.op("zeros_like", means))


_FROM_VALUES = "the size of its result depends on values, but a symbol's shapes must be known before"
no_import("NonZero", "Unique", "NonMaxSuppression", reason=_FROM_VALUES, fix="Cut the model before it.")
no_import(
    "ScatterND",
    "ScatterElements",
    "Scatter",
    "TensorScatter",
    reason="MXNet 1.9.1 cannot scatter along an axis",
    fix="Use ScatterND.",
)
no_import("DFT", "STFT", reason="ONNX keeps real and imaginary parts in an axis, and MXNet's fft in turn")
no_import("Range", reason="its length depends on sizes that are known only at run time", fix=STATIC)
