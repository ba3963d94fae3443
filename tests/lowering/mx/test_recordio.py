"""`mx.recordio`: MXNet's files both ways, by order and by key, in other processes, and what it refuses."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from symjax_nnvm.errors import CallError, RecordFormatError
from symjax_nnvm.mxnet import images
from tests.goldens.records.scenarios import KEYS, PAYLOADS
from tests.support import warm

GOLDENS = Path(__file__).parents[2] / "goldens" / "records"

IMAGE = np.kron(np.arange(24).reshape(2, 4, 3) * 10, np.ones((8, 8, 1))).astype(np.uint8)


def test_files_have_mxnets_bytes(tmp_path: Path):
    record = mx.recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    places = []
    for key, payload in zip(KEYS, PAYLOADS, strict=True):
        places.append(record.tell())
        record.write_idx(key, payload)
    assert record.keys == KEYS
    assert record.idx == dict(zip(KEYS, places, strict=True))
    record.close()
    for suffix in (".rec", ".idx"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (GOLDENS / f"payloads{suffix}").read_bytes()


def test_records_are_read_in_order_and_by_key():
    reader = mx.recordio.MXRecordIO(GOLDENS / "payloads.rec", "r")
    assert [reader.read() for _ in range(len(PAYLOADS) + 2)] == [*PAYLOADS, None, None]
    reader.reset()
    assert reader.read() == PAYLOADS[0]
    indexed = mx.recordio.MXIndexedRecordIO(GOLDENS / "payloads.idx", GOLDENS / "payloads.rec", "r")
    assert indexed.keys == KEYS
    assert [indexed.read_idx(key) for key in reversed(KEYS)] == PAYLOADS[::-1]
    indexed.seek(KEYS[1])
    assert [indexed.read(), indexed.read()] == PAYLOADS[1:3]
    with pytest.raises(KeyError):
        indexed.read_idx(-7)


def test_keys_have_any_type(tmp_path: Path):
    paths = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    record = mx.recordio.MXIndexedRecordIO(*paths, "w", key_type=str)
    record.write_idx("zwölf", b"12")
    record.write_idx(7, b"")
    record.close()
    assert (tmp_path / "a.idx").read_text(encoding="utf-8") == "zwölf\t0\n7\t12\n"
    record = mx.recordio.MXIndexedRecordIO(*paths, "r", str)
    assert (record.keys, record.read_idx("7"), record.read_idx("zwölf")) == (["zwölf", "7"], b"", b"12")


def test_a_file_has_its_place_while_it_is_written_and_who_reads_sees_what_is_there(tmp_path: Path):
    path = tmp_path / "a.rec"
    path.write_bytes(b"old")
    writer = mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", path, "w")
    assert (path.read_bytes(), (tmp_path / "a.idx").read_bytes()) == (b"", b"")
    writer.write_idx(7, b"one")
    reader = mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", path, "r")
    assert (reader.keys, reader.read(), reader.read()) == ([7], b"one", None)
    writer.write_idx(8, b"two")
    assert reader.read() == b"two"
    writer.reset()
    assert reader.read() is None
    writer.write_idx(9, b"three")
    del writer
    assert mx.recordio.MXRecordIO(path, "r").read() == b"three"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.idx", "a.rec"]


def test_a_file_that_cannot_be_opened_leaves_the_other_alone(tmp_path: Path):
    (tmp_path / "a.rec").write_bytes(b"old")
    with pytest.raises(mx.MXNetError, match="no folder"):
        mx.recordio.MXIndexedRecordIO(tmp_path / "no" / "a.idx", tmp_path / "a.rec", "w")
    assert (tmp_path / "a.rec").read_bytes() == b"old"
    with pytest.raises(mx.MXNetError, match="regular file"):
        mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path, "w")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_told_with_the_files_name(tmp_path: Path):
    writer = mx.recordio.MXRecordIO(tmp_path / "a.rec", "w")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._records.fileno())
    os.close(full)
    with pytest.raises(OSError, match=r"No space left on device: .*a\.rec"):
        writer.write(b"one")


def test_a_header_prints_as_mxnets():
    header, _ = mx.recordio.unpack(mx.recordio.pack(mx.recordio.IRHeader(0, 1.5, 2, 0), b""))
    assert repr(header) == str(header) == "HEADER(flag=0, label=1.5, id=2, id2=0)"
    assert repr(header._replace(label=np.ones(2))) == "HEADER(flag=0, label=array([1., 1.]), id=2, id2=0)"
    assert pickle.loads(pickle.dumps(header)) == header


@pytest.mark.slow("starts processes")
def test_a_file_that_was_not_closed_is_there_when_the_process_has_ended(tmp_path: Path):
    script = """
