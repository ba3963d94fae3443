"""The arrays that an executor holds: cells of fixed shape and dtype, read and written by name or by number.

A jax.Array never changes, so what MXNet writes as `ex.arg_dict["w"][:] = x` is an assignment to the name here:
`ex.arg_dict["w"] = x`. The cell checks and converts the values it is given.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Sharding, SingleDeviceSharding

from lowering.core.python_calls import at_home, is_called_back, of_this_thread
from lowering.host.placed import placed_one
from lowering.jax_casts import written
from lowering.sharding.explicit_axes import on_auto_axes
from lowering.xla.out_of_memory import read, telling_memory
from symjax_nnvm.errors import (
    ExecutorTypeError,
    ExecutorValueError,
    LoweringError,
    UnknownArrayError,
    did_you_mean,
    listed,
)

Place = Any
"""A `jax.Device`, or the `jax.sharding.Sharding` of an array on several; None: JAX decides."""


_making = threading.Lock()

_PATIENCE = 10
"""Seconds."""


def zeros(shape: Sequence[int], dtype: Any, place: Place = None) -> jax.Array:
    """Return zeros. Made by NumPy: `jnp.zeros` compiles a program for every new shape, and keeps it."""
    return jax.device_put(np.zeros(tuple(shape), dtype), place)


@lru_cache(1024)
def _filled(shape: tuple[int, ...], dtype: Any, number: float, place: Place) -> jax.Array:
    return jax.device_put(np.full(shape, number, dtype), place)


def fill(cell: Cell, number: float) -> None:
    """Fill a cell with a number. Cells of one kind share an array, so that most calls do nothing."""
    filled = _filled(cell.shape, cell.dtype, number, cell.place)
    if cell.show() is not filled:
        cell.assign(filled)


def array_like(value: Any) -> bool:
    """Return whether a value has a shape and a dtype, as arrays of JAX and NumPy do."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


class Cell:
    """One array, its shape and dtype fixed, which executors and other code read and write.

    root: the cell whose memory it is: its own, or that of another cell for a part or an alias of it. lock: held by code
    that reads the value to write another one made of it (`writing`).
    """

    __slots__ = ()

    shape: tuple[int, ...]
    dtype: Any
    place: Place
    lock: Any

    @property
    def root(self) -> Cell:
        """Return the cell that owns the memory."""
        return self

    def show(self) -> jax.Array:
        """Return the array, handed to a caller."""
        raise NotImplementedError

    def assign(self, value: Any, *, cast: bool = False) -> None:
        """Hold a value of the cell's shape, or one number for all elements; see `ArrayCell.assign`."""
        raise NotImplementedError

    def keep(self, value: jax.Array) -> None:
        """Hold an array that was computed for the cell, of its shape and dtype, on its device."""
        self.assign(value)

    @property
    def memory(self) -> np.ndarray | None:
        """Return NumPy's memory of an array that was written since all of it was read, to be read under the lock; None
        for others."""
        return None

    def own_memory(self) -> np.ndarray | None:
        """Return NumPy's memory of the array, which this cell alone holds, to be written under the lock; None where a
        write makes a new array."""
        return None


