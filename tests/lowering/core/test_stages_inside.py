"""The stages of the pipeline inside loops and branches: what they make of bodies, and that these compute the same."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.core.cache import Programs
from symjax_nnvm import pipeline
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import subgraph_variables
from symjax_nnvm.ir.node import Subgraph
from symjax_nnvm.passes.hoist_invariants import hoist_invariants
from symjax_nnvm.pipeline import Options, optional_stages
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

RNG = np.random.default_rng(3)
IMAGES, STEPS = (2, 3, 6, 6), 3


def floats(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 1.5, shape).astype(np.float32)


def ops(graph: Graph | Subgraph) -> list[str]:
    return [node.op.name for node in Graph(graph.outputs).nodes() if node.op is not None]


def bodies(graph: Graph) -> list[list[str]]:
    """The operators of every subgraph, nested ones after the one that holds them."""
    inner = [body for node in graph.nodes() for body in node.attrs.subgraphs]
    return [each for body in inner for each in (ops(body), *bodies(Graph(body.outputs)))]


def normalised(x: sym.Symbol) -> sym.Symbol:
    x = sym.Convolution(x, num_filter=3, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv")
    x = sym.BatchNorm(x, fix_gamma=False, name="bn")
    return sym.Dropout(sym.relu(x, name="act"), name="drop")


def a_loop() -> sym.Symbol:
    def body(item: sym.Symbol, state: sym.Symbol):
        made = normalised(item + state)
        return made, made

    return sym.contrib.foreach(body, sym.Variable("data"), sym.Variable("state"))[1]


def a_while_loop() -> sym.Symbol:
    def body(x: sym.Symbol, count: sym.Symbol):
        return [], [normalised(x), count + 1]

    first = [sym.Variable("state"), sym.Variable("count")]
    return sym.contrib.while_loop(lambda x, count: count < 2, body, first, max_iterations=STEPS)[1][0]


def branches() -> sym.Symbol:
    x = sym.Variable("state")
    return sym.contrib.cond(sym.sum(sym.Variable("count")) < 2, lambda: normalised(x), lambda: x * 2)


NETWORKS = (a_loop, a_while_loop, branches)


def inputs(net: sym.Symbol) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(data, parameters)."""
    data = {"data": floats(STEPS, *IMAGES), "state": floats(*IMAGES), "count": np.zeros(1, np.float32)}
    data = {name: array for name, array in data.items() if name in net.list_arguments()}
    shapes, _, _ = net.infer_shape(**{name: array.shape for name, array in data.items()})
    named = zip(net.list_arguments(), shapes, strict=True)
    return data, {name: floats(*shape) for name, shape in named if name not in data}


@pytest.mark.parametrize("make", NETWORKS)
def test_a_predictor_optimises_bodies(make):
    """Constants of the graph around are constants of the body; what is made of them is computed once, outside."""
    net = make()
    data, params = inputs(net)
    predict = lowering.Predictor(net, params, {})
    plan = predict.plan_of(**{name: array.shape for name, array in data.items()})
    (body,) = (names for names in bodies(plan.graph) if {"Convolution", "_fused_convolution"} & {*names})
    assert not {"BatchNorm", "_scale_shift", "Dropout", "broadcast_mul"} & {*body}
    assert plan.precompute is not None
    assert "conv_bias" in str(plan.precompute.attrs["names"]) or len(plan.precompute.outputs) > 1
    with pipeline.without(*optional_stages()):
        (plain,) = lowering.Predictor(net, params, {})(**data)
    (found,) = predict(**data)
    assert_close(np.asarray(found), np.asarray(plain), 1e-5, "stages")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("make", NETWORKS)
def test_a_body_has_its_own_signature_for_each_shape(make):
    net = make()
    data, params = inputs(net)
    predict = lowering.Predictor(net, params, {})
    wide = {name: np.concatenate([x, x], axis=-1) if x.ndim > 1 else x for name, x in data.items()}
    for given in (data, wide):
        with pipeline.without(*optional_stages()):
            (plain,) = lowering.Predictor(net, params, {})(**given)
        assert_close(np.asarray(predict(**given)[0]), np.asarray(plain), 1e-5, "stages")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("make", NETWORKS)
def test_gradients_do_not_depend_on_the_stages(make):
    net = sym.MakeLoss(sym.sum(sym.square(make())))
    data, params = inputs(net)
    wrt = [name for name in params if "moving" not in name]

    def gradients():
        return jax.jit(lowering.grad_fn(net, wrt))({**data, **params}, {}, jax.random.key(0))[1]

    with pipeline.without(*optional_stages()):
        plain = gradients()
    for name, found in gradients().items():
        assert np.abs(plain[name]).max() > 0
        assert_close(np.asarray(found), np.asarray(plain[name]), 1e-4, "stages")


