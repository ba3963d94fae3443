"""The table of array files: a new kind of file is one row, and every loader and writer knows it."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm.cli import main
from symjax_nnvm.io.formats import FORMATS, FileFormat, register_format
from symjax_nnvm.mxnet.params_files import named_arrays
from tests.cli.conftest import net as net

MAGIC = b"TOY1"


def _read(file: BinaryIO) -> dict[str, np.ndarray]:
    return {n: np.array(v, np.float32) for n, v in json.loads(file.read().removeprefix(MAGIC)).items()}


def _write(file: BinaryIO, arrays: Any) -> None:
    file.write(MAGIC + json.dumps({name: np.asarray(array).tolist() for name, array in arrays.items()}).encode())


TOY = FileFormat(
    name="toy",
    title="a toy",
    suffixes=(".toy",),
    sniff=lambda head, size: head.startswith(MAGIC),
    read=_read,
    write=_write,
)


@pytest.fixture
def toy() -> Iterator[None]:
    register_format(TOY)
    try:
        yield
    finally:
        del FORMATS["toy"]


@pytest.fixture
def toy_net(net: Path, toy: None) -> Path:
    """The model, its arrays in a toy file only."""
    nn.save_arrays(net.with_name("net.toy"), nn.load_arrays(f"{net}-0003.params"))
    Path(f"{net}-0003.params").rename(net.with_name("kept"))
    return net


def test_functions_know_a_new_row(toy_net: Path):
    path = toy_net.with_name("net.toy")
    assert path.read_bytes().startswith(MAGIC)
    arrays = nn.load_arrays(path)
    assert list(arrays) == list(nn.load_arrays(toy_net.with_name("kept")))
    symbol, args, aux = nn.load_model(f"{toy_net}-symbol.json", path)
    assert {f"arg:{name}" for name in args} | {f"aux:{name}" for name in aux} == set(arrays)
    path.rename(f"{toy_net}-0003.params")  # what it holds counts, not what it is called
    assert set(nn.load_checkpoint(toy_net, 3)[2]) == set(aux)
    assert nn.check(symbol, params=f"{toy_net}-0003.params").ok


def test_the_command_knows_a_new_row(toy_net: Path, capsys: pytest.CaptureFixture[str]):
    for model in (f"{toy_net}.toy", str(toy_net)):
        assert main(["inspect", model]) == 0
        assert f"parameters: {toy_net}.toy" in capsys.readouterr().err
    back = toy_net.with_name("back")
    assert main(["convert", str(toy_net), str(back)]) == 0
    kept = toy_net.with_name("kept")
    assert set(named_arrays(f"{back}-0000.params")) == set(named_arrays(kept))
    assert main(["convert", str(back), str(toy_net.with_name("again.toy"))]) == 0
    assert main(["convert", str(back), str(toy_net.with_name("third.x")), "--to", "toy"]) == 0
    for name in ("again.toy", "third.toy"):
        assert toy_net.with_name(name).read_bytes() == toy_net.with_name("net.toy").read_bytes()
    assert main(["diff", str(toy_net), str(toy_net.with_name("again"))]) == 0
    assert main(["convert", str(toy_net), f"{toy_net}.pt"]) == 2
    assert "Suffixes are .stablehlo, .mlir, .onnx, .safetensors, .toy;" in capsys.readouterr().err


def test_what_is_no_symbol_is_told_by_the_row(toy_net: Path):
    with pytest.raises(nn.JSONFormatError, match=r"net\.toy is not a symbol file: it is a toy\. .*load_arrays"):
        nn.symbol.load(f"{toy_net}.toy")


def test_a_missing_library_is_told_by_the_row(toy_net: Path, monkeypatch: pytest.MonkeyPatch):
    def read(file: BinaryIO) -> Any:
        import nobody_has_this  # type: ignore[import-not-found]  # noqa: F401

    monkeypatch.setitem(FORMATS, "toy", dataclasses.replace(TOY, read=read, extra="toys"))
    with pytest.raises(nn.MissingExtraError, match=r"a toy needs .* nobody_has_this\. .*'symjax-nnvm\[toys\]'"):
        nn.load_arrays(f"{toy_net}.toy")


def test_a_file_that_is_only_read_is_not_written(tmp_path: Path):
    for name in ("w.npz", "W.NPY"):
        with pytest.raises(
            nn.ParamsFormatError, match=r"cannot be written; expected a name that ends in \.params, .*numpy"
        ):
            nn.save_arrays(tmp_path / name, {"w": np.ones(1)})
    assert not list(tmp_path.iterdir())


def test_names_and_suffixes_are_taken_once(toy: None):
    with pytest.raises(nn.ParamsFormatError, match="'toy' cannot have this name"):
        register_format(dataclasses.replace(TOY, suffixes=(".other",)))
    with pytest.raises(nn.ParamsFormatError, match=r"suffix '\.npz', which is of 'npz'"):
        register_format(dataclasses.replace(TOY, name="other", suffixes=(".npz",)))


@pytest.mark.parametrize("given", [{"w": 1}, {"arg:w": 1, "aux:m": 2}, {"w": 1, "aux:m": 2}, {}])
def test_safetensors_keep_their_names(given: dict[str, int], tmp_path: Path):
    pytest.importorskip("safetensors", reason="the extra is not installed")
    nn.save_arrays(tmp_path / "w.safetensors", {name: np.full(2, value) for name, value in given.items()})
    found = named_arrays(tmp_path / "w.safetensors")
    assert {name: array.tolist() for name, array in found.items()} == {n: [v, v] for n, v in given.items()}
    with pytest.raises(nn.ParamsFormatError, match="arrays by name"):
        nn.save_arrays(tmp_path / "w.safetensors", [np.ones(1)])
