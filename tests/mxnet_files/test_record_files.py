"""Record files: what MXNet wrote is read, what we write has its bytes, and what is damaged is told."""

import math
import os
import pickle
import shutil
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm.errors import CallError, FileError, MissingExtraError, ModelNotFoundError, RecordFormatError
from symjax_nnvm.mxnet.images import decode_image, encode_image
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_format import MAX_RECORD, frame, pack, unpack
from symjax_nnvm.mxnet.record_lists import list_images, read_list, write_list, write_records
from symjax_nnvm.mxnet.record_writer import RecordWriter
from tests.fuzz.contract import contract
from tests.goldens.records import scenarios
from tests.goldens.records.scenarios import HEADERS, JPEGS, KEYS, LABELS, MAGIC, PAYLOADS
from tests.goldens.records.sources import IMAGES

GOLDENS = Path(__file__).parents[1] / "goldens" / "records"


def copied(folder: Path, name: str, index: bool = True) -> Path:
    """One of MXNet's files, where it may be written to."""
    for suffix in (".rec", ".idx")[: 1 + index]:
        shutil.copy(GOLDENS / f"{name}{suffix}", folder)
    return folder / f"{name}.rec"


# -- as MXNet --------------------------------------------------------------------------------------------------------


def test_records_are_those_that_mxnet_wrote():
    file = RecordFile(GOLDENS / "payloads.rec")
    assert list(file) == PAYLOADS
    assert file.keys.tolist() == KEYS
    assert [file[-i - 1] for i in range(len(file))] == PAYLOADS[::-1]
    assert repr(file) == f"RecordFile({str(GOLDENS / 'payloads.rec')!r}, {len(PAYLOADS)} records)"


def test_records_are_written_as_mxnet_writes_them(tmp_path: Path):
    with RecordWriter(tmp_path / "payloads.rec") as writer:
        positions = [writer.write(data, key) for key, data in zip(KEYS, PAYLOADS, strict=True)]
    assert positions == RecordFile(GOLDENS / "payloads.rec").offsets.tolist()
    for suffix in (".rec", ".idx"):
        assert (tmp_path / f"payloads{suffix}").read_bytes() == (GOLDENS / f"payloads{suffix}").read_bytes()


def test_headers_are_mxnets_both_ways():
    file = RecordFile(GOLDENS / "headers.rec")
    assert [pack(header, b"data") for header in HEADERS] == list(file)  # byte for byte
    for i, (_, label, number, number2) in enumerate(HEADERS):
        header, data = file.unpack(i)
        assert (header.id, header.id2, data) == (number, number2, b"data")
        assert header.flag == (len(label) if isinstance(label, list) else 0)
        np.testing.assert_array_equal(header.label, np.asarray(label, np.float32))
        np.testing.assert_array_equal(file.header(i).label, header.label)
    several = file.unpack(2)[0].label
    assert isinstance(several, np.ndarray)
    assert several.dtype == np.float32
    assert isinstance(file.label(0), float)


def test_images_are_written_as_mxnet_writes_them(tmp_path: Path):
    with RecordWriter(tmp_path / "images.rec") as writer:
        for name, label in zip(JPEGS, LABELS, strict=True):
            writer.write_image(IMAGES[name], label)
    with RecordWriter(tmp_path / "seven.rec") as writer:
        for i in range(7):
            writer.write_image(IMAGES["square.png"], np.array([i, i + 0.5]), i)
    assert len(writer) == 7
    for name in ("images.rec", "images.idx", "seven.rec"):
        assert (tmp_path / name).read_bytes() == (GOLDENS / name).read_bytes(), name


def test_records_of_two_and_of_three_labels_are_told(tmp_path: Path):
    with RecordWriter(tmp_path / "two.rec") as writer:
        for i, width in enumerate((2, 3)):
            writer.write_image(IMAGES["square.png"], np.arange(width, dtype=np.float32), i)
    with pytest.raises(RecordFormatError, match=r"different numbers of labels; expected 2.*got 3 in record 1"):
        _ = RecordFile(tmp_path / "two.rec").labels


