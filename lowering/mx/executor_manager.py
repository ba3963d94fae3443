"""`mx.executor_manager`: what training loops that are written by hand take from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.messages.mxnet_words import unknown_attribute
from lowering.mx.module.group import split_batch
from lowering.mx.ndarray.array import NDArray
from symjax_nnvm.errors import NNVMError, TrainingError

_split_input_slice = split_batch


class BatchSizeError(NNVMError, AssertionError):
    """A batch that has other rows than the arrays it is loaded into."""


def _check_arguments(symbol: Any) -> None:
    """Raise TrainingError where two arguments or two auxiliary states have one name."""
    for kind, names in (("argument", symbol.list_arguments()), ("auxiliary param", symbol.list_auxiliary_states())):
        repeated = [name for i, name in enumerate(names) if name in names[:i]]
        if repeated:
            problem = f'Find duplicated {kind} name "{repeated[0]}"'
            raise TrainingError(problem, got=names, fix="Give each layer a name of its own.")


def _load_general(data: Sequence[NDArray], targets: Sequence[Any]) -> None:
    """Copy arrays into others: each target is an array, or a list of (rows of the source, array). Raises
    BatchSizeError."""
    for source, target in zip(data, targets, strict=False):
        if isinstance(target, NDArray):
            source.copyto(target)
            continue
        rows = target[-1][0].stop
        if rows != source.shape[0]:
            raise BatchSizeError(f"Batch size miss match. Expected {rows}, got {source.shape[0]}")
        for part, array in target:
            source[part].copyto(array)


def _load_data(batch: Any, targets: Sequence[Any]) -> None:
    """Copy a batch's data; see `_load_general`."""
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[Any]) -> None:
    """Copy a batch's labels; see `_load_general`."""
    _load_general(batch.label, targets)


def __getattr__(name: str) -> object:
    unknown_attribute("mx.executor_manager", name, sorted(globals()))
