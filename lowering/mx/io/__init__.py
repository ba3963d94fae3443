"""`mx.io`: iterators over batches of NDArrays."""

from __future__ import annotations

from lowering.mx.io.array_iterators import CSVIter as CSVIter
from lowering.mx.io.array_iterators import NDArrayIter as NDArrayIter
from lowering.mx.io.desc import DataBatch as DataBatch
from lowering.mx.io.desc import DataDesc as DataDesc
from lowering.mx.io.desc import DataIter as DataIter
from lowering.mx.io.desc import MXDataIter as MXDataIter
from lowering.mx.io.desc import as_desc as as_desc
from lowering.mx.io.epochs import EpochsIter as EpochsIter
from lowering.mx.io.file_iterators import ImageDetRecordIter as ImageDetRecordIter
from lowering.mx.io.file_iterators import ImageRecordInt8Iter as ImageRecordInt8Iter
from lowering.mx.io.file_iterators import ImageRecordIter as ImageRecordIter
from lowering.mx.io.file_iterators import ImageRecordIter_v1 as ImageRecordIter_v1
from lowering.mx.io.file_iterators import ImageRecordUInt8Iter as ImageRecordUInt8Iter
from lowering.mx.io.file_iterators import ImageRecordUInt8Iter_v1 as ImageRecordUInt8Iter_v1
from lowering.mx.io.file_iterators import LibSVMIter as LibSVMIter
from lowering.mx.io.mnist import MNISTIter as MNISTIter
from lowering.mx.io.resized_and_prefetched import PrefetchingIter as PrefetchingIter
from lowering.mx.io.resized_and_prefetched import ResizeIter as ResizeIter
from symjax_nnvm.errors import UnknownAttributeError, did_you_mean


def __getattr__(name: str) -> object:
    raise UnknownAttributeError(f"mx.io has no {name!r}. {did_you_mean(name, globals())}".rstrip(), name=name)
