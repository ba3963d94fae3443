"""Data sets of images in files: MNIST, CIFAR, record files and folders. Nothing is downloaded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowering.data.cifar import read_cifar
from lowering.data.idx_files import read_idx
from lowering.messages.counts import checks_flags
from lowering.mx import image, recordio
from lowering.mx.base import data_dir
from lowering.mx.gluon.data.dataset import Dataset, DownloadedDataset, RecordFileDataset
from lowering.mx.ndarray.array import in_current_dialect
from lowering.mx.ndarray.creation import array
from lowering.mx.shared_arguments import explained_by
from lowering.mx.util import is_np_array
from symjax_nnvm.errors import ModelNotFoundError, TrainingError
from symjax_nnvm.io.files import StrPath, path_text

__all__ = ["CIFAR10", "CIFAR100", "MNIST", "FashionMNIST", "ImageFolderDataset", "ImageRecordDataset"]

Transform = Callable[..., Any] | None
_EXTENSIONS = (".jpg", ".jpeg", ".png")


class _Files(DownloadedDataset):
    """A data set of files that its makers give away."""

    _folder = ""
    """Its folder in MXNet's folder of data sets."""
    _source = ""

    @checks_flags
    def __init__(self, root: StrPath | None, train: bool, transform: Transform):
        self._train = train
        super().__init__(os.path.join(data_dir(), "datasets", self._folder) if root is None else root, transform)

    def _path(self, *names: str) -> Path:
        """Return the first of some paths in the folder that is there. Raises ModelNotFoundError."""
        for name in names:
            if (path := Path(self._root, name)).exists():
                return path
        missing = Path(self._root).absolute() / names[0]
        raise ModelNotFoundError(f"No such file: {missing}. {type(self).__name__} is read from files: {self._source}.")

    def _hold(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Keep what was read: labels are NumPy's, and arrays of the NumPy dialect where that is set."""
        self._data = in_current_dialect(array(images, dtype=np.uint8))
        self._label = labels.astype(np.int32)
        if is_np_array():
            self._label = in_current_dialect(array(self._label, dtype=np.int32))


class MNIST(_Files):
    """Handwritten digits: samples are (image uint8 NDArray (28, 28, 1), label int32).

    Args:
        root: the folder of MNIST's four files, plain or packed by gzip (`.gz`); the default is `datasets/mnist` in
            `mx.base.data_dir()`.
        train: the 60,000 images to train with; False: the 10,000 to test with.
        transform: a function of an image and its label.

    Raises:
        ModelNotFoundError: a file is missing; the message names the files to get and their folder.
        TrainingError: a file is none of MNIST's.
        FileError: a path is not a regular file.
        OSError: a file cannot be read.
    """

    _folder = "mnist"
    _source = (
        "put {train,t10k}-images-idx3-ubyte.gz and {train,t10k}-labels-idx1-ubyte.gz into this folder; "
        "they are at http://yann.lecun.com/exdb/mnist and its mirrors"
    )

    def __init__(self, root: StrPath | None = None, train: bool = True, transform: Transform = None):
        super().__init__(root, train, transform)

    def _get_data(self) -> None:
        part = "train" if self._train else "t10k"
        names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
        images, labels = (self._path(f"{name}.gz", name) for name in names)
        data, label = read_idx(images, 3), read_idx(labels, 1)
        if len(data) != len(label):
            raise TrainingError(f"{labels} does not fit {images.name}", expected=f"{len(data)} labels", got=len(label))
        self._hold(data[..., None], label)


class FashionMNIST(MNIST):
    """Pictures of clothes in ten classes, in files like MNIST's, which describes the arguments and errors.

    The default folder is `datasets/fashion-mnist` in `mx.base.data_dir()`.
    """

    _folder = "fashion-mnist"
    _source = MNIST._source.replace("yann.lecun.com/exdb/mnist", "github.com/zalandoresearch/fashion-mnist")


class CIFAR10(_Files):
    """Pictures in ten classes: samples are (image uint8 NDArray (32, 32, 3), label int32).

    Raises what MNIST raises.

    Args:
        root: the folder of the binary files, or the one that has their folder `cifar-10-batches-bin`; the default is
            `datasets/cifar10` in `mx.base.data_dir()`.
        train: the 50,000 images to train with; False: the 10,000 to test with.
        transform: a function of an image and its label.
    """

    _folder, _inside = "cifar10", "cifar-10-batches-bin"
    _source = "unpack cifar-10-binary.tar.gz into this folder; it is at https://www.cs.toronto.edu/~kriz/cifar.html"
    _files: tuple[Sequence[str], Sequence[str]] = (
        ("test_batch.bin",),
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    )
    _labels, _column = 1, 0

    def __init__(self, root: StrPath | None = None, train: bool = True, transform: Transform = None):
        super().__init__(root, train, transform)

    def _get_data(self) -> None:
        paths = [self._path(name, f"{self._inside}/{name}") for name in self._files[self._train]]
        images, labels = zip(*(read_cifar(path, self._labels) for path in paths), strict=True)
        self._hold(np.concatenate(images), np.concatenate(labels)[:, self._column])


@explained_by(CIFAR10)
class CIFAR100(CIFAR10):
    """Pictures in 100 classes or in 20 coarse ones, otherwise like CIFAR10.

    Args:
        root: as in CIFAR10, with the folders `cifar-100-binary` and `datasets/cifar100`.
        fine_label: use the 100 classes; False: the 20.
    """

    _folder, _inside, _source = "cifar100", "cifar-100-binary", CIFAR10._source.replace("-10-", "-100-")
    _files, _labels = (("test.bin",), ("train.bin",)), 2

    def __init__(
        self,
        root: StrPath | None = None,
        fine_label: bool = False,
        train: bool = True,
        transform: Transform = None,
    ):
        self._column = int(fine_label)
        super().__init__(root, train, transform)


class ImageRecordDataset(RecordFileDataset):
    """The images in a record file: samples are (image uint8 NDArray (height, width, channels), label).

    Raises what RecordFileDataset and `mx.image.imdecode` raise.

    Args:
        filename: the path of the record file.
        flag: 1 for colour, 0 for grey.
        transform: a function of an image and its label.
    """

    def __init__(self, filename: StrPath, flag: int = 1, transform: Transform = None):
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: int) -> Any:
        header, data = recordio.unpack(super().__getitem__(idx))
        sample = image.imdecode(data, self._flag), header.label
        return sample if self._transform is None else self._transform(*sample)


