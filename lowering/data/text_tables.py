"""`CSVIter` and `LibSVMIter`: batches of numbers in text files, with MXNet's parameters; whole, dense, in memory."""

from __future__ import annotations

import os
import warnings
from array import array
from math import prod

import numpy as np

from lowering.data.augmenter_parameters import part_of
from lowering.messages.migration_hints import with_migration_hints
from lowering.training.data import Batches
from symjax_nnvm.errors import TrainingError, cut
from symjax_nnvm.io.files import StrPath, bounded_lines, open_regular
from symjax_nnvm.io.guess import require_file

_NUMBERS = ("float32", "float64", "int32", "int64")
_MOST = 16 << 30
"""Bytes of a dense array from which on a LibSVM file is refused, unless max_bytes is set."""


class CSVIter(Batches):
    """Gives `lowering.Batches` of the rows of a CSV file: {data_name: (n, *data_shape), label_name: (n, *label_shape)}.

    data_csv: a file of numbers with commas between, a row in each line, and no header. label_csv: labels, likewise;
    None: 0 for every row. label_shape (1,) gives labels (n,), as in MXNet. dtype: float32, float64, int32 or int64.
    round_batch: a last batch that is not full is filled from the start, else it is short. shuffle, seed: see Batches.
    prefetch_buffer and ctx mean nothing: the arrays are in memory. Raises TrainingError, with row and column, for what
    is not a number and for rows of another length; FileError, OSError.
    """

    @with_migration_hints("CSVIter", "CSVIter(data_csv='x.csv', data_shape=(4,), batch_size=32)")
    def __init__(
        self,
        data_csv: StrPath,
        data_shape: tuple[int, ...],
        batch_size: int,
        label_csv: StrPath | None = None,
        label_shape: tuple[int, ...] = (1,),
        round_batch: bool = True,
        dtype: str | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        shuffle: bool = False,
        seed: int = 0,
        prefetch_buffer: int = 4,
        ctx: str = "cpu",
    ):
        if np.dtype(dtype or "float32").name not in _NUMBERS:
            raise TrainingError("Wrong dtype", param="dtype", expected=", ".join(_NUMBERS), got=repr(dtype))
        data = read_csv(data_csv, data_shape, dtype)
        if label_csv is None or str(label_csv) == "NULL":
            labels = np.zeros((len(data), *label_shape), data.dtype)
        else:
            labels = read_csv(label_csv, label_shape, dtype)
        super().__init__(_named(data, labels, data_name, label_name, label_shape), batch_size, shuffle, seed,
                         "pad" if round_batch else "keep")  # fmt: skip


class LibSVMIter(Batches):
    """Gives `lowering.Batches` of the rows of a LibSVM file, dense float32: {data_name: (n, d), label_name: (n,)}.

    data_libsvm: lines `label column:value column:value …`, columns from 0 as in MXNet (not from 1, as LIBSVM's own
    tools write them). data_shape: (d,). label_libsvm: a file of the same kind whose values are the labels, (n, k) for
    label_shape (k,). MXNet gives sparse batches; here all rows are one dense array, refused above max_bytes.
    num_parts, part_index: only these rows. Raises TrainingError, with the line; FileError, OSError.
    """

    @with_migration_hints("LibSVMIter", "LibSVMIter(data_libsvm='x.t', data_shape=(4,), batch_size=32)")
    def __init__(
        self,
        data_libsvm: StrPath,
        data_shape: tuple[int],
        batch_size: int,
        label_libsvm: StrPath | None = None,
        label_shape: tuple[int] = (1,),
        num_parts: int = 1,
        part_index: int = 0,
        round_batch: bool = True,
        data_name: str = "data",
        label_name: str = "softmax_label",
        shuffle: bool = False,
        seed: int = 0,
        max_bytes: int = _MOST,
        prefetch_buffer: int = 4,
        ctx: str = "cpu",
    ):
        data, labels = _read_libsvm(data_libsvm, data_shape, max_bytes)
        if label_libsvm is not None and str(label_libsvm) != "NULL":
            labels = _read_libsvm(label_libsvm, label_shape, max_bytes)[0]
        elif tuple(label_shape) != (1,):
            expected = "(1,), or label_libsvm="
            raise TrainingError("Each row has one label", param="label_shape", expected=expected, got=label_shape)
        arrays = _named(data, labels, data_name, label_name, label_shape)
        rows = part_of(len(data), num_parts, part_index)
        arrays = {name: array[rows.start : rows.stop] for name, array in arrays.items()}
        super().__init__(arrays, batch_size, shuffle, seed, "pad" if round_batch else "keep")


