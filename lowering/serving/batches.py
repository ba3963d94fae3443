"""Predict batch by batch: all of one size, so that one executable runs them, and one ahead of the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from lowering.messages.arguments import as_array, may_be_iterated
from symjax_nnvm.errors import LoweringError, listed, plain_list
from symjax_nnvm.progress import bar

__all__ = ["predict_batches"]

_FIX = "Axis 0 of each input must be the samples. Make batches with lowering.Batches(arrays, batch_size)."


class _Batch(NamedTuple):
    """Inputs by name with `size` samples each; the first `rows` are real, the others padding."""

    inputs: dict[str, Any]
    rows: int
    size: int


def predict_batches(
    start: Callable[..., Callable[[], Sequence[jax.Array]]],
    data: Iterable[Any],
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    unread: Collection[str],
    batch_size: int | None,
    progress: bool,
) -> Iterator[list[np.ndarray]]:
    """Yield the batches of outputs that `Predictor.batches` gives. start: takes inputs by name, and returns a function
    that waits for their outputs; inputs, outputs: names in order; unread: names that batches may have besides."""
    if isinstance(data, Mapping) or hasattr(data, "shape"):
        data = [data]
    if not may_be_iterated(data):
        raise LoweringError("No batches", expected="an iterable of batches, or one", got=f"{data!r:.80}", fix=_FIX)
    ahead: tuple[Callable[[], Sequence[jax.Array]], _Batch] | None = None
    with bar("predicting", len(data) if isinstance(data, Sized) else None, progress) as advance:
        for i, batch in enumerate(_batches(data, inputs, unread, batch_size)):
            pending, ahead = ahead, (start(**batch.inputs), batch)
            if pending is not None:
                yield _cut(*pending, outputs)
                advance(i)
        if ahead is not None:
            yield _cut(*ahead, outputs)


def _batches(data: Iterable[Any], inputs: Sequence[str], unread: Collection[str], size: int | None) -> Iterator[_Batch]:
    rows_of = getattr(data, "rows", None)  # of lowering.Batches: how many are not padding
    for i, item in enumerate(data):
        named = {name: value for name, value in _named(item, inputs).items() if name not in unread}
        arrays: dict[str, Any] = {
            name: value if hasattr(value, "shape") else np.asarray(as_array(value, name))
            for name, value in named.items()
        }
        lengths: dict[str, int] = {name: array.shape[0] if array.shape else 0 for name, array in arrays.items()}
        rows = next(iter(lengths.values()), 0)
        size = size or rows
        if not 1 <= rows <= size or set(lengths.values()) != {rows}:
            expected = f"1 to {size} samples, the same number of each input" if size else "at least one sample"
            raise LoweringError(f"Batch {i} has {lengths}", expected=expected, fix=_FIX)
        if rows < size:
            arrays = {name: np.asarray(array)[np.arange(size) % rows] for name, array in arrays.items()}
        yield _Batch(arrays, rows if rows_of is None else min(rows_of(i), rows), size)


def _named(item: Any, inputs: Sequence[str]) -> dict[str, Any]:
    """A batch by name: a dict is, a tuple or list has the order of the inputs, and one array is the one input."""
    if isinstance(item, Mapping):
        return dict(item)
    values = item if isinstance(item, tuple | list) else (item,)
    if len(values) != len(inputs):
        shown = f"{len(values)} in a {type(item).__name__}"
        fix = f"Use dicts by name: {{{plain_list([f'{name!r}: …' for name in inputs], 3)}}}."
        raise LoweringError(
            "The batch does not have the network's inputs", expected=f"the inputs {listed(inputs)}", got=shown, fix=fix
        )
    return dict(zip(inputs, values, strict=True))


def _cut(wait: Callable[[], Sequence[jax.Array]], batch: _Batch, names: Sequence[str]) -> list[np.ndarray]:
    """The outputs without the rows of padding; axis 0 may have several rows of each sample."""
    whole = _on_host(wait())
    if batch.rows == batch.size:
        return whole
    for name, output in zip(names, whole, strict=True):
        if not output.shape or output.shape[0] % batch.size:
            raise LoweringError(
                f"A batch of {batch.rows} samples was padded to {batch.size}, and the output {name!r} cannot be cut",
                expected=f"samples on axis 0: {batch.size}, or several rows of each",
                got=f"shape {output.shape}",
                fix="Give batches of one size: lowering.Batches(arrays, batch_size, last='drop').",
            )
    return [output[: output.shape[0] // batch.size * batch.rows] for output in whole]


def _on_host(outputs: Sequence[jax.Array]) -> list[np.ndarray]:
    """Return the outputs as NumPy arrays, whole in every process."""
    if all(output.is_fully_addressable for output in outputs):
        return [np.asarray(output) for output in outputs]
    return [np.asarray(output) for output in multihost_utils.process_allgather(list(outputs), tiled=True)]
