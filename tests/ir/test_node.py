"""Node, NodeEntry, NodeAttrs: arity, identity, versions, apply."""

import pytest

from symjax_nnvm.errors import ComposeError, OpNotRegisteredError, ParamError
from symjax_nnvm.ir.node import (
    Node,
    NodeAttrs,
    NodeEntry,
    VariableParam,
    apply,
    create_variable_node,
    update_node_version,
)
from tests.support.core_toys import PREFIX, call, node_of, op, var


def versions(node: Node) -> list[int]:
    return [entry.version for entry in node.inputs]


def writer(*inputs: Node) -> Node:
    """A composed `assign` of the given inputs."""
    node = Node(NodeAttrs(op("assign")), [NodeEntry(source) for source in inputs])
    update_node_version(node)
    return node


# -- nodes and entries -----------------------------------------------------------------------------------------------


def test_variable_counts_as_one_input_and_one_output():
    node = create_variable_node("x")
    assert node.is_variable
    assert node.op is None
    assert (node.num_inputs(), node.num_outputs(), node.num_visible_outputs()) == (1, 1, 1)


def test_hidden_outputs_are_outputs():
    node = node_of(call("norm", var("x")))
    assert (node.num_inputs(), node.num_outputs(), node.num_visible_outputs()) == (5, 3, 1)
    assert node_of(call("split", var("x"))).num_visible_outputs() == 2


def test_nodes_compare_by_identity_not_by_name():
    a, b = create_variable_node("x"), create_variable_node("x")
    assert a != b
    assert len({a, b}) == 2


def test_entries_compare_and_hash_by_node_index_and_version():
    x, y = create_variable_node("x"), create_variable_node("x")
    assert NodeEntry(x, 1, 2) == NodeEntry(x, 1, 2)
    assert hash(NodeEntry(x, 1, 2)) == hash(NodeEntry(x, 1, 2))
    assert len({NodeEntry(x, 1, 2), NodeEntry(x, 0, 2), NodeEntry(x, 1, 0), NodeEntry(y, 1, 2)}) == 4


def test_entry_is_frozen():
    with pytest.raises(AttributeError):
        NodeEntry(create_variable_node("x")).index = 1  # type: ignore[misc]


def test_copied_attributes_are_independent_but_share_subgraphs():
    body = var("body")
    attrs = NodeAttrs(None, "x", {"a": "1"}, VariableParam(3), subgraphs=[body])
    copy = attrs.copy()
    copy.name, copy.dict["a"], copy.parsed.version = "y", "2", 9
    assert (attrs.name, attrs.dict, attrs.parsed.version) == ("x", {"a": "1"}, 3)
    assert copy.subgraphs[0] is body


def test_copied_node_keeps_its_edges_and_loses_info():
    x, dep = create_variable_node("x"), create_variable_node("d")
    node = Node(NodeAttrs(op("exp"), "e"), [NodeEntry(x)], [dep])
    node.info = "anything"
    copy = node.copy()
    assert (copy.inputs, copy.control_deps, copy.info) == ([NodeEntry(x)], [dep], None)
    copy.inputs.clear()
    assert node.inputs == [NodeEntry(x)]


def test_every_variable_has_a_version_counter():
    assert Node(NodeAttrs(None, "x")).attrs.parsed.version == 0


# -- versions --------------------------------------------------------------------------------------------------------


def test_readers_before_a_write_keep_the_old_version_and_later_ones_see_the_new():
    x = var("x")
    conv = call("exp", x)
    add1 = call("add", conv, x)
    assign = call("assign", x, add1)
    add2 = call("add", add1, x)
    assert [versions(node_of(s)) for s in (conv, add1, assign, add2)] == [[0], [0, 0], [1, 0], [0, 1]]


def test_second_writer_of_a_variable_gets_version_two():
    x, mean, variance = var("x"), var("m"), var("v")
    first = call("norm", x, moving_mean=mean, moving_var=variance)
    second = call("norm", first, moving_mean=mean, moving_var=variance)
    assert versions(node_of(first)) == [0, 0, 0, 1, 1]
    assert versions(node_of(second)) == [0, 0, 0, 2, 2]


def test_variable_that_is_read_and_written_is_read_first():
    x = create_variable_node("x")
    assert versions(writer(x, x)) == [1, 0]


def test_variable_written_twice_by_one_node_gets_two_versions():
    x, mean = create_variable_node("x"), create_variable_node("m")
    node = Node(NodeAttrs(op("norm")), [NodeEntry(n) for n in (x, x, x, mean, mean)])
    update_node_version(node)
    assert versions(node) == [0, 0, 0, 1, 2]
    assert mean.attrs.parsed.version == 2


def test_versions_of_operator_outputs_are_left_alone():
    inner = call("exp", var("x"))
    assert versions(node_of(call("exp", inner))) == [0]


def test_only_variables_may_be_written():
    x, inner = create_variable_node("x"), node_of(call("exp", var("y"), node="inner"))
    node = Node(NodeAttrs(op("assign"), "w"), [NodeEntry(inner), NodeEntry(x, 0, 7)])
    message = f"Mutation target can only be Variable; in operator '{PREFIX}assign', node 'w', input 0; got .*'inner'"
    with pytest.raises(ComposeError, match=message):
        update_node_version(node)
    assert versions(node) == [0, 7]


def test_written_input_that_is_not_there_is_an_error():
    with pytest.raises(ComposeError, match="Mutation target can only be Variable.*got 0 inputs"):
        update_node_version(Node(NodeAttrs(op("assign"), "w")))


# -- apply -----------------------------------------------------------------------------------------------------------


def test_apply_stores_parameters_as_text_and_parses_them():
    x, w = (NodeEntry(create_variable_node(name)) for name in "xw")
    dep = create_variable_node("d")
    entry = apply(PREFIX + "dense", x, w, name="fc", control_deps=[dep], num_hidden=3, no_bias=True)
    node = entry.node
    assert entry == NodeEntry(node, 0, 0)
    assert (node.name, node.inputs, node.control_deps) == ("fc", [x, w], [dep])
    assert node.attrs.dict == {"num_hidden": "3", "no_bias": "True"}
    assert (node.attrs.parsed.num_hidden, node.attrs.parsed.no_bias) == (3, True)


def test_apply_takes_an_operator_and_reports_bad_ones():
    assert apply(op("zeros")).node.op is op("zeros")
    with pytest.raises(OpNotRegisteredError, match="Operator no_such_op is not registered"):
        apply("no_such_op")
    with pytest.raises(ParamError, match="Required parameter num_hidden of int is not presented"):
        apply(PREFIX + "dense", name="fc")
