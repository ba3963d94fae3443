"""Symbols of the NumPy dialect: `mx.sym.var("x").as_np_ndarray()`, and those that have no inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as _numpy

from lowering.mx.accepted_types import ContextLike, DType, ShapeLike
from lowering.mx.context import as_context
from lowering.mx.ndarray.creation import native_dtype
from lowering.mx.numpy.methods import Methods
from lowering.mx.numpy.operators import Operators, UnsupportedError, require_order
from lowering.mx.symbol.runnable import OF_DIALECT, Symbol
from symjax_nnvm.errors import SymbolIndexError
from symjax_nnvm.symbol import function_named
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol


def _built(name: str, *inputs: Any, out: Any = None, **parameters: Any) -> Any:
    """Return the symbol of an operator."""
    if out is not None:
        raise UnsupportedError("A symbol cannot be written to: out= is for arrays")
    if "ctx" in parameters:
        parameters["ctx"] = str(as_context(parameters["ctx"]))
    if parameters.get("dtype", "") is None:
        del parameters["dtype"]
    return _Symbol(function_named(name)(*inputs, **parameters).outputs)


class _Symbol(Methods, Symbol):
    """A symbol of the NumPy dialect: `mx.sym.var("x").as_np_ndarray()`, or what functions of `mx.sym.np` return."""

    __slots__ = ()

    @property
    def T(self) -> _Symbol:
        """The values with their axes in reverse order."""
        return self.transpose()

    def as_nd_ndarray(self) -> Symbol:
        """Return the symbol in the classic dialect."""
        return Symbol(self.outputs)

    def __getitem__(self, key: Any) -> Any:
        """One of several outputs; of one output the elements at whole numbers and slices. Raises SymbolIndexError, an
        IndexError, for other indices."""
        if len(self.outputs) > 1 or isinstance(key, str):
            return _Symbol(GraphSymbol.__getitem__(self, key).outputs)
        if isinstance(key, tuple) and not key:
            return self
        entries = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(entry, int | _numpy.integer | slice) for entry in entries):
            problem = f"Only integer, slice, or tuple of these types are supported! Received key={key}"
            masks = "F.np._internal.boolean_mask(x, mask) takes a mask of one axis"
            fix = f"F.np.take and F.npx.pick take symbols as indices, {masks}; None is F.np.expand_dims."
            raise SymbolIndexError(problem, fix=fix)
        bounds = [_bounds(entry) for entry in entries]
        begin, end, step = (list(column) for column in zip(*bounds, strict=True))
        part = self._op("_npi_slice", self, begin=begin, end=end, step=step)
        if isinstance(key, slice):
            return part
        codes = tuple(-2 if isinstance(entry, slice) else -3 for entry in entries)
        return self._op("_npx_reshape", part, newshape=(*codes, -4))

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise UnsupportedError("Parts of a symbol cannot be written", fix="F.np.where(mask, value, x) makes a new one.")

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[Any]:  # of one output `self[0]` is a part
        return (_Symbol([output]) for output in self.outputs)

    def astype(self, dtype: DType, **kwargs: Any) -> Any:
        """Return the values in another dtype."""
        return _built("_npi_cast", self, dtype=native_dtype(dtype).name)


def _bounds(entry: Any) -> tuple[Any, Any, Any]:
    if isinstance(entry, slice):
        return entry.start, entry.stop, entry.step
    return (entry, entry + 1, 1) if entry >= 0 else (entry, entry - 1, -1)


SYMBOLIC = Operators(_Symbol, _built, True)
"""The operators of symbols."""

_Symbol._op = SYMBOLIC
OF_DIALECT["numpy"] = _Symbol


# -- symbols of no inputs ----------------------------------------------------------------------------------------------


def _dtype(dtype: DType, default: str = "float32") -> str:
    return default if dtype is None else native_dtype(dtype).name


def zeros(shape: ShapeLike, dtype: DType = "float32", order: str = "C", ctx: ContextLike = None) -> Any:
    """Zeros."""
    require_order(order)
    return _built("_npi_zeros", shape=shape, dtype=_dtype(dtype), ctx=ctx)


def ones(shape: ShapeLike, dtype: DType = "float32", order: str = "C", ctx: ContextLike = None) -> Any:
    """Ones."""
    require_order(order)
    return _built("_npi_ones", shape=shape, dtype=_dtype(dtype), ctx=ctx)


def full(
    shape: ShapeLike, fill_value: Any, dtype: DType = None, order: str = "C", ctx: ContextLike = None, out: Any = None
) -> Any:
    """One number everywhere, or a symbol's values broadcast."""
    require_order(order)
    if isinstance(fill_value, _Symbol):
        return fill_value.broadcast_to(shape) if dtype is None else fill_value.broadcast_to(shape).astype(dtype)
    return _built("_npi_full", shape=shape, value=fill_value, dtype=_dtype(dtype), ctx=ctx)