class ArrayCell(Cell):
    """A cell that holds an array. Executors that share a cell see each other's writes.

    value: the jax.Array it holds now. shown: whether a caller may hold that very array, so that its memory must not be
    given to XLA.
    """

    __slots__ = ("_lock", "dtype", "name", "place", "shape", "shown", "value")

    def __init__(self, name: str, value: jax.Array, place: Place, *, shown: bool):
        self.name = name
        self.value = value
        self.shape = value.shape
        self.dtype = value.dtype
        self.place = place
        self.shown = shown
        self._lock: Any = None

    @property
    def lock(self) -> Any:
        """Return the cell's lock, made when it is first needed: most arrays are written by their executor alone."""
        if self._lock is None:
            with _making:
                self._lock = self._lock or threading.RLock()
        return self._lock

    @classmethod
    def zeros(cls, name: str, shape: Sequence[int], dtype: Any, place: Place) -> ArrayCell:
        """Return a new cell that holds zeros."""
        return cls(name, zeros(shape, dtype, place), place, shown=False)

    def show(self) -> jax.Array:
        """Return the array, handed to a caller; one that no caller holds, once no thread is about to write it."""
        value = self.value
        if not self.shown:
            with writing(self):
                self.shown, value = True, self.value
        return of_this_thread(value)

    def keep(self, value: jax.Array) -> None:
        """Hold an array that was computed for the cell, and that no caller holds."""
        self.value, self.shown = at_home(value), False

    def assign(self, value: Any, *, cast: bool = False) -> None:
        """Hold a copy of a value of the cell's shape, or of one number for all elements, in the cell's dtype.

        NumPy's memory is copied, so that it may be used again at once. cast: also convert where digits are lost, from
        floating-point numbers to integers. Raises ExecutorValueError.
        """
        if isinstance(value, Tracer) and not isinstance(self.value, Tracer):
            problem = "A traced value cannot be written to an array that was made outside of the traced function"
            raise LoweringError(
                problem, fix="Return it from the function that jax.jit traces, or make a new array of it."
            )
        fits = isinstance(value, jax.Array) and value.shape == self.shape and value.dtype == self.dtype
        if fits and not value.weak_type:  # a weak type would have the graph compiled anew
            if isinstance(value, Tracer):
                self.value = value
                return
            if type(value.sharding) is not SingleDeviceSharding:
                value = on_auto_axes(value)
            if self.place is not None and not _lies_on(value, self.place):
                value = jax.device_put(value, self.place)
            self.value, self.shown = at_home(value), True
            return
        if not isinstance(value, jax.Array):
            value = np.asarray(value)
        if value.shape not in (self.shape, ()):
            raise ExecutorValueError(
                f"Shape not match! Argument {self.name}, need: {self.shape}, received: {value.shape}"
            )
        if not cast and _loses_digits(value.dtype, self.dtype):
            raise ExecutorValueError(
                f"Array {self.name!r} has the wrong dtype",
                expected=self.dtype.name,
                got=value.dtype.name,
                fix=f'Convert it: array.astype("{self.dtype.name}").',
            )
        value = written(value, np.dtype(self.dtype))  # a copy of NumPy's memory, so that JAX may use it as it is
        if value.shape != self.shape:
            value = (jnp if isinstance(value, Tracer) else np).broadcast_to(value, self.shape)
        self.value, self.shown = at_home(jax.device_put(value, self._place_of_new(value))), True

    def _place_of_new(self, value: Any) -> Place:
        """Return where to put a new array: on the old array's devices if it is on several and the value is
        not."""
        if (
            self.place is None
            and not isinstance(value, jax.Array)
            and not isinstance(self.value, Tracer)
            and len(self.value.sharding.device_set) > 1
        ):
            return self.value.sharding
        return self.place


class OwnCell(ArrayCell):
    """A cell with an array of its own. On a CPU its parts are written in NumPy's memory, which becomes JAX's when the
    whole is read: many writes copy the array once."""

    __slots__ = ("_device", "_memory")

    def __init__(self, name: str, value: jax.Array, place: Place, *, shown: bool):
        self._memory: np.ndarray | None = None
        super().__init__(name, value, place, shown=shown)

    @property
    def memory(self) -> np.ndarray | None:
        """See `Cell.memory`."""
        return self._memory

    def own_memory(self) -> np.ndarray | None:
        """See `Cell.own_memory`."""
        if self._memory is None:
            value = self.value
            if is_called_back() or not on_cpu(value):
                return None
            with telling_memory:
                self._device, self._memory = committed_place(value), np.array(read(value))
            self.__class__ = _WrittenCell  # pyright: ignore[reportAttributeAccessIssue]
            _VALUE.__set__(self, None)
        return self._memory


class _WrittenCell(OwnCell):
    """Stands for an `OwnCell` while its array is in NumPy's memory, so that reading others costs no call."""

    __slots__ = ()

    @property
    def value(self) -> jax.Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the array, whose memory is JAX's from now on."""
        with writing(self):
            if self._memory is not None:
                with telling_memory:
                    self.value, self.shown = at_home(placed_one(self._memory, self._device)), True
            return _VALUE.__get__(self)

    @value.setter
    def value(self, value: jax.Array) -> None:
        with self.lock:
            _VALUE.__set__(self, value)
            self._memory = None
            self.__class__ = OwnCell  # pyright: ignore[reportAttributeAccessIssue]


_VALUE: Any = vars(ArrayCell)["value"]


def on_cpu(value: jax.Array) -> bool:
    """Return whether one CPU holds an array, which has a value."""
    return (
        not isinstance(value, Tracer)
        and all(device.platform == "cpu" for device in value.devices())
        and len(value.devices()) == 1
    )


def committed_place(value: jax.Array) -> Place:
    """Return the one device to which an array is bound; None if JAX may move it."""
    return next(iter(value.devices())) if value.committed else None


