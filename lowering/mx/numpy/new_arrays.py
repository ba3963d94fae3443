"""Arrays from nothing, from numbers and from other arrays: `np.array`, `np.zeros`, and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.jax_casts import is_narrowed
from lowering.mx.accepted_types import ContextLike, DType, ShapeLike
from lowering.mx.context import as_context
from lowering.mx.ndarray import creation
from lowering.mx.ndarray.array import NUMPY, NDArray, host, in_dialect, require_arrays
from lowering.mx.ndarray.cells import elements_of
from lowering.mx.numpy.operators import DialectValueError, UnsupportedError, from_host, is_number, require_order
from lowering.mx.tape import recording
from symjax_nnvm.errors import NNVMError, SymbolTypeError

DTYPES = np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8
"""NumPy's types that the dialect has by name."""


class StepError(NNVMError, ZeroDivisionError):
    """A range whose step is 0."""


def array(object: Any, dtype: DType = None, ctx: ContextLike = None) -> Any:
    """An array of anything that is one: NumPy's and this module's in their dtype, all else in float32. ctx: where it
    is; None for the current context, also of an array that is on another.

    Raises DialectValueError, a ValueError, for an array of mx.nd; SymbolTypeError, a TypeError, for anything that is
    not an array.
    """
    if isinstance(object, NDArray):
        if object.dialect != NUMPY:
            problem = "If you're trying to create a mxnet.numpy.ndarray from mx.nd.NDArray, please use the zero-copy "
            raise DialectValueError(f"{problem}as_np_ndarray function.")
        dtype = object.dtype if dtype is None else dtype
        if recording.is_recording() and object.entry is not None:  # the copy is on the tape
            return object.astype(dtype).as_in_ctx(as_context(ctx))
        values = host(object.cell)
    elif isinstance(object, np.ndarray):
        values, dtype = object, object.dtype if dtype is None else dtype
    else:
        if dtype is None:
            dtype = object.dtype if hasattr(object, "dtype") else np.float32
        try:
            numbers = _numbers_of(object)
            try:
                values = np.array(numbers, dtype)
            except OverflowError:  # numbers out of the dtype's range wrap, as those of mx.nd.array do
                values = np.array(numbers).astype(dtype)
        except (ValueError, TypeError) as error:
            raise SymbolTypeError(str(error)) from None
    return from_host(np.asarray(values, _dtype(dtype)), ctx)


def _numbers_of(value: Any) -> Any:
    """Return lists without arrays of this module inside, which NumPy would take element by element."""
    if isinstance(value, NDArray):
        return host(value.cell)
    return [_numbers_of(item) for item in value] if isinstance(value, list | tuple) else value


def _dtype(dtype: DType, default: Any = np.float32) -> np.dtype:
    return creation.native_dtype(default if dtype is None else dtype)


def _filled(shape: ShapeLike, value: Any, dtype: DType, ctx: ContextLike) -> Any:
    sizes = creation.checked_shape(shape)
    kind = _dtype(dtype)
    if is_narrowed(kind):
        return from_host(np.full(sizes, value, kind), ctx)
    return in_dialect(creation.full(sizes, value, ctx, kind), NUMPY)


def zeros(shape: ShapeLike, dtype: DType = None, order: str = "C", ctx: ContextLike = None) -> Any:
    """Zeros, by default float32."""
    require_order(order)
    return _filled(shape, 0, dtype, ctx)


def ones(shape: ShapeLike, dtype: DType = np.float32, order: str = "C", ctx: ContextLike = None) -> Any:
    """Ones, by default float32."""
    require_order(order)
    return _filled(shape, 1, dtype, ctx)


def empty(shape: ShapeLike, dtype: DType = np.float32, order: str = "C", ctx: ContextLike = None) -> Any:
    """An array to be written: zeros."""
    return zeros(shape, dtype, order, ctx)


def full(
    shape: ShapeLike, fill_value: Any, dtype: DType = None, order: str = "C", ctx: ContextLike = None, out: Any = None
) -> Any:
    """One number everywhere, or an array broadcast; of a bool, bools."""
    require_order(order)
    if isinstance(fill_value, NDArray):
        spread = fill_value.broadcast_to(creation.checked_shape(shape))
        return spread if dtype is None else spread.astype(dtype)
    if isinstance(fill_value, bool | np.bool_) and dtype is None:
        dtype = np.bool_
    if out is not None:
        out[:] = fill_value
        return out
    return _filled(shape, fill_value, dtype, ctx)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DType = None, ctx: ContextLike = None) -> Any:
    """Numbers from start, or from 0 where stop is left out, to below stop; by default float32."""
    if stop is None:
        start, stop = 0, start
    if start is None or stop is None:
        raise DialectValueError("start and stop cannot be both None")
    step = 1 if step is None else step
    start, stop, step = (number.item() if isinstance(number, NDArray) else number for number in (start, stop, step))
    if step == 0:
        raise StepError("step cannot be 0")
    kind = _dtype(dtype)
    if is_narrowed(kind):
        return from_host(np.arange(start, stop, step).astype(kind), ctx)
    return in_dialect(creation.arange(start, stop, step, ctx=ctx, dtype=kind), NUMPY)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DType = None,
    axis: int = 0,
    ctx: ContextLike = None,
) -> Any:
    """num numbers at equal distances. retstep: the distance, too."""
    _require_numbers(start, stop, num, axis)
    kind = _dtype(dtype)
    values = np.linspace(start, stop, num, endpoint=endpoint)
    array = from_host(values.astype(kind), ctx)
    return (array, (stop - start) / (num - 1)) if retstep else array


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: DType = None,
    axis: int = 0,
    ctx: ContextLike = None,
) -> Any:
    """num numbers whose logarithms have equal distances."""
    _require_numbers(start, stop, num, axis)
    return from_host(np.logspace(start, stop, num, endpoint=endpoint, base=base).astype(_dtype(dtype)), ctx)


