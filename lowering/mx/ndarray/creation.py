"""Arrays from nothing, from numbers and from other libraries' arrays: `mx.nd.zeros`, `mx.nd.array`, and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.host.placed import copied_in_order, placed_one
from lowering.host.placed import empty as unwritten
from lowering.jax_casts import cast, held, is_narrowed
from lowering.messages.counts import check_count, check_counts, check_flag, checks_flags
from lowering.mx.accepted_types import ContextLike, DType, ShapeLike
from lowering.mx.context import Context, as_context
from lowering.mx.ndarray.array import NDArray, NotAnArrayError, invoke, like_jax, stored_as
from lowering.mx.ndarray.cells import SharedCell, StoredCell, warn_of_narrowing
from lowering.mx.ndarray.storage_types import check_storage, warn_once
from lowering.xla.out_of_memory import is_of_memory, telling_memory, too_large
from symjax_nnvm.errors import CallError, NNVMError
from symjax_nnvm.ir.types import DTYPE_CODES
from symjax_nnvm.symbol import function_named


class CreationError(CallError, ValueError):
    """Values, a shape or a range that make no array."""


class NotContiguousError(NNVMError, ValueError):
    """Memory in another order than the array's, which was to be shared."""


def _place(value: np.ndarray, ctx: ContextLike, dtype: DType) -> NDArray:
    """Return an array on a context. NumPy's memory is copied, so that it may be changed at once.

    Warns of 64 bits, which JAX has only where they are switched on. Raises TooWideError for numbers that need them.
    """
    context = as_context(ctx)
    target = native_dtype(dtype)
    with _making("array"):
        is_held = value.dtype == target and not is_narrowed(target)
        array = copied_in_order(value) if is_held else held(value, target)
    return _placed(array, context, target)


def _placed(array: np.ndarray, context: Context, target: np.dtype) -> NDArray:
    """Return an array on a context. array: of a target dtype, or in 32 bits of one of 64, of which it is warned."""
    if array.dtype != target:
        warn_of_narrowing(target)
    with telling_memory:
        return like_jax(placed_one(array, context.device), context)


def native_dtype(dtype: DType) -> np.dtype:
    """Return a dtype in this machine's byte order, which is the only one that JAX has. Raises CreationError for what is
    no dtype of arrays."""
    native = _known.get(dtype) if isinstance(dtype, type | str | np.dtype) else None
    if native is not None:
        return native
    try:
        native = jnp.dtype(dtype).newbyteorder("=")
    except TypeError:
        native = None
    if native is None or native not in _DTYPES:
        expected = f"one of {', '.join(DTYPE_CODES)}"
        raise CreationError("An NDArray cannot have this dtype", expected=expected, got=repr(dtype))
    return native


_DTYPES = frozenset(jnp.dtype(name) for name in DTYPE_CODES)

_known = {kind: dtype for dtype in _DTYPES for kind in (dtype, dtype.name, dtype.type)}
"""Names, scalar types and dtypes → the dtype, for a fast answer."""


def checked_shape(shape: ShapeLike) -> tuple[int, ...]:
    """The sizes of a shape; a number is a shape of one axis. Raises CountError, a ValueError."""
    return check_counts(shape, "shape", 0)


class _making:  # a generator's block takes three times as long
    """Raise CreationError for what NumPy cannot make, in its words, and OutOfMemoryError for what is too large."""

    __slots__ = ("_what",)

    def __init__(self, what: str):
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if error is not None and is_of_memory(error):
            raise too_large(error) from None
        if isinstance(error, ValueError | TypeError | OverflowError) and not isinstance(error, NNVMError):
            raise CreationError(f"mx.nd.{self._what} cannot make this array: {error}") from None


