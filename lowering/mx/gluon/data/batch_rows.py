"""The rows of a batch of samples that lie in arrays, taken at once: a sample each takes Python a hundred times as
long. Transforms that compute the same of a batch of images as of each are applied to all together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.executor.bound_arrays import on_cpu
from lowering.jax_casts import held
from lowering.mx.gluon.basic_block import Block, has_hooks
from lowering.mx.gluon.data.dataset import (
    ArrayDataset,
    DownloadedDataset,
    _LazyTransformDataset,
    _SampledDataset,
    _TransformFirstClosure,
)
from lowering.mx.gluon.data.vision.transforms import Cast, Compose, Normalize, ToTensor
from lowering.mx.gluon.nn import HybridSequential, Sequential
from lowering.mx.ndarray.array import NDArray, in_current_dialect
from lowering.mx.ndarray.cells import stored_of
from lowering.mx.ndarray.creation import array

Rows = list[tuple[Any, np.ndarray]]
"""For each part of a sample the array that it is a row of, or one like it, and the rows of a batch."""

_OF_IMAGES, _IN_A_ROW = (Cast, ToTensor, Normalize), (Compose, HybridSequential, Sequential)


def rows_like(sample: Any, rows: np.ndarray) -> Any:
    """Rows as the array of a batch: where an NDArray is, or of numbers as JAX holds them."""
    if isinstance(sample, NDArray):
        return in_current_dialect(array(rows, sample.context, rows.dtype))
    rows = held(rows)
    return in_current_dialect(array(rows, dtype=rows.dtype))


def rows_of(dataset: Any, numbers: Sequence[Any]) -> Rows | None:
    """The rows of the samples with these numbers; None where samples are other things, or one is not there."""
    if type(dataset) is _LazyTransformDataset:
        first: Any = dataset._fn
        if type(first) is not _TransformFirstClosure or not _computes_batches(first._fn):
            return None
        rows = rows_of(dataset._data, numbers)
        return None if rows is None else _transformed(first._fn, rows)
    if type(dataset) is _SampledDataset:
        return rows_of(dataset._dataset, [dataset._indices[number] for number in numbers])
    whole = _arrays_of(dataset)
    arrays = [*map(_in_memory, whole)]
    chosen = np.asarray(numbers)
    if not whole or any(rows is None for rows in arrays) or chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        return None
    if not (abs(chosen + 0.5) < len(dataset)).all():
        return None
    return [(data, rows[chosen]) for data, rows in zip(whole, arrays, strict=True) if rows is not None]


def _arrays_of(dataset: Any) -> Sequence[Any]:
    """Return the arrays whose rows are the parts of a data set's samples; none for other data sets."""
    own = type(dataset).__getitem__
    if isinstance(dataset, ArrayDataset) and own is ArrayDataset.__getitem__:
        return dataset._data
    if isinstance(dataset, DownloadedDataset) and own is DownloadedDataset.__getitem__ and dataset._transform is None:
        return dataset._data, dataset._label
    return ()


def _in_memory(data: Any) -> np.ndarray | None:
    """Return an array of numbers in NumPy's memory, not copied; None for what is elsewhere, or another thing."""
    if not isinstance(data, NDArray):
        return data if type(data) is np.ndarray and data.ndim and data.dtype.kind in "biuf" else None
    if data.stype != "default" or stored_of(data.cell) is not None or not on_cpu(data.value):
        return None
    return np.asarray(data.value)


def _computes_batches(transform: Any) -> bool:
    """Return whether a transform computes of a batch of images what it does of each."""
    if not isinstance(transform, Block) or has_hooks(transform):
        return False
    if type(transform) in _IN_A_ROW:
        children: Any = transform
        return all(map(_computes_batches, children))
    return type(transform) in _OF_IMAGES


def _transformed(transform: Any, rows: Rows) -> Rows | None:
    """Return rows with the transform applied to their first part; None if that part has no images, or no arrays that
    blocks take: then the transform of one sample raises the error."""
    (data, images), *others = rows
    if images.ndim != 4 or not isinstance(data, NDArray):
        return None
    result = transform(rows_like(data, images))
    return [(result, np.asarray(result.value)), *others]
