"""Files of MXNet's examples, which are downloaded where there is a network and they are missing."""

from __future__ import annotations

import bz2
import os
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from lowering.data.mnist import read_idx
from lowering.mx import io
from symjax_nnvm.errors import FileError
from symjax_nnvm.io.files import atomic_write

_MNIST = "http://data.mxnet.io/data/mnist/"
_ARCHIVES = "http://data.mxnet.io/mxnet/data/"
_UBYTE = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_CIFAR = tuple(f"cifar/{part}.{kind}" for part in ("train", "test") for kind in ("rec", "lst"))
_PATIENCE = 30.0
"""Seconds to wait for an answer."""
_MOST = 4 << 30
"""Bytes of a download, of all files of an archive, or of a file that is unpacked, at most."""


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """The path of a file of the network; one that is there is not downloaded again unless overwrite says so.

    fname: the path, by default the end of the URL. dirname: its folder, which is made. retries: of a download that
    fails. Raises FileError, which says where to put the file, where the network does not give it.
    """
    assert retries >= 0, "Number of retries should be at least 0"
    path = Path(url.rpartition("/")[2] if fname is None else fname)
    if dirname is not None:
        path = Path(dirname) / path
    if overwrite or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _fetch(url, path, retries)
    return str(path)


def _fetch(url: str, path: Path, retries: int) -> None:
    problem: Exception | None = None
    for _ in range(retries + 1):
        try:
            with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:
                return _copy(answer.read, path, url)
        except (OSError, ValueError) as error:  # no network, no such host or file; or no URL
            problem = error
            if isinstance(error, urllib.error.HTTPError | ValueError) or _has_no_host(error):
                break
    raise FileError(f"{url} cannot be downloaded: {problem}. Get it elsewhere and put it at {path.absolute()}.")


def _copy(read: Callable[[int], bytes], path: Path, source: object) -> None:
    """Write what is read to a file. Raises FileError for more than 4 GiB, and leaves no file."""
    size = 0
    with atomic_write(path) as file:
        while part := read(1 << 20):
            size += len(part)
            if size > _MOST:
                raise FileError(f"{source} has more than {_MOST} bytes. Unpack it by another program.")
            file.write(part)


def _has_no_host(error: OSError) -> bool:
    """Return whether another try would meet the same: names are not resolved."""
    return isinstance(error, urllib.error.URLError) and "Name or service" in str(error.reason)


def download_model(*_: Any, **__: Any) -> NoReturn:
    """Raises FileError: MXNet's zoo is gone."""
    raise FileError("MXNet's model zoo is no longer there. Load files of your own: mx.model.load_checkpoint.")


def get_mnist() -> dict[str, np.ndarray]:
    """Images (n, 1, 28, 28) from 0 to 1, float32, as train_data and test_data, and classes (n,), int8, as train_label
    and test_label: from four files in the current folder, which are downloaded else. Raises FileError."""
    arrays: dict[str, np.ndarray] = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        labels = read_idx(download(f"{_MNIST}{prefix}-labels-idx1-ubyte.gz"), 1).view(np.int8)
        images = read_idx(download(f"{_MNIST}{prefix}-images-idx3-ubyte.gz"), 3)
        arrays[f"{part}_data"] = images.reshape(len(labels), 1, 28, 28).astype(np.float32) / 255
        arrays[f"{part}_label"] = labels
    return arrays


def get_mnist_pkl() -> None:
    """Have data/mnist.pkl.gz. Raises FileError."""
    download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_mnist_ubyte() -> None:
    """Have MNIST's four files in the folder data. Raises FileError."""
    _unpacked("data", f"{_ARCHIVES}mnist.zip", _UBYTE)


def get_cifar10() -> None:
    """Have CIFAR10's record files in data/cifar. Raises FileError."""
    _unpacked("data", f"{_ARCHIVES}cifar10.zip", _CIFAR)


def _unpacked(folder: str, url: str, names: tuple[str, ...]) -> None:
    """Have files of an archive in a folder."""
    if all((Path(folder) / name).exists() for name in names):
        return
    path = download(url, dirname=folder)
    try:
        with zipfile.ZipFile(path) as archive:
            _unpack(archive, Path(folder).resolve(), path)
    except zipfile.BadZipFile as error:
        raise FileError(f"{path} is no zip archive: {error}. Delete it, and get it again.") from None


def _unpack(archive: zipfile.ZipFile, folder: Path, path: str) -> None:
    """Write the files of an archive into a folder. Raises FileError for names outside it, and more than 4 GiB."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if sum(member.file_size for member in members) > _MOST:
        raise FileError(f"The files in {path} have more than {_MOST} bytes. Unpack it by another program.")
    for member in members:
        target = (folder / member.filename).resolve()
        if not target.is_relative_to(folder):
            raise FileError(f"{path} has a file with the name {member.filename!r}, which is outside {folder}.")
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as packed, atomic_write(target) as file:
            shutil.copyfileobj(packed, file)


def get_mnist_iterator(batch_size: int, input_shape: Any, num_parts: int = 1, part_index: int = 0) -> tuple[Any, Any]:
    """Iterators over MNIST's training and test images. input_shape: (1, 28, 28), or (784,) for flat ones."""
    get_mnist_ubyte()
    iterator: Any = io.MNISTIter
    whole = {"input_shape": input_shape, "batch_size": batch_size, "flat": len(input_shape) != 3}
    parts = {"shuffle": True, "num_parts": num_parts, "part_index": part_index}
    files = [{"image": f"data/{_UBYTE[i]}", "label": f"data/{_UBYTE[i + 1]}"} for i in (0, 2)]
    return iterator(**files[0], **whole, **parts), iterator(**files[1], **whole)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Have an archive, and its files, in a folder. Raises FileError."""
    _unpacked(data_dir, url, (data_origin_name,))


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Have the content of a compressed file in a folder. Raises FileError."""
    target, packed = (Path(data_dir) / name for name in (data_name, data_origin_name))
    if not target.exists():
        download(url, fname=data_origin_name, dirname=data_dir)
        with bz2.open(packed) as unpacked:
            _copy(unpacked.read, target, packed)
        os.remove(packed)
