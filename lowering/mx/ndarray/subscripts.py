"""MXNet's indices of arrays: which are views of the memory, which shapes come out, which operators take them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lowering.mx.util import is_np_shape
from symjax_nnvm.errors import SymbolIndexError, SymbolTypeError, SymbolValueError

Key = tuple[Any, ...]


def as_read(key: Any, ndim: int) -> Any:
    """The key of an array that is read: where MXNet counts Python's bools as 0 and 1, with numbers in their place.

    That is where a bool is the whole key, and where every axis has a number. Elsewhere, and wherever an array is
    written, a bool stands for no axis: see `expanded`.
    """
    if isinstance(key, bool):
        return int(key)
    if isinstance(key, tuple) and len(key) == ndim and all(isinstance(entry, int | np.integer) for entry in key):
        return tuple(map(int, key))
    return key


def expanded(key: Any, shape: tuple[int, ...]) -> Key:
    """The key with an entry for every axis: whole numbers in range, slices, None for new axes, NumPy arrays of numbers.

    MXNet has no masks: Python's bools are left out, and arrays and lists of bools are the numbers 0 and 1.

    Raises SymbolIndexError, an IndexError, for too many entries and for numbers out of range; SymbolValueError for an
    NDArray of bools, for a single bool of NumPy's, for arrays that do not fit each other, and for anything that is not
    an index; SymbolTypeError for bounds and lists that are not numbers.
    """
    entries = [entry for entry in (key if isinstance(key, tuple) else (key,)) if not isinstance(entry, bool)]
    entries = [entry if _is_basic(entry) else _index_array(entry) for entry in entries]
    used = sum(1 for entry in entries if entry is not None and entry is not Ellipsis)
    if used > len(shape):
        raise SymbolIndexError(f"too many indices ({used}) for array with {len(shape)} dimensions")
    if sum(1 for entry in entries if entry is Ellipsis) > 1:
        raise SymbolIndexError("Cannot use more than one ellipsis (`...`) for indexing")
    dots = next((i for i, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    whole_axes = [slice(None)] * (len(shape) - used)
    entries = [*entries[:dots], *whole_axes, *(entry for entry in entries[dots:] if entry is not Ellipsis)]
    axis, full = 0, []
    for entry in entries:
        if entry is None:
            full.append(entry)
            continue
        full.append(_in_range(entry, axis, shape[axis]))
        axis += 1
    arrays = [entry.shape for entry in full if isinstance(entry, np.ndarray)]
    if len(arrays) > 1:
        _refuse_misfits(arrays)
    return tuple(full)


def with_plain_slices(key: Any) -> Any:
    """A key of the NumPy dialect with whole numbers in place of arrays of one number that are bounds of slices."""
    if isinstance(key, slice):
        return slice(*map(_plain_bound, (key.start, key.stop, key.step)))
    if isinstance(key, tuple) and any(isinstance(entry, slice) for entry in key):
        return tuple(with_plain_slices(entry) if isinstance(entry, slice) else entry for entry in key)
    return key


def _plain_bound(bound: Any) -> Any:
    is_one_number = getattr(bound, "size", 0) == 1 and bound.dtype != np.bool_
    return int(np.asarray(bound).item()) if is_one_number else bound


def without_masks(key: Any, shape: tuple[int, ...]) -> Key:
    """A key of the NumPy dialect, in which arrays and lists of bools are masks, with the numbers of the elements in
    their place. Raises SymbolIndexError, an IndexError, for a mask that does not fit the axes that it covers."""
    entries: list[Any] = []
    axis = 0
    key_entries = key if isinstance(key, tuple) else (key,)
    if all(map(_is_basic, key_entries)):
        return key_entries
    covered = sum(_axes_of(entry) for entry in key_entries)
    for entry in key_entries:
        if entry is Ellipsis:
            axis += len(shape) - covered
        elif (mask := _mask(entry)) is None:
            axis += entry is not None
        else:
            part = shape[axis : axis + mask.ndim]
            if mask.shape != part:
                at = next((i for i, sizes in enumerate(zip(mask.shape, part, strict=False)) if sizes[0] != sizes[1]), 0)
                if mask.ndim > len(part):
                    raise SymbolIndexError(
                        f"too many indices, whose ndim = {mask.ndim}, for array with ndim = {len(shape)}"
                    )
                raise SymbolIndexError(
                    f"boolean index did not match indexed array along dimension {axis + at}; dimension is {part[at]} "
                    f"but corresponding boolean dimension is {mask.shape[at]}"
                )
            axis += mask.ndim
            entries.extend(np.nonzero(mask))
            continue
        entries.append(entry)
    return tuple(entries)


def has_bool(key: Any) -> bool:
    """Whether a key of the NumPy dialect has a bool, or an array of one, which covers no axis."""
    return any(map(_is_bool, key)) if isinstance(key, tuple) else _is_bool(key)


def _is_bool(entry: Any) -> bool:
    if isinstance(entry, bool | np.bool_):
        return True
    return not _is_basic(entry) and getattr(entry, "shape", None) == () and entry.dtype == np.bool_


def with_an_axis(key: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Key]:
    """The shape with an axis of one element where a key has its first bool, and the key that takes that element where
    all of its bools are true, else none."""
    entries = key if isinstance(key, tuple) else (key,)
    first = next(i for i, entry in enumerate(entries) if _is_bool(entry))
    before, after = ([entry for entry in part if not _is_bool(entry)] for part in (entries[:first], entries[first:]))
    dots = any(entry is Ellipsis for entry in before)
    axis = len(shape) - sum(map(_axes_of, after)) if dots else sum(map(_axes_of, before))
    taken = np.zeros(int(all(map(bool, filter(_is_bool, entries)))), np.int64)
    return (*shape[:axis], 1, *shape[axis:]), (*before, taken, *after)


def _mask(entry: Any) -> np.ndarray | None:
    """Return an entry that is an array or a list of bools, as NumPy's array; else None."""
    if isinstance(entry, list):
        if not entry or not all(isinstance(item, bool | np.bool_) for item in entry):
            return None
    elif _is_basic(entry) or getattr(entry, "dtype", None) != np.bool_ or not getattr(entry, "shape", ()):
        return None
    return np.asarray(entry)