def test_labels_are_one_array():
    np.testing.assert_array_equal(RecordFile(GOLDENS / "images.rec").labels, np.array(LABELS, np.float32))
    np.testing.assert_array_equal(
        RecordFile(GOLDENS / "seven.rec").labels,
        np.arange(7, dtype=np.float32)[:, None] + np.array([0, 0.5], np.float32),
    )
    with pytest.raises(
        RecordFormatError, match=r"different numbers of labels; expected 1.*got 3 in record 2.*label\(i\)"
    ):
        _ = RecordFile(GOLDENS / "headers.rec").labels


# -- the index -------------------------------------------------------------------------------------------------------


def test_an_index_that_is_missing_is_made_and_saved(tmp_path: Path):
    path = copied(tmp_path, "payloads", index=False)
    file = RecordFile(path)
    assert list(file) == PAYLOADS
    assert file.keys.tolist() == list(range(len(PAYLOADS)))
    assert file.index_path == tmp_path / "payloads.idx"
    lines = (tmp_path / "payloads.idx").read_text().splitlines()
    assert lines == [f"{i}\t{offset}" for i, offset in enumerate(RecordFile(GOLDENS / "payloads.rec").offsets)]
    assert list(RecordFile(path)) == PAYLOADS  # by what was saved
    assert list(RecordFile(path, tmp_path / "other.idx")) == PAYLOADS
    assert (tmp_path / "other.idx").read_bytes() == (tmp_path / "payloads.idx").read_bytes()


def test_an_index_that_cannot_be_saved_is_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = copied(tmp_path, "payloads", index=False)

    def read_only(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "payloads.idx")

    monkeypatch.setattr("symjax_nnvm.mxnet.record_index.write_file", read_only)
    file = RecordFile(path)
    assert list(file) == PAYLOADS
    assert file.index_path is None
    assert list(tmp_path.iterdir()) == [path]


def test_an_index_may_name_some_records_in_any_order(tmp_path: Path):
    path = copied(tmp_path, "payloads")
    lines = path.with_suffix(".idx").read_text().splitlines(keepends=True)
    path.with_suffix(".idx").write_text("".join([lines[6], lines[2]]).rstrip("\n"))
    file = RecordFile(path)
    assert list(file) == [PAYLOADS[6], PAYLOADS[2]]
    assert file.keys.tolist() == [KEYS[6], KEYS[2]]


def test_slices_are_record_files():
    file = RecordFile(GOLDENS / "seven.rec")
    odd = file[1::2]
    assert isinstance(odd, RecordFile)
    assert list(odd) == [file[i] for i in (1, 3, 5)]
    assert odd.keys.tolist() == [10, 30, 50]
    assert file.labels[1::2].tolist() == odd.labels.tolist() == file[1::2].labels.tolist()
    assert file.select(np.array([6, 0]))[0] == file[6]
    assert len(file.select(file.labels[:, 0] > 3)) == 3
    assert len(file[7:]) == 0


def test_an_empty_file_has_no_records(tmp_path: Path):
    (tmp_path / "empty.rec").touch()
    file = RecordFile(tmp_path / "empty.rec")
    assert len(file) == 0
    assert file.labels.shape == (0,)
    with pytest.raises(IndexError, match=r"record 0 of 0 in .*empty\.rec"):
        file[0]


# -- processes and threads -------------------------------------------------------------------------------------------


def test_a_pickled_file_opens_itself_where_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(GOLDENS)
    file = RecordFile("payloads.rec")
    assert file[2] == b"four"
    data = pickle.dumps(file[2:])
    monkeypatch.chdir(tmp_path)  # a worker's folder may be another
    assert list(pickle.loads(data)) == PAYLOADS[2:]
    file.close()
    assert file[2] == b"four"  # opens it again


def test_threads_share_a_file():
    file = RecordFile(GOLDENS / "payloads.rec")
    numbers = np.random.default_rng(0).integers(len(PAYLOADS), size=2000)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(file.__getitem__, numbers)) == [PAYLOADS[i] for i in numbers]