def array(source_array: Any, ctx: ContextLike = None, dtype: DType = None) -> NDArray:
    """An array of anything that is one: an NDArray or a jax.Array in its dtype, all else in float32. Objects and words
    that are numbers are taken as such, and None in a list is NaN.

    Raises CallError, a TypeError, for anything that is not an array.
    """
    if isinstance(source_array, NDArray):
        context = as_context(ctx)
        return (source_array if dtype is None else source_array.astype(native_dtype(dtype))).copyto(context)
    if isinstance(source_array, jax.Array):
        cast_array = source_array if dtype is None else cast(source_array, native_dtype(dtype))
        context = as_context(ctx)
        return like_jax(jax.device_put(cast_array, context.device), context)
    if hasattr(source_array, "toarray"):  # SciPy's sparse matrices
        warn_once()
        whole = array(source_array.toarray(), ctx, source_array.dtype if dtype is None else dtype)
        return stored_as(whole, "csr")
    try:
        source = np.asarray(source_array)
        if (source.dtype == object and source.ndim == 0) or (source.dtype.kind == "c" and source is not source_array):
            raise ValueError(f"not real numbers: {source_array!r:.80}")
        return _place(source, ctx, np.float32 if dtype is None else dtype)
    except (ValueError, TypeError) as error:
        problem = "source_array must be array like object"
        raise CallError(problem, got=f"{type(source_array).__name__}: {error}") from None


def stored_array(source: np.ndarray, context: Context) -> NDArray:
    """An array of NumPy's in its own dtype, which stays as it is, 64 bits too, until it is computed with or written."""
    dtype = native_dtype(source.dtype)
    if is_narrowed(dtype):
        return NDArray(StoredCell(np.array(source, dtype), context.device), context)
    return _place(source, context, dtype)


def zeros(
    shape: ShapeLike, ctx: ContextLike = None, dtype: DType = None, stype: str | None = None, **kwargs: Any
) -> NDArray:
    """Zeros, by default float32. stype: the storage type that the array shows; all are dense, and types other than
    "default" warn once."""
    check_storage(stype)
    dense = full(shape, 0, ctx, np.float32 if dtype is None else dtype, _out_of(kwargs, shape))
    return dense if stype is None else stored_as(dense, stype)


def ones(shape: ShapeLike, ctx: ContextLike = None, dtype: DType = None, **kwargs: Any) -> NDArray:
    """Ones, by default float32."""
    return full(shape, 1, ctx, np.float32 if dtype is None else dtype, _out_of(kwargs, shape))


def _out_of(further: dict[str, Any], shape: ShapeLike) -> NDArray | None:
    """Return the array given as out. Raises CallError for one of another shape, and for other arguments than that, a
    name and attributes (__x__)."""
    unknown = [key for key in further if key not in ("out", "name") and not (key[:2] == key[-2:] == "__")]
    if unknown:
        raise CallError(f"Cannot find argument {unknown[0]!r}", expected="shape, ctx, dtype or out")
    out = further.get("out")
    if out is not None and out.shape != checked_shape(shape):
        raise CallError("The array given as out= has the wrong shape", expected=checked_shape(shape), got=out.shape)
    return out


def empty(shape: ShapeLike, ctx: ContextLike = None, dtype: DType = None, stype: str | None = None) -> NDArray:
    """An array to be written: zeros, where MXNet's holds what the memory held."""
    return zeros(shape, ctx, dtype, stype)


def full(
    shape: ShapeLike, val: float, ctx: ContextLike = None, dtype: DType = np.float32, out: NDArray | None = None
) -> NDArray:
    """One number everywhere."""
    if out is not None:
        out[:] = val
        return out
    sizes = checked_shape(shape)
    context, target = as_context(ctx), native_dtype(dtype)
    with _making("full"):
        number = held(np.asarray(val), target)
        values = unwritten(sizes, number.dtype)
        values[...] = number
    return _placed(values, context, target)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: ContextLike = None,
    dtype: DType = np.float32,
) -> NDArray:
    """Numbers from start, or from 0 when stop is left out, each `repeat` times.

    Of whole numbers, the start and the steps are whole, too: arange(1.5, 4, 1.5, dtype="int32") is 1, 2.
    """
    if stop is None:
        start, stop = 0, start
    if stop is None:
        raise CreationError("arange needs an end", got="None")
    if step == 0:
        raise CreationError("Range does not support step=0")
    repeat = check_count(repeat, "repeat")
    with _making("arange"):
        numbers = np.arange(len(np.arange(start, stop, step)))
    if np.issubdtype(native_dtype(dtype), np.integer):
        numbers = numbers * int(step) + int(start)
    else:
        number = np.float64 if native_dtype(dtype) == np.float64 else np.float32
        numbers = numbers.astype(number) * number(step) + number(start)
    return _place(np.repeat(numbers, repeat), ctx, dtype)


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, ctx: ContextLike = None, dtype: DType = np.float32
) -> NDArray:
    """num numbers at equal distances."""
    check_flag(endpoint, "endpoint")
    with _making("linspace"):
        numbers = np.linspace(start, stop, check_count(num, "num", 0), endpoint=endpoint)
    return _place(numbers, ctx, dtype)