def _axes_of(entry: Any) -> int:
    """Return how many axes an entry of a key covers."""
    if entry is None or entry is Ellipsis:
        return 0
    mask = _mask(entry)
    return 1 if mask is None else mask.ndim


def _refuse_misfits(shapes: list[tuple[int, ...]]) -> None:
    """Raise SymbolValueError for shapes of index arrays that do not broadcast to one."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise SymbolValueError("The index arrays cannot be broadcast to one shape", got=shapes) from None


def _is_basic(entry: Any) -> bool:
    return entry is None or entry is Ellipsis or isinstance(entry, slice | int | np.integer)


def _index_array(entry: Any) -> np.ndarray:
    if isinstance(entry, float | complex | np.inexact | str | bytes | set | dict):
        raise SymbolValueError(f"NDArray does not support slicing with key {entry} of type {type(entry)}.")
    try:
        indices = np.asarray(entry)
    except ValueError:
        raise SymbolTypeError("Lists in a list of indices must have the same length", got=repr(entry)) from None
    if indices.dtype.kind not in "biufV":  # V: JAX's floating-point types
        raise SymbolTypeError("Indices must be numbers", got=f"{entry!r} of {indices.dtype.name}")
    if indices.dtype == np.bool_ and (indices.ndim == 0 or not isinstance(entry, np.ndarray | list | tuple)):
        problem = "Cannot perform boolean indexing: MXNet has it only in its numpy mode, which is not implemented"
        raise SymbolValueError(problem, fix="Write mx.nd.where(mask, x, y), or mx.nd.contrib.boolean_mask(x, mask).")
    return indices.astype(np.int64)


def _in_range(entry: Any, axis: int, length: int) -> Any:
    """Return an entry for an axis. Raises SymbolIndexError for numbers out of range; SymbolValueError and
    SymbolTypeError for a slice with wrong bounds."""
    if isinstance(entry, slice):
        try:
            entry.indices(length)
        except ValueError:
            raise SymbolValueError("slice step cannot be zero") from None
        except TypeError:
            raise SymbolTypeError("The bounds of a slice must be whole numbers or None", got=repr(entry)) from None
        return entry
    if isinstance(entry, np.ndarray):
        if entry.size:
            for number in (entry.min(), entry.max()):
                _in_range(number, axis, length)
        return entry
    number = operator.index(entry)
    if not -length <= number < length:
        raise SymbolIndexError(f"index {number} is out of bounds for axis {axis} with size {length}")
    return number + length if number < 0 else number


def part_shape(key: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the part of an array that an expanded key takes."""
    return np.broadcast_to(_NOTHING, shape)[key].shape


_NOTHING = np.empty((), bool)


def is_basic(key: Key) -> bool:
    """Whether a key has only numbers, slices and new axes."""
    return not any(isinstance(entry, np.ndarray) for entry in key)


def kept_rank(key: Key) -> Key:
    """The key, which gives one element for `()`: outside of `np_shape`, arrays have at least one axis."""
    if key and not is_np_shape() and all(isinstance(entry, int) for entry in key):
        return (*key[:-1], slice(key[-1], key[-1] + 1))
    return key


def is_contiguous(key: Key, shape: tuple[int, ...]) -> bool:
    """Whether a basic key takes one run of the memory: MXNet's views; of others it makes copies."""
    whole = False  # whether an axis before has more than one element: then all after it must be taken in full
    for entry, length in zip((entry for entry in key if entry is not None), shape, strict=True):
        start, stop, step = (entry, entry + 1, 1) if isinstance(entry, int) else entry.indices(length)
        count = len(range(start, stop, step))
        if (whole and count != length) or (step != 1 and count > 1):
            return False
        whole = whole or count > 1
    return True


def slices(key: Key, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """begin, end and step of the operator `slice` for a basic key without its new axes. A part up to the end of an axis
    has none, so that it is the same operator of any size."""
    rows = []
    for entry, length in zip((entry for entry in key if entry is not None), shape, strict=True):
        if isinstance(entry, int):
            rows.append((entry, entry + 1, 1))
            continue
        start, stop, step = entry.indices(length)
        rows.append((start, None if stop < 0 or (stop == length and step > 0) else stop, step))
    begin, end, step = zip(*rows, strict=True)
    return begin, end, step
