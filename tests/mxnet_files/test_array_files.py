"""MXNet's array files: every record version, against files that MXNet 1.9.1 wrote; what is refused, and how."""

import contextlib
import struct
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symjax_nnvm as nn
from symjax_nnvm.errors import ParamsFormatError
from symjax_nnvm.mxnet import CSRArray, RowSparseArray, load_arrays, save_arrays
from symjax_nnvm.mxnet.array_file import read_list

FILES = Path(__file__).parents[1] / "goldens" / "files"
DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")


def u32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def i64(*numbers):
    return struct.pack(f"<{len(numbers)}q", *numbers)


def file_of(*records: bytes, names: tuple[bytes, ...] = ()) -> bytes:
    head = struct.pack("<QQQ", 0x112, 0, len(records))
    listed = b"".join(struct.pack("<Q", len(name)) + name for name in names)
    return head + b"".join(records) + struct.pack("<Q", len(names)) + listed


def dense(version: int = 0xF993FAC9, shape=(2,), data=b"\0\0\x80?\0\0\0@", dtype: int = 0) -> bytes:
    storage = u32(0) if version >= 0xF993FAC9 else b""
    return u32(version) + storage + u32(len(shape)) + i64(*shape) + u32(1, 0, dtype) + data


def listed(path: Path):
    arrays = load_arrays(path)
    assert isinstance(arrays, list)
    return arrays


# -- what MXNet wrote ------------------------------------------------------------------------------------------------


def test_a_dict_of_every_dtype():
    arrays = load_arrays(FILES / "dict.params")
    assert isinstance(arrays, dict)
    for dtype in DTYPES:
        array = arrays[f"arg:{dtype}"]
        assert array.dtype == np.dtype(dtype)
        assert np.asarray(array).tolist() == [[0, 1, 2], [3, 4, 0]]
    assert np.asarray(arrays["aux:bool"]).tolist() == [True, False, True]
    assert np.asarray(arrays["arg:ümlaut"]).tolist() == [1.5]


def test_sparse_arrays():
    arrays = nn.load_arrays(FILES / "dict.params")
    assert isinstance(arrays, dict)
    rows, csr = arrays["rows"], arrays["csr"]
    assert isinstance(rows, RowSparseArray)
    assert rows.todense().tolist() == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0]]
    assert isinstance(csr, CSRArray)
    assert csr.todense().tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [2, 0, 3, 0]]


def test_a_list_and_an_empty_file():
    arrays = load_arrays(FILES / "list.params")
    assert [np.asarray(array).tolist() for array in arrays] == [[[1, 2, 3]], [4]]
    assert load_arrays(FILES / "empty.params") == []


def test_bfloat16():
    arrays = load_arrays(FILES / "bfloat16.params")
    assert isinstance(arrays, dict)
    assert arrays["w"].dtype.name == "bfloat16"
    assert np.allclose(np.asarray(arrays["w"]).astype(np.float32), [1, -2.5, 3e38], rtol=2**-8)


def test_numpy_shapes_have_scalars_and_empty_arrays():
    scalar, empty = listed(FILES / "scalar.params")
    assert (scalar.shape, float(np.asarray(scalar))) == ((), 3.5)
    assert empty.shape == (2, 0)


@pytest.mark.parametrize("name", ["dict", "list", "empty", "bfloat16"])
def test_saving_gives_mxnets_bytes(name: str, tmp_path: Path):
    original = FILES / f"{name}.params"
    arrays = load_arrays(original)
    save_arrays(tmp_path / "again.params", {} if name == "empty" else arrays)
    assert (tmp_path / "again.params").read_bytes() == original.read_bytes()


def test_arrays_are_views_of_the_file():
    arrays = load_arrays(FILES / "dict.params")
    assert isinstance(arrays, dict)
    array = arrays["arg:float32"]
    assert isinstance(array, np.ndarray)
    assert not array.flags.owndata
    assert not array.flags.writeable


# -- older generations -----------------------------------------------------------------------------------------------


def test_records_before_they_had_a_magic_number():
    (array,) = read_list(file_of(u32(2, 1, 2) + u32(1, 0, 0) + b"\0\0\x80?\0\0\0@"))
    assert np.asarray(array).tolist() == [[1, 2]]


def test_versions_may_be_mixed():
    arrays = read_list(file_of(dense(0xF993FAC8), dense(), dense(0xF993FACA), names=(b"a", b"b", b"c")))
    assert isinstance(arrays, dict)
    assert {name: np.asarray(array).tolist() for name, array in arrays.items()} == {key: [1, 2] for key in "abc"}


