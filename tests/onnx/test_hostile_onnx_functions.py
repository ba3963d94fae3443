"""Local functions of an ONNX model are put in the places of their calls, and only where that is no bomb."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lowering
import symjax_nnvm as nn
from symjax_nnvm.errors import OnnxError
from symjax_nnvm.onnx.imports import local_functions
from tests.fuzz.onnx_corpus import with_functions
from tests.onnx.test_from_onnx import assert_same, floats, model_of, node, operators
from tests.support.pages import text_of
from tests.support.traced import evaluated

VERSIONS = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]


def call(name: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    return node(name, inputs, outputs, domain="local", **attrs)


def function(name: str, nodes: Sequence[onnx.NodeProto], attributes: Sequence[str] = ()) -> onnx.FunctionProto:
    """A function of i that gives o."""
    return helper.make_function("local", name, ["i"], ["o"], list(nodes), VERSIONS, attributes=list(attributes))


def of(*functions: onnx.FunctionProto, first: onnx.NodeProto | None = None) -> onnx.ModelProto:
    """A model that calls the first function."""
    made = model_of([first or call(functions[0].name, "x", "y")], {"x": (2, 3)})
    made.functions.extend(functions)
    made.opset_import.append(VERSIONS[1])
    return made


def doubling(deep: int) -> onnx.ModelProto:
    """Functions of which each calls the next twice."""
    inner = [function(f"f{i}", [call(f"f{i + 1}", "i", "a"), call(f"f{i + 1}", "a", "o")]) for i in range(deep)]
    return of(*inner, function(f"f{deep}", [node("Relu", "i", "o")]))


def test_functions_are_put_in_the_places_of_their_calls():
    made = with_functions()
    assert_same(made, {"x": floats(2, 3)})
    assert operators(nn.from_onnx(made)[0]).count("Activation") == 4
    assert_same(of(function("one", [node("Relu", "i", "o")])), {"x": floats(2, 3)})
    assert_same(doubling(5), {"x": floats(2, 3)})


def test_defaults_of_attributes_are_given_to_calls():
    """Which onnx' inliner leaves out: a slope was 0.01."""
    inner = node("LeakyRelu", "i", "o")
    inner.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    leaky = function("leaky", [inner])
    leaky.attribute_proto.append(helper.make_attribute("slope", 0.5))
    made = of(function("outer", [call("leaky", "i", "a"), call("leaky", "a", "o", slope=0.25)]), leaky)
    net, _, _ = nn.from_onnx(made)
    (found,), _ = evaluated(lowering.to_jax(net), {"x": -np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(found, np.full((2, 3), -0.125, np.float32))


@pytest.mark.parametrize("beside", [False, True])
def test_a_weight_may_be_the_default_of_an_attribute(tmp_path: Path, beside: bool):
    weight = floats(2, 300)
    tensor = onnx.numpy_helper.from_array(weight, "w")
    if beside:
        (tmp_path / "w.bin").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
    constant = onnx.NodeProto(op_type="Constant", output=["c"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, ref_attr_name="w")
    adding = function("adding", [constant, node("Add", "i c", "o")])
    adding.attribute_proto.append(onnx.AttributeProto(name="w", type=onnx.AttributeProto.TENSOR, t=tensor))
    made = of(adding)
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 300
    made.graph.output[0].type.tensor_type.ClearField("shape")
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    net, args, _ = nn.from_onnx(tmp_path / "m.onnx")
    (found,), _ = evaluated(lowering.to_jax(net), {"x": np.zeros((2, 300), np.float32), **args})
    np.testing.assert_array_equal(found, weight)


def test_a_call_inside_a_branch():
    info = helper.make_tensor_value_info("n", TensorProto.FLOAT, (2, 3))
    inner = helper.make_graph([call("one", "x", "n")], "b", [], [info])
    other = helper.make_graph([node("Neg", "x", "n")], "b", [], [info])
    choice = node("If", "c", "y", then_branch=inner, else_branch=other)
    made = model_of([choice], {"x": (2, 3), "c": ("BOOL", ())})
    made.functions.append(function("one", [node("Relu", "i", "o")]))
    made.opset_import.append(VERSIONS[1])
    for truth in (True, False):
        assert_same(made, {"x": floats(2, 3), "c": np.asarray(truth)})


def test_functions_that_double_are_counted_before_they_are_expanded():
    """2 KB become 2³¹ nodes."""
    made = doubling(31)
    assert made.ByteSize() < 4000
    started = time.process_time()
    with pytest.raises(OnnxError, match=r"functions would become 6\.44e\+09 nodes"):
        nn.from_onnx(made)
    assert time.process_time() - started < 2
    with pytest.raises(OnnxError, match="functions would become"):
        nn.from_onnx(doubling(16))


@pytest.mark.slow("computes much")
def test_many_functions_are_counted_in_linear_time():
    """Ten thousand that call one another in a row; and sixty of which each calls the next a hundred times."""
    chain = [function(f"f{i}", [call(f"f{i + 1}", "i", "o")]) for i in range(9_000)]
    started = time.process_time()
    with pytest.raises(OnnxError, match="64 deep, and deeper"):
        nn.from_onnx(of(*chain, function("f9000", [node("Relu", "i", "o")])))
    steps = [("i" if k == 0 else f"a{k}", "o" if k == 99 else f"a{k + 1}") for k in range(100)]
    layers = [function(f"f{i}", [call(f"f{i + 1}", *step) for step in steps]) for i in range(60)]
    with pytest.raises(OnnxError, match="functions would become"):
        nn.from_onnx(of(*layers, function("f60", [node("Relu", "i", "o")])))
    assert time.process_time() - started < 20


@pytest.mark.parametrize("where", ["itself", "another", "a branch"])
def test_functions_that_call_themselves_are_told_by_name(where: str):
    again = call("one", "i", "o")
    if where == "another":
        made = of(function("one", [call("two", "i", "o")]), function("two", [again]))
    elif where == "a branch":
        info = helper.make_tensor_value_info("o", TensorProto.FLOAT, (2, 3))
        inner = helper.make_graph([again], "b", [], [info])
        made = of(function("one", [node("If", "i", "o", then_branch=inner, else_branch=inner)]))
    else:
        made = of(function("one", [again]))
    with pytest.raises(OnnxError, match=r"The function local::(one|two) of the model calls itself"):
        nn.from_onnx(made)


def test_attributes_that_functions_hand_on_are_counted():
    """One text of 1 MB that each of 500 nodes gets."""
    given = onnx.AttributeProto(name="text", ref_attr_name="text", type=onnx.AttributeProto.STRING)
    nodes = [node("Relu", f"a{i}" if i else "i", f"a{i + 1}" if i < 499 else "o") for i in range(500)]
    for each in nodes:
        each.attribute.append(given)
    made = of(function("one", nodes, ["text"]), first=call("one", "x", "y", text="t" * 2**20))
    with pytest.raises(OnnxError, match="functions would become"):
        nn.from_onnx(made)
    inner = helper.make_graph([node("Relu", "x", "n")], "b", [], [helper.make_empty_tensor_value_info("n")])
    made = of(function("one", [node("Relu", "i", "o")], ["body"]), first=call("one", "x", "y", body=inner))
    with pytest.raises(OnnxError, match="attribute body of a local function is a graph"):
        nn.from_onnx(made)


def test_two_functions_of_one_name_are_told():
    made = of(function("one", [node("Relu", "i", "o")]), function("one", [node("Neg", "i", "o")]))
    with pytest.raises(OnnxError, match="the same name"):
        nn.from_onnx(made)


def test_nodes_in_the_way_inside_functions_are_listed():
    made = of(function("one", [node("Relu", "i", "a"), node("NonZero", "a", "o")]))
    with pytest.raises(OnnxError, match="1 of its nodes are not supported.\n.*'NonZero'"):
        nn.from_onnx(made)
    made = of(function("one", [node("Relu", "i", "o")]))
    made.functions[0].opset_import[0].version = 17  # of another opset than the model's it stays a call
    with pytest.raises(OnnxError, match="domain 'local'"):
        nn.from_onnx(made)


def test_tensors_of_functions_lie_in_the_models_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    array = floats(3)
    (tmp_path / "w.bin").write_bytes(array.tobytes())
    (tmp_path / "elsewhere").mkdir()
    constant = node("Constant", "", "c", value=onnx.numpy_helper.from_array(array, "c"))
    made = of(function("one", [constant, node("Add", "i c", "o")]))
    tensor = made.functions[0].node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    where = tensor.external_data.add(key="location", value="w.bin")
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    monkeypatch.chdir(tmp_path / "elsewhere")
    _, args, _ = nn.from_onnx(path)
    np.testing.assert_array_equal(next(iter(args.values())), array)
    monkeypatch.chdir(tmp_path)  # where onnx would find it
    with pytest.raises(OnnxError, match="Give the path of the model"):
        nn.from_onnx(made)
    where.value = "../secret"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(OnnxError, match="outside of the model's folder"):
        nn.from_onnx(path)


def test_bounds_are_those_of_the_page():
    text = text_of("docs/guide/onnx.md")
    for number in (local_functions.MOST_NODES, local_functions.DEEPEST):
        assert f"{number:,}" in text