def test_layouts_and_half_precision_reach_bodies():
    options = Options(is_train=True, wrt=("conv_weight",), platform="cpu", compute_dtype="bfloat16")
    plan = Programs(a_loop()).plan(options)
    (*_, forward, backward) = bodies(plan.graph)
    assert {"amp_cast", "transpose"} <= {*forward}
    assert "amp_cast" in ops(plan.graph)  # the weight is cast once, before the loop
    assert {"amp_cast", "_backward_channels_last_convolution_weight"} <= {*backward}


@pytest.mark.slow("compiles")
def test_bodies_in_half_precision_keep_the_dtypes_of_their_states():
    def body(item: sym.Symbol, state: sym.Symbol):
        new = sym.dot(item, sym.Variable("w")) + state
        return new, new

    out, last = sym.contrib.foreach(body, sym.Variable("data"), sym.Variable("state"))
    args = {"data": floats(3, 2, 2), "state": floats(2, 2), "w": floats(2, 2)}
    net = sym.Group([out, last])
    exact, _ = evaluated(lowering.to_jax(net), args)
    program = Programs(net).forward(Options(platform="cpu", compute_dtype="bfloat16"))
    near, _ = program.evaluate(args, {}, None)
    for a, b in zip(near, exact, strict=True):
        assert a.dtype == b.dtype == np.float32
        assert 0 < np.abs(a - b).max() < 0.05 * np.abs(b).max()


# -- what no step changes ----------------------------------------------------------------------------------------------


def hoisted(net: sym.Symbol, constants: Sequence[str] = ()) -> tuple[list[str], list[list[str]]]:
    """(operators of the graph, operators of its subgraphs) after the stage alone."""
    graph = hoist_invariants(Graph(net.outputs), constants)
    return ops(graph), bodies(graph)


def scaled_by(w: sym.Symbol, inside):
    """foreach over the data, which each step multiplies by what `inside` makes of w."""
    data, state = sym.Variable("data"), sym.Variable("state")
    return sym.contrib.foreach(lambda item, s: (item * inside(w) + s, s), data, state)[0]


def test_what_depends_on_invariants_alone_goes_before_the_loop():
    net = scaled_by(sym.Variable("w"), lambda w: sym.tanh(sym.relu(w)))
    graph, (body,) = hoisted(net)
    assert graph == ["relu", "tanh", "_foreach"]
    assert body == ["elemwise_mul", "elemwise_add", "_copy"]
    args = {"data": floats(3, 2), "state": floats(2), "w": floats(2)}
    (found,), _ = evaluated(lowering.to_jax(net), args)
    np.testing.assert_allclose(found, args["data"] * np.tanh(args["w"]) + args["state"], rtol=1e-6)
    loss = sym.MakeLoss(sym.sum(net))
    _, grads, _ = evaluated(lowering.grad_fn(loss, ["w"]), args)
    t = np.tanh(args["w"])
    np.testing.assert_allclose(grads["w"], args["data"].sum(0) * (1 - t**2), rtol=1e-5)


def test_nested_loops_give_it_to_the_outermost():
    def outer(item: sym.Symbol, state: sym.Symbol):
        inner, _ = sym.contrib.foreach(lambda x, s: (x * sym.tanh(sym.Variable("w")) + s, s), item, state)
        return inner, state

    net = sym.contrib.foreach(outer, sym.Variable("data"), sym.Variable("state"))[0]
    plan = Programs(net).plan(Options())
    assert ops(plan.graph)[0] == "tanh"
    assert [names.count("tanh") for names in bodies(plan.graph)] == [0, 0]
    args = {"data": floats(3, 4, 2), "state": floats(2), "w": floats(2)}
    (found,), _ = evaluated(lowering.to_jax(net), args)
    np.testing.assert_allclose(found, args["data"] * np.tanh(args["w"]) + args["state"], rtol=1e-6)


def test_what_draws_or_changes_stays():
    net = scaled_by(sym.Variable("w"), lambda w: sym.Dropout(sym.tanh(w), mode="always"))
    graph, (body,) = hoisted(net)
    assert "Dropout" in body
    assert graph == ["tanh", "_foreach"]


def test_a_branch_gives_up_what_is_constant_alone():
    w, x = sym.Variable("w"), sym.Variable("x")
    net = sym.contrib.cond(sym.sum(x) < 2, lambda: x * sym.exp(w), lambda: x * sym.exp(x))
    assert "exp" not in hoisted(net)[0]
    graph, inner = hoisted(net, ["w"])
    assert graph.count("exp") == 1
    assert [names.count("exp") for names in inner] == [0, 0, 1]