def _require_numbers(start: Any, stop: Any, num: int, axis: int) -> None:
    if not is_number(start) or not is_number(stop):
        raise UnsupportedError("start and stop only support int and float")
    if axis != 0:
        raise UnsupportedError("the function only support axis 0")
    if num < 0:
        raise DialectValueError("num cannot be negative", expected="num ≥ 0", got=num)


def eye(N: Any, M: Any = None, k: Any = 0, dtype: DType = np.float32, **kwargs: Any) -> Any:
    """Ones on diagonal k of a matrix (N, M)."""
    require_order(kwargs.pop("order", "C"))
    N, M, k = (number.item() if isinstance(number, NDArray) else number for number in (N, M, k))
    if N < 0 or (M or 0) < 0:
        raise DialectValueError("negative dimensions are not allowed", got=f"N={N}, M={M}")
    return from_host(np.eye(N, M, k, _dtype(dtype)), kwargs.pop("ctx", None))


def identity(n: int, dtype: DType = None, ctx: ContextLike = None) -> Any:
    """Ones on the diagonal of a matrix (n, n)."""
    if not isinstance(n, int):
        raise SymbolTypeError("Input 'n' should be an integer", got=repr(n))
    if n < 0:
        raise DialectValueError("Input 'n' cannot be negative", got=n)
    return from_host(np.identity(n, _dtype(dtype)), ctx)


def indices(dimensions: Any, dtype: DType = np.int32, ctx: ContextLike = None) -> Any:
    """The index of each element of a shape, along each axis."""
    if not isinstance(dimensions, list | tuple):
        raise DialectValueError("The dimensions must be sequence of ints", got=repr(dimensions))
    return from_host(np.indices(dimensions, _dtype(dtype, np.int32)), ctx)


def _window(name: str) -> Any:

    def function(M: int, dtype: DType = np.float32, ctx: ContextLike = None) -> Any:
        return from_host(getattr(np, name)(M).astype(_dtype(dtype)), ctx)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} window of M points."
    return function


hanning, hamming, blackman = map(_window, ("hanning", "hamming", "blackman"))


def genfromtxt(*args: Any, **kwargs: Any) -> Any:
    """The numbers of a text file, by default in float64, as `numpy.genfromtxt` reads them. ctx: where they go."""
    ctx = kwargs.pop("ctx", None)
    return array(np.genfromtxt(*args, **kwargs), ctx=ctx)


def meshgrid(*xi: Any, **kwargs: Any) -> list[Any]:
    """The coordinates of a grid of arrays of one axis. indexing: "xy" or "ij"."""
    indexing = kwargs.pop("indexing", "xy")
    if kwargs.pop("sparse", False) or not kwargs.pop("copy", True):
        raise UnsupportedError("sparse and copy are not supported")
    if kwargs:
        raise SymbolTypeError(f"meshgrid() got an unexpected keyword argument {next(iter(kwargs))!r}")
    if indexing not in ("xy", "ij"):
        raise DialectValueError("Valid values for `indexing` are 'xy' and 'ij'.", got=indexing)
    order = [1, 0, *range(2, len(xi))] if indexing == "xy" and len(xi) > 1 else [*range(len(xi))]
    sizes = tuple(xi[i].size for i in order)
    along = [x.reshape([-1 if order[axis] == i else 1 for axis in range(len(xi))]) for i, x in enumerate(xi)]
    return [x.broadcast_to(sizes) for x in along]


def broadcast_arrays(*args: Any) -> list[Any]:
    """Arrays in the one shape that all broadcast to."""
    shape = np.broadcast_shapes(*(x.shape for x in args))
    return [x if x.shape == shape else x.broadcast_to(shape) for x in args]


def unravel_index(indices: Any, shape: ShapeLike, order: str = "C") -> Any:
    """Indices of the flat array as indices along each axis."""
    require_order(order)
    try:
        rows = np.unravel_index(int(indices) if is_number(indices) else host(indices.cell), shape)
    except (TypeError, ValueError) as error:  # NumPy's
        raise DialectValueError(f"unravel_index: {error}") from None
    return rows if is_number(indices) else tuple(from_host(row.astype(indices.dtype), indices.ctx) for row in rows)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether two arrays are views of one memory that have an element in common. Raises NotAnArrayError."""
    require_arrays([a, b], "An argument of shares_memory", NUMPY)
    return a.cell.root is b.cell.root and bool(np.isin(elements_of(a.cell), elements_of(b.cell)).any())


may_share_memory = shares_memory


def shape(a: Any) -> tuple[int, ...]:
    """The sizes of the axes."""
    return a.shape if hasattr(a, "shape") else np.shape(a)


def set_printoptions(precision: int | None = None, threshold: int | None = None, **kwarg: Any) -> None:
    """How arrays are printed: NumPy's own options."""
    np.set_printoptions(precision=precision, threshold=threshold, **kwarg)


FUNCTIONS = {
    function.__name__: function
    for function in (
        *(array, zeros, ones, empty, full, arange, linspace, logspace, eye, identity, indices, hanning, hamming),
        *(blackman, genfromtxt, meshgrid, broadcast_arrays, unravel_index, shares_memory, shape, set_printoptions),
    )
} | {"may_share_memory": may_share_memory}
