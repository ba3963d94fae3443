"""Data sets: what has a length, and a sample for each number below it."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path
from typing import Any

from lowering.messages.counts import KindError, check_count, checks_flags
from lowering.mx.gluon.data.sampler import FilterSampler, Sampler, SequentialSampler
from lowering.mx.gluon.gluon_errors import MismatchError
from lowering.mx.ndarray.array import NDArray
from lowering.mx.recordio import MXIndexedRecordIO
from symjax_nnvm.errors import RecordFormatError, SymbolTypeError
from symjax_nnvm.io.files import StrPath, path_text

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]


class Dataset:
    """The base class of data sets: a subclass defines `__getitem__` and `__len__`.

    A sample of several things is a tuple.
    """

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    @checks_flags
    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """Return the data set of samples for which a function is true; it is called once for each, now."""
        return _SampledDataset(self, FilterSampler(fn, self))

    @checks_flags
    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return one of several parts of consecutive samples; where parts are unequal, the first ones have one sample
        more.

        Args:
            num_shards: the number of parts.
            index: the number of the part.
        """
        if not 0 <= index < num_shards:
            raise MismatchError(f"Shard index of out bound: {index} out of {num_shards}")
        size, extra = divmod(len(self), num_shards)
        return _SampledDataset(self, SequentialSampler(size + (index < extra), size * index + min(index, extra)))

    def take(self, count: int | None) -> Dataset:
        """Return the data set of the first samples.

        Args:
            count: the number of samples; None for all.
        """
        length = len(self)
        taken = length if count is None else min(check_count(count, "count", 0), length)
        return _SampledDataset(self, SequentialSampler(taken))

    def sample(self, sampler: Sampler) -> Dataset:
        """Return the data set of samples that a sampler chooses.

        Args:
            sampler: the sampler, which gives numbers of samples.

        Raises:
            SymbolTypeError: `sampler` is not a Sampler; the error is a TypeError, too.
        """
        if not isinstance(sampler, Sampler):
            problem = f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead."
            raise SymbolTypeError(problem)
        return _SampledDataset(self, sampler)

    @checks_flags
    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return the data set with a function applied to each sample.

        Args:
            fn: the function; it gets the parts of a tuple as arguments.
            lazy: apply the function whenever a sample is needed; False applies it once, now.
        """
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset([transformed[i] for i in range(len(transformed))])

    @checks_flags
    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """Return the data set with a function applied to the first part of each sample, such as an image before its
        label.

        Args:
            fn: the function.
            lazy: as in `transform`.
        """
        return self.transform(_TransformFirstClosure(fn), lazy)


class SimpleDataset(Dataset):
    """The data set of a list, or of anything that has a length and items."""

    def __init__(self, data: Any):
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx]


class _LazyTransformDataset(SimpleDataset):
    """A data set that applies a function to each sample of another when it is read."""

    def __init__(self, data: Any, fn: Callable[..., Any]):
        super().__init__(data)
        self._fn = fn

    def __getitem__(self, idx: Any) -> Any:
        sample = self._data[idx]
        return self._fn(*sample) if isinstance(sample, tuple) else self._fn(sample)


class _TransformFirstClosure:
    """A function of the first of its arguments, which the others follow unchanged."""

    def __init__(self, fn: Callable[[Any], Any]):
        self._fn = fn

    def __call__(self, x: Any, *args: Any) -> Any:
        return (self._fn(x), *args) if args else self._fn(x)


class _SampledDataset(Dataset):
    """The samples of a data set whose numbers a sampler gives, once."""

    def __init__(self, dataset: Dataset, sampler: Sampler):
        self._dataset, self._indices = dataset, list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: Any) -> Any:
        return self._dataset[self._indices[idx]]


class ArrayDataset(Dataset):
    """The data set of one array's items, or of tuples of several arrays' items, such as data and labels.

    Args:
        args: arrays, or anything with a length and items, all of one length. An NDArray of one axis gives NumPy's
            numbers.
    """

    def __init__(self, *args: Any):
        assert args, "Needs at least 1 arrays"
        for data in args:
            if not isinstance(data, Sized):
                raise KindError("Wrong data of ArrayDataset", expected="arrays, or lists", got=f"{data!r:.80}")
        self._length = len(args[0])
        for i, data in enumerate(args[1:], 1):
            problem = f"array[0] has length {self._length} while array[{i}] has {len(data)}."
            assert len(data) == self._length, f"All arrays must have the same length; {problem}"
        self._data = [data.asnumpy() if isinstance(data, NDArray) and data.ndim == 1 else data for data in args]

    def __getitem__(self, idx: Any) -> Any:
        return self._data[0][idx] if len(self._data) == 1 else tuple(data[idx] for data in self._data)

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """The records of a file `.rec`, as bytes, in the order of the index `.idx` beside it; several threads may read it
    at once.

    Raises what `mx.recordio.MXIndexedRecordIO` raises.

    Args:
        filename: the path of the record file.

    Raises:
        RecordFormatError: the file does not have a record of the index.
    """

    def __init__(self, filename: StrPath):
        self.filename = path_text(filename, "filename")
        self.idx_file = str(Path(self.filename).with_suffix(".idx"))
        self._record = MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: int) -> Any:
        record = self._record.read_idx(self._record.keys[idx])
        if record is None:
            problem = f"{self.filename} has no record at the position that {self.idx_file} gives"
            fix = "The index belongs to another file, or this file is cut off."
            raise RecordFormatError(problem, got=f"number {idx}", fix=fix)
        return record

    def __len__(self) -> int:
        return len(self._record.keys)


class DownloadedDataset(Dataset):
    """Base class of data sets in files of a folder: `_get_data`, which a subclass defines, reads them into `_data` and
    `_label`, of one length. transform: a function of a sample's data and label."""

    def __init__(self, root: StrPath, transform: Callable[..., Any] | None):
        self._transform = transform
        self._data: Any = None
        self._label: Any = None
        folder = Path(path_text(root, "root")).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        self._root = str(folder)
        self._get_data()

    def __getitem__(self, idx: Any) -> Any:
        sample = self._data[idx], self._label[idx]
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self._label)

    def _get_data(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _get_data")


_DownloadedDataset = DownloadedDataset
"""MXNet's name."""
