"""ONNX' operators that give arrays other shapes, repeat, join and split them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from symjax_nnvm.ir.types import MAX_RANK
from symjax_nnvm.onnx.imports.composer import STATIC, Composer
from symjax_nnvm.onnx.imports.file_values import Numbers, Value, one
from symjax_nnvm.onnx.imports.import_registry import onnx_import
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import (
    alike,
    broadcast,
    expand_dims,
    filled,
    reshape,
    squeeze,
    transpose,
)


def _value(g: Composer, arrays: list[np.ndarray], name: str) -> Value:
    arrays = one(arrays)
    return Value(name, arrays[0].dtype.name, [array.shape for array in arrays], arrays, in_graph=True)


@onnx_import("Shape")
def _shape(g: Composer, x: Value) -> Value:
    """A size is known under each assignment, so what is computed of sizes is."""
    part = slice(g.attr("start", 0), g.attr("end"))
    return _value(g, [np.asarray(shape[part], np.int64) for shape in x.shapes], g.node.name)


@onnx_import("Size")
def _size(g: Composer, x: Value) -> Value:
    return _value(g, [np.asarray(math.prod(shape), np.int64) for shape in x.shapes], g.node.name)


@onnx_import("Constant")
def _constant(g: Composer) -> Value:
    for key, dtype in (
        *(("value", None), ("value_float", "float32"), ("value_floats", "float32")),
        *(("value_int", "int64"), ("value_ints", "int64")),
    ):
        if key in g.node.attrs:
            return _value(g, [np.asarray(g.attr(key), dtype)] * g.count, g.node.name)
    g.refuse("its value is text, or sparse")


@onnx_import("ConstantOfShape")
def _constant_of_shape(g: Composer, shape: Value) -> Value:
    g.refuse("its shape is computed at run time", STATIC)


@onnx_import("EyeLike")
def _eye_like(g: Composer, x: Value) -> Value:
    rows, columns = g.static(x)
    if g.attr("dtype") is not None:
        g.refuse("its dtype is given by a number", "Leave the attribute dtype out.")
    return g.op("_eye", N=rows, M=columns, k=g.attr("k", 0), dtype=x.held)


@onnx_import("Reshape")
def _reshape(g: Composer, x: Value, shape: Value | None = None) -> Value:
    """Reshape to numbers: 0 keeps the input's size, and -1 is the size that follows."""
    if shape is None:
        rows = [np.asarray(g.attr("shape"))] * g.count
    elif shape.arrays is None:
        g.refuse("its shape is computed at run time", STATIC)
    else:
        rows = list(shape.arrays)
    keep = bool(g.attr("allowzero", 0))
    targets = [_resolved(g, old, row, keep) for old, row in zip(x.shapes, rows, strict=True)]
    first = [int(size) for size in rows[0].reshape(-1)]
    fixed = all(np.array_equal(row, rows[0]) for row in rows)
    plain = fixed and bool(first) and not keep and all(size >= -1 for size in first)
    return reshape(g, x, targets, first if plain else None)


def _resolved(g: Composer, old: Numbers, target: np.ndarray, keep: bool) -> Numbers:
    """Return the shape that a target means. Raises OnnxError for one that does not fit."""
    if target.size > MAX_RANK:
        g.refuse(f"its shape has {target.size} sizes, more than {MAX_RANK}")
    sizes = [int(size) for size in target.reshape(-1)]
    if not keep:
        if any(size == 0 and i >= len(old) for i, size in enumerate(sizes)):
            g.refuse(f"its shape {sizes} keeps sizes that {old} does not have")
        sizes = [old[i] if size == 0 else size for i, size in enumerate(sizes)]
    if -1 in sizes:
        product = -math.prod(sizes)
        if sizes.count(-1) > 1 or product <= 0 or math.prod(old) % product:
            g.refuse(f"{old} cannot be reshaped to {sizes}")
        sizes[sizes.index(-1)] = math.prod(old) // product
    if min(sizes, default=1) < 0 or math.prod(sizes) != math.prod(old):
        g.refuse(f"{old} cannot be reshaped to {sizes}")
    return tuple(sizes)


@onnx_import("Flatten")
def _flatten(g: Composer, x: Value) -> Value:
    axis = g.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if axis == 1 and x.ndim > 1:
        return x if x.ndim == 2 else g.op("Flatten", x, gives=x.dtype)
    return reshape(g, x, [(math.prod(shape[:axis]), math.prod(shape[axis:])) for shape in x.shapes])


@onnx_import("Squeeze")
def _squeeze(g: Composer, x: Value, axes: Value | None = None) -> Value:
    numbers = g.numbers("axes", axes)
    return squeeze(g, x, numbers if numbers is not None else [axis for axis in range(x.ndim) if x.shape[axis] == 1])


@onnx_import("Unsqueeze")
def _unsqueeze(g: Composer, x: Value, axes: Value | None = None) -> Value:
    return expand_dims(g, x, g.numbers("axes", axes, []))


@onnx_import("Transpose")
def _transpose(g: Composer, x: Value) -> Value:
    order = [g.axis(axis, x.ndim) for axis in g.attr("perm", list(range(x.ndim))[::-1])]
    if sorted(order) != list(range(x.ndim)):
        g.refuse(f"its perm {order} is not an order of {x.ndim} axes")
    return transpose(g, x, order)


