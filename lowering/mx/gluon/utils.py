"""`gluon.utils`: data split over contexts, gradients clipped together, files and their checksums."""

from __future__ import annotations

import hashlib
import os
import warnings
import weakref
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lowering.messages.counts import check_count, checks_flags
from lowering.mx import ndarray as nd
from lowering.mx.compatibility.downloader import fetch, require_url
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError
from lowering.mx.gluon.structure import converted
from lowering.mx.ndarray.array import CLASSIC, NDArray
from lowering.mx.numpy.new_arrays import array as numpy_array
from lowering.mx.util import is_np_array, is_np_shape
from symjax_nnvm.io.files import path_text

_BLOCK = 1 << 20


@checks_flags
def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """Split an array along an axis.

    Args:
        data: the array.
        num_slice: the number of parts.
        batch_axis: the axis.
        even_split: require equal parts; False lets the first ones have a row more.

    Returns:
        The parts.

    Raises:
        BlockValueError: the rows cannot be split evenly.
        CountError: `num_slice` is below 1; the error is a ValueError, too.
    """
    num_slice = check_count(num_slice, "num_slice")
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise BlockValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis {batch_axis}. Use "
            f"a batch size that's multiple of {num_slice} or set even_split=False to allow uneven partitioning of data."
        )
    rows, extra = divmod(size, num_slice)
    ends = np.cumsum([0] + [rows + 1] * extra + [rows] * (num_slice - extra)).tolist()
    pairs = list(pairwise(ends))
    if batch_axis == 0:
        return [data[begin:end] for begin, end in pairs]
    ahead = (slice(None),) * batch_axis
    return [data[*ahead, begin:end] for begin, end in pairs]


@checks_flags
def split_and_load(data: Any, ctx_list: Sequence[Any], batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """Split a batch and put each part on one of the contexts.

    Args:
        data: an NDArray, or values for one.
        ctx_list: the contexts.
        batch_axis: the axis to split.
        even_split: require equal parts.

    Returns:
        The parts.
    """
    if not isinstance(data, NDArray):
        data = numpy_array(data, ctx=ctx_list[0]) if is_np_array() else nd.array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    slices = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(slices, ctx_list, strict=True)]


@checks_flags
def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place so that the norm of all of them together is at most `max_norm`.

    Args:
        arrays: the arrays.
        max_norm: the largest norm.
        check_isfinite: warn of NaN and infinity, and return a number. Without it nothing waits for the norm.

    Returns:
        The norm before scaling: a number, or without `check_isfinite` an NDArray (1,).
    """
    if isinstance(arrays, NDArray):
        arrays = [arrays]
    if not arrays:
        raise MismatchError("clip_global_norm needs at least one array")
    arrays = converted(list(arrays), CLASSIC)
    ctx = arrays[0].context
    norms = [nd.norm(array, out_dtype=_wide(array)).as_in_context(ctx) for array in arrays]
    total_norm = nd.norm(nd.concat(*norms, dim=0))
    if check_isfinite and not np.isfinite(total_norm.asscalar()):
        message = "nan or inf is detected. Clipping results will be undefined."
        warnings.warn(message, UserWarning, stacklevel=2)
    scale = nd.minimum(max_norm / (total_norm + 1e-8), 1.0)
    for array in arrays:
        array[:] = array.astype(_wide(array), copy=False) * scale.as_in_context(array.context)
    return total_norm.asscalar() if check_isfinite else total_norm


def _wide(array: NDArray) -> str:
    """Return the dtype of an array's norm: float16 has neither the norm of large arrays nor small factors."""
    return "float64" if array.dtype == np.float64 else "float32"


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Return whether a file has this SHA-1."""
    sha1 = hashlib.sha1()
    with open(path_text(filename, "filename"), "rb") as file:
        while block := file.read(_BLOCK):
            sha1.update(block)
    return sha1.hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Move a file, over another one if there is one; failures raise OSError."""
    os.replace(src, dst)


@checks_flags
def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Download a file, unless it is there already with the right SHA-1.

    Args:
        url: the file's URL.
        path: the path of the file, or of a folder for it; None for the current folder. In a folder its name is the
            URL's last part.
        overwrite: download the file in any case.
        sha1_hash: the file's SHA-1; None not to check it.
        retries: how often to try again.
        verify_ssl: check the server's certificate.

    Returns:
        The path of the file.

    Raises:
        MismatchError: the URL has no name, or `retries` is negative.
        FileError: the download fails; the message names the path for the file.
        ChecksumError: the file has another SHA-1.
    """
    name = require_url(url).split("/")[-1]
    if path is None:
        if not name:
            raise MismatchError("Can't construct file-name from this URL.", fix="Set the `path` option.")
        path = name
    path = os.path.expanduser(path_text(path))
    path = os.path.join(path, name) if os.path.isdir(path) else path
    if retries < 0:
        raise MismatchError(f"Number of retries should be at least 0, currently it's {retries}")
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). Adding certificate verification is strongly "
            "advised.",
            stacklevel=2,
        )
    if overwrite or not os.path.exists(path) or (sha1_hash and not check_sha1(path, sha1_hash)):
        fetch(url, path, retries, sha1_hash=sha1_hash, verify_ssl=verify_ssl, in_full=True)
    return path


def _get_repo_url() -> str:
    """Return the address of MXNet's files: the environment's MXNET_GLUON_REPO, or the default."""
    url = os.environ.get("MXNET_GLUON_REPO", "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/")
    return url if url.endswith("/") else url + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """Return the address of one of MXNet's files."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def _indent(text: str, spaces: int) -> str:
    """Return a text whose lines after the first begin with spaces."""
    return text.replace("\n", "\n" + " " * spaces)


def _brief_print_list(names: Iterable[Any], limit: int = 7) -> str:
    """Names in quotes, of many the first and the last ones."""
    shown = [f"'{name}'" for name in names]
    if len(shown) > limit:
        shown = [*shown[: limit // 2], "...", *shown[-(limit - limit // 2) :]]
    return ", ".join(shown)


class HookHandle:
    """The handle of a registered hook: `detach()`, or the end of a `with` block, removes the hook."""

    def __init__(self) -> None:
        self._hooks: weakref.ref[Any] | None = None
        self._id: int | None = None

    def attach(self, hooks_dict: Any, hook: Any) -> None:
        """Put a hook into a dict of hooks; a second call raises MismatchError."""
        if self._hooks is not None:
            raise MismatchError("The same handle cannot be attached twice.")
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks = weakref.ref(hooks_dict)

    def detach(self) -> None:
        """Remove the hook, if it is still there."""
        hooks = None if self._hooks is None else self._hooks()
        if hooks is not None:
            hooks.pop(self._id, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()


def shape_is_known(shape: Sequence[int] | None) -> bool:
    """Return whether a shape has an axis and no unknown size, which is 0.

    Under `np_shape` an unknown size is -1, and a shape without axes is known.

    Args:
        shape: the shape; None for an unknown one.

    Raises:
        MismatchError: a size is below that.
    """
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if any(size < unknown for size in shape):
        raise MismatchError(f"shape dimension size cannot be less than {unknown}", got=shape)
    return unknown not in shape if shape else is_np_shape()
