"""MXNet's iterators over files: `lowering.data` reads them, epoch by epoch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowering import data
from lowering.data.augmenter_parameters import AUGMENTS, IGNORED
from lowering.data.box_augmenter import DETECTION_AUGMENTS
from lowering.mx.io.epochs import FileIter
from symjax_nnvm.errors import listed


def ImageRecordIter(**parameters: Any) -> FileIter:
    """Return batches of images from record files, by `lowering.data.ImageRecordIter`, with its parameters and errors.

    A keyword that MXNet does not have either is ignored with a warning: MXNet's iterators over files ignore it.
    """
    return _iterator(data.ImageRecordIter, parameters, (*AUGMENTS, *IGNORED))


ImageRecordIter_v1 = ImageRecordIter
"""MXNet's older name, of the same iterator."""


def ImageRecordUInt8Iter(**parameters: Any) -> FileIter:
    """Return an ImageRecordIter whose data are uint8, not normalised."""
    return ImageRecordIter(**{**parameters, "dtype": "uint8"})


ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter
"""MXNet's older name, of the same iterator."""


def ImageRecordInt8Iter(**parameters: Any) -> FileIter:
    """Return an ImageRecordIter whose data are int8: pixels less the mean, rounded."""
    return ImageRecordIter(**{**parameters, "dtype": "int8"})


def ImageDetRecordIter(**parameters: Any) -> FileIter:
    """Return batches of images with boxes from record files, by `lowering.data.ImageDetRecordIter`.

    Parameters and errors are its own. A keyword that MXNet does not have either is ignored with a warning.
    """
    return _iterator(data.ImageDetRecordIter, parameters, (*DETECTION_AUGMENTS, *IGNORED))


def LibSVMIter(**parameters: Any) -> FileIter:
    """Return batches of rows from LIBSVM text, shown as csr, by `lowering.data.LibSVMIter`.

    Parameters and errors are its own. Unknown keywords are ignored with a warning.
    """
    sparse = [parameters.get("data_name", "data")]
    if parameters.get("label_libsvm") is not None:
        sparse.append(parameters.get("label_name", "softmax_label"))
    return _iterator(data.LibSVMIter, parameters, storage=dict.fromkeys(sparse, "csr"))


def _iterator(
    maker: Callable[..., Any],
    parameters: dict[str, Any],
    further: Sequence[str] = (),
    storage: Mapping[str, str] | None = None,
) -> FileIter:
    """Return an iterator of the parameters that `maker` takes, and of further ones. storage: the storage type of arrays
    that are shown as sparse ones."""
    parameter_names = {*inspect.signature(maker).parameters, *further}
    unknown = [name for name in parameters if name not in parameter_names]
    if unknown:
        warnings.warn(f"{maker.__name__} ignores {listed(unknown)}, as MXNet's does", stacklevel=3)
    source = maker(**{name: value for name, value in parameters.items() if name in parameter_names})
    return FileIter(source, [parameters.get("label_name", "softmax_label")], storage)