class Alias(ArrayCell):
    """Represents another cell under the name that a graph has for it: what is written here is written there."""

    __slots__ = ("_cell",)

    def __init__(self, name: str, cell: Cell):
        self.name, self._cell = name, cell
        self.shape, self.dtype, self.place = cell.shape, cell.dtype, cell.place

    @property
    def root(self) -> Cell:
        """Return the cell that owns the memory."""
        return self._cell.root

    @property
    def lock(self) -> Any:
        """Return the other cell's lock."""
        return self._cell.lock

    @property
    def value(self) -> jax.Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the other cell's array."""
        return self._cell.show()

    @value.setter
    def value(self, value: jax.Array) -> None:
        self._cell.assign(value)

    @property
    def shown(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return true: other code holds the other cell."""
        return True

    @shown.setter
    def shown(self, shown: bool) -> None:
        pass

    def show(self) -> jax.Array:
        """Return the other cell's array, handed to a caller."""
        return self._cell.show()

    def assign(self, value: Any, *, cast: bool = False) -> None:
        """Assign as `ArrayCell.assign` does."""
        self._cell.assign(value, cast=cast)


def values_of(cells: Iterable[ArrayCell | None]) -> list[Any]:
    """Return the arrays of cells, as this thread may compute with them; None for no cell."""
    values = [None if cell is None else cell.value for cell in cells]
    return [None if value is None else of_this_thread(value) for value in values] if is_called_back() else values


def keep_all(cells: Sequence[ArrayCell], values: Sequence[jax.Array]) -> None:
    """Store arrays that the executor itself computed in cells."""
    if is_called_back():
        values = [at_home(value) for value in values]
    for cell, value in zip(cells, values, strict=True):
        cell.value = value
        cell.shown = False


def _lies_on(value: jax.Array, place: Place) -> bool:
    return value.sharding == place if isinstance(place, Sharding) else value.devices() == {place}


def _loses_digits(array_dtype: Any, cell_dtype: Any) -> bool:
    return jnp.issubdtype(array_dtype, jnp.inexact) and not jnp.issubdtype(cell_dtype, jnp.inexact)


def writing(*cells: Any) -> AbstractContextManager[Any]:
    """Return a block that reads cells and writes values made of them: no other thread writes them so meanwhile.

    Python that a program calls waits for others 10 seconds at most, since they may wait for the program. Raises
    LoweringError then.
    """
    if is_called_back():
        return _writing(cells, _PATIENCE)
    return cells[0].lock if len(cells) == 1 else _writing(cells, -1)


@contextmanager
def _writing(cells: Sequence[Any], patience: float) -> Iterator[None]:
    """Hold the locks of cells inside the block. patience: the seconds to wait for each, -1 without end."""
    acquired: list[Any] = []
    try:
        for lock in sorted({cell.lock for cell in cells}, key=id):  # in one order, so that no two threads wait for ever
            if not lock.acquire(timeout=patience):
                problem = "A Python operator writes to an array that another thread is writing to"
                raise LoweringError(problem, fix="Let one of the two write to a copy: array.copy().")
            acquired.append(lock)
        yield
    finally:
        for lock in reversed(acquired):
            lock.release()


class ArrayDict(MutableMapping[str, Any]):
    """Arrays by name; assigning to a name writes the array. Names come and go with the graph only.

    A name reads as a jax.Array, or as None for a gradient that was not requested.
    """

    def __init__(self, what: str, names: Sequence[str], cells: Sequence[ArrayCell | None]):
        repeated = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
        if repeated:
            raise ExecutorValueError(f"Duplicate names detected, {listed(names)}: {what}s can only be named by number")
        self._what = what
        self._cells = dict(zip(names, cells, strict=True))

    def _cell(self, name: str) -> ArrayCell | None:
        if name not in self._cells:
            raise UnknownArrayError(
                f"Unknown {self._what} {name!r}",
                expected=f"one of {listed(self._cells) if self._cells else 'none at all'}",
                fix=did_you_mean(str(name), self._cells) or None,
            )
        return self._cells[name]

    def __getitem__(self, name: str) -> Any:
        cell = self._cell(name)
        return None if cell is None else cell.show()

    def __setitem__(self, name: str, value: Any) -> None:
        _assign(self._what, name, self._cell(name), value)

    def __delitem__(self, name: str) -> None:
        raise ExecutorTypeError(f"The {self._what} {name!r} cannot be deleted: it belongs to the executor's graph")

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {_describe(cell)}' for name, cell in self._cells.items())}}}"


class ArrayList(Sequence[Any]):
    """Arrays by number, in the order of the graph; assigning to a number writes the array."""

    def __init__(self, what: str, cells: Iterable[ArrayCell | None]):
        self._what = what
        self._cells = list(cells)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [None if cell is None else cell.show() for cell in self._cells[index]]
        cell = self._cells[index]
        return None if cell is None else cell.show()

    def __setitem__(self, index: int, value: Any) -> None:
        _assign(self._what, index, self._cells[index], value)

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return f"[{', '.join(map(_describe, self._cells))}]"


def _assign(what: str, name: str | int, cell: ArrayCell | None, value: Any) -> None:
    if cell is None:
        raise ExecutorValueError(
            f"There is no array for {what} {name!r}, so nothing can be written to it",
            fix="Bind it with grad_req 'write' or 'add'.",
        )
    cell.assign(value)


def _describe(cell: ArrayCell | None) -> str:
    return "None" if cell is None else f"{cell.dtype.name}{list(cell.shape)}"
