"""NNVM's Python graph API: create, apply, JSON attributes, index."""

import json

import pytest

from symjax_nnvm import graph as graph_api
from symjax_nnvm.errors import JSONFormatError, PassError, SymbolTypeError, SymbolValueError
from symjax_nnvm.graph import Graph
from symjax_nnvm.symbol.variable import Group, Variable
from tests.support.pass_toys import toy


def test_index_agrees_with_the_saved_json():
    g = graph_api.create(toy("relu", toy("norm", Variable("x"), node="bn"), node="out"))
    saved = json.loads(g.json())
    assert g.index.entry_rptr == saved["node_row_ptr"]
    assert g.index.node_id("bn") == [n["name"] for n in saved["nodes"]].index("bn")
    assert g.index.entry_id("out") == g.index.entry_id("bn", 2) + 1
    assert g.index.input_names == ["x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]


def test_apply_keeps_the_class_and_the_given_graph():
    g = graph_api.create(toy("relu", Variable("x")))
    g._set_json_attr("shape_inputs", [[2, 3]], "list_shape")
    result = g.apply(["InferShape", "InferType"])
    assert type(result) is Graph
    assert result.json_attr("shape") == [[2, 3], [2, 3]]
    assert list(g.attrs) == ["shape_inputs"]


def test_json_attr_of_unknown_shapes_and_absent_keys():
    g = graph_api.create(toy("relu", Variable("x")))
    assert g.json_attr("shape") is None
    g._set_json_attr("shape_inputs", [[2, 0]], "list_shape")
    assert g.apply("InferShape").json_attr("shape") == [[2, 0], [2, 0]]
    assert g.apply("InferType").json_attr("dtype") == [-1, -1]


@pytest.mark.parametrize(
    ("type_name", "value"),
    [("list_str", ["a"]), ("list_int", [1]), ("list_shape", [[1], []]), ("dict_str_int", {"a": 1}), ("int", -3)],
)
def test_json_attributes_round_trip(type_name, value):
    g = graph_api.create(Variable("x"))
    g._set_json_attr("key", value, type_name)
    assert graph_api.load_json(g.json()).json_attr("key") == value


def test_size_attribute_is_an_integer():
    g = graph_api.create(Variable("x"))
    g._set_json_attr("key", 5, "size_t")
    assert g.json_attr("key") == 5


def test_text_needs_no_type_and_everything_else_does():
    g = graph_api.create(Variable("x"))
    g._set_json_attr("key", "text")
    assert g.json_attr("key") == "text"
    with pytest.raises(SymbolValueError, match="Need to specify type_name"):
        g._set_json_attr("key", [1])
    with pytest.raises(JSONFormatError, match="Typename list_float has not been registered via DMLC_JSON_ENABLE_ANY"):
        g._set_json_attr("key", [1.0], "list_float")
    with pytest.raises(JSONFormatError, match=r"'key' of type list_int; expected a list of integers; got \[True\]"):
        g._set_json_attr("key", [True], "list_int")


def test_symbol_list_attribute_holds_entries_and_is_not_json():
    x, y = Variable("x"), Variable("y")
    g = graph_api.create(toy("add", x, y))
    g._set_symbol_list_attr("grad_xs", [x, y])
    assert g.attrs["grad_xs"] == [*x.outputs, *y.outputs]
    g._set_symbol_list_attr("grad_xs", Group([y, x]))
    assert g.attrs["grad_xs"] == [*y.outputs, *x.outputs]
    with pytest.raises(JSONFormatError, match=r"'grad_xs' cannot be written as JSON.*DMLC_JSON_ENABLE_ANY"):
        g.json_attr("grad_xs")
    with pytest.raises(SymbolTypeError, match="grouped symbol"):
        g._set_symbol_list_attr("grad_xs", [1])  # type: ignore[list-item]


def test_symbol_and_create_share_nodes():
    net = toy("relu", Variable("x"))
    assert graph_api.create(net).symbol.outputs == net.outputs
    with pytest.raises(SymbolTypeError, match="created from a Symbol"):
        graph_api.create([net])  # type: ignore[arg-type]


def test_unknown_pass_and_missing_attribute():
    g = graph_api.create(Variable("x"))
    with pytest.raises(PassError, match="Cannot find pass Nope in the registry"):
        g.apply(["InferShape", "Nope"])
    with pytest.raises(PassError, match=r"Graph attr dependency json is required by pass LoadJSON.*by pass SaveJSON"):
        g.apply("LoadJSON")


def test_passes_save_and_load():
    g = graph_api.create(toy("relu", Variable("x")))
    g._set_json_attr("note", "kept")
    loaded = g.apply("SaveJSON").apply("LoadJSON")
    assert type(loaded) is Graph
    assert loaded.json() == g.json()
    assert loaded.json_attr("note") == "kept"
