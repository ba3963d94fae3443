"""`mx.io`'s iterators over record files: of every kind of image and label, by MXNet's names."""

# Every batch has labels here.
# pyright: reportOptionalSubscript=false

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from tests.goldens.records.scenarios import BATCHES, IMAGE, LABELS

RECORDS = Path(__file__).parents[2] / "goldens" / "records"
THEIRS = np.load(RECORDS / "batches.npz")
IMAGES: dict[str, Any] = {**IMAGE, "path_imgrec": str(RECORDS / "images.rec")}


@pytest.mark.parametrize("suffix", ["", "_v1"])
def test_images_as_bytes_are_mxnets(suffix: str):
    iterator = getattr(mx.io, f"ImageRecordUInt8Iter{suffix}")(**IMAGES)
    assert iterator.provide_data[0].dtype == np.uint8
    (batch,) = iterator
    assert batch.data[0].dtype == np.uint8
    np.testing.assert_array_equal(batch.data[0].asnumpy(), THEIRS["uint8"])
    np.testing.assert_array_equal(batch.label[0].asnumpy(), np.array(LABELS, np.float32))


def test_images_as_signed_bytes_are_mxnets():
    (batch,) = mx.io.ImageRecordInt8Iter(**{**IMAGES, **BATCHES["int8"]})
    assert batch.data[0].dtype == np.int8
    np.testing.assert_array_equal(batch.data[0].asnumpy(), THEIRS["int8"])
    (batch,) = mx.io.ImageRecordIter_v1(**IMAGES, mirror=True)
    np.testing.assert_array_equal(batch.data[0].asnumpy(), THEIRS["mirror"])


def test_images_with_boxes_are_mxnets():
    theirs = np.load(RECORDS / "detection.npz")
    given = {**IMAGE, "path_imgrec": str(RECORDS / "detection.rec"), "verbose": False}
    with pytest.warns(UserWarning, match=r"ImageDetRecordIter ignores \['rand_mirror'\], as MXNet's does"):
        iterator = mx.io.ImageDetRecordIter(**given, label_name="label", rand_mirror=True)
    assert (iterator.provide_data, iterator.provide_label) == ([("data", (4, 3, 10, 12))], [("label", (4, 26))])
    for _ in range(2):
        batch = iterator.next()
        assert batch.label is not None
        np.testing.assert_array_equal(batch.data[0].asnumpy(), theirs["force"])
        np.testing.assert_array_equal(batch.label[0].asnumpy(), theirs["force label"])
        iterator.reset()


def test_an_iterator_over_files_is_an_mxdataiter(tmp_path: Path):
    (tmp_path / "x.csv").write_text("1,2\n")
    csv = mx.io.CSVIter(data_csv=str(tmp_path / "x.csv"), data_shape=(2,), batch_size=1)
    images = mx.io.ImageRecordIter(**{**IMAGES, "batch_size": 3})
    assert all(isinstance(iterator, mx.io.MXDataIter) for iterator in (csv, images))
    assert issubclass(mx.io.MNISTIter, mx.io.MXDataIter)
    assert not isinstance(mx.io.NDArrayIter(np.zeros((2, 2))), mx.io.MXDataIter)
    found = []
    while images.iter_next():
        found.append((images.getdata().shape, images.getlabel().asnumpy().tolist(), images.getpad()))
    assert found == [((3, 3, 10, 12), LABELS[:3], 0), ((3, 3, 10, 12), [LABELS[3], *LABELS[:2]], 2)]


@pytest.mark.parametrize("label_name", ["l", "softmax_label"])
def test_labels_have_the_name_that_is_given(label_name: str):
    images = mx.io.ImageRecordIter(**IMAGES, data_name="d", label_name=label_name)
    (data,), (label,) = images.provide_data, images.provide_label
    assert (data.name, label.name) == ("d", label_name)
    (batch,) = images
    assert [len(batch.data), len(batch.label or ())] == [1, 1]


def test_the_batch_of_a_loop_is_the_iterators(tmp_path: Path):
    (tmp_path / "rows.libsvm").write_text("1 0:1 2:3\n0 1:2\n1 3:4\n")
    rows = mx.io.LibSVMIter(data_libsvm=str(tmp_path / "rows.libsvm"), data_shape=(4,), batch_size=2)
    assert rows.getdata().asnumpy().tolist() == [[1, 0, 3, 0], [0, 2, 0, 0]]  # the first, before it is taken
    for batch in rows:
        assert rows.getdata() is batch.data[0]
        assert rows.getlabel() is batch.label[0]
        assert rows.getpad() == batch.pad


@pytest.mark.parametrize("index", ["half", "of another file", ""])
def test_all_records_are_read_whatever_index_is_beside_the_file(tmp_path: Path, index: str):
    path = tmp_path / "images.rec"
    path.write_bytes(Path(IMAGES["path_imgrec"]).read_bytes())
    lines = Path(IMAGES["path_imgrec"]).with_suffix(".idx").read_text().splitlines(keepends=True)
    beside = {"half": "".join(lines[: len(lines) // 2]), "of another file": "0\t0\n1\t12\n", "": ""}[index]
    (tmp_path / "images.idx").write_text(beside)
    (batch,) = mx.io.ImageRecordIter(**{**IMAGES, "path_imgrec": str(path)})
    np.testing.assert_array_equal(batch.label[0].asnumpy(), np.array(LABELS, np.float32))
    assert (tmp_path / "images.idx").read_text() == beside


def test_a_csv_file_has_a_first_batch_before_it_is_taken(tmp_path: Path):
    (tmp_path / "x.csv").write_text("1,2\n3,4\n5,6\n")
    rows = mx.io.CSVIter(data_csv=str(tmp_path / "x.csv"), data_shape=(2,), batch_size=2)
    assert rows.getdata().asnumpy().tolist() == [[1, 2], [3, 4]]
    assert [batch.data[0].asnumpy().tolist() for batch in rows] == [[[1, 2], [3, 4]], [[5, 6], [1, 2]]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: mx.io.CSVIter(data_csv="none.csv", data_shape=(2,), batch_size=1),
        lambda: mx.io.LibSVMIter(data_libsvm="none", data_shape=(2,), batch_size=1),
        lambda: mx.image.ImageIter(1, (3, 4, 4), path_imglist="none.lst", path_root="."),
    ],
)
def test_a_file_that_is_not_there_is_an_error_of_mxnets(make: Any):
    with pytest.raises(mx.MXNetError, match="No such file: none"):
        make()
