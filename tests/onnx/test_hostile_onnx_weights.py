"""Every tensor of an ONNX file is found by one walk, wherever it is, and read from the model's folder alone."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import symjax_nnvm as nn
from symjax_nnvm.errors import NNVMError, OnnxError
from symjax_nnvm.onnx.imports.file_tensors import tensors_of
from symjax_nnvm.onnx.imports.reading import read_model
from tests.fuzz.onnx_corpus import with_branches, with_functions
from tests.onnx.test_from_onnx import assert_same, floats, model_of, node

W = floats(2, 3)


def outside(tensor: onnx.TensorProto, location: str, **where: str) -> None:
    """Say that the numbers of a tensor are in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **where}.items():
        tensor.external_data.add(key=key, value=value)


def in_weights(location: str) -> onnx.ModelProto:
    made = model_of([node("Add", "x w")], {"x": (2, 3)}, weights={"w": W})
    outside(made.graph.initializer[0], location)
    return made


def in_a_node(location: str) -> onnx.ModelProto:
    constant = node("Constant", "", "w", value=numpy_helper.from_array(W, "w"))
    made = model_of([constant, node("Add", "x w")], {"x": (2, 3)})
    outside(made.graph.node[0].attribute[0].t, location)
    return made


def branch(model: onnx.ModelProto) -> onnx.GraphProto:
    """That of `with_branches` which has a weight and no nodes."""
    return next(each.g for each in model.graph.node[0].attribute if each.name == "then_branch")


def in_a_branch_without_nodes(location: str) -> onnx.ModelProto:
    made = with_branches()
    outside(branch(made).initializer[0], location)
    return made


def in_a_branch_of_a_branch(location: str) -> onnx.ModelProto:
    made = with_branches()
    inner = branch(made)
    info = helper.make_tensor_value_info("t", TensorProto.FLOAT, (2, 3))
    choice = node("If", "c", "t", then_branch=inner, else_branch=inner)
    inner.CopyFrom(helper.make_graph([choice], "outer", [], [info]))
    for each in inner.node[0].attribute:
        outside(each.g.initializer[0], location)
    return made


def in_a_function(location: str) -> onnx.ModelProto:
    made = with_functions(1)
    outside(made.functions[0].node[0].attribute[0].t, location, length="12")
    return made


PLACES: list[Callable[[str], onnx.ModelProto]] = [
    in_weights,
    in_a_node,
    in_a_branch_without_nodes,
    in_a_branch_of_a_branch,
    in_a_function,
]


@pytest.mark.parametrize("place", PLACES)
def test_weights_are_never_read_from_the_current_folder(
    place: Callable[[str], onnx.ModelProto], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, current = tmp_path / "model", tmp_path / "current"
    for each in (folder, current):
        each.mkdir()
    (current / "w.bin").write_bytes(bytes(1000))
    monkeypatch.chdir(current)
    path = folder / "net.onnx"
    path.write_bytes(place("w.bin").SerializeToString())
    with pytest.raises(OnnxError, match="Give the path of the model"):
        nn.from_onnx(place("w.bin"))
    with pytest.raises(NNVMError, match="w.bin, which does not exist"):
        nn.from_onnx(path)
    for location in ("../current/w.bin", str(current / "w.bin"), ".", ""):
        path.write_bytes(place(location).SerializeToString())
        with pytest.raises(OnnxError, match="outside of the model's folder"):
            nn.from_onnx(path)


@pytest.mark.parametrize("place", PLACES)
def test_weights_beside_the_model_are_read_from_anywhere(
    place: Callable[[str], onnx.ModelProto], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model" / "net.onnx"
    path.write_bytes(place("w.bin").SerializeToString())
    data = floats(2, 3) if place is not in_a_function else floats(3)
    (tmp_path / "model" / "w.bin").write_bytes(data.tobytes())
    _, args, _ = nn.from_onnx(path)
    assert any(np.array_equal(array, data) for array in args.values())


def test_the_walk_finds_a_tensor_in_every_field():
    """Also where no reader looks: in training information, in lists, in sparse tensors, in defaults of functions."""
    tensor = numpy_helper.from_array(W, "w")
    graph = helper.make_graph([], "g", [], [], [tensor])
    sparse = onnx.SparseTensorProto(values=tensor, indices=tensor)
    attributes = [
        onnx.AttributeProto(name="t", t=tensor),
        onnx.AttributeProto(name="tensors", tensors=[tensor, tensor]),
        onnx.AttributeProto(name="g", g=graph),
        onnx.AttributeProto(name="graphs", graphs=[graph, graph]),
        onnx.AttributeProto(name="s", sparse_tensor=sparse),
    ]
    whole = helper.make_graph(
        [onnx.NodeProto(attribute=attributes)], "g", [], [], [tensor], sparse_initializer=[sparse]
    )
    info = onnx.TrainingInfoProto(initialization=graph, algorithm=graph)
    function = onnx.FunctionProto(attribute_proto=attributes[:1], node=whole.node)
    found = list(tensors_of(onnx.ModelProto(graph=whole, training_info=[info], functions=[function])))
    assert (len(found), sum(sparse for _, sparse in found)) == (8 + 3 + 2 + 1 + 8, 2 + 2 + 2)


@pytest.mark.slow("compiles")
def test_a_file_that_many_tensors_name_is_in_memory_once(tmp_path: Path):
    """Sixteen views of 64 MB, and what is made of them has a bound by the file, not by how often it is named."""
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(2**26)
    count, side = 16, 2**12
    infos = [(f"w{i}", node("MatMul", f"x w{i}", f"y{i}")) for i in range(count)]
    made = model_of([each for _, each in infos], {"x": (2, side)}, [f"y{i}" for i in range(count)])
    for name, _ in infos:
        tensor = made.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=[side, side])
        outside(tensor, "./" * int(name[1:]) + "w.bin")
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    _, weights = read_model(path)
    assert weights.size == 2**26
    _, args, _ = nn.from_onnx(path)
    assert all(np.may_share_memory(array, args["w0"]) for array in args.values())
    for each in made.graph.node:
        each.op_type = "Gemm"
        each.attribute.append(helper.make_attribute("alpha", 2.0))
    path.write_bytes(made.SerializeToString())
    with pytest.raises(OnnxError, match="would take more than"):
        nn.from_onnx(path)


def test_a_huge_sparse_file_takes_no_memory(tmp_path: Path):
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(2**36)
    made = model_of([node("MatMul", "x w")], {"x": (2, 2**17)})
    outside(made.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2**17, 2**17]), "w.bin")
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    started = time.process_time()
    _, args, _ = nn.from_onnx(path)
    assert args["w"].shape == (2**17, 2**17)
    assert time.process_time() - started < 5


