"""NDArrayIter: batches of arrays in memory; CSVIter: of tables in files."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowering.data.text_tables import read_csv
from lowering.messages.counts import check_count, check_counts, checks_flags
from lowering.mx.io.desc import DataBatch, DataDesc, DataIter, MXDataIter
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array
from symjax_nnvm.errors import CallError, ParamError, listed
from symjax_nnvm.io.files import path_text
from symjax_nnvm.ir.types import dtype_name

_HANDLES = ("pad", "discard", "roll_over")

_OF_FEW = {
    "discard": "no epoch has a batch",
    "roll_over": "some epochs have no batch, and keep their samples for the next one",
}
"""What happens to samples that fill no batch."""


class NDArrayIter(DataIter):
    """Batches of arrays.

    `data` and `label` are the whole arrays by name, in their present order. Batches are their rows, and they may be
    written and replaced. NDArrays are shared with the caller until they are shuffled.

    Args:
        data: an array, a list of arrays, or a dict by name.
        label: the same for labels.
        batch_size: the number of samples in a batch.
        shuffle: shuffle at every reset by NumPy's global generator, so that `np.random.seed` gives MXNet's order.
        last_batch_handle: what happens to a last batch that is not full: "pad" fills it with the first samples,
            "discard" leaves it out, "roll_over" puts its samples into the next epoch.
        data_name: the name of data without one.
        label_name: the name of labels without one.
        layout: the axes of the data; N is the axis of the samples.

    Raises:
        CallError: an argument has the wrong type, or arrays have different lengths.
        CountError: `batch_size` is not a number above 0; the error is a ValueError, too.
    """

    @checks_flags
    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ):
        super().__init__(check_count(batch_size, "batch_size"))
        if last_batch_handle not in _HANDLES:
            raise CallError("No such last_batch_handle", expected=f"one of {_HANDLES}", got=repr(last_batch_handle))
        self.data, self.label = _named(data, data_name), _named(label, label_name)
        self.layout = layout
        self.num_data = self._samples()
        if self.num_data < self.batch_size and last_batch_handle in _OF_FEW:
            rows = f"batch_size={batch_size} is more than the {self.num_data} samples of the data"
            warnings.warn(
                f"{rows}: with last_batch_handle={last_batch_handle!r} {_OF_FEW[last_batch_handle]}.", stacklevel=2
            )
        self.idx = np.arange(self.num_data)
        self.shuffle, self.last_batch_handle = shuffle, last_batch_handle
        self.cursor = -self.batch_size
        self._cached: list[np.ndarray] | None = None
        self.reset()

    def _samples(self) -> int:
        """Return the number of samples in the first of the data. Raises CallError where another array has fewer."""
        lengths = {name: rows.shape[self._axis] for name, rows in (*self.data, *self.label)}
        if not self.data:
            raise CallError("No data was given", expected="at least one array", got=lengths)
        samples = self.data[0][1].shape[self._axis]
        problem = "Arrays of an iterator have different numbers of samples"
        if min(lengths.values()) < samples:
            raise CallError(problem, expected=f"{samples} in each", got=lengths)
        if max(lengths.values()) > samples:
            warnings.warn(f"{problem}, {lengths}: the first {samples} of each are used.", stacklevel=3)
        return samples

    @property
    def _axis(self) -> int:
        """Return the axis of the samples."""
        return self.layout.find("N")

    @property
    def data_list(self) -> list[NDArray]:
        """Return the arrays of data and labels."""
        return [value for _, value in (*self.data, *self.label)]

    @property
    def num_source(self) -> int:
        """Return the number of arrays."""
        return len(self.data) + len(self.label)

    @property
    def provide_data(self) -> list[DataDesc]:
        """Return the names, shapes and dtypes of a batch's data."""
        return self._described(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Return the names, shapes and dtypes of a batch's labels."""
        return self._described(self.label)

    def _described(self, named: Any) -> list[DataDesc]:
        descs = []
        for name, value in named:
            shape = list(value.shape)
            shape[self._axis] = self.batch_size
            descs.append(DataDesc(name, shape, np.dtype(value.dtype).type, self.layout))
        return descs

    def reset(self) -> None:
        """Begin the next epoch; samples that roll over come first."""
        self._shuffle()
        rolls = self.last_batch_handle == "roll_over" and self.num_data - self.batch_size < self.cursor < self.num_data
        self.cursor = self.cursor - self.num_data - self.batch_size if rolls else -self.batch_size

    def hard_reset(self) -> None:
        """Begin the next epoch; no samples roll over."""
        self._shuffle()
        self.cursor, self._cached = -self.batch_size, None

    def _shuffle(self) -> None:
        """Shuffle the numbers, and the samples by them: each time those that were shuffled before, as MXNet does."""
        if self.shuffle:
            np.random.shuffle(self.idx)  # MXNet's generator: one seed, one order
            self.data, self.label = (
                [(name, self._taken(value, self.idx)) for name, value in named] for named in (self.data, self.label)
            )

    def iter_next(self) -> bool:
        """Go to the next batch, and return whether there is one."""
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """Return the next batch; at the end it raises StopIteration."""
        if not self.iter_next():
            raise StopIteration
        data, label = _listed(self.getdata()), _listed(self.getlabel())
        self._cached = None
        if data[0].shape[self._axis] != self.batch_size:
            self._cached = [value.asnumpy() for value in (*data, *label)]
            raise StopIteration
        return DataBatch(data, label, self.getpad(), self.getindex())

    def getdata(self) -> list[NDArray]:
        """Return the data of the batch."""
        return self._batch(self.data, 0)

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the batch."""
        return self._batch(self.label, len(self.data))

    def _batch(self, named: Any, first: int) -> list[NDArray]:
        """Return the rows of the batch; those left of the epoch before come first. first: the number of the array."""
        arrays = []
        for i, (_, value) in enumerate(named):
            part = np.asarray(value).take(self._rows(), self._axis)
            if self.cursor < 0 and self._cached is not None:
                part = np.concatenate([self._cached[first + i], part], self._axis)
            arrays.append(array(part, dtype=part.dtype))
        return arrays

    def _taken(self, value: Any, rows: np.ndarray) -> NDArray:
        """Return these rows, as an array of its own."""
        part = np.asarray(value).take(rows, self._axis)
        return array(part, dtype=part.dtype)

    def _rows(self) -> np.ndarray:
        """Return the numbers of the batch's samples, without those that waited."""
        if self.last_batch_handle == "pad":
            return np.arange(self.cursor, self.cursor + self.batch_size) % self.num_data
        return np.arange(max(self.cursor, 0), min(self.cursor + self.batch_size, self.num_data))

    def getpad(self) -> int:
        """Return how many samples at its end fill the batch up; for a rolled-over batch, how many are of the epoch
        before."""
        if self.last_batch_handle == "pad":
            return max(self.cursor + self.batch_size - self.num_data, 0)
        return -self.cursor if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0 else 0


def _named(source: Any, name: str) -> list[tuple[str, NDArray]]:
    """Return arrays by name, in the names' order."""
    if source is None:
        return []
    if isinstance(source, np.ndarray | NDArray) or hasattr(source, "shape"):
        source = {name: source}
    if isinstance(source, list | tuple):
        several = len(source) > 1
        source = {f"_{i}_{name}" if several else name: value for i, value in enumerate(source)}
    if not isinstance(source, Mapping):
        raise CallError("Input must be NDArray, numpy.ndarray, a list of them or dict with them as values")
    values = {key: value if isinstance(value, NDArray) else array(value) for key, value in source.items()}
    flat = [key for key, value in values.items() if not value.shape]
    if flat:
        raise CallError(f"{listed(flat)} has no axis of samples", expected="arrays of samples")
    return [(key, values[key]) for key in sorted(values)]


class CSVIter(NDArrayIter, MXDataIter):
    """Batches of a file with a table of numbers, with labels from a second file; without it they are zeros.

    The pad of the last batch is the number of samples that fill it up. `index` of a batch has the numbers of its
    samples, uint64.

    Args:
        data_csv: the file of the data.
        data_shape: the shape of one sample.
        label_csv: the file of the labels.
        label_shape: the shape of one label.
        batch_size: the number of samples in a batch.
        round_batch: fill the last batch with the first samples, and begin the next epoch after them; False: with
            samples of the batch before.
        data_name: the name of the data.
        label_name: the name of the labels.
        dtype: the dtype of the data.
        _: further keywords of MXNet's, ignored.

    Raises:
        TrainingError: a file is not a table of such samples.
        FileError: a path is not a regular file.
        OSError: a file cannot be read.
        ValueError: a number is out of range.
    """

    @checks_flags
    def __init__(
        self,
        data_csv: Any = None,
        data_shape: Any = None,
        label_csv: str | None = None,
        label_shape: Any = (1,),
        batch_size: int | None = None,
        round_batch: bool = True,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        **_: Any,
    ):
        path = path_text(data_csv, "data_csv")
        if data_shape is None or batch_size is None:
            name = "data_shape" if data_shape is None else "batch_size"
            raise ParamError("A parameter of CSVIter is missing", param=name, fix=f"CSVIter(..., {name}=...)")
        try:
            dtype = dtype_name(dtype)
        except ValueError as error:
            raise ParamError(str(error), param="dtype") from None
        batch_size = check_count(batch_size, "batch_size")
        label_sizes = check_counts(label_shape, "label_shape")
        data = read_csv(path, check_counts(data_shape, "data_shape"), dtype)
        if label_csv is None:
            label = np.zeros((len(data), *label_sizes), dtype)
        else:
            label = read_csv(path_text(label_csv, "label_csv"), label_sizes, dtype)
        label = label[:, 0] if label.shape[1:] == (1,) else label
        named = {data_name: array(data, dtype=data.dtype)}, {label_name: array(label, dtype=label.dtype)}
        self._round, self._overflow = round_batch, 0
        super().__init__(named[0], named[1], batch_size)

    def iter_next(self) -> bool:
        """Go to the next batch, and return whether there is one."""
        if self._overflow:
            return False
        more = super().iter_next()
        self._overflow = self.getpad() if more and self._round else 0
        return more

    def reset(self) -> None:
        """Begin the next epoch, after the samples that filled up the last batch."""
        super().reset()
        self.cursor += self._overflow
        self._overflow = 0

    def _rows(self) -> np.ndarray:
        if self.cursor < 0:  # before the first batch is taken, it is that one
            begun = copy.copy(self)
            begun.cursor += self.batch_size
            return begun._rows()
        rows = super()._rows()
        if self._round or self.cursor < self.batch_size:
            return rows
        numbers = np.arange(self.cursor, self.cursor + self.batch_size)
        return np.where(numbers < self.num_data, numbers, numbers - self.batch_size)

    def getindex(self) -> np.ndarray:
        """Return the numbers of the batch's samples."""
        return self._rows().astype(np.uint64)

    def getdata(self) -> NDArray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the data of the batch, a single array, as MXNet's iterators over files do."""
        return super().getdata()[0]

    def getlabel(self) -> NDArray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the labels of the batch."""
        return super().getlabel()[0]


def _listed(arrays: Any) -> list[NDArray]:
    return [arrays] if isinstance(arrays, NDArray) else arrays