def eye(N: int, M: int = 0, k: int = 0, ctx: ContextLike = None, dtype: DType = None, **kwargs: Any) -> NDArray:
    """Ones on a diagonal. M: the number of columns, N where it is not above 0."""
    rows = check_count(N, "N", 0)
    with _making("eye"):
        values = np.eye(rows, M if M > 0 else None, k)
    return _place(values, ctx, np.float32 if dtype is None else dtype)


def from_numpy(ndarray: np.ndarray, zero_copy: bool = True) -> NDArray:
    """An array in NumPy's dtype.

    zero_copy: NumPy's array can be written no more but through the new one, whose values it shows. A jax.Array never
    changes, so that the values stand twice in memory. Raises NotContiguousError, a ValueError, where the memory has
    another order than the array's.
    """
    if not isinstance(ndarray, np.ndarray):
        got = type(ndarray).__name__
        raise NotAnArrayError("from_numpy needs a numpy.ndarray", got=got, fix="mx.nd.array(value) makes one.")
    dtype = native_dtype(ndarray.dtype)
    if not (zero_copy and ndarray.flags.writeable and jax.dtypes.canonicalize_dtype(dtype) == ndarray.dtype):
        return _place(ndarray, None, ndarray.dtype)
    if not ndarray.flags.c_contiguous:
        raise NotContiguousError("Only c-contiguous arrays are supported for zero-copy", fix="Use zero_copy=False.")
    memory = ndarray.view()
    ndarray.flags.writeable = False
    context = as_context(None)
    return NDArray(SharedCell(memory, context.device), context)


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Arrays one after the other along an axis. Raises NotAnArrayError, an AssertionError, for no list of them."""
    if not isinstance(arrays, list | tuple) or not all(isinstance(array, NDArray) for array in arrays):
        raise NotAnArrayError("concatenate needs a list of NDArrays", got=type(arrays).__name__)
    return invoke(function_named("concat"), *arrays, dim=axis)


class AxisError(CallError, ValueError):
    """Axes that an array lacks."""


@checks_flags
def moveaxis(tensor: NDArray, source: int | Sequence[int], destination: int | Sequence[int]) -> NDArray:
    """An array with some of its axes at other places. Raises AxisError, a ValueError, for axes that it lacks or that
    come twice."""
    return invoke(function_named("transpose"), tensor, axes=_order(tensor.ndim, source, destination))


def _order(ndim: int, source: Any, destination: Any) -> tuple[int, ...]:
    """Return the axes in their new order."""
    sources, targets = (np.atleast_1d(axes).tolist() for axes in (source, destination))
    if len(sources) != len(targets) or any(not -ndim <= axis < ndim for axis in (*sources, *targets)):
        got = f"{source} and {destination}"
        raise AxisError(
            "moveaxis needs as many destinations as sources, all axes of the array",
            expected=f"axes below {ndim}",
            got=got,
        )
    sources, targets = ([axis % ndim for axis in axes] for axes in (sources, targets))
    if len({*sources}) < len(sources) or len({*targets}) < len(targets):
        raise AxisError("moveaxis was given an axis twice", got=f"{source} and {destination}")
    order = [axis for axis in range(ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return tuple(int(axis) for axis in order)


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Rows with a one at each index, written into `out` (rows, classes)."""
    return invoke(function_named("one_hot"), indices, depth=out.shape[1], out=out)
