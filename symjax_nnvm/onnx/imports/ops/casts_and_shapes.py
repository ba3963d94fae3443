"""Pieces that forms share: casts, shapes in MXNet's words, axes in another order, slices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symjax_nnvm.ir.types import MAX_RANK, DType, is_float
from symjax_nnvm.onnx.imports.composer import STATIC, WIDER, Composer
from symjax_nnvm.onnx.imports.file_values import Numbers, Value
from symjax_nnvm.onnx.tensors import Sizes, fixed
from symjax_nnvm.symbol.symbol import Symbol


def cast(g: Composer, x: Value, dtype: DType) -> Value:
    """The numbers in a dtype; as truth values, whether they are not 0."""
    if dtype == "bool":
        return x if x.dtype == "bool" else g.op("_not_equal_scalar", x, scalar=0.0, gives="bool")
    value = held_as(g, x, dtype)
    return value if value.dtype == dtype else Value(value.name, dtype, value.shapes, None, value.symbol, value.held)


def held_as(g: Composer, x: Value, dtype: DType) -> Value:
    """x with ONNX' dtype, whose symbol has another."""
    g.symbol(x)
    return x if x.held == dtype else g.op("Cast", x, dtype=dtype, gives=x.dtype)


def alike(g: Composer, *values: Value) -> list[Value]:
    """Values whose symbols have one dtype: that of numbers, which is ONNX' where one of them has it. Truth values of
    comparisons may be of any dtype, and whole numbers narrower than ONNX'."""
    for value in values:
        g.symbol(value)
    numbers = [value for value in values if value.held != "bool"] or values
    dtype = next((value.held for value in numbers if value.held == value.dtype), numbers[0].held)
    return [held_as(g, value, dtype) for value in values]


def reshape(g: Composer, x: Value, shapes: Sequence[Numbers], codes: Sequence[int] | None = None) -> Value:
    """x in the shapes given under each assignment. codes: the file's numbers, 0 and -1.

    Raises OnnxError where the shapes follow from sizes that run time decides in another way than Reshape knows.
    """
    if list(shapes) == list(x.shapes):
        return x
    if x.symbol is None and x.arrays is not None:
        for array in x.arrays:
            if not array.flags.c_contiguous:  # which is copied
                g.reserve(*array.shape, dtype=x.dtype)
        arrays = [array.reshape(shape) for array, shape in zip(x.arrays, shapes, strict=True)]
        return g.like(x, arrays, f"{x.name}_reshaped")
    target = list(codes) if codes is not None else _codes(x, shapes)
    if target is None:
        target_sizes = [fixed(sizes) for sizes in zip(*shapes, strict=True)]
        g.refuse(f"several sizes of the shape {target_sizes} of {x.name!r} are known only at run time", STATIC)
    arrays = (
        x if [shape or (1,) for shape in shapes] == x.symbol_shapes else g.op("Reshape", x, shape=tuple(target) or (1,))
    )
    return Value(arrays.name, x.dtype, list(shapes), None, arrays.symbol, x.held)


def _codes(x: Value, shapes: Sequence[Numbers]) -> list[int] | None:
    """A shape in Reshape's words: 0 for a size in its place, -1 for what is left, -3 for two axes as one. None: there
    are none."""
    columns = list(zip(*shapes, strict=True))
    sizes = x.sizes
    same = [fixed(column) for column in columns]
    plain = [0 if size is None and i < len(sizes) and column == sizes[i] else -1 if size is None else size
             for i, (column, size) in enumerate(zip(columns, same, strict=True))]  # fmt: skip
    if plain.count(-1) <= 1 and 0 not in [size for size in same if size is not None]:
        return plain
    codes: list[int] = []
    at = 0
    for column in columns:
        if at < len(sizes) and column == sizes[at]:
            codes.append(0)
            at += 1
        elif at + 1 < len(sizes) and column == tuple(a * b for a, b in zip(sizes[at], sizes[at + 1], strict=True)):
            codes.append(-3)
            at += 2
        else:
            return None
    return codes if at == len(sizes) else None


def transpose(g: Composer, x: Value, order: Sequence[int]) -> Value:
    """x with its axes in another order."""
    if list(order) == list(range(x.ndim)):
        return x
    if x.symbol is None and x.array is not None:
        return g.weight(x, x.array.transpose(order), f"transposed{''.join(map(str, order))}")
    return g.op("transpose", x, axes=tuple(order), gives=x.dtype)


def expand_dims(g: Composer, x: Value, axes: Sequence[int]) -> Value:
    """x with axes of length 1, in their places of the result."""
    ndim = x.ndim + len(axes)
    if ndim > MAX_RANK:
        g.refuse(f"its result has {ndim} axes, more than {MAX_RANK}")
    places = sorted(g.axis(axis, ndim) for axis in axes)
    if len(set(places)) < len(places):
        g.refuse(f"its axes {list(axes)} are not different")
    if not places:
        return x
    if x.ndim and x.arrays is None and (len(places) == 1 or None in x.shape):
        for axis in places:
            x = g.op("expand_dims", x, axis=axis, gives=x.dtype)
        return x
    shapes = [list(shape) for shape in x.shapes]
    for axis in places:
        for shape in shapes:
            shape.insert(axis, 1)
    return reshape(g, x, [tuple(shape) for shape in shapes])


def squeeze(g: Composer, x: Value, axes: Sequence[int]) -> Value:
    """x without axes, which have length 1."""
    gone = {g.axis(axis, x.ndim) for axis in axes}
    if any(x.shape[axis] != 1 for axis in gone):
        g.refuse(f"the axes {sorted(gone)} of {x.name!r}, {x.shape}, do not have length 1")
    shapes = [tuple(size for axis, size in enumerate(shape) if axis not in gone) for shape in x.shapes]
    if not gone or x.arrays is not None or len(gone) == x.ndim:
        return reshape(g, x, shapes)
    return g.op("squeeze", x, axis=tuple(sorted(gone)), gives=x.dtype)


