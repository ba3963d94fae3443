"""Functions that move elements: shapes, axes, parts, joins, orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowering.mx.accepted_types import AxisLike, ContextLike, DType, ShapeLike
from lowering.mx.ndarray.array import NUMPY, require_arrays
from lowering.mx.numpy.elementwise import apply_binary
from lowering.mx.numpy.operators import (
    DialectValueError,
    Operators,
    UnsupportedError,
    is_number,
    require_order,
    unsupported,
)
from symjax_nnvm.errors import SymbolIndexError, SymbolTypeError


def reshape(op: Operators, a: Any, newshape: Any, order: str = "C", out: Any = None) -> Any:
    """The elements in another shape, in which one size may be -1."""
    return op("_np_reshape", a, newshape=newshape, order=order, out=out)


def ravel(op: Operators, x: Any, order: str = "C") -> Any:
    """The elements on one axis."""
    require_order(order)
    if is_number(x):
        return np.reshape(x, -1)
    if not isinstance(x, op.kind):
        raise unsupported(x)
    return op("_np_reshape", x, newshape=-1)


def resize(op: Operators, a: Any, new_shape: Any) -> Any:
    """The elements, repeated as often as a shape needs them."""
    shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    elements = op("_npi_pad", ravel(op, a), pad_width=((0, 1),), mode="constant")  # a zero more: never none
    count = apply_binary(op, "maximum", op("size_array", a) if op.symbolic else a.size, 1)
    places = apply_binary(op, "mod", op("_npi_arange", start=0, stop=math.prod(shape), dtype="int32"), count)
    return op("_np_reshape", op("_npi_take", elements, places, axis=0, mode="clip"), newshape=shape)


def squeeze(op: Operators, a: Any, axis: AxisLike = None, out: Any = None) -> Any:
    """The array without axes of one element."""
    return op("_np_squeeze", a, axis=axis, out=out)


def expand_dims(op: Operators, a: Any, axis: int) -> Any:
    """The array with a new axis of one element."""
    return op("_npi_expand_dims", a, axis=axis)


def transpose(op: Operators, a: Any, axes: Sequence[int] | None = None) -> Any:
    """The array with its axes in another order, by default in reverse. Raises DialectValueError, a ValueError, for an
    axis that is named twice."""
    if axes is not None and len(set(axes)) < len(axes):
        raise DialectValueError("Repeated axis in transpose", got=tuple(axes))
    return op("_np_transpose", a, axes=axes)


def swapaxes(op: Operators, a: Any, axis1: int, axis2: int) -> Any:
    """The array with two axes exchanged."""
    return op("_npi_swapaxes", a, dim1=axis1, dim2=axis2)


def moveaxis(op: Operators, a: Any, source: Any, destination: Any) -> Any:
    """The array with axes at other places."""
    return op("_np_moveaxis", a, source=source, destination=destination)


def broadcast_to(op: Operators, array: Any, shape: ShapeLike) -> Any:
    """The array in a shape that it broadcasts to."""
    if is_number(array):
        array = op("_npi_full", shape=(1,), value=array)
    return op("_npi_broadcast_to", array, shape=shape)


def repeat(op: Operators, a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element repeated, along an axis or of the flat array."""
    return op("_np_repeat", a, repeats=repeats, axis=axis)


def tile(op: Operators, A: Any, reps: Any) -> Any:
    """The array repeated along each axis."""
    if is_number(A):
        return np.tile(A, reps)
    if not isinstance(A, op.kind):
        raise unsupported(A)
    return op("_npi_tile", A, reps=reps)


def flip(op: Operators, m: Any, axis: AxisLike = None, out: Any = None) -> Any:
    """The array in reverse order along axes, by default all."""
    if is_number(m):
        return np.flip(m, axis)
    if not isinstance(m, op.kind):
        raise unsupported(m)
    return op("_npi_flip", m, axis=axis, out=out)


def flipud(op: Operators, m: Any) -> Any:
    """The array in reverse order along its first axis."""
    return flip(op, m, 0)


def fliplr(op: Operators, m: Any) -> Any:
    """The array in reverse order along its second axis."""
    return flip(op, m, 1)