class ImageFolderDataset(Dataset):
    """The images in the subfolders of a folder, one class each: samples are (image uint8 NDArray (h, w, c), class).

    `synsets` has the classes' names, `items` the (path, class) of each image. A warning names files that are no .jpg,
    .jpeg or .png. Raises what `mx.image.imread` raises.

    Args:
        root: the folder.
        flag: 1 for colour, 0 for grey.
        transform: a function of an image and its class.

    Raises:
        OSError: a folder cannot be read.
    """

    def __init__(self, root: StrPath, flag: int = 1, transform: Transform = None):
        self._root = os.path.expanduser(path_text(root, "root"))
        if not os.path.isdir(self._root):
            raise ModelNotFoundError(f"There is no folder {self._root}.")
        self._flag, self._transform = flag, transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        for folder in sorted(os.listdir(self._root)):
            path = os.path.join(self._root, folder)
            if os.path.isdir(path):
                self._list(path)
            else:
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=2)

    def _list(self, folder: str) -> None:
        label = len(self.synsets)
        self.synsets.append(os.path.basename(folder))
        for path in (os.path.join(folder, name) for name in sorted(os.listdir(folder))):
            extension = os.path.splitext(path)[1]
            if extension.lower() in _EXTENSIONS:
                self.items.append((path, label))
            else:
                supported = ", ".join(_EXTENSIONS)
                warnings.warn(f"Ignoring {path} of type {extension}. Only support {supported}", stacklevel=3)

    def __getitem__(self, idx: int) -> Any:
        path, label = self.items[idx]
        sample = image.imread(path, self._flag), label
        return sample if self._transform is None else self._transform(*sample)

    def __len__(self) -> int:
        return len(self.items)
