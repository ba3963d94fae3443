"""Graph and IndexedGraph: every table and lookup, and what a graph must not be."""

import copy
import json

import pytest

from symjax_nnvm.errors import GraphError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedEntry, subgraph_sanity_check
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import call, functor, node_of, var


def index_of(*heads):
    return Graph(Group(heads).outputs).indexed_graph()


def norm():
    return call("norm", var("x"), node="bn")


# -- tables ----------------------------------------------------------------------------------------------------------


def test_rows_of_an_operator_with_hidden_outputs_and_written_inputs():
    index = index_of(norm())
    assert [node.source.name for node in index.nodes] == [
        *("x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"),
        "bn",
    ]
    assert index.entry_rptr == [0, 1, 2, 3, 4, 5, 8]
    assert index.nodes[5].inputs == ((0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 1), (4, 0, 1))
    assert index.mutable_input_nodes == {3, 4}
    assert index.input_nodes == [0, 1, 2, 3, 4]
    assert index.outputs == [(5, 0, 0)]


def test_second_writer_of_the_same_variables_holds_version_two():
    mean, variance = var("m"), var("v")
    first = call("norm", var("x"), node="bn", moving_mean=mean, moving_var=variance)
    index = index_of(call("norm", first, node="bn2", moving_mean=mean, moving_var=variance))
    assert [entry.version for entry in index["bn"].inputs] == [0, 0, 0, 1, 1]
    assert [entry.version for entry in index["bn2"].inputs] == [0, 0, 0, 2, 2]


def test_sizes():
    index = index_of(norm())
    assert (index.num_nodes, len(index), index.num_node_entries) == (6, 6, 8)


def test_edges_are_flat_rows():
    a = call("exp", var("x"), node="a")
    b = call("add", a, var("y"), node="b")
    b.add_control_deps(Group([a, call("exp", var("z"), node="c")]))
    index = index_of(b)
    assert index.input_entries == [(0, 0, 0), (3, 0, 0), (1, 0, 0), (2, 0, 0)]
    assert index.inputs_rptr == [0, 0, 1, 1, 1, 2, 4]
    assert index.control_deps == [1, 4]
    assert index.control_rptr == [0, 0, 0, 0, 0, 0, 2]
    assert index["b"].control_deps == (1, 4)


def test_empty_graph_has_empty_tables():
    index = Graph().indexed_graph()
    assert (index.num_nodes, index.num_node_entries, index.entry_rptr, index.outputs) == (0, 0, [0], [])


def test_tables_agree_with_saved_json():
    a = call("split", var("x"), node="a")
    symbol = Group([call("add", a[1], a[0], node="s"), norm()])
    saved, index = json.loads(symbol.tojson()), Graph(symbol.outputs).indexed_graph()
    assert saved["node_row_ptr"] == index.entry_rptr
    assert saved["arg_nodes"] == index.input_nodes
    assert saved["heads"] == [list(head) for head in index.outputs]
    assert [node["inputs"] for node in saved["nodes"]] == [[list(e) for e in node.inputs] for node in index.nodes]


# -- lookups ---------------------------------------------------------------------------------------------------------


def test_entry_ids_by_every_kind_of_key():
    split = call("split", var("x"), node="s")
    node = node_of(split)
    index = index_of(split)
    assert index.entry_id(1, 1) == 2
    assert index.entry_id(node, 1) == 2
    assert index.entry_id("s", 1) == 2
    assert index.entry_id(NodeEntry(node, 1)) == 2
    assert index.entry_id(IndexedEntry(1, 1)) == 2
    assert index.entry_id("x") == 0


def test_nodes_by_number_node_and_name():
    symbol = call("exp", var("x"), node="e")
    node, index = node_of(symbol), index_of(symbol)
    assert index.exist(node)
    assert not index.exist(create_variable_node("x"))
    assert index.node_id(node) == index.node_id("e") == 1
    assert index[1] is index[node] is index["e"]
    assert index[1].source is node
    assert index[1].weak_ref() is node