def roll(op: Operators, a: Any, shift: Any, axis: AxisLike = None) -> Any:
    """The elements moved along axes; those that leave come in at the other end."""
    return op("_np_roll", a, shift=shift, axis=axis)


def rot90(op: Operators, m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """The array turned by k right angles in the plane of two axes."""
    return op("_npi_rot90", m, k=k, axes=axes)


def pad(op: Operators, x: Any, pad_width: Any = None, mode: str = "constant", **kwargs: Any) -> Any:
    """The array with elements around it. pad_width: ((before, after), …) for each axis. mode: constant with
    constant_values=, edge, reflect, symmetric, maximum or minimum."""
    if not isinstance(pad_width, tuple) or np.asarray(pad_width).dtype.kind != "i":
        raise SymbolTypeError("`pad_width` must be a tuple of whole numbers", got=repr(pad_width)[:80])
    extra = {"constant": ("constant_values",), "reflect": ("reflect_type",), "symmetric": ("reflect_type",)}
    extra |= {"maximum": ("stat_length",), "minimum": ("stat_length",), "edge": ()}
    if mode not in extra:
        raise DialectValueError(f"mode {{{mode!r}}} is not supported.", expected=", ".join(extra))
    unknown = [key for key in kwargs if key not in extra[mode]]
    if unknown:
        raise DialectValueError(f"unsupported keyword arguments for mode {mode!r}: {unknown}")
    if kwargs.get("reflect_type", "even") not in ("even", None) or kwargs.get("stat_length") is not None:
        raise DialectValueError(f"unsupported keyword arguments for mode {mode!r}: {kwargs}")
    ndim = 0 if op.symbolic else x.ndim
    try:
        widths = np.broadcast_to(np.asarray(pad_width), (ndim, 2)).tolist() if ndim else pad_width
    except ValueError:
        raise DialectValueError("`pad_width` is wrong", expected=f"{ndim} pairs", got=repr(pad_width)) from None
    params = {"constant_value": kwargs.get("constant_values", 0)} if mode == "constant" else {}
    return op("_npi_pad", x, pad_width=tuple(map(tuple, widths)), mode=mode, **params)


# -- joins and splits ------------------------------------------------------------------------------------------------


def concatenate(op: Operators, seq: Sequence[Any], axis: int | None = 0, out: Any = None) -> Any:
    """Arrays one after the other along an axis; None: their elements on one axis."""
    return op("_npi_concatenate", *seq, axis=axis, out=out)


def append(op: Operators, arr: Any, values: Any, axis: int | None = None) -> Any:
    """An array and another behind it."""
    return op("_npi_concatenate", arr, values, axis=axis)


def stack(op: Operators, arrays: Sequence[Any], axis: int = 0, out: Any = None) -> Any:
    """Arrays of one shape along a new axis."""
    return op("_npi_stack", *arrays, axis=axis, out=out)


def _joined(operator: str, doc: str) -> Callable[..., Any]:

    def function(op: Operators, arrays: Sequence[Any], out: Any = None) -> Any:
        return op(operator, *arrays, out=out)

    function.__name__, function.__doc__ = operator.removeprefix("_npi_"), doc
    return function


vstack = _joined("_npi_vstack", "Arrays one below the other.")
hstack = _joined("_npi_hstack", "Arrays side by side: along the second axis, of one axis along that.")
dstack = _joined("_npi_dstack", "Arrays along the third axis.")
column_stack = _joined("_npi_column_stack", "Arrays of one axis as the columns of a matrix.")


def _parts(indices_or_sections: Any) -> tuple[list[int], int]:
    """Return (indices of the parts after the first, 0), or ([], how many parts)."""
    if isinstance(indices_or_sections, int | np.integer):
        return [], int(indices_or_sections)
    if isinstance(indices_or_sections, list | tuple | set):
        return [0, *indices_or_sections], 0
    raise DialectValueError("indices_or_sections must be either int, or tuple / list / set of ints")


def _listed(out: Any) -> list[Any]:
    return out if isinstance(out, list) else [out] if not hasattr(out, "list_outputs") else list(out)


def array_split(op: Operators, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis: a number of parts, the first ones a row longer if needed, or parts between indices."""
    indices, sections = _parts(indices_or_sections)
    return _listed(op("_npi_split", ary, indices=indices, axis=axis, squeeze_axis=False, sections=sections))


def split(op: Operators, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts along an axis, or parts between indices. Raises DialectValueError, a ValueError."""
    _, sections = _parts(indices_or_sections)
    if sections and not op.symbolic and ary.shape[axis] % sections:
        raise DialectValueError("array split does not result in an equal division")
    return array_split(op, ary, indices_or_sections, axis)


def _split_along(name: str, axis: int) -> Callable[..., Any]:

    def function(op: Operators, ary: Any, indices_or_sections: Any) -> list[Any]:
        least = {"hsplit": 1, "vsplit": 2, "dsplit": 3}[name]
        if not op.symbolic and ary.ndim < least:
            raise DialectValueError(f"{name} only works on arrays of {least} or more dimensions")
        if op.symbolic and name != "vsplit":
            indices, sections = _parts(indices_or_sections)
            return _listed(op(f"_npi_{name}", ary, indices=indices, axis=axis, squeeze_axis=False, sections=sections))
        return split(op, ary, indices_or_sections, 0 if name == "hsplit" and ary.ndim == 1 else axis)

    function.__name__ = name
    function.__doc__ = f"Parts along axis {axis}: a number of equal parts, or parts between indices."
    return function


hsplit, vsplit, dsplit = (_split_along(f"{name}split", axis) for name, axis in (("h", 1), ("v", 0), ("d", 2)))


def _at_least(ndim: int) -> Callable[..., Any]:
    operator = f"_np_atleast_{ndim}d"

    def function(op: Operators, *arys: Any) -> Any:
        return op(operator, *arys)

    function.__name__ = operator.removeprefix("_np_")
    function.__doc__ = f"Arrays with at least {ndim} axes: one, or a list of several."
    return function


# -- parts, orders, diagonals ----------------------------------------------------------------------------------------


def take(op: Operators, a: Any, indices: Any, axis: int | None = None, mode: str = "raise", out: Any = None) -> Any:
    """The elements at indices along an axis, or of the flat array. mode: raise, clip or wrap for indices out of
    range."""
    if mode not in ("wrap", "clip", "raise"):
        raise UnsupportedError(f"function take does not support mode '{mode}'")
    if axis is None:
        a, axis = op("_np_reshape", a, newshape=-1), 0
    if mode == "raise" and not op.symbolic and -a.ndim <= axis < a.ndim:
        _refuse_out_of_range(a, indices, axis)
    return op("_npi_take", a, indices, axis=axis, mode=mode, out=out)


def _refuse_out_of_range(a: Any, indices: Any, axis: int) -> None:
    """Raise SymbolIndexError, an IndexError, for indices that an axis does not have."""
    numbers, length = np.asarray(indices), a.shape[axis]
    if numbers.dtype == object:
        require_arrays([indices], "Argument indices", NUMPY)
    if numbers.size and not (-length <= numbers.min() and numbers.max() < length):
        problem = f"take operator contains indices out of bound for axis {axis} with size {length}"
        raise SymbolIndexError(problem, fix='mode="clip" or mode="wrap" takes them.')


def sort(op: Operators, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The elements in order along an axis, or of the flat array."""
    if order is not None:
        raise UnsupportedError("order not supported here")
    return op("_npi_sort", a, axis=axis, is_ascend=True)


def argsort(op: Operators, a: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The indices that sort an axis, or the flat array."""
    if order is not None:
        raise UnsupportedError("order not supported here")
    return op("_npi_argsort", a, axis=axis, is_ascend=True, dtype="int64")


def unique(
    op: Operators,
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The different elements in order, or rows along an axis; with where they are, what they make, how often they
    come."""
    flags = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    results = op("_npi_unique", ar, **flags, axis=axis)
    return tuple(results) if isinstance(results, list) else results


def diff(op: Operators, a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences of neighbours along an axis."""
    if prepend is not None or append is not None:
        raise UnsupportedError("prepend and append options are not supported yet")
    return op("_npi_diff", a, n=n, axis=axis)


def ediff1d(op: Operators, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of neighbours in the flat array, with numbers or arrays before and behind."""
    begin, end = isinstance(to_begin, op.kind), isinstance(to_end, op.kind)
    ends = [value for value, is_array in ((to_begin, begin), (to_end, end)) if is_array]
    numbers = {"to_begin_scalar": None if begin else to_begin, "to_end_scalar": None if end else to_end}
    return op("_npi_ediff1d", ary, *ends, to_begin_arr_given=begin, to_end_arr_given=end, **numbers)


def _index(obj: Any, kind: type) -> dict[str, Any] | None:
    """Return the parameters of a slice or a number; None for an array."""
    if isinstance(obj, slice):
        return {"start": obj.start, "stop": obj.stop, "step": 1 if obj.step is None else obj.step}
    if isinstance(obj, int | np.integer):
        return {"int_ind": int(obj)}
    if isinstance(obj, kind):
        return None
    raise SymbolTypeError(f"'obj' can not support type {type(obj)}")


def delete(op: Operators, arr: Any, obj: Any, axis: int | None = None) -> Any:
    """The array without the elements at a number, a slice or an array of indices along an axis. In an array, indices
    that are negative or not there mean nothing."""
    if not isinstance(arr, op.kind):
        raise SymbolTypeError(f"'arr' can not support type {type(arr)}")
    index = _index(obj, op.kind)
    return op("_npi_delete", arr, obj, axis=axis) if index is None else op("_npi_delete", arr, axis=axis, **index)


def insert(op: Operators, arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values before a number, a slice or an array of indices along an axis."""
    if not isinstance(arr, op.kind):
        raise SymbolTypeError(f"'arr' can not support type {type(arr)}")
    number = is_number(values)
    if not number and not isinstance(values, op.kind):
        raise SymbolTypeError(f"'values' can not support type {type(values)}")
    index = _index(obj, op.kind)
    inputs, params = ((arr,), {"val": values}) if number else ((arr, values), {})
    if index is None:
        return op("_npi_insert_tensor", *inputs, obj, axis=axis, **params)
    operator = "_npi_insert_slice" if isinstance(obj, slice) else "_npi_insert_scalar"
    return op(operator, *inputs, axis=axis, **index, **params)


def tril(op: Operators, m: Any, k: int = 0) -> Any:
    """The matrix with zeros above diagonal k."""
    return op("_npi_tril", m, k=k)


def diag(op: Operators, array: Any, k: int = 0) -> Any:
    """Diagonal k of a matrix, or a matrix with that diagonal."""
    return op("_np_diag", array, k=k)


def diagflat(op: Operators, array: Any, k: int = 0) -> Any:
    """A matrix with the elements on diagonal k."""
    return op("_np_diagflat", array, k=k)


def diagonal(op: Operators, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Diagonals of the planes of two axes."""
    return op("_np_diagonal", a, offset=offset, axis1=axis1, axis2=axis2)


def trace(op: Operators, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, out: Any = None) -> Any:
    """The sums of diagonals."""
    return op("_np_trace", a, offset=offset, axis1=axis1, axis2=axis2, out=out)


def diag_indices_from(op: Operators, arr: Any) -> Any:
    """The indices of the main diagonal, an array for each axis; of a symbol the rows of one. Raises DialectValueError,
    a ValueError, where axes differ."""
    if not op.symbolic and (arr.ndim < 2 or len({*arr.shape}) > 1):
        problem = "All dimensions of input must be of equal length"
        raise DialectValueError(problem, expected="two axes or more", got=arr.shape)
    indices = op("_npi_diag_indices_from", arr)
    return indices if op.symbolic else tuple(indices)


def copy(op: Operators, a: Any, out: Any = None, order: str = "C") -> Any:
    """A copy of the array. order: changes nothing."""
    return op("_np_copy", a, out=out)


def full_like(
    op: Operators,
    a: Any,
    fill_value: float,
    dtype: DType = None,
    order: str = "C",
    ctx: ContextLike = None,
    out: Any = None,
) -> Any:
    """One number in the shape and dtype of an array."""
    require_order(order)
    return op("_npi_full_like", a, fill_value=float(fill_value), dtype=dtype, out=out)


def zeros_like(
    op: Operators, a: Any, dtype: DType = None, order: str = "C", ctx: ContextLike = None, out: Any = None
) -> Any:
    """Zeros in the shape and dtype of an array."""
    return full_like(op, a, 0, dtype, order, ctx, out)


def ones_like(
    op: Operators, a: Any, dtype: DType = None, order: str = "C", ctx: ContextLike = None, out: Any = None
) -> Any:
    """Ones in the shape and dtype of an array."""
    return full_like(op, a, 1, dtype, order, ctx, out)


def empty_like(
    op: Operators,
    prototype: Any,
    dtype: DType = None,
    order: str = "C",
    subok: bool = False,
    shape: ShapeLike | None = None,
) -> Any:
    """An array of that shape and dtype to be written: zeros."""
    if subok or shape is not None:
        raise UnsupportedError("subok and shape are not supported")
    return full_like(op, prototype, 0, dtype, order)


# -- products --------------------------------------------------------------------------------------------------------


def dot(op: Operators, a: Any, b: Any, out: Any = None) -> Any:
    """The product of matrices, vectors, and numbers with arrays."""
    return op("_np_dot", a, b, out=out)


def matmul(op: Operators, a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
    """The product of matrices on the last two axes; those before broadcast."""
    return op("_npi_matmul", a, b, out=out)


def tensordot(op: Operators, a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum of products over axes: a number of last and first ones, or two lists of axes."""
    if isinstance(axes, int | np.integer):
        return op("_npi_tensordot_int_axes", a, b, axes=int(axes))
    if not isinstance(axes, list | tuple) or len(axes) != 2:
        raise SymbolTypeError(
            "Wrong axes of tensordot", expected="a number, or axes of a and axes of b", got=repr(axes)
        )
    of_a, of_b = ((side,) if isinstance(side, int) else tuple(side) for side in axes)
    return op("_npi_tensordot", a, b, a_axes_summed=of_a, b_axes_summed=of_b)


def inner(op: Operators, a: Any, b: Any) -> Any:
    """The sum of products over the last axes."""
    return tensordot(op, a, b, (-1, -1))


def outer(op: Operators, a: Any, b: Any) -> Any:
    """The products of each element with each."""
    return tensordot(op, ravel(op, a), ravel(op, b), 0)


def vdot(op: Operators, a: Any, b: Any) -> Any:
    """The sum of products of all elements."""
    return tensordot(op, ravel(op, a), ravel(op, b), 1)


def einsum(op: Operators, *operands: Any, **kwargs: Any) -> Any:
    """Einstein's sum: subscripts, then the arrays."""
    subscripts, *arrays = operands
    optimize = int(bool(kwargs.pop("optimize", False)))
    return op("_npi_einsum", *arrays, subscripts=subscripts, optimize=optimize, **kwargs)


def polyval(op: Operators, p: Any, x: Any) -> Any:
    """The polynomial of these coefficients, the highest first, at each element."""
    if isinstance(p, op.kind) and isinstance(x, op.kind):
        return op("_npi_polyval", p, x)
    if not isinstance(p, op.kind) and not isinstance(x, op.kind):
        return np.polyval(p, x)
    raise SymbolTypeError("type not supported", expected="two arrays of mx.np, or none")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        function.__name__: function
        for function in (
            *(reshape, ravel, resize, squeeze, expand_dims, transpose, swapaxes, moveaxis, broadcast_to, repeat, tile),
            *(flip, flipud, fliplr, roll, rot90, pad, concatenate, append, stack, vstack, hstack, dstack, column_stack),
            *(array_split, split, hsplit, vsplit, dsplit, take, sort, argsort, unique, diff, ediff1d, delete, insert),
            *(tril, diag, diagflat, diagonal, trace, diag_indices_from, copy, full_like, zeros_like, ones_like),
            *(empty_like, dot, matmul, tensordot, inner, outer, vdot, einsum, polyval),
            *(_at_least(ndim) for ndim in (1, 2, 3)),
        )
    },
    "row_stack": vstack,
}