def cut(g: Composer, x: Value, axis: int, begin: int, end: int | None) -> Value:
    """The part of an axis."""
    if begin == 0 and (end is None or end == x.shape[axis]):
        return x
    return g.op("slice_axis", x, axis=axis, begin=begin, end=end, gives=x.dtype)


def broadcast(g: Composer, x: Value, shapes: Sequence[Numbers]) -> Value:
    """x broadcast to the shapes given under each assignment. Raises OnnxError where run time decides a size that x has
    not."""
    ndim = max(len(shapes[0]), x.ndim)
    wide = expand_dims(g, x, range(ndim - x.ndim))
    try:
        targets = [np.broadcast_shapes(shape, before) for shape, before in zip(shapes, wide.shapes, strict=True)]
    except ValueError:
        g.refuse(f"{x.name!r}, {x.shape}, does not broadcast to {shapes[0]}")
    if targets == list(wide.shapes):
        return wide
    if any(0 in target for target in targets):
        g.refuse("its result is empty, and MXNet has no empty arrays")
    sizes: list[int] = []
    for axis, column in enumerate(zip(*targets, strict=True)):
        size = 0 if column == wide.sizes[axis] else fixed(column)
        if size is None:
            g.refuse(f"how often axis {axis} of {x.name!r} is repeated is known only at run time", STATIC)
        sizes.append(size)
    return g.op("broadcast_to", wide, shape=tuple(sizes), gives=x.dtype)


def pad(
    g: Composer, x: Value, before: Sequence[int], after: Sequence[int], value: float = 0.0, mode: str = "constant"
) -> Value:
    """x with a border; a negative one is cut off."""
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        if low < 0 or high < 0:
            x = cut(g, x, axis, max(-low, 0), min(high, 0) or None)
    widths = [max(width, 0) for pair in zip(before, after, strict=True) for width in pair]
    if not any(widths):
        return x
    return g.op("Pad", x, mode=mode, pad_width=tuple(widths), constant_value=value, gives=x.dtype)


def scaled(g: Composer, x: Value, factor: float) -> Value:
    """factor · x."""
    return x if factor == 1 else g.op("_mul_scalar", x, scalar=float(factor))


def filled(g: Composer, shapes: Sequence[Numbers], value: float, dtype: DType = "float32") -> Value:
    """An array of one number; where run time decides its sizes, they are those of an input."""
    columns = list(zip(*shapes, strict=True))
    numbers = [fixed(column) for column in columns]
    if None not in numbers:
        return g.constant(g.full(shapes[0], value, dtype))
    zeros = cast(g, g.op("zeros_like", _like_an_input(g, columns)), dtype)
    result = broadcast(g, zeros, shapes)
    return g.op("_plus_scalar", result, scalar=float(value)) if value else result


def _like_an_input(g: Composer, columns: Sequence[Sizes]) -> Value:
    """Return a part of an input that has the sizes which run time decides in their places, and 1 elsewhere."""
    like = g.input_with(tuple(column for column in columns if fixed(column) is None))
    if like is not None:
        x, axes = like
        for axis in set(range(x.ndim)) - set(axes):
            x = cut(g, x, axis, 0, 1)
        x = squeeze(g, x, sorted(set(range(x.ndim)) - set(axes)))
        return expand_dims(g, x, [i for i, column in enumerate(columns) if fixed(column) is not None])
    g.refuse(f"run time decides the sizes {[fixed(column) for column in columns]}, which no input has", STATIC)


def of_sizes(g: Composer, value: Value) -> Value:
    """A value made of sizes that run time decides: one number all over, or steps along an axis of an input. Raises
    OnnxError for anything else."""
    arrays = list(value.arrays or ())
    first = arrays[0].reshape(-1)
    if all(array.size and np.all(array == first[0]) for array in arrays):
        return filled(g, value.shapes, first[0].item(), value.dtype)
    steps = all(array.size and array.flat[0] == 0 and np.all(np.diff(array.reshape(-1)) == 1) for array in arrays)
    wide = [axis for axis, column in enumerate(value.sizes) if set(column) != {1}]
    like = g.input_with((value.sizes[wide[0]],)) if steps and len(wide) == 1 else None
    if like is not None:
        along = g.op("_contrib_arange_like", like[0], axis=like[1][0])
        return reshape(g, cast(g, along, value.dtype), value.shapes)
    g.refuse(f"{value.name!r} is made of sizes that run time decides", STATIC)


def entering(g: Composer, x: Value) -> Value:
    """A value whose symbol comes from outside: without axes it may be () or (1,), and is (1,) from here on."""
    if x.ndim:
        return x
    single = g.op("Reshape", x, shape=(1,), gives=x.dtype)
    return Value(x.name, x.dtype, x.shapes, None, single.symbol, x.held)


def leaving(g: Composer, x: Value) -> Symbol:
    """The symbol of an output of the network: of ONNX' dtype, where MXNet has a cast to it, and of ONNX' shape. What
    drops the only axis is MXNet's split."""
    g.symbol(x)
    if x.dtype not in WIDER:
        x = held_as(g, x, x.dtype)
    if x.ndim:
        return g.symbol(x)
    return g.symbol(g.op("SliceChannel", x, num_outputs=1, axis=0, squeeze_axis=True))


def need_float(g: Composer, x: Value) -> None:
    """Refuse whole numbers, which the operator here does not take."""
    g.symbol(x)
    if not is_float(x.held):
        g.refuse(f"it computes with {x.dtype}, but MXNet's operator only with floating-point numbers")