def test_arrays_that_were_never_initialised_are_left_out():
    nothing = [u32(0), u32(0xF993FAC8, 0), u32(0xF993FAC9, 0, 0), u32(0xF993FACA, 0, 0xFFFFFFFF)]
    assert read_list(file_of(*nothing)) == []
    assert list(read_list(file_of(u32(0), dense(), names=(b"a", b"b")))) == ["b"]


def test_the_last_of_arrays_of_one_name_counts():
    arrays = read_list(file_of(dense(), dense(data=b"\0" * 8), names=(b"a", b"a")))
    assert isinstance(arrays, dict)
    assert np.asarray(arrays["a"]).tolist() == [0, 0]


def test_a_sparse_array_that_mxnet_saved_too_early():
    # Its storage shape says (0, 2), but a row and its number follow.
    header = u32(0xF993FAC9, 1, 2) + i64(0, 2) + u32(2) + i64(3, 2) + u32(1, 0, 0) + u32(6, 1) + i64(1)
    (array,) = read_list(file_of(header + struct.pack("<2f", 5, 6) + i64(1)))
    assert isinstance(array, RowSparseArray)
    assert array.todense().tolist() == [[0, 0], [5, 6], [0, 0]]


def test_any_byte_but_zero_is_true():
    (array,) = read_list(file_of(dense(data=b"\x02\x00", dtype=7)))
    assert np.asarray(array).tolist() == [True, False]


def test_zip_files_of_mxnet_2(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "w.params", "w") as archive:
        for name, value in (("arg:0.weight", np.ones((2, 2))), ("aux:1.mean", np.zeros(3))):
            np.save(tmp_path / "x.npy", value)
            archive.write(tmp_path / "x.npy", f"{name}.npy")
    arrays = load_arrays(tmp_path / "w.params")
    assert isinstance(arrays, dict)
    assert {name: array.shape for name, array in arrays.items()} == {"arg:0.weight": (2, 2), "aux:1.mean": (3,)}
    np.savez(tmp_path / "list.npz", np.ones(1), np.zeros(2))
    assert [array.shape for array in listed(tmp_path / "list.npz")] == [(1,), (2,)]
    np.save(tmp_path / "one.npy", np.ones(4))
    assert listed(tmp_path / "one.npy")[0].shape == (4,)


def npy(array: np.ndarray) -> bytes:
    buffer = BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zip_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


SPARSE = {
    "r/data": npy(np.ones((1, 2), np.float32)),
    "r/indices": npy(np.array([1])),
    "r/shape": npy(np.array([3, 2])),
    "r/format": b"\x93NUMPY\x01\0v\0broken header row_sparse",
}
CSR = {
    "c/data": npy(np.array([1, 2])),
    "c/indices": npy(np.array([2, 0])),
    "c/indptr": npy(np.array([0, 1, 2])),
    "c/shape": npy(np.array([2, 3])),
    "c/format": b"\x93NUMPY\x01\0v\0broken header csr",
}


def test_sparse_arrays_of_mxnet_2(tmp_path: Path):
    arrays = load_arrays(zip_of(tmp_path / "s.params", **SPARSE, **CSR, w=npy(np.ones(2))))
    assert isinstance(arrays, dict)
    rows, csr = arrays["r"], arrays["c"]
    assert isinstance(rows, RowSparseArray)
    assert rows.todense().tolist() == [[0, 0], [1, 1], [0, 0]]
    assert isinstance(csr, CSRArray)
    assert csr.todense().tolist() == [[0, 0, 1], [2, 0, 0]]
    assert np.asarray(arrays["w"]).tolist() == [1, 1]


