"""`mx.np.ndarray`: an NDArray with NumPy's manners, over the same memory, views and tape."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar, NoReturn

import numpy as np

from lowering.executor.bound_arrays import writing
from lowering.mx.accepted_types import DType, ShapeLike
from lowering.mx.context import Context
from lowering.mx.ndarray import subscripts
from lowering.mx.ndarray.array import (
    CLASSIC,
    NUMPY,
    OF_DIALECT,
    NDArray,
    ScalarError,
    host,
    in_dialect,
    is_written_in_memory,
)
from lowering.mx.ndarray.creation import native_dtype
from lowering.mx.numpy import elementwise, fallback, rearranging
from lowering.mx.numpy.methods import Methods
from lowering.mx.numpy.operators import EAGER, require_order
from lowering.mx.tape import recording
from symjax_nnvm.errors import InferenceError, SymbolIndexError, SymbolTypeError
from symjax_nnvm.symbol.fluent import Fluent


class ScalarTypeError(ScalarError):
    """An array of several elements where float() or int() wants one."""


class MixedDtypeError(InferenceError):
    """The result of an operation that the array it is written to cannot hold."""


class CopyTypeError(SymbolTypeError):
    """An array cannot be copied to an object of this type."""


def _updating(function: str) -> Callable[[Any, Any], Any]:
    """Return the method of an operator that writes its result to the array."""

    def method(self: ndarray, other: Any) -> ndarray:
        with writing(self.cell):
            if is_written_in_memory(self, getattr(np, function), other):
                return self
        return self._updated(lambda x, y: elementwise.apply_binary(EAGER, function, x, y), other)

    method.__doc__ = f"`np.{function}`, written to the array."
    return method


_DTYPE = re.compile(r",\s+dtype=\w+\)$")
"""How NumPy ends the text of an array of another dtype."""


class ndarray(Methods, NDArray):  # pyright: ignore[reportIncompatibleMethodOverride]
    """An array of the NumPy dialect. Made by `mx.np.array` and its kin."""

    __slots__ = ()

    dialect = NUMPY
    _op = EAGER
    _operands = "an array of mx.np combines with such arrays and numbers: np.array(x) makes one."
    _elsewhere: ClassVar[dict[str, str]] = {
        "fill": "Write x[:] = number.", "nbytes": "Write x.size * x.dtype.itemsize.",
    }  # fmt: skip

    for _name, _function in {
        "iadd": "add", "isub": "subtract", "imul": "multiply", "itruediv": "true_divide", "imod": "mod",
        "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor",
    }.items():  # fmt: skip
        locals()[f"__{_name}__"] = _updating(_function)
    del _name, _function  # pyright: ignore[reportPossiblyUnboundVariable]

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype:  # pyright: ignore[reportIncompatibleVariableOverride]
        """NumPy's dtype."""
        return np.dtype(self.cell.dtype)

    @property
    def T(self) -> ndarray:
        """The array with its axes in reverse order."""
        return self.transpose()

    def as_nd_ndarray(self) -> NDArray:
        """The array in the classic dialect: the same memory, gradient and place on the tape."""
        return in_dialect(self, CLASSIC)

    def __len__(self) -> int:
        if not self.cell.shape:
            raise SymbolTypeError("len() of unsized object")
        return self.cell.shape[0]

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(self.cell.shape[0] if self.cell.shape else 0))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = host(self.cell)
        text, at = repr(values), "" if self.ctx.device_type == "cpu" else f", ctx={self.ctx}"
        text = _DTYPE.sub(")", text)
        if values.size and ", shape=" in text:  # which NumPy adds from 2.2 on
            text = text[: text.rindex(", shape=")] + ")"
        shows_itself = values.dtype == np.float32 or (values.dtype == np.bool_ and values.size)
        dtype = "" if shows_itself else f", dtype={values.dtype}"
        return f"{text[:-1]}{dtype}{at})"

    def __str__(self) -> str:
        text = str(host(self.cell))
        return text if self.ctx.device_type == "cpu" or not self.ndim else f"{text} @{self.ctx}"

    def __format__(self, spec: str) -> str:
        if not self.ndim:
            return format(self.item(), spec)
        if spec:
            raise SymbolTypeError("Cannot format mxnet.numpy.ndarray with format_spec", fix="Format its elements.")
        return str(self)

    # -- as numbers --------------------------------------------------------------------------------------------------

    def item(self, *args: Any) -> Any:
        """The array's one number, or the one at an index, as Python's. Raises ScalarError, a ValueError."""
        if not args and self.size != 1:
            raise ScalarError("can only convert an array of size 1 to a Python scalar", got=f"shape {self.shape}")
        return host(self.cell).item(*args)

    def tolist(self) -> Any:
        """The elements as Python's numbers in lists."""
        return host(self.cell).tolist()

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ScalarError("The truth value of an ndarray with multiple elements is ambiguous.")
        return bool(self.size and self.item())

    def __float__(self) -> float:
        return float(self._one())

    def __int__(self) -> int:
        return int(self._one())

    def _one(self) -> Any:
        if self.size != 1:
            raise ScalarTypeError("only size-1 arrays can be converted to Python scalars", got=f"shape {self.shape}")
        return host(self.cell).item()

    __index__ = None  # type: ignore[assignment]

    # -- NumPy's own functions ---------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's functions of elements: those of this module, which are recorded; others are computed by NumPy."""
        if method != "__call__":
            return fallback.by_numpy(getattr(ufunc, method), ufunc.__name__, inputs, kwargs)
        out = kwargs.pop("out", (None,))
        if len(out) != 1:
            raise ScalarError("The `out` parameter must have exactly one ndarray")
        name, numbers = ufunc.__name__, [x.item() if isinstance(x, np.generic) else x for x in inputs]
        if name in elementwise.UNARY:
            return elementwise.apply_unary(EAGER, name, *numbers, *out)
        if name in elementwise.BINARY:
            return elementwise.apply_binary(EAGER, name, *numbers, *out)
        return fallback.by_numpy(ufunc, name, numbers, {**kwargs, **({} if out[0] is None else {"out": out[0]})})

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's other functions: those of this module, which are recorded; others are computed by NumPy."""
        own = DISPATCHED.get(f"{function.__module__.partition('.')[2]}.{function.__name__}".lstrip("."))
        if own is None:
            return fallback.by_numpy(function, function.__name__, args, kwargs)
        if not all(issubclass(kind, ndarray) for kind in types):
            return NotImplemented
        return own(*args, **kwargs)

    def __imatmul__(self, other: Any) -> ndarray:
        return self._updated(lambda x, y: rearranging.matmul(self._op, x, y), other)

    def reshape_view(self, *shape: ShapeLike, **kwargs: Any) -> ndarray:
        """The same memory in another shape, which may hold the codes of `mx.nd`'s reshape."""
        return in_dialect(self.as_nd_ndarray().reshape(*shape, **kwargs), NUMPY)

    def _as_shape(self, shape: tuple[int, ...]) -> ndarray:
        """Return the array in another shape: the same memory, if it has any."""
        return self.reshape(shape) if 0 in shape else self.reshape_view(shape)

    # -- copies ------------------------------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> ndarray:
        """An array of the same values, written apart."""
        require_order(order)
        return self.copyto(self.ctx)

    def copyto(self, other: Any) -> Any:
        """Copy into another array of the shape, cast to its dtype, or onto a context. Returns the copy."""
        if not isinstance(other, NDArray | Context):
            raise CopyTypeError(f"copyto does not support type {type(other)}")
        return super().copyto(other)

    def as_in_ctx(self, ctx: Context) -> ndarray:
        """Itself if it is there, else a copy."""
        return self if ctx == self.ctx else self.copyto(ctx)

    def as_in_context(self, context: Context) -> ndarray:
        """Itself if it is there, else a copy."""
        return self.as_in_ctx(context)

    def astype(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        dtype: DType,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> ndarray:
        """The array's values in another dtype. copy: else the array itself, where it has that dtype already."""
        if order not in ("K", "C", None) or casting != "unsafe" or not subok:
            raise ScalarError("astype takes order 'K' or 'C', casting 'unsafe' and subok=True")
        kind = native_dtype(np.float32 if dtype is None else dtype)
        if not copy and kind == self.dtype:
            return self
        return EAGER("_npi_cast", self, dtype=kind.name)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _key(self, key: Any) -> subscripts.Key:
        """Return an index with an entry for every axis; masks are the numbers of their elements."""
        if not self.ndim and not (isinstance(key, tuple) and not key):
            raise SymbolIndexError("scalar tensor can only accept `()` as index")
        return subscripts.expanded(subscripts.without_masks(key, self.shape), self.shape)

    def __getitem__(self, key: Any) -> ndarray:
        """The elements of an index of NumPy's kinds. A basic index that takes one run of the memory gives a view."""
        if isinstance(key, tuple) and not key:
            return self
        if subscripts.has_bool(key):
            shape, key = subscripts.with_an_axis(key, self.shape)
            return self._as_shape(shape)[key]
        full = self._key(subscripts.with_plain_slices(key))
        return self.part_at(full, full)  # pyright: ignore[reportReturnType]

    def _written_key(self, key: Any) -> Any:
        return self._key(key) if self.ndim or not (isinstance(key, tuple) and not key) else key

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write elements: a number, or an array that broadcasts to the part, as NumPy has it."""
        if isinstance(value, NDArray) and value.dialect != NUMPY:
            raise SymbolTypeError("Cannot assign mx.nd.NDArray to mxnet.numpy.ndarray", fix="value.as_np_ndarray()")
        if subscripts.has_bool(key):
            shape, key = subscripts.with_an_axis(key, self.shape)
            self._as_shape(shape)[key] = value
            return
        super().__setitem__(subscripts.with_plain_slices(key), value)

    def _updated(self, operation: Callable[[Any, Any], Any], other: Any) -> ndarray:
        """Write the result of an operation here, and return the array itself. Raises MixedDtypeError for a result of
        another dtype."""
        with writing(self.cell):
            result = operation(self, other)
            if recording.is_recording():
                self.refuse_recorded_write(result.entry)
            if result.cell.dtype != np.dtype(self.cell.dtype) and result.cell.dtype != self.value.dtype:
                problem = f"An array of {self.dtype} cannot hold the result, which is {result.dtype}"
                raise MixedDtypeError(problem, fix="Make a new array: x = x + y.")
            if result.shape != self.shape:
                problem = f"An array of shape {self.shape} cannot hold the result, whose shape is {result.shape}"
                raise MixedDtypeError(problem, fix="Make a new array: x = x + y.")
            self.cell.assign(result.value, cast=True)
            return self


OF_DIALECT[NUMPY] = ndarray

DISPATCHED: dict[str, Callable[..., Any]] = {}
"""Function of NumPy's, as `sum` or `linalg.norm` → this module's, for `numpy.sum(x)`."""


class _Absent:
    """A method of mx.nd's arrays that those of mx.np do not have: asking for it raises an AttributeError."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, instance: Any, owner: Any = None) -> NoReturn:
        raise AttributeError(f"mxnet.numpy.ndarray object has no attribute {self._name}")


_OF_ALL_ARRAYS = {*vars(NDArray)} - {"asscalar", "expand_dims", "tostype"}
"""Methods that arrays of both dialects have."""


def leave_out(names: Collection[str]) -> None:
    """Take from `ndarray` the methods of mx.nd's arrays that it does not have. names: the functions of mx.np."""
    for name in (
        {*vars(Fluent), "asscalar", "expand_dims", "tostype"} - {*vars(ndarray), *vars(Methods)} - _OF_ALL_ARRAYS
    ):
        if name[:1] != "_":
            setattr(ndarray, name, _Absent(name))
            ndarray._elsewhere[name] = (
                f"Write np.{name}(x)." if name in names else "x.as_nd_ndarray() has this attribute."
            )
