"""Which files of a model are meant, and what an error says when there are none: what is there instead."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from tests.cli.conftest import FILES


@pytest.fixture
def mlp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`mlp` of the epochs 1, 3 and 12, and models of other names."""
    shutil.copy(FILES / "net-symbol.json", tmp_path / "mlp-symbol.json")
    for epoch in (12, 1, 3):
        shutil.copy(FILES / "net-0003.params", tmp_path / f"mlp-{epoch:04d}.params")
    for name in ("alexnet", "bert", "densenet", "googlenet", "inception", "lenet", "mobilenet", "resnet", "vgg"):
        sym.Variable("data").save(tmp_path / f"{name}-symbol.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("prefix", ["mlp", "mlp-symbol.json", "mlp-0003.params", "./mlp", Path("mlp")])
@pytest.mark.parametrize("epoch", [3, "3", "0003", np.int64(3)])
def test_the_obvious_is_accepted(mlp: Path, prefix: str | Path, epoch: int | str):
    symbol, args, aux = nn.load_checkpoint(prefix, epoch)
    assert set(args) | set(aux) | {"data", "softmax_label"} == set(symbol.list_inputs())


def test_a_prefix_that_looks_like_a_file_is_a_prefix_where_it_has_a_symbol(mlp: Path):
    symbol, args, aux = nn.load_checkpoint("mlp", 3)
    nn.save_checkpoint("odd-0001.params", "7", symbol, args, aux)
    assert Path("odd-0001.params-0007.params").is_file()
    assert set(nn.load_checkpoint("odd-0001.params", 7)[1]) == set(args)


@pytest.mark.parametrize("epoch", [-1, 3.0, "three", "", None, True, "-1", 10**12])
def test_what_is_no_epoch_is_told(mlp: Path, epoch: object):
    with pytest.raises(nn.ParamsFormatError, match=r"epoch must be a whole number; .*prefix-0003\.params; got"):
        nn.load_checkpoint("mlp", epoch)  # type: ignore[arg-type]
    with pytest.raises(nn.ParamsFormatError, match="epoch must be a whole number"):
        nn.save_checkpoint("new", epoch, None, {}, {})  # type: ignore[arg-type]
    assert not list(mlp.glob("new*"))


def test_a_wrong_epoch_lists_those_there_are(mlp: Path):
    with pytest.raises(nn.ModelNotFoundError, match=r"no parameters of epoch 4: .* 'mlp' has epochs 1, 3, 12\."):
        nn.load_checkpoint("mlp", 4)
    with pytest.raises(FileNotFoundError, match=r"'lenet' has no file of any epoch"):
        nn.load_checkpoint("lenet", 0)


def test_a_wrong_prefix_lists_the_models_closest_first(mlp: Path):
    with pytest.raises(nn.ModelNotFoundError) as error:
        nn.load_checkpoint("mpl", 3)
    assert "Did you mean 'mlp'? In " in str(error.value)
    assert ": mlp, alexnet, bert, densenet, googlenet, inception, lenet, mobilenet, … (10 in all)." in str(error.value)
    with pytest.raises(nn.ModelNotFoundError, match="There is no folder models"):
        nn.load_checkpoint("models/mlp", 3)


@pytest.mark.parametrize(
    "load", [nn.symbol.load, nn.load_arrays, nn.check, lambda p: nn.load_model("mlp-symbol.json", p)]
)
def test_a_file_that_is_not_there_has_neighbours(mlp: Path, load):
    with pytest.raises(nn.ModelNotFoundError, match="Did you mean 'mlp-0003.params'"):
        load("mlp-003.params")


STRANGERS = [
    (b"<!DOCTYPE html>\n<html>", "an HTML page"),
    (b"\n  <html><body>404", "an HTML page"),
    (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
    (b"\x1f\x8b\x08\x00", "gzip"),
    (b"\x80\x04\x95", "pickle"),
    (b"\x08\x07\x12\x07pytorch", "ONNX"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"PK\x03\x04\x14\x00", "zip archive"),
    (b"\x12\x01\0\0\0\0\0\0" + bytes(24), "load_arrays"),
    (b"", "empty"),
    (b" \n", "empty"),
    (b"\xff\xfe\x00", "not UTF-8 at byte 0; it begins with"),
]


@pytest.mark.parametrize(("content", "kind"), STRANGERS)
@pytest.mark.parametrize("load", [nn.symbol.load, nn.check])
def test_a_stranger_in_the_place_of_a_symbol_is_named(mlp: Path, content: bytes, kind: str, load):
    Path("odd-symbol.json").write_bytes(content)
    with pytest.raises(nn.JSONFormatError, match=f"^odd-symbol.json is not a symbol file: it is .*{kind}"):
        load("odd-symbol.json")


@pytest.mark.parametrize("content", ['{"class_name": "Model"}', "{]", "[1]", "hello"])
@pytest.mark.parametrize("load", [nn.symbol.load, nn.check])
def test_an_error_of_a_symbol_file_names_the_file(mlp: Path, content: str, load):
    Path("odd-symbol.json").write_text(content)
    with pytest.raises(nn.JSONFormatError, match=r"^odd-symbol\.json: "):
        load("odd-symbol.json")
