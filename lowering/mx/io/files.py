"""MXNet's iterators over files: `lowering.data` reads them, epoch by epoch."""

from __future__ import annotations

from typing import Any

from lowering import data
from lowering.mx.io.epochs import EpochsIter


def ImageRecordIter(**parameters: Any) -> EpochsIter:
    """Batches of images from record files; parameters and errors as of `lowering.data.ImageRecordIter`."""
    return EpochsIter(data.ImageRecordIter(**parameters))


def LibSVMIter(**parameters: Any) -> EpochsIter:
    """Batches of rows from LIBSVM text, dense; parameters and errors as of `lowering.data.LibSVMIter`."""
    return EpochsIter(data.LibSVMIter(**parameters))
