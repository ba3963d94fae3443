"""OrderMutation: reads and writes of variables become control dependencies."""

import random

import pytest

from symjax_nnvm.errors import GraphError
from symjax_nnvm.ir.attributes import FMutateInputs
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.pass_registry import apply_pass, get_pass
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.order_mutation import order_mutation
from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import call, node_of, op, random_entries, var


def dependencies(graph: Graph) -> dict[str, list[str]]:
    """Node name → names of its control dependencies, for operators that have any."""
    return {n.name: [d.name for d in n.control_deps] for n in post_order(graph.outputs) if n.control_deps}


def read_write_graph() -> Graph:
    """Reads r0, r1 of v; write w1; reads r2, r3; write w2; read r4."""
    v, a = var("v"), var("a")
    r0, r1 = call("exp", v, node="r0"), call("exp", v, node="r1")
    w1 = call("assign", v, a, node="w1")
    r2, r3 = call("exp", v, node="r2"), call("exp", v, node="r3")
    return Graph(Group([r0, r1, w1, r2, r3, call("assign", v, a, node="w2"), call("exp", v, node="r4")]).outputs)


def test_reads_and_writes_of_a_variable_are_ordered():
    found = dependencies(order_mutation(read_write_graph()))
    assert {name: set(deps) for name, deps in found.items()} == {
        "w1": {"r0", "r1"},
        "r2": {"w1"},
        "r3": {"w1"},
        "w2": {"r2", "r3"},
        "r4": {"w2"},
    }


def test_reads_before_a_write_are_listed_latest_first_as_upstream_does():
    assert dependencies(order_mutation(read_write_graph()))["w1"] == ["r1", "r0"]


def test_reader_between_two_operators_and_reader_after_the_write():
    x = var("x")
    add1 = call("add", call("exp", x, node="conv"), x, node="add1")
    assign = call("assign", x, add1, node="assign")
    add2 = call("add", add1, x, node="add2")
    ordered = order_mutation(Graph(Group([assign, add2]).outputs))
    found = dependencies(ordered)
    assert {name: set(deps) for name, deps in found.items()} == {"assign": {"add1", "conv"}, "add2": {"assign"}}
    assert ordered.outputs[0].node.inputs[0].version == 1


def test_write_after_write_depends_on_the_earlier_write():
    v, a = var("v"), var("a")
    w1, w2 = call("assign", v, a, node="w1"), call("assign", v, a, node="w2")
    assert dependencies(order_mutation(Graph(Group([w1, w2]).outputs))) == {"w2": ["w1"]}


def test_deviation_order_mutation_adds_no_self_dependency_on_a_first_write():
    w1 = call("assign", var("v"), var("a"), node="w1")
    ordered = order_mutation(Graph(w1.outputs))
    assert dependencies(ordered) == {}
    ordered.indexed_graph()  # a self-dependency would be a cycle


def test_node_that_reads_and_writes_one_variable_does_not_wait_for_itself():
    v = var("v")
    r0 = call("exp", v, node="r0")
    w1 = call("assign", v, v, node="w1")
    w2 = call("assign", v, v, node="w2")
    assert dependencies(order_mutation(Graph(Group([r0, w1, w2]).outputs))) == {"w1": ["r0"], "w2": ["w1"]}


def test_graph_without_writes_is_returned_unchanged():
    graph = Graph(call("exp", var("x")).outputs, {"keep": 1})
    assert order_mutation(graph) is graph


def test_given_nodes_are_not_edited_and_untouched_ones_are_shared():
    graph = read_write_graph()
    before = [(node, list(node.inputs), list(node.control_deps)) for node in post_order(graph.outputs)]
    ordered = order_mutation(graph)
    assert [(node, list(node.inputs), list(node.control_deps)) for node in post_order(graph.outputs)] == before
    assert ordered.outputs[0].node is graph.outputs[0].node  # r0 reads version 0: nothing to wait for
    assert ordered.outputs[2].node is not graph.outputs[2].node


def test_existing_control_dependencies_come_first_and_follow_the_copies():
    v, a = var("v"), var("a")
    w1 = call("assign", v, a, node="w1")
    r1 = call("exp", v, node="r1")
    last = call("exp", a, node="last")
    last.add_control_deps(r1)
    ordered = order_mutation(Graph(Group([w1, last]).outputs))
    copy = ordered.outputs[1].node
    assert copy is not node_of(last)
    assert copy.control_deps[0] is not node_of(r1)
    assert dependencies(ordered) == {"r1": ["w1"], "last": ["r1"]}


def test_result_has_no_graph_attributes():
    graph = read_write_graph()
    graph.attrs["shape"] = []
    assert apply_pass(graph, "OrderMutation").attrs == {}


def test_pass_is_registered_and_says_that_it_changes_the_graph():
    assert get_pass("OrderMutation").change_graph


def test_read_that_needs_the_result_of_the_write_that_must_follow_it_is_an_error():
    v, a = var("v"), var("a")
    w1 = call("assign", v, a, node="w1")
    stale = Node(NodeAttrs(op("add"), "stale"), [v.outputs[0], w1.outputs[0]])  # reads version 0
    with pytest.raises(GraphError, match="Reads and writes of a variable cannot be ordered"):
        order_mutation(Graph([NodeEntry(stale, 0, 0)]))


@pytest.mark.parametrize("seed", range(60))
def test_every_topological_order_respects_reads_and_writes(seed: int):
    """Any order that keeps inputs and control dependencies runs a variable's uses in the order of its versions."""
    _, made = random_entries(seed, ["exp", "add", "assign"], 14)
    heads = random.Random(seed).sample(made, 4)
    nodes = post_order(order_mutation(Graph(heads)).outputs)
    before: dict[Node, set[Node]] = {}
    for node in nodes:
        direct = [*(entry.node for entry in node.inputs), *node.control_deps]
        before[node] = set(direct).union(*(before[d] for d in direct))
    uses: dict[Node, list[tuple[int, bool, Node]]] = {}
    for node in nodes:
        mutates = FMutateInputs.get(node.op)
        for i, entry in enumerate(node.inputs):
            if entry.node.is_variable:
                writes = mutates is not None and i in mutates(node.attrs)
                uses.setdefault(entry.node, []).append((entry.version, writes, node))
    for history in uses.values():
        for version, writes, node in history:
            for other_version, other_writes, other in history:
                # A write of version v runs before everything that sees v or later, and after all reads before v.
                if node is not other and writes and (version < other_version or (version == other_version)):
                    assert node in before[other]
                if node is not other and other_writes and version < other_version:
                    assert node in before[other]


@pytest.mark.slow("has many cases")
def test_long_history_is_ordered_in_linear_time():
    v = var("v")
    heads = []
    for _ in range(3000):
        heads += [call("assign", v, v), call("exp", v)]
    ordered = order_mutation(Graph(Group(heads).outputs))
    assert sum(len(node.control_deps) for node in post_order(ordered.outputs)) < 4 * len(heads)