def test_a_system_without_pread_reads_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "pread")
    assert list(RecordFile(GOLDENS / "payloads.rec")) == PAYLOADS


def test_numbers_of_numpy_are_numbers():
    file = RecordFile(GOLDENS / "payloads.rec")
    assert file[np.int32(6)] == PAYLOADS[6]
    with pytest.raises(TypeError):
        file["6"]  # type: ignore[call-overload]


# -- files that are damaged --------------------------------------------------------------------------------------------


def part(flag: int, data: bytes = b"", length: int | None = None) -> bytes:
    return MAGIC + struct.pack("<I", flag << 29 | (len(data) if length is None else length)) + data


DAMAGED: dict[str, tuple[bytes, str]] = {
    "an image": (IMAGES["wide.jpg"], "is not a record file: it is a JPEG image"),
    "text": (b"no records at all", "no part of a record begins at byte 0.*the magic number 0a23d7ce; got 6e6f"),
    "no magic number behind a record": (frame(b"1234") + b"12345678", "begins at byte 12, in the record at byte 12"),
    "a head cut off": (frame(b"1234") + MAGIC, "within the record at byte 12: the head of a part at byte 12.*s 12"),
    "data cut off": (frame(b"12345678")[:-5], "record at byte 0: 8 bytes from 8 on, and the file has 11"),
    "a length beyond the file": (part(0, b"1234", (1 << 29) - 1), "536870911 bytes from 8 on"),
    "a last part first": (part(3, b"1234"), "a last part at byte 0.*expected a whole record or a record's first part"),
    "a flag that there is not": (part(6, b"1234"), "flag 6 at byte 0"),
    "a record within a record": (part(1, b"1234") + frame(b"12"), "a whole record at byte 12, in the record at byte 0"),
    "a first part within a record": (part(1) + part(1) + part(3), "a record's first part at byte 8"),
    "no last part": (part(1) + part(2) * 3, "the head of a part at byte 32"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_files(data: bytes, message: str, tmp_path: Path):
    path = tmp_path / "x.rec"
    path.write_bytes(data)
    with contract(len(data)), pytest.raises(RecordFormatError, match=message) as raised:
        RecordFile(path)
    assert str(path) in str(raised.value)
    assert not path.with_suffix(".idx").exists()


def test_parts_that_add_up_to_more_than_a_record_may_have(tmp_path: Path):
    path = tmp_path / "x.rec"
    with path.open("wb") as file:  # a sparse file: nothing of its size is on the disk
        file.write(part(1, length=MAX_RECORD - 3))
        file.seek(8 + MAX_RECORD - 3)
        file.write(part(3, b"1234"))
    with contract(0), pytest.raises(RecordFormatError, match="too large; expected at most 536870911 .*got 536870916"):
        RecordFile(path)


def test_records_too_large_are_not_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("symjax_nnvm.mxnet.record_format.MAX_RECORD", 7)
    assert len(frame(b"1234567")) == 16
    with pytest.raises(RecordFormatError, match="too large; expected at most 7 bytes; got 8. Split it"):
        frame(b"12345678")


INDICES = {
    "outside": ("0\t0\n1\t512\n", "line 2 points outside .*expected a multiple of 4, at most 500.*got 512"),
    "negative": ("0\t-4\n", "line 1 points outside"),
    "not aligned": ("0\t0\n1\t2\n", "line 2 points outside.*got 2. The index belongs to another.*RecordFile makes one"),
    "no number": ("0\t0\nkey\t12\n", r"is not an index: line 2 is not a key, a tab and a number; got b'key\\t12'"),
    "one field": ("0\n", "line 1 is not a key"),
    "three fields": ("0\t0\t0\n", "line 1 is not a key"),
    "an empty line": ("0\t0\n\n4\t8\n", "line 2 is not a key"),
    "more than 64 bits": (f"{2**63}\t0\n", "line 1 is not a key"),
    "a long line": (f"{'0' * 70}\t0\n", "line 1 is not a key"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), INDICES.values(), ids=INDICES.keys())
def test_damaged_indices(text: str, message: str, tmp_path: Path):
    path = copied(tmp_path, "payloads")
    path.with_suffix(".idx").write_text(text)
    with pytest.raises(RecordFormatError, match=message):
        RecordFile(path)


def test_an_index_into_the_middle_of_a_record(tmp_path: Path):
    path = copied(tmp_path, "payloads")
    within = RecordFile(path).offsets[5] + 8  # of a record of three magic numbers: a first part of no bytes, then two
    path.with_suffix(".idx").write_text(f"0\t0\n1\t12\n2\t{within}\n")
    file = RecordFile(path)  # what is there is seen when it is read
    assert file[0] == b""
    with pytest.raises(
        RecordFormatError, match="begins at byte 12.*another file, or this one is damaged. Remove the index"
    ):
        file[1]
    with pytest.raises(RecordFormatError, match=f"a middle part at byte {within}.*Remove the index"):
        file[2]


def test_an_index_too_large_for_its_file(tmp_path: Path):
    path = copied(tmp_path, "payloads")
    path.with_suffix(".idx").write_text("0\t0\n" * 2000)
    with pytest.raises(RecordFormatError, match="is too large for the index of its record file"):
        RecordFile(path)


def test_a_file_cut_off_while_it_is_open(tmp_path: Path):
    path = copied(tmp_path, "payloads")
    file = RecordFile(path)
    os.truncate(path, int(file.offsets[-1]) + 20)
    assert file[0] == b""
    with pytest.raises(RecordFormatError, match="ends within the record"):
        file[-1]


def test_what_is_no_file(tmp_path: Path):
    with pytest.raises(ModelNotFoundError, match="No such file: .*train.rec"):
        RecordFile(tmp_path / "train.rec")
    (tmp_path / "folder.rec").mkdir()
    with pytest.raises(FileError, match="expected a regular file; got a folder"):
        RecordFile(tmp_path / "folder.rec")
    os.mkfifo(tmp_path / "pipe.rec")
    with pytest.raises(FileError, match="named pipe"):
        RecordFile(tmp_path / "pipe.rec")


def test_records_without_a_header_are_no_images():
    file = RecordFile(GOLDENS / "payloads.rec")
    with pytest.raises(
        RecordFormatError, match=r"record 1 of .*, at byte 8, has no header of an image; expected 24 bytes"
    ):
        file.unpack(1)
    with pytest.raises(RecordFormatError, match="expected 24 bytes.*got 1 bytes.*read its bytes with file"):
        file.header(1)
    with pytest.raises(RecordFormatError, match="expected 50462976 labels after the header; got 232 bytes"):
        file.unpack(10)
    with pytest.raises(RecordFormatError, match="expected 2 labels after the header; got 4 bytes"):
        unpack(struct.pack("<IfQQ", 2, 0, 0, 0) + b"1234")


@pytest.mark.parametrize("header", [(0, 1.0, -1, 0), (0, 1.0, 2**64, 0), (0, 1e300, 0, 0), (0, 1.0, 1.5, 0)])
def test_headers_that_do_not_fit(header: Any):
    with pytest.raises(RecordFormatError, match="cannot be written; expected a label of float32"):
        pack(header, b"")


# -- writing -----------------------------------------------------------------------------------------------------------


def test_a_writer_that_is_interrupted_changes_nothing(tmp_path: Path):
    path = copied(tmp_path, "seven")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def interrupted() -> None:
        with RecordWriter(path) as writer:
            writer.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_writer_writes_in_its_block_alone(tmp_path: Path):
    writer = RecordWriter(tmp_path / "x.rec")
    with pytest.raises(CallError, match="with RecordWriter"):
        writer.write(b"")
    with writer:
        writer.write(b"1")
    with pytest.raises(CallError, match="with RecordWriter"):
        writer.write(b"")
    with pytest.raises(CallError, match=r"x\.idx is its own index"):
        RecordWriter(tmp_path / "x.idx")
    assert list(RecordFile(tmp_path / "x.rec")) == [b"1"]


# -- lists of images ---------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, data in scenarios.FOLDER.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_bytes(data)
    return tmp_path / "root"


@pytest.mark.parametrize(
    ("name", "options"), [("packed", {}), ("ordered", {"shuffle": False}), ("flat", {"recursive": False})]
)
def test_folders_are_listed_as_im2rec_lists_them(name: str, options: dict[str, Any], root: Path, tmp_path: Path):
    rows = list_images(root, **options)
    write_list(tmp_path / "list.lst", rows)
    assert (tmp_path / "list.lst").read_bytes() == (GOLDENS / f"{name}.lst").read_bytes()
    assert read_list(tmp_path / "list.lst") == rows


def test_lists_are_packed_as_im2rec_packs_them(root: Path, tmp_path: Path):
    assert write_records(tmp_path / "x.rec", read_list(GOLDENS / "packed.lst"), root, pass_through=True) == []
    for suffix in (".rec", ".idx"):
        assert (tmp_path / f"x{suffix}").read_bytes() == (GOLDENS / f"packed{suffix}").read_bytes()


def test_images_are_cut_resized_and_encoded(root: Path, tmp_path: Path):
    rows = [row._replace(labels=(row.labels[0], 7.0)) for row in list_images(root)]
    write_records(tmp_path / "x.rec", rows, root, resize=12, center_crop=True, encoding=".png", pack_label=True)
    file = RecordFile(tmp_path / "x.rec")
    assert {file.image(i).shape for i in range(len(file))} == {(12, 12, 3)}
    assert file.labels.tolist() == [list(row.labels) for row in rows]
    assert file.unpack(0)[1].startswith(b"\x89PNG")
    write_records(tmp_path / "y.rec", rows, root, resize=12, channels=1)
    file = RecordFile(tmp_path / "y.rec")
    shapes = {row.path: file.image(i, 1).shape for i, row in enumerate(rows)}
    assert shapes["cats/b.jpg"] == (12, 16, 1)  # 20 × 28: im2rec's rounding
    assert shapes["cats/a.JPG"] == (20, 12, 1)
    assert file.labels.tolist() == [row.labels[0] for row in rows]


def test_broken_images_are_told_or_left_out(root: Path, tmp_path: Path):
    (root / "dogs" / "c.png").write_bytes(b"damaged")
    rows = [row._replace(path="gone.jpg") if row.path == "e.jpg" else row for row in list_images(root)]
    messages = {"dogs/c.png": "cannot be decoded.*7 bytes", "gone.jpg": "No such file"}
    for row in rows:
        if row.path in messages:
            message = f"Image {row.id} of the list, {row.path}: .*{messages[row.path]}.*skip_broken=True"
            with pytest.raises(RecordFormatError, match=message):
                write_records(tmp_path / "x.rec", [row], root)
    assert not (tmp_path / "x.rec").exists()
    left_out = write_records(tmp_path / "x.rec", rows, root, skip_broken=True)
    assert sorted(line.split(":")[0] for line in left_out) == ["dogs/c.png", "gone.jpg"]
    assert len(RecordFile(tmp_path / "x.rec")) == len(rows) - 2


LISTS = {
    "two fields": "0\timage.jpg\n",
    "no number": "x\t0\timage.jpg\n",
    "no label": "0\tcat\timage.jpg\n",
    "not finite": "0\tinf\timage.jpg\n",
    "a NUL": "0\t1\timage\0.jpg\n",
}


@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS.keys())
def test_damaged_lists(text: str, tmp_path: Path):
    (tmp_path / "x.lst").write_text("0\t0\tfirst.jpg\n\n" + text)
    with pytest.raises(
        RecordFormatError, match=r"x\.lst: line 3 is not a line of an image list; expected a whole number"
    ):
        read_list(tmp_path / "x.lst")


def test_folders_without_images(tmp_path: Path):
    with pytest.raises(RecordFormatError, match=r"no images in .*expected files that end in \.jpeg, \.jpg, \.png"):
        list_images(tmp_path)
    with pytest.raises(RecordFormatError, match="contains a tab"):
        write_list(tmp_path / "x.lst", [read_list(GOLDENS / "flat.lst")[0]._replace(path="a\tb")])


# -- images ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JPEGS)
def test_both_decoders_give_the_same_bytes(name: str):
    by_opencv, by_pillow = (decode_image(IMAGES[name], decoder=decoder) for decoder in ("opencv", "pillow"))
    np.testing.assert_array_equal(by_opencv, by_pillow)
    assert by_opencv.dtype == np.uint8


def test_images_are_turned_and_may_be_grey_or_clear():
    assert decode_image(IMAGES["turned.jpg"]).shape == (24, 18, 3)  # stored 18 × 24
    for decoder in ("opencv", "pillow"):
        assert decode_image(IMAGES["turned.jpg"], 1, decoder).shape == (24, 18, 1)
        clear = decode_image(IMAGES["clear.png"], 4, decoder)
        np.testing.assert_array_equal(clear[..., :3], decode_image(IMAGES["clear.png"], 3, decoder))
        with pytest.raises(RecordFormatError, match="does not have 4 channels of 8 bits. Ask for 3 channels"):
            decode_image(IMAGES["square.png"], 4, decoder)
        with pytest.raises(RecordFormatError, match=r"The image cannot be decoded.*7 bytes that begin with b'damaged'"):
            decode_image(b"damaged", 3, decoder)
        with pytest.raises(RecordFormatError, match="cannot be decoded"):
            decode_image(b"", 3, decoder)


@pytest.mark.parametrize("decoder", ["opencv", "pillow"])
def test_images_are_encoded(decoder: Any):
    image = decode_image(IMAGES["wide.jpg"])
    for pixels in (image, image[..., :1], decode_image(IMAGES["clear.png"], 4)):
        made = encode_image(pixels, ".png", 3, decoder)
        np.testing.assert_array_equal(decode_image(made, pixels.shape[2], decoder), pixels)
    small, large = (encode_image(image, quality=quality, decoder=decoder) for quality in (30, 95))
    assert len(small) < len(large)
    assert np.abs(decode_image(large).astype(int) - image).mean() < 3
    with pytest.raises(RecordFormatError, match="No image; expected uint8"):
        encode_image(image.astype(np.float32), decoder=decoder)
    with pytest.raises(RecordFormatError, match="Unknown format of images"):
        encode_image(image, ".gif", decoder=decoder)


def test_images_need_a_decoder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    np.testing.assert_array_equal(RecordFile(GOLDENS / "images.rec").image(0), decode_image(IMAGES["wide.jpg"]))
    with pytest.raises(MissingExtraError, match=r"OpenCV.*pip install 'symjax-nnvm\[data\]'"):
        decode_image(IMAGES["wide.jpg"], decoder="opencv")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"Images need OpenCV or Pillow. Install it with: pip install"):
        decode_image(IMAGES["wide.jpg"])
    assert RecordFile(GOLDENS / "images.rec").labels.tolist() == LABELS  # which needs none


def test_errors_of_images_name_the_record():
    file = RecordFile(GOLDENS / "headers.rec")
    with pytest.raises(
        RecordFormatError, match=r"The image of record 1 of .*headers\.rec, at byte 36, cannot be decoded"
    ):
        file.image(1)
    with pytest.raises(
        RecordFormatError, match="cannot be decoded to this number of channels; expected 1, 3 or 4; got 2"
    ):
        file.image(1, channels=2)
    with pytest.raises(RecordFormatError, match="Unknown decoder; expected 'opencv', 'pillow' or None; got 'cv2'"):
        file.image(1, decoder="cv2")  # type: ignore[arg-type]
    assert math.isnan(file.unpack(4)[0].label)  # type: ignore[arg-type]
    assert nn.RecordFormatError is RecordFormatError
