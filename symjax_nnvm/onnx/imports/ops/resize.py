"""ONNX' Resize and Upsample."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.errors import OnnxError
from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.constants import reference
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import onnx_import
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import need_float
from symjax_nnvm.onnx.proto import import_onnx

_LARGEST = 4096
"""The longest side that a resizing other than MXNet's own may give."""

_COST = 256
"""What an element that the reference implementation computes is counted for: it takes up to a millisecond in old
versions of onnx, and a number in a file must not decide how long that takes either."""

_CALL = 64
"""How many of its elements take as long as calling it."""

_ATTRIBUTES = (
    "mode",
    "coordinate_transformation_mode",
    "nearest_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "antialias",
)


@onnx_import("Upsample")
def _upsample(g: Composer, x: Value, scales: Value | None = None) -> Value:
    """Upsample by factors, which the coordinates are multiplied with."""
    factors = g.attr("scales") if scales is None else g.constant_value(scales, "scales").tolist()
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return _resize(g, x, [float(factor) for factor in factors], None, {"mode": g.attr("mode", "nearest"), **how})


@onnx_import("Resize")
def _resize_10(g: Composer, x: Value, scales: Value) -> Value:
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    factors = [float(factor) for factor in g.constant_value(scales, "scales")]
    return _resize(g, x, factors, None, {"mode": g.attr("mode", "nearest"), **how})


@onnx_import("Resize", since=11, ignores=("extrapolation_value", "keep_aspect_ratio_policy"))
def _resize_11(
    g: Composer, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None
) -> Value:
    how = {key: g.attr(key) for key in _ATTRIBUTES if g.attr(key) is not None}
    if how.get("coordinate_transformation_mode") in ("tf_crop_and_resize", "half_pixel_symmetric"):
        g.refuse(f"it takes {how['coordinate_transformation_mode']} coordinates")
    axes = [g.axis(axis, x.ndim) for axis in g.attr("axes", range(x.ndim))]
    if scales is not None and 0 not in scales.shapes[0]:
        factors = [1.0] * x.ndim
        for axis, factor in zip(axes, g.constant_value(scales, "scales"), strict=True):
            factors[axis] = float(factor)
        return _resize(g, x, factors, None, how)
    if sizes is None or sizes.arrays is None:
        g.refuse("its sizes are computed at run time")
    if g.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        g.refuse("it keeps the ratio of its sides")
    new_shapes = [list(shape) for shape in x.shapes]
    for shape, target in zip(new_shapes, sizes.arrays, strict=True):
        for axis, size in zip(axes, target.tolist(), strict=True):
            shape[axis] = size
    return _resize(g, x, None, new_shapes, how)


def _resize(
    g: Composer, x: Value, factors: list[float] | None, new_shapes: list[list[int]] | None, how: dict[str, Any]
) -> Value:
    """Resize by factors of the axes or to shapes; one of the two is given."""
    if new_shapes is None:
        assert factors is not None
        new_shapes = [[int(np.floor(n * f)) for n, f in zip(shape, factors, strict=True)] for shape in x.shapes]
    if any(size < 1 for shape in new_shapes for size in shape):
        g.refuse(f"its result is empty, from {x.shape}")
    changed = [k for k in range(x.ndim) if any(a[k] != b[k] for a, b in zip(new_shapes, x.shapes, strict=True))]
    if not changed and (factors is None or set(factors) == {1.0}):
        return x
    need_float(g, x)
    times = {b[k] / a[k] for a, b in zip(x.shapes, new_shapes, strict=True) for k in (2, 3)} if x.ndim == 4 else set()
    whole = len(times) == 1 and next(iter(times)).is_integer() and set(changed) <= {2, 3}
    if whole and _repeats(how, int(next(iter(times)))):
        return g.op("UpSampling", x, scale=int(next(iter(times))), sample_type="nearest")
    transformation = how.get("coordinate_transformation_mode", "half_pixel")
    bilinear = how.get("mode", "nearest") in ("linear", "bilinear") and not how.get("antialias", 0)
    exact = factors is None or all(n * f == int(n * f) for s in x.shapes for n, f in zip(s, factors, strict=True))
    if x.ndim == 4 and set(changed) <= {2, 3} and bilinear and exact:
        height, width = ({shape[k] for shape in new_shapes} for k in (2, 3))
        if transformation in ("half_pixel", "align_corners", "pytorch_half_pixel") and len(height) == len(width) == 1:
            corners = transformation == "align_corners"
            sizes: dict[str, Any] = {"height": height.pop(), "width": width.pop()}
            if corners or min(sizes.values()) > 1:
                return g.op("_contrib_BilinearResize2D", x, align_corners=corners, **sizes)
    for axis in changed:
        x = _by_matrix(g, x, axis, None if factors is None else factors[axis], how, new_shapes[0][axis])
    return x