def test_of_equal_names_the_last_node_is_found():
    assert index_of(var("x"), var("x")).node_id("x") == 1


@pytest.mark.parametrize("key", ["nobody", create_variable_node("nobody")])
def test_unknown_node_is_an_error(key: str | Node):
    with pytest.raises(GraphError, match="No such node in the graph; in node 'nobody'"):
        index_of(var("x")).node_id(key)


def test_names_and_heads_as_nnvms_python_api_spells_them():
    index = index_of(norm())
    assert index.input_names == ["x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]
    assert index.output_entries == index.outputs


# -- what a graph must not be ----------------------------------------------------------------------------------------


def test_cycle_is_an_error_that_names_the_node():
    a = call("exp", var("x"), node="a")
    node_of(a).control_deps = [node_of(call("exp", a, node="b"))]
    with pytest.raises(GraphError, match="The graph has a cycle; in node 'b'.*got a dependency on node 'a'"):
        index_of(a)


def test_node_that_depends_on_itself_is_a_cycle():
    a = call("exp", var("x"), node="a")
    a.add_control_deps(a)
    with pytest.raises(GraphError, match="The graph has a cycle; in node 'a'"):
        index_of(a)


def test_missing_node_is_an_error():
    missing: Node = None  # type: ignore[assignment]
    with pytest.raises(GraphError, match="The graph refers to a missing node"):
        Graph([NodeEntry(missing)]).indexed_graph()


def test_writing_operator_without_its_inputs_is_an_error():
    with pytest.raises(
        GraphError, match="An operator is missing an input that it writes.*got 0 inputs.*Compose the symbol"
    ):
        index_of(functor("assign"))


def test_node_on_two_subgraph_levels_is_an_error():
    shared = call("exp", var("s"), node="shared")
    inner = call("loop", shared, var("x"), var("y"))
    outer = call("loop", Group([inner, shared]), var("x"), var("y"))
    message = "A subgraph should not depend on the outputs of nodes on higher levels; in node 's.*levels 0 and 1"
    with pytest.raises(GraphError, match=message):
        index_of(outer)


def test_node_in_two_subgraphs_of_one_level_is_allowed():
    shared = call("exp", var("s"))
    loops = [call("loop", shared, var("x"), var("y")) for _ in range(2)]
    index_of(*loops)


def test_node_shared_by_the_main_graph_and_its_subgraph_is_allowed():
    shared = call("exp", var("s"))
    index_of(call("loop", shared, shared, var("y")))


def test_subgraph_check_of_none_is_fine():
    subgraph_sanity_check([])


# -- Graph -----------------------------------------------------------------------------------------------------------


def test_index_is_built_once_and_shared_by_copies():
    graph = Graph(norm().outputs)
    index = graph.indexed_graph()
    assert graph.indexed_graph() is index
    assert copy.copy(graph).indexed_graph() is index
    assert graph.derive(attrs={"a": 1}).indexed_graph() is index
    assert graph.derive(outputs=graph.outputs[:1]).indexed_graph() is not index


def test_changed_outputs_do_not_refresh_the_index():
    graph = Graph(norm().outputs)
    index = graph.indexed_graph()
    graph.outputs.append(var("y").outputs[0])
    assert graph.indexed_graph() is index


def test_attributes_of_a_copy_are_its_own_but_values_are_shared():
    value: list[int] = []
    graph = Graph([], {"a": value})
    twin = copy.copy(graph)
    twin.attrs["b"] = 1
    assert not graph.has_attr("b")
    assert twin.get_attr("a") is value


def test_missing_attribute_is_an_error():
    graph = Graph([], {"a": 1})
    with pytest.raises(GraphError, match=r"Cannot find attribute b in the graph; got attributes \['a'\]"):
        graph.get_attr("b")
    with pytest.raises(GraphError, match="Cannot find attribute b in the graph"):
        graph.move_copy_attr("b")


def test_moved_attribute_is_gone():
    graph = Graph([], {"a": 1})
    assert graph.move_copy_attr("a") == 1
    assert not graph.has_attr("a")