def test_variables_of_one_name_are_not_taken_for_each_other():
    """A loop's state may be called as a parameter that the body reads, too."""
    state, w = sym.Variable("state"), sym.Variable("w")

    def body(item: sym.Symbol, s: sym.Symbol):
        return item * sym.tanh(w) + s, s + 1

    net = sym.contrib.foreach(body, sym.Variable("data"), state)[0]
    (node,) = (node for node in Graph(net.outputs).nodes() if node.attrs.subgraphs)
    for variable in subgraph_variables(node.attrs.subgraphs[0]):
        variable.attrs.name = "same"
    assert "tanh" not in hoisted(net)[0]
    args = {"data": floats(3, 2), "state": floats(2), "w": floats(2)}
    (found,), _ = evaluated(lowering.to_jax(net), args)
    steps = np.arange(3, dtype=np.float32)[:, None]
    np.testing.assert_allclose(found, args["data"] * np.tanh(args["w"]) + args["state"] + steps, rtol=1e-6)


def test_explain_shows_bodies():
    text = str(lowering.explain(a_loop(), constants=inputs(a_loop())[1], data=(STEPS, *IMAGES), state=IMAGES))
    (line,) = (line for line in text.splitlines() if "foreach" in line and "fn:" in line)
    assert "onvolution" in line
    assert "BatchNorm" not in line
    assert "HoistInvariants" in text


def test_a_while_loop_that_does_not_run_has_no_gradient_of_what_its_body_would_compute():
    def body(i: sym.Symbol, s: sym.Symbol):
        return [s], [i + 1, s + sym.sqrt(sym.Variable("z"))]

    state = [sym.Variable("i"), sym.Variable("s")]
    last = sym.contrib.while_loop(lambda i, s: i < sym.Variable("n"), body, state, max_iterations=3)[1][1]
    args = {"i": np.zeros(1, "f"), "n": np.zeros(1, "f"), "s": np.ones(2, "f"), "z": np.zeros(2, "f")}
    loss = sym.make_loss(sym.sum(last))
    assert np.asarray(evaluated(lowering.grad_fn(loss, ["z"]), args)[1]["z"]).tolist() == [0, 0]


@pytest.mark.parametrize("inside", [sym.sqrt, sym.log, lambda w: sym.sqrt(sym.tanh(w)), lambda w: w**0.5])
def test_a_foreach_of_length_0_has_no_gradient_of_what_its_body_would_compute(inside: Any):
    loss = sym.make_loss(sym.sum(scaled_by(sym.Variable("w"), inside)))
    for length, expected in ((0, [0, 0]), (1, [np.inf, np.inf])):
        args = {"data": floats(length, 2), "state": floats(2), "w": np.zeros(2, np.float32)}
        assert np.asarray(evaluated(lowering.grad_fn(loss, ["w"]), args)[1]["w"]).tolist() == expected


def test_a_loop_keeps_what_may_have_no_finite_derivative_unless_it_is_constant():
    net = scaled_by(sym.Variable("w"), lambda w: sym.sqrt(sym.tanh(w)))
    assert hoisted(net)[0] == ["tanh", "_foreach"]
    assert hoisted(net, ["w"])[0] == ["tanh", "sqrt", "_foreach"]


def test_explain_counts_the_nodes_of_bodies():
    def outer(item: sym.Symbol, state: sym.Symbol):
        return sym.contrib.foreach(lambda x, s: (sym.tanh(x) + s, s), item, state)[0], state

    net = sym.contrib.foreach(outer, sym.Variable("data"), sym.Variable("state"))[0]
    (record,) = (r for r in lowering.explain(net).stages if r.name == "SimplifyInference")
    # _foreach, tanh, elemwise_add and a copy of each state, which goes; two variables of each body
    assert record.nodes_in_bodies == (9, 7)
    assert record.row()[1] == "3 → 3; in bodies 9 → 7"


def test_explain_says_of_which_convolutions_the_shapes_do_not_follow():
    first, other = (sym.Convolution(sym.Variable(n), num_filter=4, kernel=(3, 3), name=f"c{n}") for n in "ab")
    net = sym.Group([first, other])
    explained = lowering.explain(net, a=(1, 3, 8, 8))
    assert list(explained.algorithms) == ["ca"]
    assert explained.undecided == ["cb"]
    assert "1 of 2 convolutions and gradients have unknown shapes: cb" in str(explained)
    for explained in (lowering.explain(net), lowering.explain(net, a=(1, 3, 8, 8), b=(1, 3, 8, 8))):
        assert not explained.undecided
        assert "unknown shapes" not in str(explained)
    inside = sym.Group([first, scaled_by(sym.Variable("w"), lambda w: other)])
    assert lowering.explain(inside, a=(1, 3, 8, 8)).undecided == ["cb"]
    with_gradients = lowering.explain(
        sym.Group([sym.make_loss(each) for each in net]), wrt=["a", "ca_weight", "cb_weight"], a=(1, 3, 8, 8)
    )
    assert len(with_gradients.undecided) == 2
