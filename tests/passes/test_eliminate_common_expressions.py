import pytest

from symjax_nnvm import Graph, apply_pass
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import THasDeterministicOutput
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import list_unique_ops
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.eliminate_common_expressions import eliminate_common_expressions
from symjax_nnvm.symbol import Symbol


def merged(symbol: Symbol) -> Symbol:
    return Symbol(eliminate_common_expressions(Graph(symbol.outputs)).outputs)


def operators(symbol: Symbol) -> list[str]:
    return [node.name for node in post_order(symbol.outputs) if not node.is_variable]


x, y = sym.Variable("x"), sym.Variable("y")


def test_equal_nodes_become_the_first_of_them_all_the_way_up() -> None:
    net = sym.exp(sym.log(x, name="l1"), name="e1") * sym.exp(sym.log(x, name="l2"), name="e2")
    assert operators(merged(net))[:2] == ["l1", "e1"]
    assert len(operators(merged(net))) == 3


def test_nodes_that_differ_in_operator_input_or_attribute_stay() -> None:
    net = sym.Group([sym.exp(x), sym.log(x), sym.exp(y), sym.sum(x, axis=0), sym.sum(x, axis=1), x * 2, x * 3])
    assert len(operators(merged(net))) == 7


def test_equal_heads_are_told_apart_by_copies() -> None:
    net = sym.Group([sym.exp(x, name=name) for name in ("a", "b", "c")])
    assert [entry.node.name for entry in merged(net).outputs] == ["a", "a_0_copy", "a_1_copy"]


def test_heads_listed_twice_stay_when_nothing_is_merged() -> None:
    e = sym.exp(x, name="e")
    assert [entry.node.name for entry in merged(sym.Group([e, e])).outputs] == ["e", "e"]


def test_the_graph_given_is_not_changed() -> None:
    net = sym.exp(sym.log(x, name="l1")) + sym.sin(sym.log(x, name="l2"), name="s")
    before = net.tojson()
    merged(net)
    assert net.tojson() == before


def test_nodes_that_draw_mutate_or_have_no_inputs_are_not_merged() -> None:
    assert len(operators(merged(sym.Dropout(x, name="d1") + sym.Dropout(x, name="d2")))) == 3
    gamma, beta, mean, var = map(sym.Variable, ("gamma", "beta", "mean", "var"))
    norms = [sym.BatchNorm(x, gamma, beta, mean, var, name=name) for name in ("b1", "b2")]
    assert len(operators(merged(norms[0] + norms[1]))) == 3
    assert len(operators(merged(sym.zeros(shape=(2,), name="z1") + sym.zeros(shape=(2,), name="z2")))) == 3


def test_reads_of_a_state_before_and_after_a_write_are_different() -> None:
    mean = sym.Variable("mean")
    before = sym.exp(mean, name="before")
    norm = sym.BatchNorm(x, sym.Variable("g"), sym.Variable("b"), mean, sym.Variable("v"), name="bn")
    assert operators(merged(sym.Group([before, norm, sym.exp(mean, name="after")]))) == ["before", "bn", "after"]


def test_nodes_that_wait_for_different_nodes_are_not_merged() -> None:
    first, second = sym.exp(x, name="e1"), sym.exp(x, name="e2")
    second.add_control_deps(sym.sin(first, name="s"))
    assert operators(merged(sym.Group([first, second]))) == ["e1", "s", "e2"]


@pytest.mark.nightly("thousands of nodes")
def test_a_long_chain_takes_no_recursion() -> None:
    left, right = x, x
    for _ in range(20_000):
        left, right = sym.exp(left), sym.exp(right)
    assert len(operators(merged(left + right))) == 20_001


def test_it_is_a_pass_by_name() -> None:
    graph = apply_pass(Graph((sym.exp(x) + sym.exp(x)).outputs), "EliminateCommonExpr")
    assert len([node for node in post_order(graph.outputs) if isinstance(node, Node) and node.op]) == 2


def test_every_operator_that_draws_says_so() -> None:
    from lowering.core.rules import FLowering

    drawing = [op for op in list_unique_ops() if op in FLowering and "key" in FLowering[op].needs]
    loops = {"_foreach", "_while_loop", "_cond"}  # never merged: they hold subgraphs
    silent = [
        op.name
        for op in drawing
        if op.name not in loops
        and "_backward" not in op.name
        and not op.name.startswith("_test_")
        and op not in THasDeterministicOutput
    ]
    assert drawing
    assert silent == []
