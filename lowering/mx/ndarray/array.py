"""NDArray: a jax.Array with MXNet's methods, and `invoke`, which runs every operator on NDArrays."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import inf, prod
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from lowering.core.python_calls import refuse_without_client
from lowering.executor.bound_arrays import ArrayCell, fill, writing, zeros
from lowering.host.staged import Staged, may_evaluate
from lowering.jax_casts import cast, held, is_narrowed, written
from lowering.messages.counts import checks_flags
from lowering.mx.accepted_types import AxisLike, ContextLike, DType, ShapeLike
from lowering.mx.context import CPU, Context, as_context, check_one_device, context_of
from lowering.mx.ndarray import subscripts
from lowering.mx.ndarray.call_errors import in_words_of_call
from lowering.mx.ndarray.cells import (
    HostCell,
    LateCell,
    StoredCell,
    View,
    host,
    item,
    new_cell,
    part_of,
    put,
    reshaped,
    stored_of,
)
from lowering.mx.ndarray.number_inputs import FormOf, OfAnyNumber, form_for, of_any_number
from lowering.mx.ndarray.storage_types import check_storage
from lowering.mx.tape import policy, recording
from lowering.mx.tape.expressions import (
    Expression,
    evaluate,
    shared_expression,
    variable_name,
)
from lowering.mx.util import is_np_array
from lowering.optim.updates import in_rows_of
from lowering.xla.out_of_memory import telling_memory
from lowering.xla.platforms import current_platform, kind_of
from symjax_nnvm.errors import (
    CallError,
    GradientError,
    InferenceError,
    NNVMError,
    NotASymbolError,
    SymbolTypeError,
    SymbolValueError,
)
from symjax_nnvm.ir.attributes import FDraws
from symjax_nnvm.ir.node import Node
from symjax_nnvm.mxnet.array_file import read_record
from symjax_nnvm.passes.infer.infer_storage import infer_storage, updates_rows
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol import Group, NameManager, function_named
from symjax_nnvm.symbol.fluent import Fluent
from symjax_nnvm.symbol.python_operators import Arithmetic, is_scalar
from symjax_nnvm.symbol.symbol import Symbol

CLASSIC, NUMPY = "classic", "numpy"
"""MXNet's dialects: of mx.nd and mx.sym, and of mx.np."""

_BROADCASTING = {
    "elemwise_add": "broadcast_add", "elemwise_sub": "broadcast_sub", "elemwise_mul": "broadcast_mul",
    "elemwise_div": "broadcast_div", "_mod": "broadcast_mod", "_power": "broadcast_power", "_equal": "broadcast_equal",
    "_not_equal": "broadcast_not_equal", "_greater": "broadcast_greater", "_greater_equal": "broadcast_greater_equal",
    "_lesser": "broadcast_lesser", "_lesser_equal": "broadcast_lesser_equal",
}  # fmt: skip
"""Python's operators broadcast arrays, which they do not do for symbols."""


class ScalarError(NNVMError, ValueError, TypeError):
    """An array of several elements where one number is wanted: MXNet raises a ValueError, or for int() a TypeError."""


class NotAnArrayError(SymbolTypeError, AssertionError):
    """A value in place of an array of an operator. MXNet asserts."""


class ReshapeError(InferenceError, ValueError):
    """A shape that an array cannot have. MXNet raises a ValueError."""


_DENSE = 'Convert the array: x.tostype("csr") has this attribute.'
_OF_SPARSE_ARRAYS = dict.fromkeys(("indices", "indptr", "data", "asscipy", "check_format"), _DENSE)