def test_numbers_at_odd_places_are_read(tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(b"odd" + W.tobytes())
    made = in_weights("w.bin")
    made.graph.initializer[0].external_data.add(key="offset", value="3")
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    _, args, _ = nn.from_onnx(tmp_path / "net.onnx")
    np.testing.assert_array_equal(args["w"], W)
    assert args["w"].flags.aligned


def test_large_weights_in_the_file_are_checked_too():
    """They are taken out of the message before onnx checks it."""
    large = floats(40, 50)
    made = model_of([node("MatMul", "x w")], {"x": (2, 40)}, weights={"w": large})
    assert_same(made, {"x": floats(2, 40)})
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:-4]
    with pytest.raises(OnnxError, match="malformed"):
        nn.from_onnx(made)


def test_what_the_reader_notes_in_a_message_no_file_can_say():
    """A tensor that was taken out has a number in its place; one in a file means nothing."""
    made = model_of([node("Add", "x v", "a"), node("MatMul", "a w", "y")], {"x": (2, 40)},
                    weights={"v": floats(40), "w": floats(40, 50)})  # fmt: skip
    expected = nn.from_onnx(made)[1]
    for each in made.graph.initializer:
        each.external_data.add(key="array", value="0")
    for name, array in nn.from_onnx(made)[1].items():
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.nightly("reads large files")
def test_sparse_weights_are_told_in_a_branch_too():
    indices = numpy_helper.from_array(np.asarray([0, 4], np.int64), "i")
    sparse = onnx.SparseTensorProto(values=numpy_helper.from_array(floats(2), "t"), indices=indices, dims=[2, 3])
    made = with_branches()
    del branch(made).initializer[:]
    branch(made).sparse_initializer.append(sparse)
    with pytest.raises(OnnxError, match="sparse weights, which are not read"):
        nn.from_onnx(made)


def test_names_that_are_not_utf_8_are_told(tmp_path: Path):
    data = model_of([node("Relu", "x", name="relu")], {"x": (2,)}).SerializeToString()
    (tmp_path / "net.onnx").write_bytes(data.replace(b"relu", b"re\xff\xfe"))
    with pytest.raises(OnnxError, match="not UTF-8"):
        nn.from_onnx(tmp_path / "net.onnx")


def test_names_are_no_longer_than_a_symbols_file_holds():
    made = model_of([node("Relu", "x", name="n" * 5000)], {"x": (2,)})
    with pytest.raises(OnnxError, match="a name has 5011 characters, more than 4096"):
        nn.from_onnx(made)