def test_bfloat16_of_mxnet_2(tmp_path: Path):
    stored = npy(np.array([0x3F80, 0xC020], np.uint16)).replace(b"'<u2'", b"'<b2'")
    arrays = load_arrays(zip_of(tmp_path / "b.params", w=stored))
    assert isinstance(arrays, dict)
    assert arrays["w"].dtype.name == "bfloat16"
    assert np.asarray(arrays["w"]).astype(np.float32).tolist() == [1, -2.5]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (SPARSE | {"r/format": b"coo"}, "ends neither with row_sparse nor with csr"),
        (SPARSE | {"r/indptr": npy(np.zeros(1, int))}, "members"),
        ({name: data for name, data in CSR.items() if name != "c/indptr"}, "a csr array has members"),
        (SPARSE | {"r/indices": npy(np.array([0.5]))}, "not a vector of integers"),
        (SPARSE | {"r/indices": npy(np.array([9]))}, "row numbers go from 9 to 9"),
        (SPARSE | {"r/shape": npy(np.array([-3, 2]))}, "sparse array 'r'"),
    ],
)
def test_malformed_sparse_arrays_of_mxnet_2_are_refused(members: dict[str, bytes], message: str, tmp_path: Path):
    with pytest.raises(ParamsFormatError, match=message):
        load_arrays(zip_of(tmp_path / "s.params", **members))


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS pointer.*git lfs pull"),
        (b"\n<!DOCTYPE html><html>404</html>" + b" " * 40, "HTML page"),
        (b'{"nodes": []}' + b" " * 40, "JSON, probably a symbol"),
        (b"\x80\x04\x95" + b"\0" * 40, "Python pickle.*never loaded"),
        (b"\x1f\x8b" + b"\0" * 40, "gzip"),
        (b"abc", "3 bytes; the smallest array file has 32"),
        (b"abcdefgh" * 5, "not an array file of MXNet: it begins with b'abcdefgh'"),
        (b"PK\x03\x04" + b"\0" * 40, "not a readable zip file"),
    ],
)
def test_other_files_are_told_apart(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "x.params").write_bytes(content)
    with pytest.raises(ParamsFormatError, match=f"(?s){message}"):
        load_arrays(tmp_path / "x.params")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("<QQQ", 0x112, 0, 1 << 60) + b"\0" * 8, "claims 1152921504606846976 arrays"),
        (file_of(u32(33)), "33 dimensions"),
        (file_of(dense(shape=(1 << 40, 1 << 40))), "truncated: the data of array 0"),
        (file_of(dense(shape=(-2,))), "no negative dimension"),
        (file_of(dense(dtype=13)), "dtype of array 0 is 13"),
        (file_of(u32(0xF993FAC9, 7)), "storage type of array 0 is 7"),
        (file_of(dense())[:-4], "truncated"),
        (file_of(dense(), names=(b"a", b"b")), "2 names for 1 arrays"),
        (file_of(dense(), names=(b"\xff",)), "not UTF-8"),
        (file_of(dense(), names=(b"a\0b",)), "NUL"),
        (file_of(dense()) [:-8] + struct.pack("<QQ", 1, 1 << 62), "expected at most 4096"),
    ],
)  # fmt: skip
def test_malformed_files_are_refused_before_anything_is_allocated(data: bytes, message: str):
    with pytest.raises(ParamsFormatError, match=message):
        read_list(data)


def test_zip_bombs_are_refused(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "bomb.params", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", b"\0" * 10_000_000)
    with pytest.raises(ParamsFormatError, match="claims 10000000 bytes in"):
        load_arrays(tmp_path / "bomb.params")


def test_sparse_arrays_are_checked():
    with pytest.raises(ValueError, match="row numbers go from 1 to 7, expected 0 to 4"):
        RowSparseArray((5, 2), np.ones((2, 2)), indices=np.array([1, 7]))
    with pytest.raises(ValueError, match="not in rising order"):
        RowSparseArray((5, 2), np.ones((2, 2)), indices=np.array([3, 1]))
    with pytest.raises(ValueError, match="indptr does not divide"):
        CSRArray((2, 2), np.ones(1), indptr=np.array([0, 2, 1]), indices=np.array([0]))
    with pytest.raises(ValueError, match="more than"):
        RowSparseArray((1 << 40, 2), np.ones((0, 2)), indices=np.zeros(0, np.int64)).todense()


def test_saving_refuses_what_mxnet_cannot_load(tmp_path: Path):
    with pytest.raises(ParamsFormatError, match="'w' has dtype uint32"):
        save_arrays(tmp_path / "x.params", {"w": np.ones(2, np.uint32)})
    with pytest.raises(ParamsFormatError, match="without NUL"):
        save_arrays(tmp_path / "x.params", {"a\0b": np.ones(2)})
    assert not (tmp_path / "x.params").exists()


ORIGINAL = (FILES / "dict.params").read_bytes()


@pytest.mark.slow("computes much")
@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(ORIGINAL) - 1), st.integers(0, 255)), max_size=6), st.integers(0, 40))
def test_mutated_files_load_or_are_refused(changes: list[tuple[int, int]], cut: int):
    data = bytearray(ORIGINAL)
    for place, byte in changes:
        data[place] = byte
    with contextlib.suppress(ParamsFormatError):
        read_list(bytes(data[: len(data) - cut]))


def test_random_arrays_survive_a_round_trip(tmp_path: Path):
    rng = np.random.default_rng(0)
    arrays = {f"arg:{i}": rng.normal(size=rng.integers(0, 4, rng.integers(1, 5))).astype("float32") for i in range(20)}
    save_arrays(tmp_path / "x.params", arrays)
    loaded = load_arrays(tmp_path / "x.params")
    assert isinstance(loaded, dict)
    assert list(loaded) == list(arrays)
    assert all(np.array_equal(np.asarray(loaded[name]), value) for name, value in arrays.items())
