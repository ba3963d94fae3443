"""Post-order: the one order in which everything visits a graph."""

import random

import pytest

from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, create_variable_node
from symjax_nnvm.ir.traverse import post_order, post_order_nodes, successors
from symjax_nnvm.symbol.variable import Group
from tests.support.core_toys import call, node_of, op, random_entries, var


def names(*symbols) -> list[str]:
    return [node.name for node in post_order(Group(symbols).outputs)]


def bare(name: str, *inputs: Node) -> Node:
    return Node(NodeAttrs(op("exp"), name), [NodeEntry(node) for node in inputs])


def test_heads_are_visited_in_order_and_inputs_before_users():
    p, q = var("p"), var("q")
    r = call("add", call("exp", q, node="eq"), call("exp", p, node="ep"), node="r")
    assert names(p, r, q) == ["p", "q", "eq", "ep", "r"]


def test_repeated_heads_are_visited_once():
    x = var("x")
    assert names(x, x) == ["x"]


def test_control_dependencies_come_after_inputs():
    e = call("exp", var("x"), node="e")
    e.add_control_deps(call("exp", var("y"), node="d"))
    assert names(e) == ["x", "y", "d", "e"]
    assert [node.name for node in successors(node_of(e))] == ["x", "d"]


def test_subgraphs_are_not_visited():
    assert names(call("loop", call("exp", var("inside")), var("x"), var("s"), node="l")) == ["x", "s", "l"]


def test_empty_heads_have_no_nodes():
    assert post_order([]) == []


def test_missing_node_is_emitted_and_has_no_successors():
    missing: Node = None  # type: ignore[assignment]
    assert post_order([NodeEntry(missing)]) == [None]


def test_cycle_does_not_loop():
    a, b = bare("a"), bare("b")
    a.inputs, b.inputs = [NodeEntry(b)], [NodeEntry(a)]
    assert [node.name for node in post_order_nodes([a])] == ["b", "a"]
    a.control_deps = [a]
    assert len(post_order_nodes([b])) == 2


@pytest.mark.slow("computes much")
def test_chain_of_a_hundred_thousand_nodes_does_not_recurse():
    head = create_variable_node("x")
    for _ in range(100_000):
        head = bare("", head)
    order = post_order_nodes([head])
    assert len(order) == 100_001
    assert (order[0].name, order[-1]) == ("x", head)


def test_wide_diamonds_take_linear_time():
    head = create_variable_node("x")
    for _ in range(1000):
        head = bare("", head, head, head)  # 3 ** 1000 paths
    assert len(post_order_nodes([head])) == 1001


@pytest.mark.parametrize("seed", range(20))
def test_order_is_nnvms_on_random_graphs(seed: int):
    """Against the definition, written as the recursion that a deep graph would break."""
    _, made = random_entries(seed, ["exp", "add", "split"], 30)
    heads = random.Random(seed).sample(made, 5)
    seen: set[Node] = set()
    expected: list[Node] = []

    def visit(node: Node) -> None:
        if node not in seen:
            seen.add(node)
            for successor in successors(node):
                visit(successor)
            expected.append(node)

    for head in heads:
        visit(head.node)
    assert post_order(heads) == expected
