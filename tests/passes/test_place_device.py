"""PlaceDevice: groups, spreading, copy nodes."""

from typing import Any

import pytest

from symjax_nnvm.errors import OpNotRegisteredError, PassError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.place_device import place_device
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import PREFIX, call, node_of, var

GROUPS = {"a": 0, "b": 1}


def place(*heads: Symbol, **options: Any) -> Graph:
    settings = {"group_attr_key": "group", "assign_map": GROUPS, "copy_op": PREFIX + "copy"} | options
    return place_device(Graph(Group(heads).outputs), **settings)


def placed(graph: Graph) -> dict[str, int]:
    """Node name → device."""
    return {n.source.name: d for n, d in zip(graph.indexed_graph().nodes, graph.attrs["device"], strict=True)}


def grouped(name: str, group: str, *inputs: Symbol, op: str = "exp") -> Symbol:
    return call(op, *inputs, node=name, attrs={"group": group})


def chain() -> Symbol:
    """x → e on a → l on b; l + e."""
    e = grouped("e", "a", var("x"))
    return call("add", grouped("l", "b", e), e, node="sum")


def test_data_that_crosses_devices_is_copied_once():
    result = place(chain())
    assert list(placed(result).items()) == [("x", 0), ("e", 0), ("e_0_copy", 1), ("l", 1), ("sum", 1)]
    total = result.outputs[0].node
    assert total.inputs[0].node.inputs[0].node is total.inputs[1].node  # one copy serves both consumers
    assert total.inputs[1].node.op is not None
    assert total.inputs[1].node.op.name == PREFIX + "copy"


def test_given_nodes_are_not_edited():
    symbol = chain()
    before = [(node, list(node.inputs)) for node in post_order(symbol.outputs)]
    result = place(symbol)
    assert [(node, list(node.inputs)) for node in post_order(symbol.outputs)] == before
    assert result.indexed_graph().nodes[1].source is node_of(symbol).inputs[1].node  # `e` needs no change


def test_one_device_keeps_the_structure_and_the_other_attributes():
    graph = Graph(
        grouped("e", "b", var("x")).outputs,
        {"device_group_attr_key": "group", "device_assign_map": GROUPS, "device_copy_op": PREFIX + "copy", "keep": 1},
    )
    result = apply_pass(graph, "PlaceDevice")
    assert result.attrs == {"keep": 1, "device": [1, 1]}
    assert result.outputs == graph.outputs


def test_several_devices_leave_only_the_device_attribute():
    graph = Graph(
        chain().outputs,
        {"device_group_attr_key": "group", "device_assign_map": GROUPS, "device_copy_op": PREFIX + "copy", "keep": 1},
    )
    assert list(apply_pass(graph, "PlaceDevice").attrs) == ["device"]


@pytest.mark.parametrize("missing", ["device_group_attr_key", "device_assign_map", "device_copy_op"])
def test_missing_request_attribute_is_named(missing: str):
    attrs = {"device_group_attr_key": "group", "device_assign_map": {}, "device_copy_op": PREFIX + "copy"}
    del attrs[missing]
    with pytest.raises(PassError, match=f"Graph attr dependency {missing} is required by pass PlaceDevice"):
        apply_pass(Graph(chain().outputs, attrs), "PlaceDevice")


def test_group_without_a_device_is_an_error():
    with pytest.raises(PassError, match=r"The device assignment not found for group c.*node 'e'"):
        place(grouped("e", "c", var("x")))


def test_unregistered_copy_operator_is_an_error():
    with pytest.raises(OpNotRegisteredError, match="Operator no_such_copy is not registered"):
        place(chain(), copy_op="no_such_copy")


def test_written_variable_may_not_cross_devices():
    v = var("v")
    v.set_attrs({"group": "a"})
    with pytest.raises(PassError, match=f"mutable state cannot go across device op={PREFIX}assign input_state_index=0"):
        place(grouped("w", "b", v, var("a"), op="assign"))


def test_operator_follows_its_first_placed_input_and_an_input_its_consumer():
    left, right = grouped("l", "b", var("x")), grouped("r", "a", var("y"))
    result = place(call("add", call("exp", var("free"), node="f"), left, node="sum"), right)
    devices = placed(result)
    assert devices["sum"] == 1
    assert devices["x"] == devices["f"] == devices["free"] == 1  # backward: inputs go where they are used
    assert devices["y"] == devices["r"] == 0


def test_what_nobody_places_goes_to_device_zero():
    assert placed(place(call("exp", var("x"), node="e"), grouped("f", "b", var("y"))))["e"] == 0


def test_backward_operator_runs_where_its_forward_node_runs():
    forward = grouped("fwd", "b", var("x"))
    backward = call("backward", grouped("og", "a", var("y")), node="bwd")
    backward.add_control_deps(forward)
    assert placed(place(backward))["bwd"] == 1


def test_preset_devices_are_kept_but_a_group_wins():
    symbol = call("exp", grouped("e", "a", var("x")), node="f")
    assert placed(place(symbol, device=[-1, 5, -1])) == {"x": 0, "e": 0, "f": 0}
    devices = place(call("exp", call("exp", var("x"), node="e"), node="f"), device=[-1, 1, -1]).attrs["device"]
    assert devices == [1, 1, 1]


def test_preset_of_the_wrong_length_is_an_error():
    with pytest.raises(PassError, match="Wrong length of graph attribute device; expected 4 nodes; got 1"):
        place(chain(), device=[0])


def test_control_dependencies_follow_the_rebuilt_nodes():
    crossing = grouped("l", "b", grouped("e", "a", var("x")))
    after = grouped("z", "a", var("y"))
    after.add_control_deps(crossing)
    result = place(crossing, after)
    assert result.outputs[1].node.control_deps == [result.outputs[0].node]
    assert result.outputs[0].node is not node_of(crossing)


def test_values_before_and_after_a_write_are_copied_apart():
    v = var("v")
    v.set_attrs({"group": "a"})
    old = grouped("old", "b", v)
    result = place(old, grouped("w", "a", v, var("a"), op="assign"), grouped("new", "b", v))
    copies = [result.outputs[0].node.inputs[0].node, result.outputs[2].node.inputs[0].node]
    assert [copy.inputs[0].version for copy in copies] == [0, 1]
