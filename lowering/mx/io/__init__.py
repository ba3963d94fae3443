"""`mx.io`: iterators over batches of NDArrays."""

from __future__ import annotations

from lowering.mx.io.arrays import CSVIter as CSVIter
from lowering.mx.io.arrays import NDArrayIter as NDArrayIter
from lowering.mx.io.desc import DataBatch as DataBatch
from lowering.mx.io.desc import DataDesc as DataDesc
from lowering.mx.io.desc import DataIter as DataIter
from lowering.mx.io.desc import as_desc as as_desc
from lowering.mx.io.epochs import EpochsIter as EpochsIter
from lowering.mx.io.files import ImageRecordIter as ImageRecordIter
from lowering.mx.io.files import LibSVMIter as LibSVMIter
from lowering.mx.io.mnist import MNISTIter as MNISTIter
from lowering.mx.io.wrapped import PrefetchingIter as PrefetchingIter
from lowering.mx.io.wrapped import ResizeIter as ResizeIter
from symjax_nnvm.errors import UnknownAttributeError, did_you_mean

_ELSEWHERE = {
    "ImageDetRecordIter": "mx.image.ImageDetIter(batch_size, data_shape, path_imgrec=...)",
}


def __getattr__(name: str) -> object:
    way = f"Use {_ELSEWHERE[name]}." if name in _ELSEWHERE else did_you_mean(name, globals())
    raise UnknownAttributeError(f"mx.io has no {name!r}. {way}".rstrip(), name=name)
