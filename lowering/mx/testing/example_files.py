"""Files of MXNet's examples, which are downloaded where there is a network and they are missing."""

from __future__ import annotations

import bz2
import logging
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lowering.data.idx_files import read_idx
from lowering.mx import io
from lowering.mx.compatibility.downloader import MOST, copy_bounded, fetch, require_url
from symjax_nnvm.errors import FileError
from symjax_nnvm.io.files import atomic_write, path_text

_MNIST = "http://data.mxnet.io/data/mnist/"
_ZOO = "http://data.mxnet.io/models/"
_ARCHIVES = "http://data.mxnet.io/mxnet/data/"
_UBYTE = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
_CIFAR = tuple(f"cifar/{part}.{kind}" for part in ("train", "test") for kind in ("rec", "lst"))
_MODELS = {
    name: {"symbol": f"{_ZOO}{path}-symbol.json", "params": f"{_ZOO}{path}-{epoch:04d}.params"}
    for name, path, epoch in (
        ("imagenet1k-inception-bn", "imagenet/inception-bn/Inception-BN", 126),
        *(
            (f"imagenet1k-resnet-{depth}", f"imagenet/resnet/{depth}-layers/resnet-{depth}", 0)
            for depth in (18, 34, 50, 101, 152)
        ),
        *(
            (f"imagenet1k-resnext-{kind}", f"imagenet/resnext/{kind.partition('-')[0]}-layers/resnext-{kind}", 0)
            for kind in ("50", "101", "101-64x4d")
        ),
        ("imagenet11k-resnet-152", "imagenet-11k/resnet-152/resnet-152", 0),
        *(
            (f"imagenet11k-place365ch-resnet-{depth}", f"imagenet-11k-place365-ch/resnet-{depth}", 0)
            for depth in (152, 50)
        ),
    )
}
"""Model → where MXNet had its files."""


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """The path of a file of the network; an existing file is downloaded again only with overwrite=True.

    fname: the path, by default the end of the URL. dirname: its folder, which is made. retries: how often to try.
    Raises FileError, which names the path for the file, where the download fails.
    """
    assert retries >= 0, "Number of retries should be at least 0"
    path = require_url(url).split("/")[-1] if fname is None else path_text(fname, "fname")
    path = path if dirname is None else os.path.join(path_text(dirname, "dirname"), path)
    folder = os.path.dirname(path)
    if folder and not os.path.exists(folder):
        logging.info("create directory %s", folder)
        os.makedirs(folder, exist_ok=True)
    if not overwrite and os.path.exists(path):
        logging.info("%s exists, skipping download", path)
        return path
    fetch(url, path, retries)
    logging.info("downloaded %s into %s successfully", url, path)
    return path


def download_model(
    model_name: str, dst_dir: str = "./", meta_info: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[str | None, int]:
    """The prefix of a model's two files in a folder, which is made, and their epoch, 0; (None, 0) for an unknown name.

    meta_info: name → {"symbol": URL, "params": URL}, by default MXNet's own models, whose server no longer exists:
    FileError names the path for each file.
    """
    urls = _MODELS if meta_info is None else meta_info
    if model_name not in urls:
        return None, 0
    os.makedirs(dst_dir, exist_ok=True)
    prefix = os.path.join(dst_dir, model_name)
    for part, ending in (("symbol", "-symbol.json"), ("params", "-0000.params")):
        assert part in urls[model_name], f"missing {part} url"
        download(urls[model_name][part], prefix + ending)
    return prefix, 0


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
    """Check that data/mnist.pkl.gz exists. Raises FileError."""
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
        raise FileError(f"{path} is not a zip archive: {error}. Delete it, and get it again.") from None


def _unpack(archive: zipfile.ZipFile, folder: Path, path: str) -> None:
    """Write the files of an archive into a folder. Raises FileError for names outside it, and more than 4 GiB."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if sum(member.file_size for member in members) > MOST:
        raise FileError(f"The files in {path} have more than {MOST} bytes. Unpack it with another program.")
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
            copy_bounded(unpacked.read, target, packed)
        os.remove(packed)