def _longest_line(numbers: int) -> int:
    """Return the largest number of bytes of a line with these numbers: a file without line ends is not read whole."""
    return 4096 + 256 * numbers


def _named(
    data: np.ndarray, labels: np.ndarray, data_name: str, label_name: str, label_shape: tuple[int, ...]
) -> dict[str, np.ndarray]:
    if len(labels) != len(data):
        fix = "Write one line of labels for each line of data."
        raise TrainingError(
            "The labels do not fit the data", expected=f"{len(data)} rows", got=f"{len(labels)} rows", fix=fix
        )
    return {data_name: data, label_name: labels[:, 0] if tuple(label_shape) == (1,) and labels.ndim == 2 else labels}


def read_csv(path: StrPath, shape: tuple[int, ...], dtype: str | None) -> np.ndarray:
    """Return the rows (n, *shape) of a CSV file, float32 without a dtype. Raises TrainingError, FileError, OSError."""
    require_file(path)
    with open_regular(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("error", "loadtxt: input contained no data")
        try:
            lines = bounded_lines(file, _longest_line(prod(shape)), TrainingError)
            rows = np.loadtxt(lines, dtype or np.float32, delimiter=",", comments=None, ndmin=2)
        except (ValueError, UserWarning) as error:
            if isinstance(error, TrainingError):
                raise
            fix = "Write numbers separated by commas, without a header: tail -n +2 FILE removes one."
            raise TrainingError(
                f"{os.fspath(path)} is not a CSV file of numbers: {cut(str(error), 300)}", fix=fix
            ) from None
    if rows.shape[1] != prod(shape):
        expected = f"{prod(shape)} numbers, for the shape {tuple(shape)}"
        raise TrainingError(
            f"The lines of {os.fspath(path)} have the wrong length", expected=expected, got=rows.shape[1]
        )
    return rows.reshape(len(rows), *shape)


def _read_libsvm(path: StrPath, shape: tuple[int], max_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values (n, d) and labels (n,)."""
    if len(shape) != 1 or shape[0] < 1:
        raise TrainingError("data_shape must have one axis", expected="(d,), the number of columns", got=shape)
    labels, values = array("d"), array("d")
    rows, columns = array("q"), array("q")
    require_file(path)
    with open_regular(path) as file:
        for number, line in enumerate(bounded_lines(file, _longest_line(shape[0]), TrainingError), 1):
            fields = line.split()
            if not fields:
                continue
            try:
                labels.append(float(fields[0]))
                for field in fields[1:]:
                    column, _, value = field.partition(b":")
                    if not 0 <= int(column) < shape[0]:
                        raise _outside(path, number, int(column), shape)
                    rows.append(len(labels) - 1)
                    columns.append(int(column))
                    values.append(float(value))
            except ValueError as error:
                if isinstance(error, TrainingError):
                    raise
                expected = "`label column:value column:value …`"
                where = f"{os.fspath(path)}: line {number} is not in LibSVM's format"
                raise TrainingError(where, expected=expected, got=repr(line[:200])) from None
    needed = 4 * len(labels) * shape[0]
    if needed > max_bytes:
        raise TrainingError(
            f"{os.fspath(path)} is too large for a dense array: {len(labels)} rows of {shape[0]} columns",
            expected=f"at most {max_bytes} bytes",
            got=needed,
            fix="Read a part of a file that was split, with num_parts= and part_index=, or raise max_bytes=.",
        )
    dense = np.zeros((len(labels), shape[0]), np.float32)
    dense[np.asarray(rows), np.asarray(columns)] = values
    return dense, np.array(labels, np.float32)


def _outside(path: StrPath, number: int, column: int, shape: tuple[int]) -> TrainingError:
    return TrainingError(
        f"{os.fspath(path)}: line {number} has a value outside of data_shape",
        param="data_shape",
        expected=f"columns from 0 to {shape[0] - 1}",
        got=column,
        fix=f"Columns count from 0, as in MXNet. If they count from 1 in the file, use data_shape=({shape[0] + 1},).",
    )
