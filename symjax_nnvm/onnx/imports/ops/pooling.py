"""ONNX' poolings."""

from __future__ import annotations

import math
from typing import Any

from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import ImportForm, onnx_import
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cast, need_float, pad
from symjax_nnvm.onnx.imports.ops.windows import OnnxWindow, window


def _counts(sizes: tuple[int, ...], w: OnnxWindow, ceil: bool) -> tuple[int, ...]:
    """Return how many windows there are along each axis: with ceil also one that begins in the data or the padding
    before it, and ends beyond."""
    counts = []
    for n, span, stride, low, high in zip(sizes, w.spans, w.stride, w.before, w.after, strict=True):
        room = n + low + high - span
        count = (-(-room // stride) if ceil else room // stride) + 1
        counts.append(count - (ceil and (count - 1) * stride >= n + low))
    return tuple(counts)


def _mxnets(sizes: tuple[int, ...], w: OnnxWindow, full: bool) -> tuple[int, ...]:
    """Return how many windows MXNet's convention gives of the padding before, on both sides."""
    spans = zip(sizes, w.kernel, w.stride, w.before, strict=True)
    rooms = [(n + 2 * low - k, s) for n, k, s, low in spans]
    return tuple((-(-room // s) if full else room // s) + 1 for room, s in rooms)


def _pool(pool_type: str, **more: Any) -> ImportForm:
    def form(g: Composer, x: Value) -> Value:
        need_float(g, x)
        w = window(g, x, tuple(g.attr("kernel_shape")), gaps=False)
        if set(w.dilate) != {1}:
            g.refuse("MXNet's Pooling has no dilation")
        if g.used(1):
            g.refuse("it returns the indices of the largest elements, which MXNet's Pooling does not")
        params: dict[str, Any] = {"kernel": w.kernel, "stride": w.stride, "pool_type": pool_type, **more}
        include = bool(g.attr("count_include_pad", 0)) or g.opset < 7
        if pool_type == "avg":
            params["count_include_pad"] = include
        every = [shape[2:] for shape in x.shapes]
        ceil = bool(g.attr("ceil_mode", 0))
        counts = [_counts(sizes, w, ceil) for sizes in every]
        # Of windows that reach past the data the greatest element, and the mean of real ones, are MXNet's as well.
        clipped = pool_type == "max" or (pool_type == "avg" and not include)
        for full in (False, True):
            same = [_mxnets(sizes, w, full) for sizes in every] == counts
            if same and (w.symmetric if not full else w.symmetric or clipped):
                convention = {"pooling_convention": "full"} if full else {}
                return g.op("Pooling", x, pad=w.before, **convention, **params)
        if clipped and pool_type == "avg":
            return _mean_of_real(g, x, w, counts[0], params)
        ends = _ends(g, x, w, counts[0])
        value = -math.inf if pool_type == "max" else 0.0
        if pool_type == "avg" and any(end > high for end, high in zip(ends, w.after, strict=True)):
            g.refuse("windows reach past its padding, where MXNet counts other elements", "Leave out ceil_mode.")
        return g.op("Pooling", pad(g, x, (0, 0, *w.before), (0, 0, *ends), value), **params)

    return form


def _ends(g: Composer, x: Value, w: OnnxWindow, counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the padding after the data with which as many windows fit, and no more."""
    sizes = g.static(x, range(2, x.ndim))[2:]
    spans = zip(counts, w.stride, w.kernel, sizes, w.before, strict=True)
    return tuple((count - 1) * s + k - n - low for count, s, k, n, low in spans)


def _mean_of_real(g: Composer, x: Value, w: OnnxWindow, counts: tuple[int, ...], params: dict[str, Any]) -> Value:
    """Return sums over the padded data, divided by how many elements of each window are the data's."""
    ends = _ends(g, x, w, counts)
    sides = (0, 0, *w.before), (0, 0, *ends)
    how = {**params, "pool_type": "sum"}
    how.pop("count_include_pad")
    counted = g.op("Pooling", pad(g, g.op("ones_like", x), *sides), **how)
    return g.op("elemwise_div", g.op("Pooling", pad(g, x, *sides), **how), counted)


def _global(pool_type: str) -> ImportForm:
    def form(g: Composer, x: Value) -> Value:
        need_float(g, x)
        p = {"p_value": g.attr("p", 2)} if pool_type == "lp" else {}
        return g.op("Pooling", x, global_pool=True, pool_type=pool_type, kernel=(1,) * (x.ndim - 2), **p)

    return form


@onnx_import("LpPool")
def _lp_pool(g: Composer, x: Value) -> Value:
    p = g.attr("p", 2)
    if p not in (1, 2, 3):
        g.refuse(f"MXNet pools norms of p = 1, 2 and 3, not {p}")
    return _pool("lp", p_value=p)(g, g.op("abs", x))  # pyright: ignore[reportReturnType]


def _of_levels(form: ImportForm) -> ImportForm:
    """Return the form that computes with 8-bit integers, which float32 holds, as well."""

    def either(g: Composer, x: Value) -> Value:
        if x.dtype not in ("int8", "uint8"):
            return form(g, x)  # pyright: ignore[reportReturnType]
        return cast(g, form(g, cast(g, x, "float32")), x.dtype)  # pyright: ignore[reportArgumentType]

    return either


onnx_import("MaxPool", ignores=("storage_order",))(_of_levels(_pool("max")))
onnx_import("AveragePool")(_pool("avg"))
onnx_import("GlobalMaxPool")(_of_levels(_global("max")))
onnx_import("GlobalAveragePool")(_global("avg"))


@onnx_import("GlobalLpPool")
def _global_lp(g: Composer, x: Value) -> Value:
    if g.attr("p", 2) not in (1, 2, 3):
        g.refuse(f"MXNet pools norms of p = 1, 2 and 3, not {g.attr('p')}")
    return _global("lp")(g, g.op("abs", x))  # pyright: ignore[reportReturnType]
