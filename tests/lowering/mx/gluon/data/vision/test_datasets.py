"""Data sets of images in files that are there, and what is told of those that are not."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon.data import vision
from symjax_nnvm.errors import ModelNotFoundError, TrainingError

DRAW = np.random.default_rng(2)
IMAGE = np.kron(np.arange(24).reshape(2, 4, 3) * 10, np.ones((8, 8, 1))).astype(np.uint8)


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def random(*shape: int) -> np.ndarray:
    return DRAW.integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("kind", [vision.MNIST, vision.FashionMNIST])
def test_mnist_is_read_packed_or_not(tmp_path: Path, kind: Any):
    images, labels = random(5, 28, 28), random(5)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    dataset = kind(tmp_path)
    image, label = dataset[3]
    assert (len(dataset), image.shape, image.dtype, type(label)) == (5, (28, 28, 1), np.uint8, np.int32)
    np.testing.assert_array_equal(image.asnumpy()[..., 0], images[3])
    assert label == labels[3]
    with mx.util.np_array(True):
        number = kind(tmp_path)[3][1]
    assert isinstance(number, mx.np.ndarray)
    assert (number.shape, number.dtype, int(number)) == ((), np.int32, labels[3])
    doubled = kind(tmp_path, transform=lambda data, label: (data.astype("float32") * 2, -label))
    assert (doubled[3][0].asnumpy().max(), doubled[3][1]) == (2 * int(images[3].max()), -int(labels[3]))
    with pytest.raises(
        ModelNotFoundError, match=r"t10k-images-idx3-ubyte.gz. \w*MNIST is read from files: put"
    ) as told:
        kind(tmp_path, train=False)
    assert str(tmp_path) in str(told.value)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels[1:]))
    with pytest.raises(TrainingError, match="does not fit train-images"):
        kind(tmp_path)


def cifar(images: np.ndarray, *labels: np.ndarray) -> bytes:
    rows = [row[:, None] for row in labels] + [images.transpose(0, 3, 1, 2).reshape(len(images), -1)]
    return np.concatenate(rows, 1).tobytes()


@pytest.mark.parametrize("folder", ["", "cifar-10-batches-bin"])
def test_cifar10_is_five_files_and_one(tmp_path: Path, folder: str):
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    images, labels = random(15, 32, 32, 3), random(15)
    for i in range(5):
        part = slice(3 * i, 3 * i + 3)
        (place / f"data_batch_{i + 1}.bin").write_bytes(cifar(images[part], labels[part]))
    dataset = vision.CIFAR10(str(tmp_path))
    assert len(dataset) == 15
    for i in (0, 14):
        image, label = dataset[i]
        np.testing.assert_array_equal(image.asnumpy(), images[i])
        assert (label, type(label)) == (labels[i], np.int32)
    with pytest.raises(ModelNotFoundError, match=r"test_batch.bin. CIFAR10 is .*unpack cifar-10-binary.tar.gz into"):
        vision.CIFAR10(tmp_path, train=False)
    (place / "test_batch.bin").write_bytes(bytes(3000))
    with pytest.raises(TrainingError, match="not a CIFAR file.*rows of 3073 bytes"):
        vision.CIFAR10(tmp_path, train=False)


def test_cifar100_has_two_labels(tmp_path: Path):
    images, coarse, fine = random(4, 32, 32, 3), random(4), random(4)
    (tmp_path / "test.bin").write_bytes(cifar(images, coarse, fine))
    for fine_label, labels in ((False, coarse), (True, fine)):
        dataset = vision.CIFAR100(tmp_path, fine_label, train=False)
        assert [dataset[i][1] for i in range(4)] == labels.tolist()
        np.testing.assert_array_equal(dataset[2][0].asnumpy(), images[2])
    with pytest.raises(ModelNotFoundError, match=r"train.bin. CIFAR100 is .*unpack cifar-100-binary.tar.gz"):
        vision.CIFAR100(tmp_path)


def test_the_default_folder_is_mxnets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    with pytest.raises(ModelNotFoundError, match="datasets/fashion-mnist/train-images"):
        vision.FashionMNIST()
    assert (tmp_path / "datasets" / "fashion-mnist").is_dir()


def test_images_in_a_record_file(tmp_path: Path):
    record = mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    for i in range(3):
        header = mx.recordio.IRHeader(0, float(i), i, 0)
        record.write_idx(i, mx.recordio.pack_img(header, IMAGE, 3, ".png"))
    record.close()
    image, label = vision.ImageRecordDataset(str(tmp_path / "a.rec"))[2]
    np.testing.assert_array_equal(image.asnumpy(), IMAGE[..., ::-1])  # red, green, blue
    assert label == 2
    grey = vision.ImageRecordDataset(tmp_path / "a.rec", 0, lambda data, label: (data.shape, label))
    assert grey[1] == ((16, 32, 1), 1)


def test_folders_are_classes(tmp_path: Path):
    for name in ("dogs", "cats"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.PNG").write_bytes(mx.recordio.pack_img((0, 0, 0, 0), IMAGE, 3, ".png")[24:])
    (tmp_path / "cats" / "notes.txt").touch()
    (tmp_path / "list").touch()
    with pytest.warns(UserWarning, match="Ignoring") as told:
        dataset = vision.ImageFolderDataset(str(tmp_path))
    texts = sorted(str(warning.message) for warning in told)
    assert texts[0] == f"Ignoring {tmp_path}/cats/notes.txt of type .txt. Only support .jpg, .jpeg, .png"
    assert texts[1] == f"Ignoring {tmp_path}/list, which is not a directory."
    assert dataset.synsets == ["cats", "dogs"]
    assert dataset.items == [(f"{tmp_path}/cats/1.PNG", 0), (f"{tmp_path}/dogs/1.PNG", 1)]
    image, label = dataset[1]
    assert (image.shape, label, len(dataset)) == ((16, 32, 3), 1, 2)