@onnx_import("Expand")
def _expand(g: Composer, x: Value, shape: Value) -> Value:
    if shape.arrays is None:
        g.refuse("its shape is computed at run time", STATIC)
    targets = [tuple(int(size) for size in row.reshape(-1)) for row in shape.arrays]
    array = x.array
    if array is not None and array.size and not np.any(array - array.reshape(-1)[0]):
        try:
            shapes = [np.broadcast_shapes(x_shape, target) for x_shape, target in zip(x.shapes, targets, strict=True)]
        except ValueError:
            g.refuse(f"{x.name!r}, {x.shape}, does not broadcast to {targets[0]}")
        return filled(g, shapes, array.reshape(-1)[0].item(), x.dtype)
    return broadcast(g, x, targets)


@onnx_import("Tile")
def _tile(g: Composer, x: Value, repeats: Value) -> Value:
    reps = tuple(int(count) for count in g.constant_value(repeats, "repeats"))
    return x if set(reps) == {1} else g.op("tile", x, reps=reps, gives=x.dtype)


@onnx_import("Concat")
def _concat(g: Composer, *inputs: Value) -> Value:
    inputs = tuple(value for value in inputs if 0 not in value.shapes[0]) or inputs[:1]
    axis = g.axis(g.attr("axis", 1), inputs[0].ndim)
    if len(inputs) == 1:
        return inputs[0]
    return g.op("Concat", *alike(g, *inputs), dim=axis, gives=inputs[0].dtype)


@onnx_import("Split")
def _split(g: Composer, x: Value, split: Value | None = None) -> list[Value]:
    """Into parts of the sizes given, else of one size; a last part may be smaller."""
    axis, parts = g.axis(g.attr("axis", 0), x.ndim), len(g.node.used)
    if g.attr("num_outputs", parts) != parts:
        g.refuse(f"it has {parts} outputs, but num_outputs={g.attr('num_outputs')}")
    sizes = g.numbers("split", split)
    if sizes is None:
        length = x.shape[axis]
        if length is None or length % parts:
            length = g.static(x, [axis])[axis]
            step = -(-length // parts)
            sizes = [min(step, length - i * step) for i in range(parts)]
    if sizes is None or (len(set(sizes)) == 1 and sum(sizes) == x.shape[axis]):
        if parts == 1:
            return [x]
        return g.ops("SliceChannel", x, num_outputs=parts, axis=axis, gives=x.dtype)
    if min(sizes) < 1 or sum(sizes) != g.static(x, [axis])[axis]:
        g.refuse(f"its parts {sizes} do not add up to the axis of {x.shape[axis]}")
    begins = np.cumsum([0, *sizes])
    return [g.op("slice_axis", x, axis=axis, begin=int(a), end=int(b), gives=x.dtype) for a, b in pairwise(begins)]


@onnx_import("DepthToSpace")
def _depth_to_space(g: Composer, x: Value) -> Value:
    size = _block(g, x)
    if not _columns_first(g):
        return g.op("depth_to_space", x, block_size=size)
    six = reshape(g, x, [(n, c // size**2, size, size, h, w) for n, c, h, w in x.shapes])
    moved = transpose(g, six, (0, 1, 4, 2, 5, 3))
    return reshape(g, moved, [(n, c // size**2, h * size, w * size) for n, c, h, w in x.shapes])


@onnx_import("SpaceToDepth")
def _space_to_depth(g: Composer, x: Value) -> Value:
    size = _block(g, x)
    if not _columns_first(g):
        return g.op("space_to_depth", x, block_size=size)
    if any(h % size or w % size for _, _, h, w in x.shapes):
        g.refuse(f"{x.shape} cannot be divided into blocks of {size}")
    six = reshape(g, x, [(n, c, h // size, size, w // size, size) for n, c, h, w in x.shapes])
    moved = transpose(g, six, (0, 1, 3, 5, 2, 4))
    return reshape(g, moved, [(n, c * size**2, h // size, w // size) for n, c, h, w in x.shapes])


def _block(g: Composer, x: Value) -> int:
    size = g.attr("blocksize")
    if x.ndim != 4 or size is None or size < 1:
        g.refuse(f"it needs a blocksize of 1 or more and data (n, c, h, w), and has {size} and {x.shape}")
    return size


def _columns_first(g: Composer) -> bool:
    """Return whether a block's elements are the inner part of the channels; in MXNet's operators they are the outer."""
    mode = g.attr("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        g.refuse(f"its mode must be DCR or CRD, not {mode!r}")
    return mode == "CRD"


@onnx_import("Trilu")
def _trilu(g: Composer, x: Value, k: Value | None = None) -> Value:
    """Return zeros above or below a diagonal."""
    rows, columns = g.static(x, [-2, -1])[-2:]
    offset = 0 if k is None else max(-rows, min(int(g.constant_value(k, "k").item()), columns))
    g.reserve(2, rows, columns)  # what NumPy makes of the ones
    ones = g.full((rows, columns), 1.0)
    mask = g.constant(np.triu(ones, offset) if g.attr("upper", 1) else np.tril(ones, offset), name="mask")
    wide = mask if x.ndim == 2 else g.op("broadcast_like", expand_dims(g, mask, range(x.ndim - 2)), x)
    return g.op("where", wide, x, g.op("zeros_like", x), gives=x.dtype)