def _repeats(how: dict[str, Any], times: int) -> bool:
    """Return whether enlarging a whole number of times repeats every element."""
    if how.get("mode", "nearest") != "nearest":
        return False
    transformation, rounding = (
        how.get("coordinate_transformation_mode", "half_pixel"),
        how.get("nearest_mode", "round_prefer_floor"),
    )
    if transformation == "asymmetric":
        return rounding == "floor" or (rounding == "round_prefer_floor" and times <= 2)
    return transformation in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")


def _by_matrix(g: Composer, x: Value, axis: int, factor: float | None, how: dict[str, Any], new: int) -> Value:
    """Along one axis every resizing is a product with a matrix: what it makes of the unit vectors."""
    size = g.static(x, [axis])[axis]
    if max(size, new) > _LARGEST:
        g.refuse(f"an axis of {max(size, new)} elements is resized in a way that MXNet has no operator for")
    rows = _matrix(g, size, new, factor, how)
    order = [*(k for k in range(x.ndim) if k != axis), axis]
    back = [order.index(k) for k in range(x.ndim)]
    moved = g.op("transpose", x, axes=tuple(order)) if axis != x.ndim - 1 else x
    product = g.op("dot", moved, g.constant(rows, x.held, f"resize{axis}"))
    return g.op("transpose", product, axes=tuple(back)) if axis != x.ndim - 1 else product


def _matrix(g: Composer, size: int, new: int, factor: float | None, how: dict[str, Any]) -> np.ndarray:
    """Return the unit vectors of an axis, resized: (size, new), by onnx' reference implementation.

    That takes its time for each element, so it gets a few vectors alone: each is 1 at every `step`-th place. An element
    of a result is made of neighbours that are fewer than `step`, so of one 1 at most: the one nearest to the place that
    the element has among the data, which is what becomes of 0, 1, 2, ….
    """
    neighbours = 4 * (-(-size // new) if how.get("antialias", 0) else 1)  # of a cubic, the most
    step = neighbours + 8 if neighbours + 8 < size else 2 * size
    vectors = min(step, size)
    g.reserve(_COST, vectors + 1, max(new, _CALL))
    inputs = ["x", "", "scales"] if factor is not None else ["x", "", "", "sizes"]
    node = import_onnx().helper.make_node("Resize", inputs, ["y"], **how)
    last = np.asarray([new], np.int64) if factor is None else np.asarray([factor], np.float32)

    def resized(vector: np.ndarray) -> np.ndarray:
        try:
            return reference(node, max(g.opset, 18), [vector, *[None] * (len(inputs) - 2), last])[0]
        except OnnxError as error:
            g.refuse(str(error))

    ramp = np.cumsum(g.full((size,), 1.0)) - 1
    places = resized(ramp)
    rows = g.full((size, len(places)), 0.0)
    for first in range(vectors):
        weights = resized((ramp % step == first).astype(np.float32))
        nearest = (first + step * np.round((places - first) / step)).astype(np.int64)
        inside = (nearest >= 0) & (nearest < size) & (weights != 0)
        rows[nearest[inside], np.flatnonzero(inside)] = weights[inside]
    return rows
