"""Data sets: parts, transforms, arrays and record files."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon import data
from lowering.mx.gluon.data.dataset import _DownloadedDataset
from symjax_nnvm.errors import SymbolTypeError


class Squares(data.Dataset):
    """Without IndexError: it must be asked for its length."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, idx: Any) -> Any:
        return idx * idx


def samples(dataset: data.Dataset) -> list[Any]:
    return [dataset[i] for i in range(len(dataset))]


def test_parts_of_a_data_set():
    squares = Squares()
    assert samples(squares.filter(lambda x: x % 2 == 0)) == [0, 4, 16, 36, 64]
    assert [samples(squares.shard(4, i)) for i in range(4)] == [[0, 1, 4], [9, 16], [25, 36], [49, 64]]
    assert samples(squares.take(2)) == [0, 1]
    assert len(squares.take(None)) == len(squares.take(100)) == 9
    assert samples(squares.sample(data.SequentialSampler(2, 3))) == [9, 16]
    with pytest.raises(SymbolTypeError, match=r"Invalid sampler type: <class 'list'>. Expected gluon.data.Sampler"):
        squares.sample([1, 2])  # pyright: ignore[reportArgumentType]
    with pytest.raises(AssertionError, match="Shard index of out bound: 4 out of 4"):
        squares.shard(4, 4)


def test_transforms_are_lazy_unless_asked_otherwise():
    seen: list[int] = []

    def note(x: int) -> int:
        seen.append(x)
        return -x

    lazy = Squares().transform(note)
    assert seen == []
    assert (lazy[2], lazy[2], seen) == (-4, -4, [4, 4])
    eager = Squares().transform(note, lazy=False)
    assert (eager[3], len(eager), len(seen)) == (-9, 9, 11)


def test_a_transform_is_given_the_parts_of_a_tuple():
    pairs = data.ArrayDataset([1, 2], ["a", "b"])
    assert samples(pairs.transform(lambda x, y: y * x)) == ["a", "bb"]
    assert samples(pairs.transform_first(lambda x: x + 1)) == [(2, "a"), (3, "b")]
    assert samples(data.SimpleDataset([5, 6]).transform_first(lambda x: x + 1)) == [6, 7]


def test_arrays_of_one_axis_give_numbers():
    pairs = data.ArrayDataset(mx.nd.arange(6).reshape((3, 2)), mx.nd.array([4, 5, 6]))
    row, label = pairs[1]
    assert isinstance(row, mx.nd.NDArray)
    np.testing.assert_array_equal(row.asnumpy(), [2, 3])
    assert (type(label), label, len(pairs)) == (np.float32, 5, 3)
    assert data.ArrayDataset([7, 8])[1] == 8
    with pytest.raises(AssertionError, match=r"array\[0\] has length 2 while array\[1\] has 3"):
        data.ArrayDataset([1, 2], [1, 2, 3])
    with pytest.raises(AssertionError, match="at least 1"):
        data.ArrayDataset()


def test_a_record_file_is_read_by_many_threads(tmp_path: Path):
    record = mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    for i in range(300):
        record.write_idx(i, bytes([i % 251]) * (i + 1))
    record.close()
    dataset = data.RecordFileDataset(tmp_path / "a.rec")
    assert len(dataset) == 300
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(dataset.__getitem__, [*range(300)] * 4))
    assert read == [bytes([i % 251]) * (i + 1) for i in range(300)] * 4


def test_a_librarys_data_set_reads_its_folder(tmp_path: Path):
    class Numbers(_DownloadedDataset):
        def _get_data(self) -> None:
            self._data, self._label = [1, 2], [len(list(Path(self._root).iterdir())), 5]

    assert samples(Numbers(str(tmp_path / "made" / "here"), None)) == [(1, 0), (2, 5)]
    assert samples(Numbers(tmp_path, lambda data, label: data + label)) == [2, 7]
    with pytest.raises(NotImplementedError, match="DownloadedDataset must define _get_data"):
        _DownloadedDataset(tmp_path, None)


def test_a_base_class_must_be_defined():
    with pytest.raises(NotImplementedError, match="Dataset must define __len__"):
        len(data.Dataset())
    with pytest.raises(NotImplementedError, match="Dataset must define __getitem__"):
        data.Dataset()[0]


def test_an_index_of_an_empty_record_file_is_told(tmp_path: Path):
    (tmp_path / "x.rec").write_bytes(b"")
    (tmp_path / "x.idx").write_text("0\t0\n")
    for made in (mx.gluon.data.RecordFileDataset, mx.gluon.data.vision.ImageRecordDataset):
        with pytest.raises(mx.MXNetError, match="has no record at the position"):
            made(str(tmp_path / "x.rec"))[0]
