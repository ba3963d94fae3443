"""An NDArray holds a cell: one of its own, of the executor's kind, or a view of another array's, written through."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from lowering.core.python_calls import refuse_without_client
from lowering.executor.bound_arrays import ArrayCell, Cell, OwnCell, Place, committed_place, on_cpu, writing
from lowering.host.placed import placed_one
from lowering.jax_casts import held, written
from lowering.mx.accepted_types import DType
from lowering.xla.out_of_memory import read
from symjax_nnvm.errors import LoweringError, NarrowedDtypeWarning


def new_cell(value: jax.Array, device: Place) -> OwnCell:
    """A cell of a value that is on the device already. An executor that binds it names it."""
    return OwnCell("", value, device, shown=True)


class LateCell(ArrayCell):
    """An array that may be computed when it is first read.

    computed_by: what computes it, None once it is there: its `run` fills the cell. number: of its results.
    """

    __slots__ = ("__weakref__", "_held", "computed_by", "number")

    def __init__(self, shape: tuple[int, ...], dtype: DType, place: Place):
        self.name, self.shape, self.dtype, self.place, self.shown = "", shape, dtype, place, True
        self._lock, self._held, self.computed_by, self.number = None, None, None, 0

    def wait_for(self, computation: Any, number: int) -> None:
        """Set the computation that fills the cell when it is read. number: which of its results."""
        self.computed_by, self.number = computation, number

    @property
    def value(self) -> jax.Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the array, computed now if it was not yet."""
        computation = self.computed_by
        if computation is not None:
            computation.run()
        return self._held  # pyright: ignore[reportReturnType]

    @value.setter
    def value(self, value: jax.Array) -> None:
        self._held, self.computed_by = value, None

    def fill(self, computation: Any, result: jax.Array) -> None:
        """Hold a result, unless another value was written meanwhile, or another computation is waited for."""
        if self.computed_by is computation:
            if self.place is not None and result.devices() != {self.place}:
                result = jax.device_put(result, self.place)
            self.value = result


class StoredCell(ArrayCell):
    """An array of a file in its own 64 bits, which JAX's mode narrows where it is computed with, until a result
    is written there; `x[i] = y` writes to the 64 bits.

    stored: the file's array; None once another was written.
    """

    __slots__ = ("_narrowed", "stored")

    def __init__(self, stored: np.ndarray, place: Place):
        self.name, self.shape, self.dtype, self.place, self.shown = "", stored.shape, stored.dtype, place, True
        self._lock, self._narrowed, self.stored = None, None, stored

    @property
    def value(self) -> jax.Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the array as JAX holds it. Raises TooWideError for numbers that need 64 bits."""
        with self.lock:
            if self._narrowed is None and self.stored is not None:
                warn_of_narrowing(self.dtype)
                self._narrowed = jax.device_put(held(self.stored), self.place)
            return self._narrowed  # pyright: ignore[reportReturnType]

    @value.setter
    def value(self, value: jax.Array) -> None:
        with self.lock:
            self._narrowed, self.dtype, self.stored = value, value.dtype, None

    def store(self, stored: np.ndarray) -> None:
        """Hold another array of 64 bits, of the cell's shape."""
        with self.lock:
            self._narrowed, self.dtype, self.stored = None, stored.dtype, stored

    def assign(self, value: Any, *, cast: bool = False) -> None:
        """Assign as `ArrayCell.assign` does, in the dtype that JAX has."""
        self.dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        super().assign(value, cast=cast)


def warn_of_narrowing(dtype: np.dtype) -> None:
    """Warn of an array of 64 bits that JAX holds in 32."""
    narrow = jax.dtypes.canonicalize_dtype(dtype)
    problem = f"An array of {dtype.name} became {narrow.name}, because JAX's 64-bit mode is off."
    warnings.warn(f"{problem} Switch it on with JAX_ENABLE_X64=1.", NarrowedDtypeWarning, stacklevel=4)


class HostCell(Cell):
    """An array in NumPy's memory: what Python code that a compiled program calls is given to read and write."""

    __slots__ = ("array", "dtype", "lock", "shape")

    place = None

    def __init__(self, array: np.ndarray):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.lock = threading.RLock()

    def show(self) -> jax.Array:
        """The value now. Raises LoweringError where nothing may be computed with it."""
        refuse_without_client()
        return jax.device_put(self.array.copy())

    def assign(self, value: Any, *, cast: bool = False) -> None:
        """Write the array. value: of its shape, or one number."""
        np.copyto(self.array, written(np.asarray(value), self.dtype))


