"""What a node draws follows its place among the drawing nodes of its network, and nothing else."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.core.node_keys import with_places
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import NodeEntry, apply
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.gradient import mx_gradient
from symjax_nnvm.pipeline import without
from symjax_nnvm.surgery import rename
from symjax_nnvm.symbol.symbol import Symbol
from tests.support.traced import evaluated

KEY = jax.random.key(7)
ONES = np.ones((4, 50), np.float32)
ARGS = {"x": ONES}


def two_heads() -> Symbol:
    x = sym.Variable("x")
    drop = sym.Dropout(x)
    return sym.Group([sym.Dropout(drop + 1) * 2, sym.LeakyReLU(-x, act_type="rrelu")[0] * sym.Dropout(x, p=0.3)])


def draws_without_training() -> Symbol:
    x = sym.Variable("x")
    return sym.Dropout(sym.random.normal_like(sym.Dropout(x))) + sym.random.uniform_like(x)


def foreach() -> Symbol:
    def body(x, s):
        return sym.Dropout(x) * 2 + sym.Dropout(x), s + sym.Dropout(x)

    x = sym.Variable("x")
    outputs, states = sym.contrib.foreach(body, x, sym.sum(sym.Dropout(x), axis=0))
    return sym.Group([sym.Dropout(states), outputs])


def while_loop() -> Symbol:
    """A loop whose condition draws what its body must not draw again."""
    outputs, variables = sym.contrib.while_loop(
        lambda i, x: sym.sum(i) < 3 + 0 * sym.sum(sym.Dropout(x)),
        lambda i, x: ([sym.Dropout(x)], [i + 1, x]),
        [sym.zeros((1,)), sym.Variable("x")],
        max_iterations=4,
    )
    return sym.Group([outputs[0], variables[1]])


def cond() -> Symbol:
    x = sym.Variable("x")
    return sym.contrib.cond(sym.sum(sym.Dropout(x)) > 0, lambda: sym.Dropout(x), lambda: sym.Dropout(x) * 2)


NETWORKS: dict[str, Callable[[], Symbol]] = {
    f.__name__: f for f in (two_heads, draws_without_training, foreach, while_loop, cond)
}
BY_NAME = pytest.mark.parametrize("name", NETWORKS)


def run(net: Symbol, is_train: bool = True) -> list[Any]:
    return evaluated(lowering.to_jax(net, is_train=is_train), ARGS, key=KEY)[0]


def same(got: Any, wanted: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, got, wanted)


@pytest.mark.nightly("every network", but_one_in=2)
@BY_NAME
def test_a_network_built_twice_draws_the_same(name: str):
    first, second = NETWORKS[name](), NETWORKS[name]()
    assert first.list_outputs() != second.list_outputs()  # automatic names go on counting
    same(run(second), run(first))


@BY_NAME
def test_names_do_not_matter(name: str):
    net = NETWORKS[name]()
    same(run(rename(net, lambda one: one if one == "x" else f"other_{one}")), run(net))


@BY_NAME
def test_a_network_draws_the_same_when_it_was_saved_and_loaded(name: str):
    net = NETWORKS[name]()
    same(run(sym.load_json(net.tojson())), run(net))


@pytest.mark.nightly("every network", but_one_in=2)
@pytest.mark.slow("compiles")
@BY_NAME
def test_forward_backward_mirrored_copies_and_the_gradients_symbol_draw_the_same(name: str):
    net = NETWORKS[name]()
    outputs = run(net)
    heads = [np.ones(np.shape(one), np.float32) for one in outputs]
    ours = evaluated(lowering.grad_fn(net, ["x"]), ARGS, key=KEY, head_grads=heads)
    same(ours[0], outputs)
    for mirror in ("blocks", lambda node: True):
        same(evaluated(lowering.grad_fn(net, ["x"], mirror=mirror), ARGS, key=KEY, head_grads=heads)[:2], ours[:2])
    same(run(net.gradient(["x"]))[0], ours[1]["x"])


@pytest.mark.nightly("every network", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
@BY_NAME
def test_executor_and_pure_function_draw_the_same(name: str):
    net = NETWORKS[name]()
    outputs = lowering.simple_bind(net, seed=KEY, x=ONES.shape).forward(is_train=True, x=ONES)
    key = jax.random.fold_in(KEY, 1)  # the executor's key of its first pass
    same(list(outputs), lowering.to_jax(net, is_train=True)(ARGS, key=key)[0])


@pytest.mark.parametrize("is_train", [True, False])
def test_nodes_that_a_stage_removes_keep_their_places(is_train: bool):
    net = draws_without_training()
    with without("SimplifyInference"):
        wanted = run(net, is_train)
    same(run(net, is_train), wanted)


def test_gradients_of_several_heads_know_the_order_of_the_network():
    """The graph of the gradient alone reaches the second head first."""
    net = two_heads()
    grad = net.gradient(["x"])
    order = [n.op.name for n in Graph(grad.outputs).nodes() if n.op and n.op.name in ("Dropout", "LeakyReLU")]
    assert order != [n.op.name for n in Graph(net.outputs).nodes() if n.op and n.op.name in ("Dropout", "LeakyReLU")]
    same(run(sym.Group([grad, net]))[1:], run(net))
    twice = grad.gradient(["x"], zeros_if_unreachable=True)
    same(run(sym.Group([twice, net]))[1:], run(net))


def test_a_gradients_symbol_with_mirrored_copies_draws_the_same():
    x = sym.Variable("x")
    net = sym.square(sym.Dropout(sym.square(sym.Dropout(x))))
    graph = mx_gradient(
        Graph(net.outputs),
        net.outputs,
        x.outputs,
        [apply("ones_like", NodeEntry(net.outputs[0].node))],
        mirror_fun=lambda node: node.op is not None and node.op.name == "Dropout",
    )
    assert sum(node.op is not None and node.op.name == "Dropout" for node in graph.nodes()) > 2
    same(run(Symbol(graph.outputs)), run(net.gradient(["x"])))


def test_nodes_of_one_network_draw_apart():
    x = sym.Variable("x")
    masks = run(sym.Group([sym.Dropout(x, name="drop") for _ in range(5)]))
    assert len({np.asarray(mask).tobytes() for mask in masks}) == 5
    outcome, _ = sym.contrib.foreach(
        lambda x, s: (sym.Group([sym.Dropout(x), sym.Dropout(x)]), s), x, sym.sum(x, axis=0)
    )
    first, second = run(sym.Group(outcome) if isinstance(outcome, list) else outcome)
    assert len({row.tobytes() for both in (first, second) for row in np.asarray(both)}) == 8


def test_what_does_not_draw_does_not_count():
    x = sym.Variable("x")
    same(run(sym.Dropout(sym.tanh(x * 1) * 0 + x)), run(sym.Dropout(x)))


def test_nodes_that_two_bodies_share_keep_their_places_and_others_get_new_ones():
    drop = sym.Dropout(sym.Variable("x"))
    first = Graph(drop.outputs)
    second = Graph(sym.Dropout(drop).outputs)
    (loop,) = (entry.node for entry in foreach()[1].outputs)
    loops = [loop.copy(), loop.copy()]
    for node, body in zip(loops, (first, second), strict=True):
        node.attrs.subgraphs = [body]
    placed = with_places([NodeEntry(node, 0, 0) for node in loops])
    bodies = [entry.node.attrs.subgraphs[0] for entry in placed]
    places = [[n.attrs.draw_place for n in post_order(body.outputs) if not n.is_variable] for body in bodies]
    assert places == [[0], [0, 1]]
