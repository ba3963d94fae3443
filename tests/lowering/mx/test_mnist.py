"""`mx.io.MNISTIter`: MNIST's files, as they are and packed, and what is told of damaged ones."""

import gzip
import logging
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.data.idx_files import read_idx
from lowering.messages.counts import CountError
from symjax_nnvm.errors import TrainingError

IMAGES = np.random.default_rng(1).integers(0, 256, (11, 4, 3)).astype(np.uint8)
LABELS = np.array([5, 0, 1, 2, 4, 2, 0, 3, 2, 0, 7], np.uint8)


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "i").write_bytes(idx(IMAGES))
    (tmp_path / "l").write_bytes(idx(LABELS))
    return {"image": tmp_path / "i", "label": str(tmp_path / "l"), "batch_size": 4, "silent": True}


def test_batches_are_mxnets(files: dict[str, Any]):
    iterator = mx.io.MNISTIter(**files, shuffle=False)
    assert (iterator.provide_data, iterator.provide_label) == ([("data", (4, 1, 4, 3))], [("softmax_label", (4,))])
    assert iterator.provide_data[0].dtype is np.float32
    batches = list(iterator)
    assert [batch.label[0].asnumpy().tolist() for batch in batches] == [[5, 0, 1, 2], [4, 2, 0, 3]]
    data = np.concatenate([batch.data[0].asnumpy() for batch in batches])
    assert np.array_equal(data[:, 0], IMAGES[:8].astype(np.float32) / 256)
    assert (batches[0].pad, batches[0].index.tolist()) == (0, [0] * 4)
    assert not list(iterator)
    iterator.reset()
    assert len(list(iterator)) == 2


def test_flat_batches_and_other_names(files: dict[str, Any]):
    iterator = mx.io.MNISTIter(**files, shuffle=False, flat=True, data_name="x", label_name="y", input_shape=(12,))
    assert (iterator.provide_data, iterator.provide_label) == ([("x", (4, 12))], [("y", (4,))])
    assert np.array_equal(next(iterator).data[0].asnumpy(), IMAGES[:4].reshape(4, 12).astype(np.float32) / 256)
    assert next(mx.io.MNISTIter(**files, shuffle=False, dtype="float16")).data[0].dtype is np.float16


def test_an_order_is_the_seeds(files: dict[str, Any]):
    def labels(**parameters: Any) -> list[float]:
        return [
            label for batch in mx.io.MNISTIter(**files, **parameters) for label in batch.label[0].asnumpy().tolist()
        ]

    assert labels() == labels(seed=0) != labels(seed=7)
    batch = next(mx.io.MNISTIter(**{**files, "batch_size": 11}))
    assert sorted(batch.label[0].asnumpy().tolist()) == sorted(LABELS.tolist())
    sums = {(image.sum(), label) for image, label in zip(IMAGES / np.float32(256), LABELS, strict=True)}
    images = batch.data[0].asnumpy()[:, 0]
    assert all(
        any(np.isclose(image.sum(), total) and label == other for total, other in sums)
        for image, label in zip(images, batch.label[0].asnumpy(), strict=True)
    )


def test_parts_are_mxnets(files: dict[str, Any]):
    parts = [mx.io.MNISTIter(**files, shuffle=False, num_parts=2, part_index=i) for i in (0, 1)]
    assert [[b.label[0].asnumpy().tolist() for b in part] for part in parts] == [[[5, 0, 1, 2]], [[2, 0, 3, 2]]]
    with pytest.raises(TrainingError, match="no such part"):
        mx.io.MNISTIter(**files, num_parts=2, part_index=2)


def test_packed_files_are_read(files: dict[str, Any], tmp_path: Path):
    for name in ("image", "label"):
        path = Path(files[name])
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    packed = {**files, "image": tmp_path / "image.gz", "label": tmp_path / "label.gz"}
    plain, other = (next(mx.io.MNISTIter(**each)) for each in (files, packed))
    assert np.array_equal(plain.data[0].asnumpy(), other.data[0].asnumpy())


def test_what_was_read_is_logged(files: dict[str, Any], caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    mx.io.MNISTIter(**files)
    assert not caplog.records
    mx.io.MNISTIter(**{**files, "silent": False}, flat=True)
    assert caplog.messages == ["MNISTIter: load 11 images, shuffle=1, shape=(4, 12)"]


@pytest.mark.slow("computes much")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "begins with nothing"),
        (b"\0\0\x08\x03\0\0", "begins with 00000803"),
        (idx(LABELS), "begins with 00000801"),
        (idx(IMAGES)[:-1], "fewer bytes follow"),
        (idx(IMAGES) + b"1", "more bytes follow"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "too large"),
        (gzip.compress(idx(IMAGES))[:-9], "cannot be unpacked"),
        (b"\x1f\x8bno archive", "cannot be unpacked"),
        (gzip.compress(idx(IMAGES)[:-1]), "fewer bytes follow"),
    ],
)
def test_damaged_files_are_told(data: bytes, words: str, tmp_path: Path):
    (tmp_path / "i").write_bytes(data)
    with pytest.raises(TrainingError, match=words):
        read_idx(tmp_path / "i", 3)


def test_misuse_is_told(files: dict[str, Any], tmp_path: Path):
    with pytest.raises(mx.MXNetError, match="No such file"):
        mx.io.MNISTIter(tmp_path / "nowhere")
    (tmp_path / "l").write_bytes(idx(LABELS[:-1]))
    with pytest.raises(TrainingError, match="The labels do not fit the images"):
        mx.io.MNISTIter(**files)
    with pytest.raises(CountError, match="batch_size"):
        mx.io.MNISTIter(**{**files, "batch_size": 0})
