"""The batches of an iterator, and their descriptions: the names, shapes and dtypes of their arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from lowering.messages.counts import KindError, checked_dtype
from lowering.mx.accepted_types import DType
from lowering.mx.ndarray.array import NDArray
from symjax_nnvm.errors import CallError


class _NameAndShape(NamedTuple):
    """The pair that a description is."""

    name: str
    shape: tuple[int, ...]


class DataDesc(_NameAndShape):
    """The name and the shape of an array, with its dtype and layout."""

    dtype: DType
    layout: str

    def __new__(cls, name: str, shape: Sequence[int], dtype: DType = np.float32, layout: str = "NCHW") -> Self:
        """The description. layout: a letter for each axis; N is the batch."""
        if not isinstance(shape, Iterable):
            raise CallError(f"The shape of {name!r} must be a tuple of sizes", got=f"{shape!r:.80}")
        self = super().__new__(cls, name, tuple(shape))
        if dtype is not None:
            checked_dtype(dtype, repr(name))
        self.dtype, self.layout = dtype, layout
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:  # a copy and a pickle are made by __new__
        return self.name, self.shape, self.dtype, self.layout

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    # a pair's own would forget dtype and layout
    def _replace(self, **changed: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(self)(**{**self._asdict(), "dtype": self.dtype, "layout": self.layout, **changed})

    def of_shape(self, shape: Sequence[int]) -> DataDesc:
        """Return the same description with another shape."""
        return DataDesc(self.name, shape, self.dtype, self.layout)

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the axis of the batch in a layout; 0 for None."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Any, types: Any = None) -> list[DataDesc]:
        """Return descriptions.

        Args:
            shapes: (name, shape) pairs.
            types: (name, dtype) pairs.
        """
        dtypes = dict(types or ())
        return [DataDesc(name, shape, dtypes.get(name, np.float32)) for name, shape in shapes]


def as_desc(desc: Any) -> DataDesc:
    """A description of one, or of a (name, shape) pair, perhaps with a dtype and a layout."""
    if not isinstance(desc, list | tuple):
        raise KindError("Wrong description", expected="a DataDesc, or (name, shape)", got=f"{desc!r:.80}")
    return desc if isinstance(desc, DataDesc) else DataDesc(*desc)


class DataBatch:
    """A batch of samples.

    Args:
        data: a list of arrays.
        label: a list of arrays.
        pad: how many samples at the end only fill the batch up.
        index: the numbers of the samples.
        bucket_key: the key of the network that takes it in a BucketingModule.
        provide_data: descriptions of the data.
        provide_label: descriptions of the labels.

    Raises:
        CallError: `data` or `label` is not a list.
    """

    def __init__(
        self,
        data: Sequence[NDArray],
        label: Sequence[NDArray] | None = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Sequence[Any] | None = None,
        provide_label: Sequence[Any] | None = None,
    ):
        for what, arrays in (("Data", data), ("Label", label)):
            if arrays is not None and not isinstance(arrays, list | tuple):
                problem = f"{what} must be list of NDArrays"
                raise CallError(problem, got=type(arrays).__name__, fix="mx.io.DataBatch([data], [label])")
        self.data, self.label, self.pad, self.index = data, label, pad, index
        self.bucket_key, self.provide_data, self.provide_label = bucket_key, provide_data, provide_label

    def __str__(self) -> str:
        labels = [array.shape for array in self.label] if self.label else None
        return f"DataBatch: data shapes: {[array.shape for array in self.data]} label shapes: {labels}"


class DataIter:
    """The base class of iterators.

    A subclass defines `reset`, `provide_data`, `provide_label`, and either `next`, or `iter_next`, `getdata`,
    `getlabel` and `getpad`.

    Args:
        batch_size: the number of samples in a batch.
    """

    provide_data: Any
    provide_label: Any

    def __init__(self, batch_size: int = 0):
        self.batch_size = batch_size

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> DataBatch:
        """Return the next batch; at the end it raises StopIteration."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def reset(self) -> None:
        """Begin the next epoch."""

    def iter_next(self) -> bool:
        """Go to the next batch, and return whether there is one."""
        raise NotImplementedError(f"{type(self).__name__} defines neither iter_next() nor next()")

    def getdata(self) -> Any:
        """Return the data of the batch."""

    def getlabel(self) -> Any:
        """Return the labels of the batch."""

    def getpad(self) -> Any:
        """Return how many samples at its end fill the batch up."""

    def getindex(self) -> Any:
        """Return the numbers of the batch's samples."""
        return None


class MXDataIter(DataIter):
    """The base class of all iterators over files, which in MXNet run in C++; use it with isinstance.

    Args:
        batch_size: the number of samples in a batch.
    """