class View(Cell):
    """A part of another array, or all of it in another shape. What is written to it is written there.

    take: value of the whole → value of the part, computed when it is first read. put: (value of the whole, value
    of the part) → value of the whole. Both take arrays of JAX, and of NumPy.
    """

    __slots__ = ("_put", "_seen", "_value", "base", "shape", "take")

    def __init__(
        self,
        base: Any,
        shape: tuple[int, ...],
        take: Callable[[Any], Any],
        put: Callable[[Any, Any], Any],
    ):
        self.base, self.shape = base, shape
        self.take, self._put = take, put
        self._seen: Any = None
        self._value: Any = None

    @property
    def dtype(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The dtype of the whole."""
        return self.base.dtype

    @property
    def stored(self) -> np.ndarray | None:
        """The part of a file's array, if the whole is one."""
        whole = stored_of(self.base)
        return None if whole is None else self.take(whole)

    def store(self, stored: np.ndarray) -> None:
        """Hold another part of a file's array."""
        self.base.store(self._put(stored_of(self.base), stored))

    @property
    def root(self) -> Cell:
        """The root of the whole."""
        return self.base.root

    @property
    def place(self) -> Place:
        """The device or sharding of the whole array."""
        return self.base.place

    @property
    def lock(self) -> Any:
        """The lock of the whole array: views of one array are written one after the other."""
        return self.base.lock

    def show(self) -> jax.Array:
        """The value of the part."""
        part = _copied(self)
        if part is not None:
            return placed_one(part, self.place)
        whole = self.base.show()
        if whole is not self._seen:
            self._seen, self._value = whole, self.take(whole)
        return self._value

    @property
    def memory(self) -> np.ndarray | None:
        """See `Cell.memory`."""
        whole = self.base.memory
        return None if whole is None else self.take(whole)

    def own_memory(self) -> np.ndarray | None:
        """See `Cell.own_memory`."""
        whole = self.base.own_memory()
        return None if whole is None else self.take(whole)

    def assign(self, value: Any, *, cast: bool = False) -> None:
        """Write the part. value: of its shape, or one number."""
        with writing(self):
            part = ArrayCell("", self.show(), self.place, shown=True)
            part.assign(value, cast=cast)
            memory = self.own_memory()
            if memory is None:
                self.base.assign(self._put(self.base.show(), part.value))
            else:
                memory[...] = part.value


def _copied(cell: Cell) -> np.ndarray | None:
    """Return a copy of the memory of a cell that was written since all of it was read; None for others."""
    if cell.memory is None:
        return None
    with writing(cell):
        memory = cell.memory  # another thread may have read the whole
        return None if memory is None else memory.copy()


def elements_of(cell: Any) -> np.ndarray:
    """The numbers of the elements of its root that a cell shows, in the cell's shape."""
    if isinstance(cell, View):
        return cell.take(elements_of(cell.base))
    return np.arange(math.prod(cell.shape)).reshape(cell.shape)


class SharedCell(ArrayCell):
    """A cell whose array stands in NumPy's memory, too: what is written here is written there."""

    __slots__ = ("_memory",)

    def __init__(self, memory: np.ndarray, place: Place):
        """memory: writable, of a dtype that JAX has."""
        super().__init__("", jax.device_put(memory.copy(), place), place, shown=True)
        self._memory = memory

    def assign(self, value: Any, *, cast: bool = False) -> None:
        """See `ArrayCell.assign`."""
        super().assign(value, cast=cast)
        np.copyto(self._memory, read(self.value))

    def keep(self, value: jax.Array) -> None:
        """See `ArrayCell.keep`."""
        self.assign(value)


def host(cell: Any) -> np.ndarray:
    """The value of a cell in NumPy's memory, not to be written."""
    if isinstance(cell, HostCell):
        return cell.array
    stored = stored_of(cell)
    if stored is not None:
        return stored
    part = _copied(cell)
    if part is not None:
        return part
    if isinstance(cell, View) and (isinstance(cell.root, HostCell) or on_cpu(cell.root.show())):
        return np.asarray(cell.take(host(cell.base)))
    value = cell.show()
    if isinstance(value, Tracer):
        problem = "An array that JAX traces has no numbers before the traced function runs"
        raise LoweringError(problem, fix="Return the array from the function, and read it there: f(x).asnumpy().")
    return read(value)


def stored_of(cell: Any) -> np.ndarray | None:
    """The array of a file that a cell shows, in its own 64 bits; None for other values."""
    return cell.stored if isinstance(cell, StoredCell | View) else None


def part_of(base: Any, key: Any) -> View:
    """The view of an array at a basic index, an entry for each axis."""
    shape, sizes = [], iter(base.shape)
    for entry in key:
        size = 1 if entry is None else next(sizes)
        if not isinstance(entry, int):
            shape.append(1 if entry is None else len(range(*entry.indices(size))))
    key = key if shape else (*key, ...)  # NumPy gives an array without axes, which can be written, not a number
    return View(base, tuple(shape), lambda whole: item(whole, key), lambda whole, part: put(whole, key, part))


class _Reshaped(View):
    """All of another array in another shape."""

    __slots__ = ()


def reshaped(base: Any, shape: tuple[int, ...]) -> View:
    """The view of an array in another shape."""
    base = base.base if isinstance(base, _Reshaped) else base
    return _Reshaped(base, shape, lambda whole: _in_shape(whole, shape), lambda _, part: _in_shape(part, base.shape))


def _in_shape(value: Any, shape: tuple[int, ...]) -> Any:
    """Return the value in another shape. On a CPU by NumPy, as in `item`."""
    if isinstance(value, np.ndarray):
        return value.reshape(shape)
    if on_cpu(value):
        return placed_one(read(value).reshape(shape), committed_place(value))
    return jnp.reshape(value, shape)


def item(value: Any, key: Any) -> Any:
    """`value[key]`. On a CPU by NumPy: JAX would compile a program for each shape and key."""
    if isinstance(value, np.ndarray):
        return value[key]
    if on_cpu(value):
        return placed_one(read(value)[key], committed_place(value))
    return value[key]


def put(value: Any, key: Any, part: Any) -> Any:
    """The value with another part at a key; the part is broadcast. Raises ValueError where it does not fit."""
    on_host = isinstance(value, np.ndarray)
    if on_host or (on_cpu(value) and not isinstance(part, Tracer)):
        whole = np.array(value if on_host else read(value))
        whole[key] = written(np.asarray(part), whole.dtype)
        return whole if on_host else placed_one(whole, committed_place(value))
    return value.at[key].set(written(part, value.dtype))
