"""Files of MXNet's examples: downloaded where there is a network, read where they lie already."""

from __future__ import annotations

import bz2
import gzip
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from lowering.mx import io
from symjax_nnvm.errors import FileError
from symjax_nnvm.io.files import write_file

_MNIST = "http://data.mxnet.io/data/mnist/"
_ARCHIVES = "http://data.mxnet.io/mxnet/data/"
_UBYTE = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_CIFAR = tuple(f"cifar/{part}.{kind}" for part in ("train", "test") for kind in ("rec", "lst"))
_PATIENCE = 30.0
"""Seconds to wait for an answer."""


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
        content = _fetched(url, path, retries)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    return str(path)


def _fetched(url: str, path: Path, retries: int) -> bytes:
    problem: Exception | None = None
    for _ in range(retries + 1):
        try:
            with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:
                return answer.read()
        except (OSError, ValueError) as error:  # no network, no such host or file; or no URL
            problem = error
            if isinstance(error, urllib.error.HTTPError | ValueError) or _has_no_host(error):
                break
    raise FileError(f"{url} cannot be downloaded: {problem}. Get it elsewhere and put it at {path.absolute()}.")


def _has_no_host(error: OSError) -> bool:
    """Whether another try would meet the same: names are not resolved."""
    return isinstance(error, urllib.error.URLError) and "Name or service" in str(error.reason)


def download_model(*_: Any, **__: Any) -> NoReturn:
    """Raises FileError: MXNet's zoo is gone."""
    raise FileError("MXNet's model zoo is no longer there. Load files of your own: mx.model.load_checkpoint.")


def get_mnist() -> dict[str, np.ndarray]:
    """Images (n, 1, 28, 28) from 0 to 1, float32, as train_data and test_data, and classes (n,), int8, as train_label
    and test_label: from four files in the current folder, which are downloaded else. Raises FileError."""
    found: dict[str, np.ndarray] = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        labels = _idx(download(f"{_MNIST}{prefix}-labels-idx1-ubyte.gz"), 8).view(np.int8)
        images = _idx(download(f"{_MNIST}{prefix}-images-idx3-ubyte.gz"), 16)
        found[f"{part}_data"] = images.reshape(len(labels), 1, 28, 28).astype(np.float32) / 255
        found[f"{part}_label"] = labels
    return found


def _idx(path: str, header: int) -> np.ndarray:
    """The bytes of a compressed file after its header."""
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


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
    with zipfile.ZipFile(download(url, dirname=folder)) as archive:
        archive.extractall(folder)


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
        write_file(target, bz2.decompress(packed.read_bytes()))
        os.remove(packed)
