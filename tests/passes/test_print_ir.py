"""PrintGraphIR: the text, and the attributes joined to it."""

import pytest

from symjax_nnvm import graph as graph_api
from symjax_nnvm.errors import GraphError, PassError
from symjax_nnvm.ir.types import DTypeList
from symjax_nnvm.symbol.variable import Group, Variable
from tests.support.pass_toys import toy


def test_layout_with_few_inputs():
    x = Variable("x")
    net = toy("relu", toy("dense", x, node="fc", num_hidden=3))
    assert graph_api.create(Group([net, x])).ir() == (
        "Graph(%x, %fc_weight, %fc_bias) {\n"
        "  %3 = _test_pass_dense(%x, %fc_weight, %fc_bias, num_hidden='3')\n"
        "  %4 = _test_pass_relu(%3)\n"
        "  ret %4, %x\n"
        "}"
    )


def test_layout_with_many_inputs_outputs_and_control_dependencies():
    first = toy("norm", Variable("x"), node="bn")
    net = toy("relu", Variable("y"))
    net.add_control_deps(first)
    assert graph_api.create(Group([toy("split", first), net])).ir() == (
        "Graph(%x,\n      %bn_gamma,\n      %bn_beta,\n      %bn_moving_mean,\n      %bn_moving_var,\n      %y) {\n"
        "  %5 = _test_pass_norm(%x, %bn_gamma, %bn_beta, %bn_moving_mean, %bn_moving_var)\n"
        "  %6 = _test_pass_split(%5.0)\n"
        "  %8 = _test_pass_relu(%y), control_deps=[%5]\n"
        "  ret %6.0, %6.1, %8\n"
        "}"
    )


def test_entry_attributes_are_joined_and_other_attributes_listed():
    graph = graph_api.create(toy("split", toy("opaque", Variable("x", shape=(2, 3)))))
    graph._set_json_attr("note", "kept")
    inferred = graph.apply("InferShape")
    inferred.attrs["dtype"] = DTypeList(["float32", None, "int32", "int64"])
    assert inferred.ir(join_entry_attrs=["shape", "dtype"]) == (
        "Graph(%x) {\n"
        "  %x, shape=[2,3], dtype=0\n"
        "  %1 = _test_pass_opaque(%x), shape=[], dtype=-1\n"
        "  %2 = _test_pass_split(%1), shape=[[], []], dtype=[4, 6]\n"
        "  ret %2.0, %2.1\n"
        "}\n"
        "graph_attr_keys = [dtype, note, shape, shape_num_unknown_nodes]\n"
    )


def test_node_attributes_are_joined_by_node_number():
    # NNVM looks them up by entry number, which is wrong behind a node of several outputs.
    graph = graph_api.create(toy("relu", toy("split", Variable("x"))[1]))
    graph._set_json_attr("device", ["cpu", "gpu", "tpu"], "list_str")
    assert graph.ir(join_node_attrs=["device"]) == (
        "Graph(%x) {\n"
        "  %x, device=cpu\n"
        "  %1 = _test_pass_split(%x), device=gpu\n"
        "  %2 = _test_pass_relu(%1.1), device=tpu\n"
        "  ret %2\n"
        "}\n"
        "graph_attr_keys = [device]\n"
    )


def test_pass_consumes_the_join_attributes_and_keeps_only_the_text():
    graph = graph_api.create(Variable("x"))
    graph._set_json_attr("numbers", [5], "list_int")
    graph._set_json_attr("join_entry_attrs", ["numbers"], "list_str")
    printed = graph.apply("PrintGraphIR")
    assert printed.outputs == []
    assert list(printed.attrs) == ["graphir"]
    assert printed.json_attr("graphir") == "Graph(%x) {\n  %x, numbers=5\n  ret %x\n}\ngraph_attr_keys = [numbers]\n"


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        ("nope", None, PassError, "Cannot find nope in graph attr"),
        ("a", 3, PassError, "Cannot handle type int of graph attribute a"),
        ("a", [1, 2], GraphError, "does not fit the graph; expected one value per entry, 1; got 2"),
    ],
)
def test_attributes_that_cannot_be_joined(key, value, error, message):
    graph = graph_api.create(Variable("x"))
    if value is not None:
        graph.attrs[key] = value
    with pytest.raises(error, match=message):
        graph.ir(join_entry_attrs=[key])


def test_join_list_of_another_type():
    graph = graph_api.create(Variable("x"))
    graph.attrs["join_entry_attrs"] = "shape"
    with pytest.raises(PassError, match="expected a list of attribute names"):
        graph.apply("PrintGraphIR")
