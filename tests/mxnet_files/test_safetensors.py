"""safetensors files: what goes in comes out, mapped, with states told from arguments."""

from __future__ import annotations

import json
import struct
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
    with pytest.raises(ParamsFormatError, match="'w' are arguments and auxiliary states|'w'"):
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