class NDArray(Arithmetic, Fluent):
    """An array that is written in place: `x[:] = 1`, `x += y`, views that write through. Its memory is a jax.Array,
    which never changes: a write replaces it.

    Made by `mx.nd.array` and its kin; further methods are the operators' (`x.sum(axis=1)`).
    """

    __slots__ = ("__weakref__", "_context", "cell", "entry", "gradient")

    _elsewhere = _OF_SPARSE_ARRAYS
    _operands = "an NDArray combines only with NDArrays and numbers. Convert arrays with mx.nd.array(x)."
    __array_priority__ = 1000.0

    def __init__(self, cell: ArrayCell | View | HostCell, context: Context = CPU, entry: recording.Entry | None = None):
        """Wrap a cell. cell: the holder of the value. entry: the value's origin on the tape of `mx.autograd`."""
        self.cell = cell
        self._context = context
        self.entry = entry
        self.gradient: NDArray | None = None

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """The device that holds it; `as_in_context` gives an array on another."""
        return self._context

    @property
    def value(self) -> jax.Array:
        """The jax.Array that it is now."""
        return self.cell.show()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.cell.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.cell.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.cell.shape)

    @property
    def dtype(self) -> Any:
        """NumPy's type, such as `numpy.float32`."""
        return np.dtype(self.cell.dtype).type

    @property
    def ctx(self) -> Context:
        """The context that holds the array."""
        return self.context

    stype = "default"
    """The storage type."""

    dialect = CLASSIC
    """The dialect of the operators that take the array."""

    @property
    def grad(self) -> NDArray | None:
        """The array that `mx.autograd` writes this array's gradient into; None without `attach_grad`, and with
        grad_req="null"."""
        if self.gradient is None or (isinstance(self.entry, recording.Leaf) and self.entry.grad_req == "null"):
            return None
        return in_dialect(self.gradient, self.dialect)

    @property
    def _fresh_grad(self) -> bool:
        """Return whether the gradient was computed since this was last set to False."""
        return isinstance(self.entry, recording.Leaf) and self.entry.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, fresh: bool) -> None:
        if isinstance(self.entry, recording.Leaf):
            self.entry.fresh = fresh

    @property
    def T(self) -> NDArray:
        """The array with its axes in reverse order."""
        return self.transpose() if self.ndim > 1 else self

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape))
        return f"\n{host(self.cell)!s}\n<NDArray {sizes} @{self.context}>"

    def __reduce__(self) -> Any:
        return _unpickled, (self.asnumpy(), str(self.context.device_type), self.context.device_id, self.dialect)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the array of a pickle that MXNet wrote, {"handle": its bytes}: pickles name this class where
        `lowering.mx.install()` was called. Raises ParamsFormatError."""
        like = _unpickled(np.asarray(read_record(bytes(state["handle"]))), self.context.device_type, 0)
        self.cell, self.entry, self.gradient = like.cell, None, None

    # -- as numbers --------------------------------------------------------------------------------------------------

    def asnumpy(self) -> np.ndarray:
        """A copy in NumPy's memory; waits for the value."""
        return np.array(host(self.cell))

    def asscalar(self) -> Any:
        """The array's one number. Raises ScalarError, a ValueError."""
        if self.size != 1:
            raise ScalarError("The current array is not a scalar", got=f"shape {self.shape}", fix="Use asnumpy().")
        return self.asnumpy().reshape(())[()]

    item = asscalar

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> np.ndarray:
        return host(self.cell) if dtype is None else host(self.cell).astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's functions of elements: an NDArray of what NumPy computes, and NumPy's own numbers and `out=` arrays.

        Python's operators with one of NumPy's numbers are the array's own. Raises SymbolTypeError, a TypeError, for
        operators with NumPy's arrays, as MXNet does.
        """
        operation = _OPERATORS.get(ufunc.__name__) if method == "__call__" and "out" not in kwargs else None
        if operation is not None:
            arrays = [operand for operand in inputs if isinstance(operand, np.ndarray) and operand.ndim]
            if arrays:
                raise SymbolTypeError(f"type {type(arrays[0])} not supported: {self._operands}")
            return operation(*(operand if isinstance(operand, NDArray) else _number(operand) for operand in inputs))
        result = getattr(ufunc, method)(*_as_numpy(inputs), **_as_numpy(kwargs))
        if not isinstance(result, np.ndarray) or "out" in kwargs:
            return result
        return like_jax(jax.device_put(held(result), self.context.device), self.context)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's other functions: the array's method of that name, if it has one, else of the arrays in NumPy's
        memory."""
        method = getattr(type(self), function.__name__, None)
        if isinstance(method, property) and args == (self,) and not kwargs:  # of np.shape, np.ndim, np.size
            return getattr(self, function.__name__)
        if callable(method) and args and args[0] is self:
            return method(*args, **{name: value for name, value in kwargs.items() if value is not None})
        return function(*_as_numpy(args), **_as_numpy(kwargs))

    def __jax_array__(self) -> jax.Array:
        return self.value

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ScalarError("The truth value of an NDArray with multiple elements is ambiguous.")
        return bool(self.size and self.asscalar())

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __index__(self) -> int:
        return operator.index(self.asscalar())

    @property
    def writable(self) -> bool:
        """True: every array may be written."""
        return True

    def wait_to_read(self) -> None:
        """Wait until the value is there; errors of the computation are raised here."""
        if stored_of(self.cell) is None:  # a file's array is there, of any width
            with telling_memory:
                jax.block_until_ready(self.value)

    wait_to_write = wait_to_read

    def to_dlpack_for_read(self) -> Any:
        """The memory as a DLPack capsule, which another library may take once and may not write."""
        self.wait_to_read()
        return self.value.__dlpack__()

    def to_dlpack_for_write(self) -> NoReturn:
        """Raise CallError: what another library writes would not be seen here."""
        fix = "Use to_dlpack_for_read, and assign the result: x[:] = mx.nd.from_dlpack(y)."
        raise CallError("The memory of an array never changes here, so no other library can write to it", fix=fix)

    # -- copies ------------------------------------------------------------------------------------------------------

    def copy(self) -> NDArray:
        """An array of the same values, written apart."""
        return self.copyto(self.context)

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy into another array of the shape, cast to its dtype, or onto a context. Returns the copy, through which
        gradients flow back.

        Raises CallError; GradientError for a write to an array that is on the tape.
        """
        recorded = recording.is_recording() and self.entry is not None
        if isinstance(other, Context):
            stored = stored_of(self.cell)
            if stored is not None and not recorded:
                return OF_DIALECT[self.dialect](StoredCell(stored, other.device), other)
            copied = in_dialect(like_jax(self._value_on(other), other), self.dialect)
            if recorded:
                origins, copies = [recording.origin(self)], [copied.value]
                recording.Call(_Copied(self.context), [self.value], origins, None, copies).made([copied])
            return copied
        if not isinstance(other, NDArray):
            raise CallError("copyto needs an NDArray or a Context", got=type(other).__name__)
        if other.shape != self.shape:
            raise CallError("copyto needs an array of the same shape", expected=self.shape, got=other.shape)
        if recorded or stored_of(other.cell) is not None:
            other[:] = self
        elif other is not self:
            other.cell.assign(self._value_on(other.context), cast=True)
        return other

    def _value_on(self, context: Context) -> jax.Array:
        """Return the value on the device of a context."""
        own = self.context
        if own is context or own == context:
            return self.value
        there = context.device
        if own.device == there:
            return self.value
        return jax.device_put(self.value, there or jax.devices()[0])

    def as_in_context(self, context: Context) -> NDArray:
        """Itself if it is there, else a copy."""
        return self if context == self.context else self.copyto(context)

    as_in_ctx = as_in_context

    def as_nd_ndarray(self) -> NDArray:
        """The array in the classic dialect: itself."""
        return self

    def as_np_ndarray(self) -> NDArray:
        """The array in the NumPy dialect: the same memory, gradient and place on the tape."""
        return in_dialect(self, NUMPY)

    @checks_flags
    def astype(self, dtype: DType, copy: bool = True) -> NDArray:
        """The array's values in another dtype, or in that of an array."""
        dtype = dtype.dtype if isinstance(dtype, NDArray) else dtype
        if not copy and np.dtype(dtype) == self.cell.dtype:
            return self
        return invoke(function_named("cast"), self, dtype=dtype)

    def tostype(self, stype: str) -> NDArray:
        """A copy with a storage type. Arrays are dense here: types other than "default" are only shown, with one
        warning. Raises CallError for an unknown type."""
        check_storage(stype)
        return invoke(function_named("cast_storage"), self, stype=stype)

    def detach(self) -> NDArray:
        """The same array, through which no gradient flows."""
        return OF_DIALECT[self.dialect](self.cell, self.context)

    def reshape(self, *shape: ShapeLike, **kwargs: Any) -> NDArray:
        """The same memory in another shape; shape may hold MXNet's codes 0, -1, -2, -3, -4. Raises InferenceError."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        new_shape = tuple(kwargs.pop("shape", sizes) or sizes)
        try:
            return self._in_shape("reshape", True, shape=new_shape, **kwargs)
        except InferenceError as error:
            raise ReshapeError(f"Cannot reshape array of size {self.size} into shape {new_shape}: {error}") from None

    def broadcast_to(self, shape: Sequence[int], *args: Any, **kwargs: Any) -> NDArray:
        """The array in a shape to which it broadcasts; axes may come in front. Raises SymbolValueError, a
        ValueError."""
        ahead = len(shape) - self.ndim
        old = (*[1] * ahead, *self.shape)
        if ahead < 0 or any(a not in (1, b) for a, b in zip(old, shape, strict=True)):
            problem = "operands could not be broadcast together with remapped shapes[original->remapped]: "
            raise SymbolValueError(f"{problem}{self.shape} and requested shape {tuple(shape)}")
        return invoke(function_named("broadcast_to"), self.reshape(old) if ahead else self, shape=tuple(shape))

    def _in_shape(self, function: str, inplace: bool, **kwargs: Any) -> NDArray:
        """Return a function that only changes the shape. inplace: what it returns is a view of this array's memory,
        unless it is recorded."""
        if not inplace or (recording.is_recording() and self.entry is not None):
            return invoke(function_named(function), self, **kwargs)
        params = ((name, tuple(value) if isinstance(value, list) else value) for name, value in kwargs.items())
        return NDArray(reshaped(self.cell, _shape_after(function, self.shape, *params)), self.context)

    def flatten(self, inplace: bool = False, **kwargs: Any) -> NDArray:
        """Its rows, each as one axis: (n, …) → (n, product). inplace: a view."""
        return self._in_shape("flatten", inplace, **kwargs)

    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: Any) -> NDArray:
        """The array with a new axis of size 1. inplace: a view."""
        return self._in_shape("expand_dims", inplace, axis=axis, **kwargs)

    def squeeze(self, axis: AxisLike = None, inplace: bool = False, **kwargs: Any) -> NDArray:
        """The array without axes of size 1: all of them, or one or several. inplace: a view."""
        return self._in_shape("squeeze", inplace, axis=axis, **kwargs)

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Have `mx.autograd` compute the gradient of this array, into `grad`. stype: its storage type, by default this
        array's."""
        check_storage(stype)
        gradient = in_dialect(zero_gradient(self.shape, self.cell.dtype, self.context), self.dialect)
        mark(self, stored_as(gradient, stype or self.stype), grad_req)

    @checks_flags
    def backward(self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Compute the gradients of what was recorded, into the `grad` of the arrays that have one."""
        _hooks["backward"]([self], None if out_grad is None else [out_grad], retain_graph, train_mode)

    # -- parts -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[NDArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> NDArray:
        """The elements of an index. A basic index that takes one run of the memory gives a view, as in MXNet."""
        if self.ndim == 0:
            return self
        full = subscripts.expanded(subscripts.as_read(key, self.ndim), self.shape)
        return self.part_at(full, subscripts.kept_rank(full))

    def part_at(self, full: subscripts.Key, shape_key: subscripts.Key) -> NDArray:
        """Return the elements of an expanded key. shape_key: the key that gives their shape."""
        if recording.is_recording() and self.entry is not None:
            part = self.as_nd_ndarray()._recorded_item(full, subscripts.part_shape(shape_key, self.shape))
        elif subscripts.is_basic(shape_key) and subscripts.is_contiguous(shape_key, self.shape):
            return OF_DIALECT[self.dialect](part_of(self.cell, shape_key), self.context)
        else:
            part = like_jax(item(self.value, shape_key), self.context)
        return in_dialect(part, self.dialect)

    def _recorded_item(self, full: subscripts.Key, shape: tuple[int, ...]) -> NDArray:
        """Return the elements by operators, whose gradients are known."""
        if subscripts.is_basic(full):
            begin, end, step = subscripts.slices(full, self.shape)
            part = invoke(function_named("slice"), self, begin=begin, end=end, step=step)
        else:
            flat = np.arange(self.size).reshape(self.shape)[full].ravel()
            indices = like_jax(jax.device_put(flat.astype(np.int32)), self.context)
            part = invoke(function_named("take"), invoke(function_named("reshape"), self, shape=(-1,)), indices)
        if part.shape == shape:
            return part
        if shape and 0 not in shape:  # which is a code there
            return invoke(function_named("reshape"), part, shape=shape)
        return invoke(function_named("reshape_like"), part, like_jax(jnp.zeros(shape, part.value.dtype), self.context))

    def slice_assign(self, rhs: NDArray, begin: Sequence[Any], end: Sequence[Any], step: Sequence[Any]) -> NDArray:
        """Write the part of these bounds, one for each axis, and return the array itself."""
        steps = step or [None] * len(begin)
        if not len(begin) == len(end) == len(steps):
            lists = {"begin": begin, "end": end, "step": step}
            raise CallError(
                "slice_assign needs begin, end and step for each axis", expected="lists of the same length", got=lists
            )
        self[tuple(slice(*bounds) for bounds in zip(begin, end, steps, strict=True))] = rhs
        return self

    def slice_assign_scalar(self, value: float, begin: Any, end: Any, step: Any) -> NDArray:
        """`slice_assign` of a number."""
        return self.slice_assign(value, begin, end, step)  # pyright: ignore[reportArgumentType]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write elements: a number, or an array that broadcasts to the part, as NumPy has it.

        Raises SymbolValueError, a ValueError, where it does not; SymbolTypeError for anything that is not an array of
        numbers.
        """
        stored = stored_of(self.cell)
        array = value
        if isinstance(value, NDArray):
            array = value._value_on(self.context) if stored is None else host(value.cell)
        if not isinstance(array, jax.Array):
            array = _as_numbers(array, self.cell.dtype)
        is_whole = isinstance(key, slice) and key == slice(None)
        full = key if is_whole else self._written_key(key)
        if array.shape:  # one number fits every part
            shape = self.shape if is_whole else subscripts.part_shape(full, self.shape)
            if array.shape != shape:
                array = _broadcast(array, shape)
        if isinstance(self.cell, HostCell):
            self.cell.array[full] = written(np.asarray(array), self.cell.dtype)
            return
        if recording.is_recording():
            entry = value.entry if isinstance(value, NDArray) else None
            self.refuse_recorded_write(None if is_whole else entry)
            if is_whole and entry is not None:
                self.entry = self._recorded_copy(value).entry
        if stored is not None:  # a file's array keeps its 64 bits
            if not is_whole:
                subscripts.part_shape(full, self.shape)
            self._store(put(stored, ... if is_whole else full, array))
        elif is_whole:
            self.cell.assign(array, cast=True)
        else:
            with writing(self.cell):
                memory = None if isinstance(array, Tracer) else self.cell.own_memory()
                if memory is None:
                    self.cell.assign(put(self.value, full, array))
                else:
                    memory[full] = written(np.asarray(array), memory.dtype)

    def _written_key(self, key: Any) -> Any:
        """Return the expanded key of what is written."""
        return subscripts.kept_rank(subscripts.expanded(key, self.shape)) if self.ndim else key

    def _store(self, stored: np.ndarray) -> None:
        """Hold another array of the same 64 bits, which are a file's."""
        assert isinstance(self.cell, StoredCell | View)
        self.cell.store(stored)

    def refuse_recorded_write(self, entry: recording.Entry | None) -> None:
        """Raise GradientError for a write under `record` to an array that is on the tape, and for a write of a value on
        the tape to a part. entry: where that value came from."""
        if recording.origin(self) is not None:
            problem = (
                "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when "
                "evaluating gradients"
            )
            fix = "Call backward first, or write outside of the record section; +=, x[i] = y and out= are writes, too."
            raise GradientError(problem, fix=fix)
        if entry is not None:
            problem = "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd"
            raise GradientError(problem, fix="Make a new array: x = x + y, or mx.nd.concat of parts.")

    def _recorded_copy(self, value: NDArray) -> NDArray:
        """Return a value on the tape in this array's shape and dtype."""
        value = value.as_nd_ndarray()
        if value.dtype != self.dtype:
            value = value.astype(self.dtype)
        if value.shape != self.shape:
            value = value.reshape(_without_ones_ahead(value.shape, self.ndim)).broadcast_to(self.shape)
        return invoke(function_named("_copy"), value)

    # -- Python's operators ------------------------------------------------------------------------------------------

    def _scalar(self, value: object) -> str | None:
        number = scalar_number(value)
        return None if number is None else str(number)

    def _operator(self, op: str, symbols: tuple[Any, ...], params: dict[str, str], hint: str) -> NDArray:
        for other in symbols:
            if not isinstance(other, NDArray):
                raise SymbolTypeError(f"type {type(other)} not supported: {self._operands}")
        return invoke(function_named(_BROADCASTING.get(op, op)), *symbols, **params)

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return id(self) // 16

    def _updated(self, operation: Callable[[Any, Any], NDArray], other: Any) -> NDArray:
        """Write the result of an operation here, and return the array itself. A file's array keeps its 64 bits, and is
        computed with in these."""
        with writing(self.cell):
            if is_written_in_memory(self, _IN_MEMORY.get(operation), other):
                return self
            stored = stored_of(self.cell)
            if stored is not None and not recording.is_recording():
                with jax.enable_x64(True):
                    array, other = (_wide(value, self.context, stored.dtype) for value in (self, other))
                    self._store(operation(array, other).asnumpy().astype(stored.dtype))
                return self
            result = operation(self, other)
            if recording.is_recording():
                self.refuse_recorded_write(result.entry)
            self.cell.assign(result.value, cast=True)
            return self

    def __iadd__(self, other: Any) -> NDArray:
        return self._updated(operator.add, other)

    def __isub__(self, other: Any) -> NDArray:
        return self._updated(operator.sub, other)

    def __imul__(self, other: Any) -> NDArray:
        return self._updated(operator.mul, other)

    def __itruediv__(self, other: Any) -> NDArray:
        return self._updated(operator.truediv, other)

    def __imod__(self, other: Any) -> NDArray:
        return self._updated(operator.mod, other)

    # -- what symbols refuse and arrays have nothing of --------------------------------------------------------------

    def bind(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: symbols are bound, arrays are not."""
        raise CallError(
            "An NDArray cannot be bound, because it is not a graph.", fix="mx.sym builds graphs: net.bind(mx.cpu(), …)"
        )

    simple_bind = eval = optimize_for = get_backend_symbol = bind


def is_written_in_memory(array: NDArray, function: Any, other: Any) -> bool:
    """Whether NumPy's function of an array and another one, or a number, wrote its result to the array, without new
    memory. Only for floats, for which IEEE's rules give the same numbers either way."""
    kind: Any = type(other)
    dtype, is_number = array.cell.dtype, kind is float or (kind is int and other.bit_length() < 64)
    if function not in _IN_MEMORY.values() or dtype not in (np.float32, np.float64) or recording.is_recording():
        return False
    if not is_number:
        if kind is not type(array) or other.context is not array.context or stored_of(other.cell) is not None:
            return False
        if (other.shape, other.cell.dtype) != (array.shape, dtype):
            return False
    if not may_evaluate(() if is_number else (other.value,)):
        return False
    values = float(other) if is_number else host(other.cell)
    memory = array.cell.own_memory()
    if memory is None:
        return False
    with np.errstate(all="ignore"):
        function(memory, values, out=memory)
    return True


_IN_MEMORY: Mapping[Any, Callable[..., Any]] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.divide,
}
"""Operation → NumPy's function that writes the same numbers."""


def scalar_number(value: object) -> Any:
    """The number that arithmetic of arrays takes: a bool is 0 or 1, which it is not for symbols. None for all else."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    return value if is_scalar(value) else None


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "true_divide": operator.truediv, "remainder": operator.mod, "power": operator.pow, "negative": operator.neg,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "absolute": abs,
}  # fmt: skip
"""NumPy's name of each of Python's operators."""


def _wide(value: Any, context: Context, dtype: np.dtype) -> Any:
    """Return an array of a dtype of 64 bits, or of what JAX holds it in, in that dtype, where 64 bits are on; anything
    else as it is."""
    if not isinstance(value, NDArray):
        return value
    numbers = host(value.cell)
    same = numbers.dtype.kind == dtype.kind and numbers.dtype.itemsize >= 4
    return like_jax(jax.device_put(numbers.astype(dtype) if same else numbers, context.device), context)


def _number(value: Any) -> Any:
    """Return one of NumPy's numbers as Python's; anything else as it is."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value


def _as_numpy(values: Any) -> Any:
    """Return arrays in tuples, lists and dicts in NumPy's memory."""
    if isinstance(values, NDArray):
        return values.asnumpy()
    if isinstance(values, list | tuple):
        return type(values)(map(_as_numpy, values))
    return {name: _as_numpy(value) for name, value in values.items()} if isinstance(values, dict) else values


_hooks: dict[str, Callable[..., None]] = {}
"""What `mx.autograd` does for the methods of arrays."""


def on_backward(function: Callable[..., None]) -> Callable[..., None]:
    """A decorator: what `x.backward()` calls."""
    _hooks["backward"] = function
    return function


def mark(array: NDArray, grad: NDArray, grad_req: str) -> None:
    """Make an array a leaf of the tape, whose gradient is kept in another one."""
    if grad_req not in ("write", "add", "null"):
        raise CallError("No such grad_req", expected="'write', 'add' or 'null'", got=repr(grad_req))
    array.gradient = grad
    array.entry = recording.Leaf(grad.cell, grad_req)


def zero_gradient(shape: tuple[int, ...], dtype: DType, context: Context) -> NDArray:
    """Return zeros for gradients that may be computed when they are read."""
    cell = LateCell(shape, jax.dtypes.canonicalize_dtype(dtype), context.device)
    cell.value = zeros(shape, cell.dtype, cell.place)
    return NDArray(cell, context)


class _Copied(recording.ByPython):
    """The gradient of a copy is copied back to the context of the source."""

    names = ("a0",)

    def __init__(self, context: Context):
        self._context = context

    @cached_property
    def symbol(self) -> Symbol:
        """Return the copy in a graph."""
        return function_named("_copy")(Symbol.create_variable("a0"), name="copy")

    def backward(self, head: NDArray) -> NDArray:
        """Return the head gradient on the context that the array came from."""
        return head.as_in_context(self._context)


OF_STORAGE: dict[str, Callable[..., NDArray]] = {"default": NDArray}
"""What makes an array of each storage type; `sparse_arrays.py` adds its own."""


def stored_as(array: NDArray, stype: str) -> NDArray:
    """The same array, shown with a storage type."""
    if array.stype == stype:
        return array
    shown = OF_STORAGE[stype](array.cell, array.context, array.entry)
    shown.gradient = array.gradient
    return shown


OF_DIALECT: dict[str, Callable[..., NDArray]] = {CLASSIC: NDArray}
"""What makes an array of each dialect; `mx.np` adds its own."""


def in_dialect(array: NDArray, dialect: str) -> Any:
    """The array in a dialect: the same memory, gradient and place on the tape."""
    if array.dialect == dialect:
        return array
    same = OF_DIALECT[dialect](array.cell, array.context, array.entry)
    same.gradient = array.gradient
    return same


def current_dialect() -> str:
    """The dialect of what layers and data of this thread give."""
    return NUMPY if is_np_array() else CLASSIC


def in_current_dialect(array: NDArray) -> Any:
    """The array in the dialect of what layers and data of this thread give."""
    return in_dialect(array, current_dialect())


def like_jax(value: jax.Array, context: Context | None = None) -> NDArray:
    """An NDArray of a jax.Array, which is moved to the context where that is not where JAX puts arrays."""
    device = context.device if context else None
    if device is not None and value.devices() != {device}:
        value = jax.device_put(value, device)
    return NDArray(new_cell(value, device), context or context_of(value))


def as_jax(value: Any, dtype: DType = None) -> jax.Array:
    """A jax.Array of anything that is an array; NumPy's memory is copied."""
    array = value.value if isinstance(value, NDArray) else value
    if not isinstance(array, jax.Array):
        array = jax.device_put(np.array(held(np.asarray(array))))
    return array if dtype is None else cast(array, dtype)


def _unpickled(value: np.ndarray, device_type: str, device_id: int, dialect: str = CLASSIC) -> NDArray:
    context = Context(device_type, device_id)
    if is_narrowed(value.dtype):
        return in_dialect(NDArray(StoredCell(value, context.device), context), dialect)
    return in_dialect(like_jax(jax.device_put(value, context.device), context), dialect)


def _as_numbers(value: Any, dtype: DType) -> np.ndarray:
    """Return what is written to an array as an array of NumPy's. Raises SymbolTypeError for anything else."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biufV":
            return array
        if array.dtype.kind != "c":
            return array.astype(dtype)
    except (ValueError, TypeError, OverflowError):
        pass  # the error is raised below
    problem = "NDArray does not support assignment with non-array-like object"
    raise SymbolTypeError(problem, got=f"{value!r:.80} of type {type(value)}")


def _broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    """Return an array in a shape to which it broadcasts; axes of one element ahead of all may be too many."""
    fitting = value.reshape(_without_ones_ahead(value.shape, len(shape)))
    try:
        return (jnp if isinstance(value, jax.Array) else np).broadcast_to(fitting, shape)
    except ValueError:
        problem = "The value does not fit the part of the array that it is assigned to"
        expected = f"a shape that broadcasts to {shape}"
        fix = None
        if value.size == prod(shape):
            fix = f"value.{'T' if value.shape[::-1] == shape else f'reshape({shape})'} has that shape."
        raise SymbolValueError(problem, expected=expected, got=f"shape {value.shape}", fix=fix) from None


def _without_ones_ahead(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Return a shape of too many axes without those ahead that have one element."""
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    return shape


# -- operators -------------------------------------------------------------------------------------------------------


def invoke(function: Callable[..., Any], *args: Any, out: Any = None, ctx: ContextLike = None, **kwargs: Any) -> Any:
    """Compute a function of symbols on arrays in place of symbols.

    out: arrays to write the result to; numbers that are made without a shape get that of the array. ctx: of functions
    without arrays, the context of the result; else it is that of the first array, as in MXNet. Raises what the function
    raises, CallError for arrays that are missing, and what inference and lowering raise.
    """
    arrays: list[NDArray] = []
    kwargs.pop("name", None)
    described = [_described(arg, arrays) for arg in (*args, *kwargs.values())]
    context = arrays[0].context if arrays else as_context(ctx)
    shape = out.shape if isinstance(out, NDArray) and not arrays else None
    key = None if None in described else (function, *_surroundings(context), shape, *kwargs, *described)
    prepared = None if key is None else _prepared.get(key)
    if prepared is None:
        prepared = None if key is None else _with_other_numbers(key, kwargs, arrays)
    if prepared is None:
        prepared = _prepare(function, args, kwargs, arrays, context, shape)
        if key is not None and not prepared.expression.calls_python:
            _prepared[key] = prepared
            if prepared.numbered is not None:
                _prepared[_without_numbers(key, kwargs)] = prepared
    expression, numbered, form_of, is_list, storage, dialect, rows = prepared
    for target in () if out is None else (out,) if isinstance(out, NDArray) else out:
        if isinstance(target, NDArray) and target.dialect != dialect:
            raise _of_other_dialect(function, target, "write to")
    shown = None
    if form_of is not None and not (numbered is not None and _takes_any_number(arrays)):
        form = form_of(arrays[0].shape, arrays[0].cell.dtype, context.device)
        if form is not None:
            shown, expression, numbered = expression.symbol, form.expression, None
            arrays += [NDArray(new_cell(number, None), context) for number in form.numbers]
    outputs = _run(expression, arrays, context, out, numbered, OF_DIALECT[dialect], rows, shown)
    if out is not None:
        return out
    if storage is not None:
        outputs = [stored_as(output, stype) for output, stype in zip(outputs, storage, strict=True)]
    return outputs if is_list else outputs[0]


_CHANGING = frozenset({"scalar", "lr", "eta", "t"})
"""Keywords whose numbers change from call to call."""


def _without_numbers(key: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of a call without the numbers that may change; the keywords are its last parts."""
    first = len(key) - len(kwargs)
    kinds = (
        part[0] if name in _CHANGING and isinstance(part, tuple) else part
        for name, part in zip(kwargs, key[first:], strict=True)
    )
    return (*key[:first], *kinds)


def _with_other_numbers(key: tuple[Any, ...], kwargs: Mapping[str, Any], arrays: Sequence[NDArray]) -> Prepared | None:
    """Return the prepared call for a call that differs from an earlier one only in numbers; else None."""
    numbers_by_name = {name: kwargs[name] for name in _CHANGING & kwargs.keys()}
    if not numbers_by_name or not _takes_any_number(arrays):
        return None
    similar = _prepared.get(_without_numbers(key, kwargs))
    if similar is None or similar.numbered is None:
        return None
    of_any, _ = similar.numbered
    try:
        numbers = [float(numbers_by_name.pop(name)) for name in of_any.changing]
    except (KeyError, ValueError):  # the operator raises its own error
        return None
    if inf in map(abs, numbers):  # maybe too many digits
        return None
    checked = of_any.changing == ("scalar",) or min(numbers) > 0  # the operator refuses other rates itself
    return similar._replace(numbered=(of_any, numbers)) if checked and not numbers_by_name else None


def _takes_any_number(arrays: Sequence[NDArray]) -> bool:
    """Return whether a call may be computed with its numbers as arrays: it is not recorded, no array of integers."""
    recorded = recording.is_recording() and any(array.entry is not None for array in arrays)
    return not recorded and all(_is_floating(array.cell.dtype) for array in arrays)


_is_floating = lru_cache(lambda dtype: jnp.issubdtype(dtype, jnp.floating))


_PLAIN = frozenset({int, str, bool, type(None), type, np.dtype})
"""Types of arguments that are equal only where they mean the same."""

Numbered = tuple[OfAnyNumber, list[Any]] | None
"""The function of an expression, and of others that differ from it only in numbers, with its numbers."""


class Prepared(NamedTuple):
    """What a call evaluates.

    form_of: what gives the expression with its numbers as inputs. is_list: whether its result is a list. storage: the
    storage types of what it returns, None where all are "default". dialect: of its results. rows: the numbers of a
    weight and a gradient, where only the gradient's rows are updated.
    """

    expression: Expression
    numbered: Numbered
    form_of: FormOf | None
    is_list: bool
    storage: list[str] | None
    dialect: str
    rows: tuple[int, int] | None


_prepared: Recent[tuple[Any, ...], Prepared] = Recent(policy.KEPT_EXPRESSIONS)
"""What a call of `invoke` evaluates, by its arguments; arrays count by their classes."""


def _described(argument: Any, arrays: list[NDArray]) -> Any:
    """Return an argument's part of a call's key; None if it has no key. Its arrays are appended to `arrays`."""
    kind = type(argument)
    if isinstance(argument, NDArray):
        arrays.append(argument)
        return kind
    if kind in _PLAIN:
        return kind, argument
    if kind is float:
        return kind, repr(argument)  # 0.0 and -0.0 are equal
    if kind is not list and kind is not tuple:
        return None
    inner = [_described(item, arrays) for item in argument]
    return None if None in inner else (kind, *inner)


def _surroundings(context: Context) -> tuple[bool, str]:
    """Return whether this thread trains, and the platform of a context."""
    device = context.device
    return recording.is_training(), current_platform() if device is None else kind_of(device)


def _prepare(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    arrays: Sequence[NDArray],
    context: Context,
    shape: tuple[int, ...] | None,
) -> Prepared:
    """Return the expression of a call with arrays, also for any numbers, and of what kind its results are.

    shape: the shape of numbers that are made without one; None: of draws it is (1,), as in MXNet.
    """
    numbers = itertools.count()
    dialect = _dialect_of(function)
    for array in arrays:
        if array.dialect != dialect:
            raise _of_other_dialect(function, array)

    def variable(argument: Any) -> Any:
        if isinstance(argument, NDArray):
            return Symbol.create_variable(variable_name(next(numbers)))
        if isinstance(argument, list | tuple) and any(isinstance(item, NDArray) for item in argument):
            return [variable(item) for item in argument]
        return argument

    with NameManager():
        symbols = [variable(arg) for arg in args]
        named = {key: variable(value) for key, value in kwargs.items()}
        try:
            built = function(*symbols, **named)
        except NotASymbolError as error:
            raise _not_an_array(error, dialect) from None
        if (
            dialect == CLASSIC
            and not arrays
            and isinstance(built, Symbol)
            and _lacks_shape(built.outputs[0].node, shape)
        ):
            built = function(*symbols, **{**named, "shape": (1,) if shape is None else shape})
        if not arrays and isinstance(built, Symbol):
            built = _with_known_shape(built)
    parts = [built] if isinstance(built, Symbol) else list(built)
    symbol = parts[0] if len(parts) == 1 else Group(parts)
    expression = shared_expression(symbol, len(arrays), *_surroundings(context))
    is_list = len(parts) > 1 or len(symbol.outputs) > 1
    storages = {variable_name(i): array.stype for i, array in enumerate(arrays)}
    storage, updated = infer_storage(symbol.outputs, storages), updates_rows(symbol.outputs, storages)
    rows = None if updated is None else (int(updated[0][1:]), int(updated[1][1:]))
    is_dense = all(array.stype == "default" for array in arrays)  # of others the number decides how results are stored
    numbered, form_of = (of_any_number(expression), form_for(expression)) if is_dense else (None, None)
    return Prepared(
        expression, numbered, form_of, is_list, None if set(storage) == {"default"} else storage, dialect, rows
    )


def _with_known_shape(built: Symbol) -> Symbol:
    """Return zeros for a shape without elements: in a graph a size of 0 stands for one that others decide."""
    params = built.outputs[0].node.attrs.parsed
    shape = getattr(params, "shape", None) or ()
    if not isinstance(shape, tuple) or 0 not in shape:
        return built
    zeros: Any = function_named("_npi_zeros")
    return zeros(shape=shape, dtype=params.dtype or "float32")


def _dialect_of(function: Callable[..., Any]) -> str:
    """Return the dialect of a function of symbols by its name."""
    return NUMPY if function.__name__.startswith(("_np_", "_npi_", "_npx_")) else CLASSIC


def _of_other_dialect(function: Callable[..., Any], array: NDArray, does: str = "accept") -> SymbolTypeError:
    """Return the error for an array of the dialect that a function does not have. does: what with arrays of its own."""
    name = function.__name__
    python_name = name.removeprefix("_np").removeprefix("x").removeprefix("i").removeprefix("_")
    problem = f"Operator `{name}` registered in backend is known as `{python_name}` in Python. "
    if array.dialect == NUMPY:
        problem += f"This is a legacy operator which can only {does} legacy ndarrays, while received an MXNet numpy "
        fix = "Please call `as_nd_ndarray()` upon the numpy ndarray, and give the operator what that returns."
        return SymbolTypeError(f"{problem}ndarray", fix=fix)
    problem += f"This is a numpy operator which can only {does} MXNet numpy ndarrays, while received a legacy ndarray"
    fix = "Activate numpy semantics by npx.set_np(), or call `as_np_ndarray()` upon the legacy ndarray."
    return SymbolTypeError(problem, fix=fix)


def _not_an_array(error: NotASymbolError, dialect: str) -> NotAnArrayError:
    """Return the error for a value in place of an array of a dialect."""
    listed = isinstance(error.value, list | tuple) and any(isinstance(item, Symbol) for item in error.value)
    shown = f"a {type(error.value).__name__} of arrays" if listed else repr(error.value)[:80]
    fix = "Pass them one by one: op(*arrays)." if listed else _MAKES_ONE[dialect]
    return NotAnArrayError(f"{error.argument} must have NDArray type, but got {shown}", fix=fix)


_MAKES_ONE = {CLASSIC: "mx.nd.array(value) makes one.", NUMPY: "mx.np.array(value) makes one."}
"""Dialect → the way out for a value that is not an array of it."""


def require_arrays(values: Iterable[Any], what: str, dialect: str = CLASSIC) -> None:
    """Raise NotAnArrayError for a value that is not an NDArray. what: what the values are, in words."""
    for value in values:
        if not isinstance(value, NDArray):
            fix = _MAKES_ONE[dialect]
            raise NotAnArrayError(f"{what} must have NDArray type, but got {value!r:.80}", fix=fix)


def _lacks_shape(node: Node, shape: tuple[int, ...] | None) -> bool:
    """Return whether a node makes numbers whose shape its parameters lack. shape: None, where only draws do."""
    undecided = not node.inputs and getattr(node.attrs.parsed, "shape", 0) in (None, ())
    return undecided and (shape is not None or node.op in FDraws)


@lru_cache(policy.KEPT_EXPRESSIONS)
def _shape_after(function: str, shape: tuple[int, ...], *params: tuple[str, Any]) -> tuple[int, ...]:
    """Return the shape that an operator makes of an array's shape."""
    symbol = function_named(function)(Symbol.create_variable(variable_name(0)), **dict(params))
    expression = shared_expression(symbol, 1, False, current_platform())
    outputs, _ = jax.eval_shape(expression.forward, [jax.ShapeDtypeStruct(shape, np.float32)], None)
    return outputs[0].shape


def run_symbol(symbol: Symbol, arrays: Sequence[NDArray], context: Context) -> list[NDArray]:
    """The outputs of a symbol over a0, a1, … for arrays; states are written, and the call recorded."""
    return _run(shared_expression(symbol, len(arrays), *_surroundings(context)), arrays, context, None)


def _run(
    expression: Expression,
    arrays: Sequence[NDArray],
    context: Context,
    out: Any,
    numbered: Numbered = None,
    array_class: Callable[..., NDArray] = NDArray,
    rows: tuple[int, int] | None = None,
    shown: Symbol | None = None,
) -> list[NDArray]:
    """Return the outputs of an expression; out: arrays that they are written to, too. array_class: their class. rows:
    as of Prepared. shown: as of `Call`. Raises CallError for those that do not fit."""
    if out is None and not expression.program.aux_names:
        return _evaluated(expression, arrays, context, numbered, array_class, rows, shown)
    targets = [] if out is None else [out] if isinstance(out, NDArray) else list(out)
    written = [target.cell for target in targets if isinstance(target, NDArray)]
    written += [arrays[int(name[1:])].cell for name in expression.program.aux_names]
    with writing(*written):
        outputs = _evaluated(expression, arrays, context, numbered, array_class, rows, shown)
        if out is not None:
            write_outputs(targets, outputs, out, draws=not arrays)
    return outputs


def _evaluated(
    expression: Expression,
    arrays: Sequence[NDArray],
    context: Context,
    numbered: Numbered,
    array_class: Callable[..., NDArray],
    rows: tuple[int, int] | None,
    shown: Symbol | None,
) -> list[NDArray]:
    """Run an expression, store its new states, record it on the tape, and return its outputs."""
    for i, number in expression.fixed:
        fill(arrays[i].cell, number)
    inputs, device = [arrays[i] for i in expression.positions], context.device
    for array in inputs:
        if array.context is not context:
            check_one_device(expression.operator, [array.context for array in arrays])
            break
    values = [array.value for array in inputs]
    refuse_without_client()
    try:
        if numbered is not None and _takes_any_number(inputs):
            of_any, numbers = numbered
            (outputs, states), key = of_any.outputs(values, numbers), None
        else:
            outputs, states, key = evaluate(expression, values)
    except InferenceError as error:
        raise in_words_of_call(expression, error, values) from None
    if rows is not None:
        weight, grad = (arrays[i].value for i in rows)
        old_states = {name: arrays[int(name[1:])].value for name in states}
        outputs, states = _in_rows_of(grad, ([*outputs], states), ([weight], old_states))
    recorded = recording.is_recording()
    origins = [*map(recording.origin, inputs)] if recorded else []
    if states:
        pairs = [*zip(expression.names, origins, strict=False)]
        origins = [None if name in states else origin for name, origin in pairs]
        wrt = tuple(name for name, origin in pairs if origin is not None and name not in states)
        for name in expression.written(wrt):
            arrays[int(name[1:])].cell.assign(states[name])
    if device is None:
        results = [array_class(new_cell(output, None), context) for output in outputs]
    else:
        results = [array_class(like_jax(output, context).cell, context) for output in outputs]
    if any(origins):
        written = {name: arrays[int(name[1:])] for name in states}
        recording.Call(expression, values, origins, key, outputs, written, shown=shown).made(results)
    return results


_in_rows_of = Staged(in_rows_of, few=True)


def write_outputs(targets: Sequence[Any], results: Sequence[NDArray], out: Any, draws: bool = False) -> None:
    """Write results to the arrays that were given for them as out=. draws: they are numbers that were made for these
    arrays, in whose dtype they are written. Raises CallError."""
    if len(targets) != len(results) or any(not isinstance(target, NDArray) for target in targets):
        problem = "out= needs one NDArray for each result"
        raise CallError(problem, expected=f"{len(results)} arrays", got=f"{len(targets)} of {type(out).__name__}")
    for target, result in zip(targets, results, strict=True):
        if recording.is_recording():
            target.refuse_recorded_write(None)
        if target.shape != result.shape:
            raise CallError("The array given as out= has the wrong shape", expected=result.shape, got=target.shape)
        if target.dtype != result.dtype and not draws:
            dtypes = {"expected": np.dtype(result.dtype).name, "got": np.dtype(target.dtype).name}
            raise CallError("The array given as out= has the wrong dtype", **dtypes)
        target.cell.assign(result._value_on(target.context), cast=True)
        if result.entry is not None:
            target.entry = result.entry
