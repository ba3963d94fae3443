"""MXNet's iterators over files: `lowering.data` reads them, epoch by epoch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from lowering import data
from lowering.data.parameters import AUGMENTS, IGNORED
from lowering.mx.io.epochs import EpochsIter
from symjax_nnvm.errors import listed


def ImageRecordIter(**parameters: Any) -> EpochsIter:
    """Batches of images from record files; parameters and errors as of `lowering.data.ImageRecordIter`.

    A keyword that MXNet's does not know either is left out, with a warning: MXNet's iterators over files ignore it.
    """
    return EpochsIter(data.ImageRecordIter(**_known(data.ImageRecordIter, parameters, (*AUGMENTS, *IGNORED))))


def LibSVMIter(**parameters: Any) -> EpochsIter:
    """Batches of rows from LIBSVM text, dense; parameters and errors as of `lowering.data.LibSVMIter`.

    Unknown keywords are left out, with a warning.
    """
    return EpochsIter(data.LibSVMIter(**_known(data.LibSVMIter, parameters)))


def _known(iterator: Callable[..., Any], parameters: dict[str, Any], further: Sequence[str] = ()) -> dict[str, Any]:
    """The parameters that an iterator takes."""
    known = {*inspect.signature(iterator).parameters, *further}
    unknown = [name for name in parameters if name not in known]
    if unknown:
        warnings.warn(f"{iterator.__name__} ignores {listed(unknown)}, as MXNet's does", stacklevel=3)
    return {name: value for name, value in parameters.items() if name in known}
