"""ONNX files from a stranger: whatever is wrong with them, there is one of our errors, and little memory is taken."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import symjax_nnvm as nn
from symjax_nnvm.errors import ModelNotFoundError, NNVMError, OnnxError
from symjax_nnvm.onnx.imports import import_registry as forms
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


@pytest.mark.slow("compiles")
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
        case "an output that no node gives":
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
        *("an output that no node gives", "a negative dimension", "a huge dimension", "a dtype that is none"),
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
    """A model whose weights are in another file."""
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


# -- whatever a form raises is told as a node in the way ---------------------------------------------------------------

X4, W4 = {"x": (2, 4, 7, 6)}, {"w": floats(6, 4, 3, 3)}
RNN = {"w": floats(1, 3, 4), "r": floats(1, 3, 3)}
WRONG: dict[str, tuple[onnx.NodeProto, dict[str, Any], dict[str, np.ndarray]]] = {
    "too few strides": (node("Conv", "x w", name="n", strides=[1]), X4, W4),
    "too many dilations": (node("ConvTranspose", "x v", name="n", dilations=[1, 1, 1]), X4, {"v": floats(4, 6, 3, 3)}),
    "too few padding widths": (node("ConvTranspose", "x v", name="n", output_padding=[1]), X4,
                               {"v": floats(4, 6, 3, 3)}),
    "strides of a pooling": (node("MaxPool", "x", name="n", kernel_shape=[2, 2], strides=[1]), X4, {}),
    "strides of 0": (node("AveragePool", "x", name="n", kernel_shape=[2, 2], strides=[0, 0]), X4, {}),
    "a direction that is none": (node("RNN", "x w r", name="n", direction="sideways"), {"x": (2, 3, 4)}, RNN),
    "gates that are none": (node("LSTM", "x w r", name="n"), {"x": (2, 3, 4)}, RNN),
    "ends that are missing": (node("Slice", "x s e", name="n"), {"x": (2, 3)},
                              {"s": np.asarray([0, 0]), "e": np.asarray([1])}),
    "more axes than starts": (node("Slice", "x s s a", name="n"), {"x": (2, 3)},
                              {"s": np.asarray([1]), "a": np.asarray([0, 1])}),
    "no widths": (node("Pad", "x s", name="n"), {"x": (2, 3)}, {"s": np.zeros(0, np.int64)}),
    "too few factors": (node("Resize", "x - s", name="n"), X4, {"s": np.ones(2, np.float32)}),
    "a factor that is no number": (node("Resize", "x - s", name="n"), X4, {"s": np.full(4, np.nan, np.float32)}),
    "blocks of 0": (node("DepthToSpace", "x", name="n", blocksize=0, mode="CRD"), X4, {}),
    "no groups": (node("GroupNormalization", "x w w", name="n", num_groups=0), X4, {"w": floats(4)}),
    "an input that is left out": (node("Max", "x -", name="n"), X4, {}),
    "values that are one": (node("OneHot", "x d v", name="n"), {"x": ("INT64", (2,))},
                            {"d": np.asarray(3), "v": floats(1)}),
}  # fmt: skip
"""What is wrong, and once escaped as ValueError, KeyError, TypeError, …: (node, inputs, weights)."""


@pytest.mark.parametrize("what", WRONG)
def test_what_a_form_raises_is_told_as_a_node_in_the_way(what: str):
    wrong, inputs, weights = WRONG[what]
    with pytest.raises(OnnxError, match=f"1 of its nodes are not supported.\n.*'{wrong.op_type}', node 'n'"):
        nn.from_onnx(model_of([wrong], inputs, weights=weights, opset=21))


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        ("QGemm", "x s s", "its input 3 is left out"),
        ("QGemm", "x s s s s s s s s s", "it has 10 inputs, not 9 at most"),
        ("QLinearAdd", "x s s", "an array or a scale is left out"),
        ("QLinearConcat", "s s x", "an array or a scale is left out"),
    ],
)
def test_too_few_and_too_many_inputs_are_told_in_plain_words(kind: str, inputs: str, words: str):
    """Of ONNX' own operators its checker tells it."""
    wrong = node(kind, inputs, name="n", domain="com.microsoft")
    made = model_of([wrong], X4, weights={"s": np.asarray(0.1, np.float32)})
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(OnnxError, match=words):
        nn.from_onnx(made)


def test_no_data_of_a_scan_and_a_dtype_of_an_input_are_told():
    body = helper.make_graph([node("Identity", "s", "o")], "b", [helper.make_tensor_value_info("s", 1, (2,))],
                             [helper.make_tensor_value_info("o", 1, (2,))])  # fmt: skip
    with pytest.raises(OnnxError, match="'Scan', node 'n'"):
        nn.from_onnx(model_of([node("Scan", "x", name="n", num_scan_inputs=0, body=body)], {"x": (2,)}))
    made = good()
    for number in (0, 8, 99, 2**31 - 1):
        made.graph.input[0].type.tensor_type.elem_type = number
        with pytest.raises(OnnxError):
            nn.from_onnx(made)


@pytest.mark.parametrize(
    "raised", [ValueError, KeyError, TypeError, IndexError, OverflowError, ZeroDivisionError, MemoryError]
)
def test_what_is_raised_is_the_cause_of_what_is_told(raised: type[Exception], monkeypatch: pytest.MonkeyPatch):
    def form(g: object, x: object) -> object:
        raise raised("something")

    monkeypatch.setitem(forms._IMPORTS, "Relu", [forms.OnnxImport(1, form)])  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        OnnxError, match=f"it cannot be read: {raised.__name__}: .*something.*'Relu', node 'n'"
    ) as caught:
        nn.from_onnx(model_of([node("Relu", "x", name="n")], {"x": (2,)}))
    assert isinstance(caught.value.__cause__, raised)


@pytest.mark.parametrize("raised", [AttributeError, NameError, AssertionError, NotImplementedError])
def test_mistakes_that_no_file_causes_are_not_the_files(raised: type[Exception], monkeypatch: pytest.MonkeyPatch):
    """Of the others `conftest.py` makes sure: in the tests of valid models nothing is caught."""

    def form(g: object, x: object) -> object:
        raise raised("something")

    monkeypatch.setitem(forms._IMPORTS, "Relu", [forms.OnnxImport(1, form)])  # pyright: ignore[reportArgumentType]
    with pytest.raises(raised, match="something"):
        nn.from_onnx(model_of([node("Relu", "x", name="n")], {"x": (2,)}))


def test_a_branch_that_fails_leaves_what_is_around_it_as_it_was():
    """What is read after it finds its inputs, and its own results."""
    info = helper.make_tensor_value_info("o", TensorProto.FLOAT, (2,))
    bad = onnx.numpy_helper.from_array(np.asarray([1, 2], np.complex64), "o")
    body = helper.make_graph([], "b", [], [info], [bad])
    choice = node("If", "c", "z", name="n", then_branch=body, else_branch=body)
    nodes = [choice, node("Relu", "x", "r"), node("BitShift", "r r", "y", name="product", direction="LEFT")]
    with pytest.raises(OnnxError, match="2 of its nodes") as caught:
        nn.from_onnx(model_of(nodes, {"x": (2,), "c": ("BOOL", ())}))
    assert "complex64" in str(caught.value)
    assert "product" in str(caught.value)
