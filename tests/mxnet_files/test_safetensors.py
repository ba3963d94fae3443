"""safetensors files: what goes in comes out, mapped, with states told from arguments."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm.errors import MissingExtraError, ParamsFormatError
from symjax_nnvm.mxnet import RowSparseArray

pytest.importorskip("safetensors", reason="the extra is not installed")

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def test_every_dtype_comes_back_with_its_shape(tmp_path: Path):
    args = {dtype: np.arange(6).reshape(2, 3).astype(dtype) for dtype in DTYPES}
    args |= {"bfloat16": np.array([1, -2.5], ml_dtypes.bfloat16), "scalar": np.array(3.5), "empty": np.zeros((0, 3))}
    aux = {"bn_moving_mean": np.ones(3, np.float32)}
    nn.save_safetensors(tmp_path / "w.safetensors", args, aux)
    found, states = nn.load_safetensors(tmp_path / "w.safetensors")
    assert states.keys() == aux.keys()
    assert found.keys() == args.keys()
    for name, array in args.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


def test_arrays_are_views_of_the_file(tmp_path: Path):
    nn.save_safetensors(tmp_path / "w.safetensors", {"w": np.ones((100, 100))}, {})
    array = nn.load_safetensors(tmp_path / "w.safetensors")[0]["w"]
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_other_layouts_are_stored_in_order(tmp_path: Path):
    matrix = np.arange(6.0).reshape(2, 3)
    rows = RowSparseArray((3, 1), np.ones((1, 1)), indices=np.array([1]))
    nn.save_safetensors(tmp_path / "w.safetensors", {"t": matrix.T, "rows": rows}, {})
    found, _ = nn.load_safetensors(tmp_path / "w.safetensors")
    assert np.array_equal(found["t"], matrix.T)
    assert found["rows"].tolist() == [[0], [1], [0]]


def test_the_library_reads_our_files_and_we_read_its(tmp_path: Path):
    from safetensors.numpy import load_file, save_file

    nn.save_safetensors(tmp_path / "ours", {"w": np.arange(3)}, {"m": np.ones(2)})
    assert {name: array.tolist() for name, array in load_file(tmp_path / "ours").items()} == {
        "w": [0, 1, 2],
        "m": [1, 1],
    }
    save_file({"w": np.arange(3), "m": np.ones(2)}, tmp_path / "theirs")
    args, aux = nn.load_safetensors(tmp_path / "theirs")
    assert (sorted(args), aux) == (["m", "w"], {})


def test_what_cannot_be_stored_is_refused(tmp_path: Path):
    with pytest.raises(ParamsFormatError, match="'w' are both arguments and auxiliary states|'w'"):
        nn.save_safetensors(tmp_path / "w", {"w": np.ones(1)}, {"w": np.ones(1)})
    with pytest.raises(ParamsFormatError, match="'w' has dtype complex128"):
        nn.save_safetensors(tmp_path / "w", {"w": np.ones(1, complex)}, {})
    assert not (tmp_path / "w").exists()


def _file(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        _file(b"{"),
        struct.pack("<Q", 1 << 60) + b"{}",
        _file({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 4),
        _file({"w": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 8]}}, b"\0" * 8),
        _file({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"\0" * 8),
        _file({"w": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}, b"\0" * 4),
        _file({"__metadata__": {"aux": "7"}, "w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"\0"),
        _file({"__metadata__": {"aux": "[" * 9999}, "w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"\0"),
    ],
)
def test_malformed_files_are_refused(content: bytes, tmp_path: Path):
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(ParamsFormatError, match="safetensors"):
        nn.load_safetensors(tmp_path / "w.safetensors")


def test_a_missing_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nn.save_safetensors(tmp_path / "w", {}, {})  # writing needs none
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'symjax-nnvm\[safetensors\]'"):
        nn.load_safetensors(tmp_path / "w")


_SPARSE = """
import json, resource, struct, sys
import symjax_nnvm as nn
from symjax_nnvm.errors import FileError, ParamsFormatError

resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
size = 1 << 40
header = json.dumps({"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
array = struct.pack("<QQQIiiqiii", 0x112, 0, 1, 0xF993FAC9, 0, 1, size, 1, 0, 3)
npy = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % size
npy += b" " * (-len(npy) - 11 & 63) + b"\\n"
heads = {
    "a.safetensors": struct.pack("<Q", len(header)) + header,
    "long.safetensors": struct.pack("<Q", size - 8) + b"{",
    "a.params": array,
    "a.npy": b"\\x93NUMPY" + struct.pack("<BBH", 1, 0, len(npy)) + npy,
    "a.npz": b"PK" + struct.pack("<H", 0x0403),
}
for name, head in heads.items():
    with open(name, "wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
    for load in (nn.load_arrays, nn.load_safetensors):
        try:
            load(name)
        except (FileError, ParamsFormatError) as error:
            print(name, error)
"""


@pytest.mark.slow("starts processes")
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space and sparse files are Linux's")
def test_a_sparse_file_that_memory_cannot_map_is_told(tmp_path: Path):
    script = _SPARSE.replace("\\\\", "\\")
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 10, run.stdout
    assert run.stdout.count("cannot be mapped into memory") >= 5