import sys
from lowering import mx
record = mx.recordio.MXIndexedRecordIO(sys.argv[1] + ".idx", sys.argv[1] + ".rec", "w")
record.write_idx(5, b"last")
"""
    assert warm.run(["-c", script, str(tmp_path / "a")]).stderr == ""
    assert mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r").read_idx(5) == b"last"


def test_a_pickled_file_is_closed_and_its_copy_open():
    reader = mx.recordio.MXIndexedRecordIO(GOLDENS / "payloads.idx", GOLDENS / "payloads.rec", "r")
    reader.read()
    copy = pickle.loads(pickle.dumps(reader))
    assert (reader.is_open, copy.is_open, copy.keys) == (False, True, KEYS)
    assert copy.read() == PAYLOADS[0]
    with pytest.raises(RuntimeError, match="The record file is closed"):
        reader.read()
    closed = pickle.loads(pickle.dumps(reader))
    assert (closed.is_open, closed.fidx) == (False, None)


def test_a_writer_is_pickled_closed_and_its_copy_begins_anew(tmp_path: Path):
    writer = mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "w")
    writer.write_idx(1, b"one")
    pickled = pickle.dumps(writer)
    assert mx.recordio.MXRecordIO(tmp_path / "a.rec", "r").read() == b"one"
    copy = pickle.loads(pickled)
    copy.write_idx(2, b"two")
    copy.close()
    assert mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r").keys == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_another_process_reads_by_key_and_writes_nothing(tmp_path: Path):
    reader = mx.recordio.MXIndexedRecordIO(GOLDENS / "payloads.idx", GOLDENS / "payloads.rec", "r")
    plain = mx.recordio.MXRecordIO(GOLDENS / "payloads.rec", "r")
    writer = mx.recordio.MXRecordIO(tmp_path / "a.rec", "w")
    writer.write(b"parent")
    child = os.fork()
    if not child:
        told = []
        for call in (plain.read, lambda: writer.write(b"child")):
            try:
                call()
            except RuntimeError as error:
                told.append("Forbidden operation in multiple processes" in str(error))
        writer.close()
        right = told == [True, True] and reader.read_idx(KEYS[2]) == PAYLOADS[2] and reader.read() == PAYLOADS[3]
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    writer.close()
    assert mx.recordio.MXRecordIO(tmp_path / "a.rec", "r").read() == b"parent"


def test_misuse_is_told(tmp_path: Path):
    with pytest.raises(mx.MXNetError, match="nowhere"):
        mx.recordio.MXRecordIO(tmp_path / "nowhere.rec", "r")
    with pytest.raises(mx.MXNetError, match="no folder"):
        mx.recordio.MXRecordIO(tmp_path / "no" / "a.rec", "w")
    with pytest.raises(ValueError, match="Invalid flag a"):
        mx.recordio.MXRecordIO(tmp_path / "a.rec", "a")
    writer = mx.recordio.MXRecordIO(tmp_path / "a.rec", "w")
    with pytest.raises(CallError, match="must be bytes"):
        writer.write("text")  # pyright: ignore[reportArgumentType]
    with pytest.raises(AssertionError, match="open for writing"):
        writer.read()
    writer.close()
    with pytest.raises(AssertionError, match="open for reading"):
        mx.recordio.MXRecordIO(tmp_path / "a.rec", "r").write(b"")
    with pytest.raises(FileNotFoundError):
        mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r")
    indexed = mx.recordio.MXIndexedRecordIO(GOLDENS / "payloads.idx", GOLDENS / "payloads.rec", "r")
    with pytest.raises(AssertionError, match="open for reading"):
        indexed.tell()


@pytest.mark.parametrize("line", ["a\t0", "0", "0\t-4", "0\t99999999999999999999", "0" * 5000])
def test_a_damaged_index_is_told(line: str, tmp_path: Path):
    (tmp_path / "a.idx").write_text(f"3\t0\n{line}\n")
    with pytest.raises(RecordFormatError, match=r"line 2"):
        mx.recordio.MXIndexedRecordIO(tmp_path / "a.idx", GOLDENS / "payloads.rec", "r")


def test_headers_are_mxnets():
    header = mx.recordio.IRHeader(0, 4, 2574, 0)
    assert mx.recordio.pack(header, b"abc") == bytes.fromhex("00000000000080400e0a000000000000" + "00" * 8) + b"abc"
    unpacked, data = again([1, 2, 3], b"abc")
    assert (unpacked.flag, unpacked.label.tolist(), unpacked.id, data) == (3, [1, 2, 3], 5, b"abc")
    # An array without axes is written as an array, a NumPy number as a number.
    assert again(np.array(7.0))[0].flag == 1
    assert again(np.float32(7))[0] == (0, 7.0, 5, 0)
    assert again(mx.nd.array([1, 2]))[0].label.tolist() == [1, 2]


def again(label: Any, data: bytes = b"") -> Any:
    """What is read of a record that was written with a label."""
    return mx.recordio.unpack(mx.recordio.pack((3, label, 5, 0), data))


@pytest.mark.parametrize("decoder", ["opencv", "pillow"])
def test_images_are_blue_green_red(decoder: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(images, "_chosen", lambda given: given or decoder)
    header = mx.recordio.IRHeader(0, 1.0, 2, 0)
    record = mx.recordio.pack_img(header, IMAGE, quality=3, img_fmt=".PNG")
    unpacked, image = mx.recordio.unpack_img(record)
    assert unpacked == header
    assert np.array_equal(image, IMAGE)
    assert np.array_equal(images.decode_image(mx.recordio.unpack(record)[1]), IMAGE[..., ::-1])
    assert mx.recordio.unpack_img(record, 0)[1].shape == IMAGE.shape[:2]
    jpeg = mx.recordio.unpack_img(mx.recordio.pack_img(header, IMAGE, 100, ".jpeg"))[1]
    assert np.abs(jpeg.astype(int) - IMAGE).mean() < 2
    grey = mx.recordio.pack_img(header, IMAGE[..., 0], 9, ".png")
    assert np.array_equal(mx.recordio.unpack_img(grey)[1], IMAGE[..., 0])
    assert np.array_equal(mx.recordio.unpack_img(grey, 1)[1], np.repeat(IMAGE[..., :1], 3, 2))
    alpha = np.dstack([IMAGE, IMAGE[..., 0]])
    packed = mx.recordio.pack_img(header, alpha, 9, ".png")
    assert np.array_equal(mx.recordio.unpack_img(packed)[1], alpha)
    assert np.array_equal(mx.recordio.unpack_img(packed, 1)[1], IMAGE)
    with pytest.raises(RecordFormatError, match="cannot be decoded"):
        mx.recordio.unpack_img(mx.recordio.pack(header, b"no image"))
    with pytest.raises(RecordFormatError, match="Unknown format"):
        mx.recordio.pack_img(header, IMAGE, img_fmt=".bmp")


recordio: Any = mx.recordio
HEADER = recordio.IRHeader(0, 1.0, 0, 0)
GREY = np.zeros((4, 4), np.uint8)
NOTHING: Any = None
NUMBER: Any = 3
FOUR = r"expected IRHeader\(flag, label, id, id2\), such as IRHeader\(0, 3.0, 7, 0\)"

WRONG: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "pack(3)": (lambda _: recordio.pack(3, b"x"), TypeError, f"in parameter 'header'; {FOUR}; got 3"),
    "pack of a short header": (lambda _: recordio.pack((0, 1.0), b"x"), TypeError, FOUR),
    "pack of text": (lambda _: recordio.pack(HEADER, "x"), TypeError, "in parameter 's'; got str. Convert text"),
    "pack of text and labels": (lambda _: recordio.pack(HEADER._replace(label=[1, 2]), "x"), TypeError, "got str"),
    "pack of nothing": (lambda _: recordio.pack(HEADER, None), TypeError, "got NoneType"),
    "a label that is a word": (
        lambda _: recordio.pack(HEADER._replace(label="a"), b""),
        ValueError,
        "a label of float32",
    ),
    "labels in rows": (
        lambda _: recordio.pack(HEADER._replace(label=[[1], [2, 3]]), b""),
        ValueError,
        "a label of float32",
    ),
    "unpack(None)": (
        lambda _: recordio.unpack(None),
        TypeError,
        r"got NoneType. Pass what MXRecordIO.read\(\) returns",
    ),
    "unpack of text": (
        lambda _: recordio.unpack("text"),
        TypeError,
        "A record must be bytes; in parameter 's'; got str",
    ),
    "unpack of short bytes": (lambda _: recordio.unpack(b"abc"), ValueError, "expected 24 bytes of a header; got 3"),
    "IRHeader of three": (lambda _: recordio.IRHeader(1, 2, 3), TypeError, rf"{FOUR}; got IRHeader\(1, 2, 3\)"),
    "IRHeader of other names": (lambda _: recordio.IRHeader(a=1), TypeError, rf"{FOUR}; got IRHeader\(a=1\)"),
    "pack_img of text": (lambda _: recordio.pack_img(HEADER, "x"), mx.MXNetError, "expected uint8"),
    "pack_img(3)": (lambda _: recordio.pack_img(3, GREY), TypeError, FOUR),
    "a quality that is a word": (
        lambda _: recordio.pack_img(HEADER, GREY, "a"),
        TypeError,
        "'quality'; expected 1 to 100",
    ),
    "a format that is none": (
        lambda _: recordio.pack_img(HEADER, GREY, 95, None),
        TypeError,
        "'img_fmt'; expected '.jpg'",
    ),
    "iscolor of a word": (lambda _: recordio.unpack_img(b"", "a"), TypeError, "'iscolor'"),
    "read_idx(99)": (
        lambda file: file.read_idx(99),
        KeyError,
        r"under the key 99; expected one of \[0, 1\].*key_type=int",
    ),
    "seek of a list": (lambda file: file.seek([1]), KeyError, r"under the key \[1\]"),
    "MXRecordIO(3)": (lambda _: recordio.MXRecordIO(3, "r"), TypeError, "uri must be a path; expected text.*; got 3"),
    "a key_type that is none": (
        lambda file: recordio.MXIndexedRecordIO(file.idx_path, file.uri, "r", 5),
        TypeError,
        "key_type must convert text to a key; expected int, str, or a function of a text; got 5",
    ),
    "an index that is not there": (
        lambda file: recordio.MXIndexedRecordIO(f"{file.idx_path}x", file.uri, "r"),
        FileNotFoundError,
        "No such file: .*idxx",
    ),
    "ImageRecordIter of no file": (
        lambda file: mx.io.ImageRecordIter(path_imgrec=f"{file.uri}x", data_shape=(3, 4, 4), batch_size=1),
        FileNotFoundError,
        "No such file: .*recx. Did you mean",
    ),
    "ImageRecordIter of None": (
        lambda _: mx.io.ImageRecordIter(path_imgrec=NOTHING, data_shape=(3, 4, 4), batch_size=1),
        TypeError,
        "path_imgrec must be a path.*got None",
    ),
    "ImageRecordIter of no list": (
        lambda file: mx.io.ImageRecordIter(
            path_imgrec=file.uri, data_shape=(3, 4, 4), batch_size=1, path_imglist="nowhere.lst"
        ),
        FileNotFoundError,
        "No such file: nowhere.lst",
    ),
    "RecordFileDataset(3)": (lambda _: mx.gluon.data.RecordFileDataset(NUMBER), TypeError, "filename must be a path"),
    "ImageFolderDataset of no folder": (
        lambda _: mx.gluon.data.vision.ImageFolderDataset("nowhere"),
        FileNotFoundError,
        "There is no folder nowhere",
    ),
    "CSVIter(3)": (lambda _: mx.io.CSVIter(NUMBER, (3,), batch_size=1), TypeError, "data_csv must be a path"),
}


@pytest.fixture(scope="module")
def two_records(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("records")
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    writer = recordio.MXIndexedRecordIO(*paths, "w")
    for key in range(2):
        writer.write_idx(key, recordio.pack(HEADER, b"abcd"))
    writer.close()
    return recordio.MXIndexedRecordIO(*paths, "r")


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_names_the_argument_and_what_to_give(mistake: str, two_records: Any):
    make, kind, told = WRONG[mistake]
    with pytest.raises(kind, match=told) as raised:
        make(two_records)
    assert isinstance(raised.value, mx.MXNetError)


def test_a_key_that_key_type_cannot_make_is_told_and_nothing_is_written(tmp_path: Path):
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "a.idx"), str(tmp_path / "a.rec"), "w")
    for key in ("a", None):
        with pytest.raises(mx.MXNetError, match="in parameter 'idx'. key_type=str takes text as keys"):
            writer.write_idx(key, b"x")
    writer.close()
    assert (tmp_path / "a.rec").read_bytes() == (tmp_path / "a.idx").read_bytes() == b""


def test_a_header_is_copied_replaced_and_pickled():
    header = pickle.loads(pickle.dumps(HEADER._replace(id=7)))
    assert type(header) is recordio.IRHeader
    assert (header, recordio.IRHeader(*header)) == ((0, 1.0, 7, 0), header)
