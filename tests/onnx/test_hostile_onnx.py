"""ONNX files from a stranger: whatever is wrong with them, there is one of our errors, and little memory is taken."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import symjax_nnvm as nn
from symjax_nnvm.errors import ModelNotFoundError, NNVMError, OnnxError
from tests.onnx.test_from_onnx import floats, model_of, node


def good() -> onnx.ModelProto:
    return model_of([node("Gemm", "x w b")], {"x": (2, 3)}, weights={"w": floats(3, 4), "b": floats(4)})


def test_a_part_of_a_file_is_told(tmp_path: Path):
    data = good().SerializeToString()
    path = tmp_path / "net.onnx"
    for size in range(0, len(data), 3):
        path.write_bytes(data[:size])
        with pytest.raises(NNVMError):
            nn.from_onnx(path)
    for text in (b"{}", b"<html>", b"\x08\x08", b"\xff" * 100):
        path.write_bytes(text)
        with pytest.raises(OnnxError, match="net.onnx"):
            nn.from_onnx(path)
    with pytest.raises(ModelNotFoundError, match="net.onnx"):
        nn.from_onnx(tmp_path / "other.onnx")


def test_a_changed_byte_is_read_or_told(tmp_path: Path):
    data = bytearray(good().SerializeToString())
    path, random = tmp_path / "net.onnx", np.random.default_rng(0)
    for _ in range(150):
        changed = bytearray(data)
        changed[int(random.integers(len(data)))] = int(random.integers(256))
        path.write_bytes(changed)
        with suppress(NNVMError):
            nn.from_onnx(path)


def broken(change: str) -> onnx.ModelProto:
    """A model with something wrong in it."""
    made = good()
    weight = made.graph.initializer[0]
    match change:
        case "a weight that is missing":
            del made.graph.initializer[:1]
        case "a cycle":
            made.graph.node[0].input[0] = "y"
        case "nodes out of order":
            made.graph.node.insert(0, node("Relu", "y", "z"))
        case "a name given twice":
            made.graph.node.append(made.graph.node[0])
        case "an output that nobody gives":
            made.graph.output[0].name = "nobody"
        case "a negative dimension":
            weight.dims[0] = -3
        case "a huge dimension":
            weight.dims[0] = 2**62
        case "a dtype that is none":
            weight.data_type = 99
        case "text for a weight":
            weight.CopyFrom(onnx.numpy_helper.from_array(np.asarray(["text"], object), "w"))
        case "an attribute that is none":
            made.graph.node[0].attribute.append(helper.make_attribute("colour", 3))
        case "an input of no size":
            made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
        case "an input of negative size":
            made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -5
        case "an input of unknown rank":
            made.graph.input[0].type.tensor_type.ClearField("shape")
        case "no opset":
            del made.opset_import[:]
        case "an opset of tomorrow":
            made.opset_import[0].version = 10**6
        case "shapes that do not fit":
            made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 7
    return made


@pytest.mark.parametrize(
    "change",
    [
        *("a weight that is missing", "a cycle", "nodes out of order", "a name given twice"),
        *("an output that nobody gives", "a negative dimension", "a huge dimension", "a dtype that is none"),
        *("text for a weight", "an attribute that is none", "an input of no size", "an input of negative size"),
        *("an input of unknown rank", "no opset", "an opset of tomorrow", "shapes that do not fit"),
    ],
)
def test_what_is_wrong_is_told(change: str):
    with pytest.raises(OnnxError):
        nn.from_onnx(broken(change))


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ConstantOfShape", "big", "y")],
        [node("Constant", "", "one", value_ints=[1]), node("Expand", "one big", "y")],
        [node("Constant", "", "one", value_ints=[1]), node("Tile", "one large", "y")],
        [node("Range", "zero huge unit", "y")],
        [node("ConstantOfShape", "some", f"y{i}" if i else "y") for i in range(40)],
    ],
)
def test_a_number_does_not_decide_what_memory_is_taken(nodes: list[onnx.NodeProto]):
    sizes = {"big": [2**20, 2**20], "large": [2**40], "zero": 0, "huge": 2**50, "unit": 1, "some": [2**20]}
    weights = {name: np.asarray(value, np.int64) for name, value in sizes.items()}
    with pytest.raises(OnnxError, match="more than"):
        nn.from_onnx(model_of(nodes, {}, weights=weights))


def beside(folder: Path, location: str, **where: str) -> Path:
    """A model whose weights lie in another file."""
    made = good()
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **where}.items():
        weight.external_data.add(key=key, value=value)
    path = folder / "net.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_weights_beside_the_file_are_read(tmp_path: Path):
    array = floats(3, 4)
    (tmp_path / "w.bin").write_bytes(b"head" + array.tobytes())
    _, args, _ = nn.from_onnx(beside(tmp_path, "w.bin", offset="4"))
    np.testing.assert_array_equal(args["w"], array.T)
    with pytest.raises(OnnxError, match="Give the path of the model"):
        nn.from_onnx(onnx.load(tmp_path / "net.onnx", load_external_data=False))


def test_weights_elsewhere_are_not(tmp_path: Path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(48))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "short").write_bytes(bytes(47))
    for location in ("../secret", str(tmp_path / "secret"), "link", "", "."):
        with pytest.raises(OnnxError, match="outside of the model's folder"):
            nn.from_onnx(beside(folder, location))
    for where in ({}, {"offset": "-1"}, {"length": "8"}, {"offset": "9" * 30}, {"offset": "x"}):
        with pytest.raises(OnnxError, match="malformed"):
            nn.from_onnx(beside(folder, "short", **where))
    with pytest.raises((NNVMError, FileNotFoundError)):
        nn.from_onnx(beside(folder, "nobody"))
