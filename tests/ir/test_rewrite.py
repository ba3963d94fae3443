"""The one rewriter: what it keeps, what it copies, and what a rule may put in a node's place."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.check_graph import check_graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.rewrite import rebuild, rewrite
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol import Symbol


def _diamond() -> Symbol:
    x = sym.Variable("x")
    left, right = sym.relu(x, name="left"), sym.exp(x, name="right")
    return sym.elemwise_add(left, right, name="sum")


def _by_name(symbol: Symbol | list[NodeEntry]) -> dict[str, Node]:
    return {node.name: node for node in post_order(symbol.outputs if isinstance(symbol, Symbol) else symbol)}


def _relu_to_tanh(node: Node, draft: Node) -> Node | None:
    if node.op is None or node.op.name != "relu":
        return None
    return apply("tanh", *draft.inputs, name=node.name).node


def test_without_a_rule_nothing_is_copied():
    net = _diamond()
    rewritten = rewrite(net.outputs)
    assert rewritten.outputs == net.outputs
    assert not rewritten.changed


def test_only_what_depends_on_a_change_is_copied():
    net = _diamond()
    before, json = _by_name(net), net.tojson()
    after = _by_name(rewrite(net.outputs, _relu_to_tanh).outputs)
    assert after["right"] is before["right"]
    assert after["x"] is before["x"]
    assert after["sum"] is not before["sum"]
    assert after["left"].op is not None
    assert after["left"].op.name == "tanh"
    assert net.tojson() == json  # the given graph is never edited


def test_fresh_copies_share_no_node_and_keep_sharing():
    net = _diamond()
    copies = rewrite(net.outputs, fresh=True).outputs
    assert not set(post_order(net.outputs)) & set(post_order(copies))
    assert Symbol(copies).tojson() == net.tojson()


def test_an_entry_takes_the_place_of_all_outputs():
    net = _diamond()

    def drop(node: Node, draft: Node) -> NodeEntry | None:
        return draft.inputs[0] if node.name == "left" else None

    after = _by_name(rewrite(net.outputs, drop).outputs)
    assert "left" not in after
    assert after["sum"].inputs[0].node is after["x"]


def test_control_dependencies_follow_what_is_replaced():
    net = _diamond()
    nodes = _by_name(net)
    nodes["right"].control_deps = [nodes["left"]]
    after = _by_name(rewrite(net.outputs, _relu_to_tanh).outputs)
    assert after["right"].control_deps == [after["left"]]


def test_the_result_says_what_became_of_nodes_and_entries():
    net = _diamond()
    nodes = _by_name(net)
    rewritten = rewrite(net.outputs, _relu_to_tanh)
    left = rewritten.node(nodes["left"])
    assert rewritten.entry(NodeEntry(nodes["left"])) == NodeEntry(left)
    assert rewritten.entry(NodeEntry(nodes["x"])) == NodeEntry(nodes["x"])
    assert [old.name for old, _ in rewritten.replaced()] == ["left", "sum"]


def test_only_the_nodes_of_the_order_are_rewritten():
    net = _diamond()
    nodes = _by_name(net)
    assert rewrite(net.outputs, _relu_to_tanh, order=[nodes["right"], nodes["sum"]]).outputs == net.outputs


def test_versions_are_kept_by_rewrite_and_counted_anew_by_rebuild():
    data = sym.Variable("data")
    mean, var = sym.Variable("mean"), sym.Variable("var")
    gamma, beta = sym.Variable("gamma"), sym.Variable("beta")
    first = sym.BatchNorm(data, gamma, beta, mean, var, name="first")
    net = sym.BatchNorm(first, gamma, beta, mean, var, name="second")
    assert _by_name(net)["second"].inputs[3].version == 2
    assert _by_name(rewrite(net.outputs, fresh=True).outputs)["second"].inputs[3].version == 2

    def drop(node: Node, draft: Node) -> NodeEntry | None:
        return draft.inputs[0] if node.name == "first" else None

    outputs = rebuild(net.outputs, drop)
    assert _by_name(outputs)["second"].inputs[3].version == 1
    check_graph(outputs)


@pytest.mark.slow("computes much")
def test_a_long_chain_does_not_recurse():
    entry = sym.Variable("x").outputs[0]
    for _ in range(100_000):
        entry = apply("relu", entry)
    assert len(post_order(rewrite([entry], fresh=True).outputs)) == 100_001