def arange(
    start: float, stop: float | None = None, step: float | None = 1, dtype: DType = None, ctx: ContextLike = None
) -> Any:
    """Numbers from start, or from 0 where stop is left out, to below stop."""
    start, stop = (0, start) if stop is None else (start, stop)
    return _built("_npi_arange", start=start, stop=stop, step=1 if step is None else step, dtype=_dtype(dtype), ctx=ctx)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DType = "float32", ctx: ContextLike = None) -> Any:
    """Ones on diagonal k of a matrix (N, M)."""
    return _built("_npi_eye", N=N, M=M, k=k, dtype=_dtype(dtype), ctx=ctx)


def identity(n: int, dtype: DType = None, ctx: ContextLike = None) -> Any:
    """Ones on the diagonal of a matrix (n, n)."""
    return _built("_npi_identity", shape=(n, n), dtype=_dtype(dtype), ctx=ctx)


def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DType = None,
    axis: int = 0,
    ctx: ContextLike = None,
) -> Any:
    """num numbers at equal distances."""
    numbers = _built("_npi_linspace", start=start, stop=stop, num=num, endpoint=endpoint, dtype=_dtype(dtype), ctx=ctx)
    return (numbers, (stop - start) / (num - 1)) if retstep else numbers


def logspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: DType = None,
    axis: int = 0,
    ctx: ContextLike = None,
) -> Any:
    """num numbers whose logarithms have equal distances."""
    params = {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "base": base}
    return _built("_npi_logspace", **params, dtype=_dtype(dtype), ctx=ctx)


def indices(dimensions: Any, dtype: DType = "int32", ctx: ContextLike = None) -> Any:
    """The index of each element of a shape, along each axis."""
    return _built("_npi_indices", dimensions=dimensions, dtype=_dtype(dtype, "int32"), ctx=ctx)


def _window(name: str) -> Any:

    def function(M: int, dtype: Any = "float32", ctx: Any = None) -> Any:
        return _built(f"_npi_{name}", M=M, dtype=_dtype(dtype), ctx=ctx)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} window of M points."
    return function


# -- symbols of others, where arrays are read --------------------------------------------------------------------------


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Indices of the flat array as the rows of one symbol: indices along each axis."""
    require_order(order)
    places = _built("_unravel_index", indices, shape=shape)
    like = _built("_npi_expand_dims", indices, axis=0)
    return _built("reshape_like", places, like, lhs_begin=1, lhs_end=2, rhs_begin=0, rhs_end=None).squeeze(1)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> Any:
    """Whether two symbols' values share memory."""
    return _built("_npi_share_memory", a, b)


FUNCTIONS = {
    **{
        function.__name__: function
        for function in (
            *(zeros, ones, full, arange, eye, identity, linspace, logspace, indices, unravel_index, shares_memory),
            *map(_window, ("hanning", "hamming", "blackman")),
        )
    },
    "may_share_memory": shares_memory,
}
