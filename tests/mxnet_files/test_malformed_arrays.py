"""Hostile array files, each kind by name: `.params`, `.npy`, and zip files of them."""

import io
import json
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm.errors import NNVMError, ParamsFormatError
from symjax_nnvm.mxnet import CSRArray, RowSparseArray
from symjax_nnvm.mxnet.array_file import read_list
from tests.fuzz import corpus
from tests.fuzz.contract import contract
from tests.mxnet_files.test_malformed import graph_of

# -- array files -----------------------------------------------------------------------------------------------------


def damaged(number: int, change: Callable[[corpus.Fields], object]) -> bytes:
    """One of the corpus's array files after a change of its fields."""
    fields = corpus.array_fields()[number]
    change(fields)
    return corpus.join(fields)


def put(index: int, value: int) -> Callable[[corpus.Fields], object]:
    """A change of one number."""
    return lambda fields: fields.__setitem__(index, fields[index]._replace(value=value))


SPARSE, EMPTY = 2, 3  # the files of sparse arrays, and of a scalar and an empty array
WRONG_FILES: dict[str, tuple[bytes, str]] = {
    "empty array of impossible shape": (damaged(EMPTY, put(14, 1 << 62)), "elements beside the 0"),
    "row numbers out of range": (damaged(SPARSE, put(19, 99)), "row numbers go from 1 to 99, expected 0 to 4"),
    "rank of 2 billion": (damaged(0, put(5, 1 << 31 - 1)), "dimensions, expected 0 to 32"),
    "dimension of 2^62": (damaged(0, put(6, 1 << 62)), "truncated: the data of array 0 takes"),
    "negative dimension": (damaged(0, put(6, -1)), "expected no negative dimension"),
    "count of arrays": (damaged(0, put(2, 1 << 63)), "claims 9223372036854775808 arrays, more than fit into it"),
    "one array too many": (damaged(0, put(2, 14)), "truncated|dimensions|elements beside"),
    "dtype": (damaged(0, put(10, 99)), "the dtype of array 0 is 99"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_array_files_that_lie(data: bytes, message: str, tmp_path: Path):
    (tmp_path / "x-0000.params").write_bytes(data)
    (tmp_path / "x-symbol.json").write_text(json.dumps(graph_of()))
    with contract(len(data)), pytest.raises(ParamsFormatError, match=message):
        nn.load_arrays(tmp_path / "x-0000.params")
    with pytest.raises(ParamsFormatError, match=message):
        nn.load_checkpoint(tmp_path / "x", 0)


NO_ROWS = np.zeros(0, np.int64)
UNREADABLE: dict[str, tuple[Any, str]] = {
    "dimensions": (np.zeros((1,) * 33), "33 dimensions"),
    "empty": (np.zeros((0, 1 << 60), np.int8), "elements beside the 0"),
    "empty sparse": (RowSparseArray((0, 1 << 60), np.zeros((0, 1 << 60), np.int8), indices=NO_ROWS), "beside the 0"),
    "rows past 2^63": (RowSparseArray((1 << 63, 2), np.zeros((0, 2)), indices=NO_ROWS), "no dimension past"),
}


@pytest.mark.parametrize(("array", "message"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_could_not_be_read_again_is_not_written(array: Any, message: str, tmp_path: Path):
    """A .npy file's array of 33 dimensions was saved as a file that nothing loads."""
    with pytest.raises(ParamsFormatError, match=message):
        nn.save_arrays(tmp_path / "x.params", {"x": array})
    assert not (tmp_path / "x.params").exists()


def test_an_array_may_have_as_many_dimensions_as_numpys(tmp_path: Path):
    (tmp_path / "x.npy").write_bytes(npy(header(shape=f"({'1,' * 64})"), bytes(4)))
    (array,) = nn.load_arrays(tmp_path / "x.npy")
    assert np.shape(array) == (1,) * 64


def test_narrow_row_pointers_do_not_wrap_around():
    pointers = np.array([0, 100, -100, 2], np.int8)
    with pytest.raises(ValueError, match="indptr does not divide 2 values among 3 rows"):
        CSRArray((3, 4), np.ones(2, "f4"), indptr=pointers, indices=np.array([0, 1]))


def test_sparse_arrays_too_large_to_be_dense_are_an_error_of_ours(tmp_path: Path):
    rows = corpus.sparse(1, (0, 3), (1 << 60, 3), b"", [])
    (tmp_path / "x-0000.params").write_bytes(corpus.join(corpus.array_list([rows], ["arg:x0"])))
    (tmp_path / "x-symbol.json").write_text(json.dumps(graph_of()))
    with pytest.raises(ParamsFormatError, match="array 'arg:x0': .* takes 13835058055282163712 bytes as a dense one"):
        nn.load_checkpoint(tmp_path / "x", 0)


@pytest.mark.slow("computes much")
def test_twenty_thousand_tiny_arrays_take_little_memory():
    record = corpus.dense(corpus.V0, (0,), 0, b"")
    data = struct.pack("<QQQ", 0x112, 0, 20_000) + corpus.join(record) * 20_000 + struct.pack("<Q", 0)
    tracemalloc.start()
    try:
        arrays = read_list(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(arrays) == 20_000
    assert peak < 10 * len(data)


def test_a_scalar_of_booleans_is_an_array():
    (array,) = read_list(corpus.join(corpus.array_list([corpus.dense(corpus.V3, (), 7, b"\2")])))
    assert isinstance(array, np.ndarray)
    assert (array.shape, array.dtype, bool(array)) == ((), np.bool_, True)


# -- .npy files, and zip files of them -------------------------------------------------------------------------------


def npy(header: str, data: bytes = bytes(8), version: int = 1) -> bytes:
    """A `.npy` file with a header of one's own."""
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def header(descr: str = "'<f4'", order: str = "False", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy(header(shape="(4294967296, 4294967296)")), "a shape of more than 576460752303423487 elements"),
        (npy(header(shape="(1000000000,)")), "float32 of shape .1000000000,. takes 4000000000 bytes, but it has 8"),
        (npy(header(shape="(-2,)")), "expected descr, fortran_order and shape"),
        (npy(header(shape=f"({'1,' * 65}2)")), "wrong shape"),
        (npy(header(shape="(True,)")), "expected descr, fortran_order and shape"),
        (npy(header(shape="__import__('os')")), "expected descr, fortran_order and shape"),
        (npy(header(shape="(" * 10_000)), "expected descr, fortran_order and shape"),
        (npy(header("'|O'")), "expected descr|dtype object"),
        (npy(header("'<c8'")), "dtype complex64, which MXNet does not have"),
        (npy(header("[('a', '<f4')]")), "expected descr, fortran_order and shape"),
        (npy(header("'<f3'")), "unknown dtype"),
        (npy("{}"), "expected descr, fortran_order and shape"),
        (npy(header(), version=9), "begins with b'.x93NUMPY"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31) + bytes(100), "its header is 2147483648 bytes long"),
        (b"\x93NUMPY\x01\x00\xff\xff" + bytes(100), "its header is 65535 bytes long"),
    ],
)
def test_npy_headers_that_lie(data: bytes, message: str, tmp_path: Path):
    (tmp_path / "x.npy").write_bytes(data)
    (tmp_path / "x.npz").write_bytes(corpus.zip_of({"a.npy": data}))
    for name in ("x.npy", "x.npz"):
        with contract(len(data)), pytest.raises(ParamsFormatError, match=message):
            nn.load_arrays(tmp_path / name)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f2", ">f4", "f8", "u1", "i8", "?", "u4"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4), (1, 1, 2)])
def test_npy_files_are_read_as_numpy_reads_them(shape: tuple[int, ...], dtype: str, order: Any, tmp_path: Path):
    size = int(np.prod(shape))
    array = np.asarray(np.arange(size).reshape(shape).astype(dtype), order=order)
    np.save(tmp_path / "x.npy", array)
    (loaded,) = nn.load_arrays(tmp_path / "x.npy")
    assert isinstance(loaded, np.ndarray)
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    assert np.array_equal(loaded, array)


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as target, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, data in members:
            target.writestr(name, data)
    return file.getvalue()


def overlapping() -> bytes:
    """Two entries of the directory that share one member's bytes."""
    data = bytearray(archive(("a.npy", npy(header())), ("b.npy", npy(header())), method=zipfile.ZIP_STORED))
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    return bytes(data)


def lying_directory() -> bytes:
    """A zip file whose end record claims a directory of 4 GB."""
    data = bytearray(archive(("a.npy", npy(header()))))
    end = data.rindex(b"PK\x05\x06")
    data[end + 12 : end + 16] = struct.pack("<I", 0xFFFFFFF0)
    return bytes(data)


def understated(size: int, claimed: int) -> bytes:
    """A zip file whose directory claims fewer bytes of a member than it unpacks to."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target, target.open("a.npy", "w") as member:
        member.write(npy(header()))
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    data = bytearray(file.getvalue())
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = struct.pack("<I", claimed)
    return bytes(data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: archive(("a.npy", bytes(100_000_000))),
            "claims 100000000 bytes in .* may hold 8 times its size.*numpy.savez",
        ),
        (lambda: archive(*((f"{i}.npy", bytes(300_000)) for i in range(50))), "bytes with the members before it"),
        (overlapping, "member 'b.npy' overlaps the member before it"),
        (lying_directory, "not a readable zip file|claims a part"),
        (lambda: archive(("a.npy", b"x"), method=zipfile.ZIP_LZMA), "compressed by method 14, expected 0 or 8"),
        (lambda: archive(("a/b.npy", b"x")), "is not a .npy array"),
        (lambda: archive(("a.txt", b"x")), "member 'a.txt' is not a .npy array"),
        (lambda: archive(("a" * 5000 + ".npy", b"x")), "has a name of 5004 characters, more than 4096"),
        (lambda: archive(("a.npy", npy(header())))[:-30], "not a readable zip file"),
        (
            lambda: understated(0, 1000),
            "not a readable zip file: Bad CRC|member 'a.npy' holds .* bytes, 1000 are claimed",
        ),
    ],
    ids=["bomb", "bombs", "overlap", "directory", "lzma", "folder", "text", "name", "truncated", "less"],
)
def test_zip_files_that_lie(make: Callable[[], bytes], message: str, tmp_path: Path):
    (tmp_path / "x.params").write_bytes(data := make())
    with contract(len(data)), pytest.raises(ParamsFormatError, match=f"(?s){message}"):
        nn.load_arrays(tmp_path / "x.params")


@pytest.mark.slow("computes much")
def test_a_member_larger_than_its_entry_is_not_unpacked(tmp_path: Path):
    (tmp_path / "x.params").write_bytes(understated(100 << 20, 1000))
    tracemalloc.start()
    try:
        with pytest.raises(ParamsFormatError, match="member 'a.npy' holds more than the 1000 bytes"):
            nn.load_arrays(tmp_path / "x.params")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_damaged_compressed_data(tmp_path: Path):
    data = bytearray(archive(("a.npy", npy(header(shape="(100,)"), bytes(range(200)) * 2))))
    data[40:60] = b"\xff" * 20
    (tmp_path / "x.params").write_bytes(data)
    with pytest.raises(NNVMError, match="not a readable zip file: (Error -3|Bad CRC)"):
        nn.load_arrays(tmp_path / "x.params")


def test_an_empty_sparse_array_whose_bytes_nobody_counts_is_not_made_dense():
    empty = CSRArray((0, 1 << 62), np.zeros(0), indptr=np.zeros(1, np.int64), indices=np.zeros(0, np.int64))
    with pytest.raises(ParamsFormatError, match="cannot be dense: a shape of more than"):
        empty.todense()


def test_a_safetensors_array_whose_bytes_nobody_counts_is_refused_though_it_is_empty(tmp_path: Path):
    header = json.dumps({"a": {"dtype": "F32", "shape": [0, 1 << 31, 1 << 40], "data_offsets": [0, 0]}}).encode()
    header += b" " * (-len(header) % 8)
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ParamsFormatError, match="array 'a': a shape of more than"):
        nn.load_safetensors(tmp_path / "a.safetensors")
