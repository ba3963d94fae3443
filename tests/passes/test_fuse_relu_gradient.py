from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import pipeline
from symjax_nnvm import symbol as sym
from symjax_nnvm.passes.mirror.recompute import Recomputed
from symjax_nnvm.pipeline import Options, Pipeline
from symjax_nnvm.symbol import Symbol

NAMES = ("data", "bn_gamma", "bn_beta")

RELUS: dict[str, Callable[[Symbol], Symbol]] = {
    "greater": lambda data: sym.Activation(data, act_type="relu", name="act"),
    "sign": lambda data: sym.relu(data, name="act"),
}


def norm(**params: Any) -> Symbol:
    return sym.BatchNorm(sym.Variable("data"), name="bn", axis=3, **params)


def backward_nodes(net: Symbol, **options: Any) -> list[dict[str, str]]:
    options = {"wrt": NAMES, "is_train": True, "platform": "cpu"} | options
    nodes = Pipeline(net.outputs).plan(Options(**options)).graph.nodes()
    return [node.attrs.dict for node in nodes if node.op is not None and node.op.name == "_backward_BatchNorm"]


@pytest.mark.parametrize("kind", RELUS)
def test_only_a_relu_right_behind_it_that_nothing_else_differentiates_is_fused(kind: str):
    relu = RELUS[kind]
    assert [attrs["relu"] for attrs in backward_nodes(relu(norm()))] == [kind]
    shared = norm()
    others = (
        norm(),
        sym.Activation(norm(), act_type="tanh"),
        relu(norm() + sym.Variable("other")),
        sym.clip(norm(), a_min=0, a_max=6),
        sym.Group([relu(shared), 2 * shared]),
    )
    for net in others:
        assert not any("relu" in attrs for attrs in backward_nodes(net))
    assert "relu" not in backward_nodes(relu(norm()), platform="gpu")[0]
    twice = sym.BatchNorm(relu(norm(fix_gamma=False)), name="second", axis=3)
    assert [attrs.get("relu") for attrs in backward_nodes(relu(twice))] == [kind, kind]


def test_an_operator_with_a_relu_is_fused_in_programs_alone():
    """A saved gradient has no parameter that MXNet's operator lacks."""
    net = sym.contrib.BatchNormWithReLU(sym.Variable("data"), name="bn", axis=3)
    assert [attrs["relu"] for attrs in backward_nodes(net)] == ["greater"]
    assert '"relu"' not in net.gradient(NAMES).tojson()


@pytest.mark.parametrize(("kind", "mode"), [("sign", "batch"), ("greater", "moving"), ("sign", "inference")])
def test_gradients_are_those_of_both_operators(kind: str, mode: str):
    """With nan in one channel, and sums of a large array, which CPUs add in blocks."""
    net = RELUS[kind](norm(fix_gamma=False, use_global_stats=mode == "moving"))
    rng = np.random.default_rng(3)
    data = rng.normal(size=(16, 64, 64, 5)).astype("float32")
    data[0, 0, 0, 4] = np.nan
    vectors = {"bn_gamma": [1, 0.5, -2, 0, 1], "bn_beta": [0, -1, 0.5, 0.1, 2]}
    args = {"data": data} | {name: np.array(values, "float32") for name, values in vectors.items()}
    aux = {"bn_moving_mean": np.full(5, 0.1, "float32"), "bn_moving_var": np.full(5, 0.7, "float32")}
    heads = [rng.normal(size=data.shape).astype("float32")]

    def gradients() -> dict[str, np.ndarray]:
        run = jax.jit(lowering.grad_fn(net, wrt=NAMES, is_train=mode != "inference"))
        return {name: np.asarray(value) for name, value in run(args, aux, None, heads)[1].items()}

    fused = gradients()
    with pipeline.without("FuseReluGradient"):
        expected = gradients()
    for name in NAMES:
        rows = slice(None) if mode != "batch" else slice(4)  # nan in all that the last channel's statistics reach
        np.testing.assert_allclose(fused[name][..., rows], expected[name][..., rows], rtol=2e-5, atol=2e-5)


def gradients_and_states(net: Symbol, wrt: tuple[str, ...], **options: Any) -> dict[str, np.ndarray]:
    """The gradients and the new states of a network, at the same arrays for each network and all options."""
    shapes = net.infer_shape(data=(4, 6))
    rng = np.random.default_rng(7)
    names = net.list_arguments(), net.list_outputs(), net.list_auxiliary_states()
    args, heads, aux = (
        {name: rng.uniform(0.5, 1.5, shape).astype("float32") for name, shape in zip(*both, strict=True)}
        for both in zip(names, shapes, strict=True)
    )
    _, grads, new_aux = lowering.grad_fn(net, wrt=wrt, **options)(args, aux, None, list(heads.values()))
    return {name: np.asarray(value) for name, value in (grads | new_aux).items()}


def assert_close(results: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert results.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    "mirror", ["blocks", "do_mirror", lambda node: node.op.name == "BatchNorm"], ids=["blocks", "do_mirror", "rule"]
)
def test_mirrored_copies_stay_copies(mirror: Any):
    """They write no state and run when the gradient needs them."""
    net = sym.Variable("data")
    for i in range(4):
        net = sym.FullyConnected(net, num_hidden=6, name=f"fc{i}")
        net = RELUS["greater"](sym.BatchNorm(net, name=f"bn{i}", fix_gamma=False))
    wrt = tuple(net.list_arguments())
    expected = gradients_and_states(net, wrt, mirror="off")
    assert_close(gradients_and_states(net, wrt, mirror=mirror), expected)
    options = Options(wrt=wrt, is_train=True, platform="cpu", mirror=mirror)
    before, after = (
        {n.name: n.info.group for n in record.after.nodes() if isinstance(n.info, Recomputed) and "bn" in n.name}
        for record in Pipeline(net.outputs).plan(options).records
        if record.name in ("MXGradient", "FuseReluGradient")
    )
    assert before
    assert after == before


def test_states_that_stay_do_so_behind_a_fused_gradient():
    slope = RELUS["sign"](sym.BatchNorm(sym.Variable("data"), name="bn")).gradient(["data"])
    net = sym.FullyConnected(sym.BatchNorm(slope, name="top"), num_hidden=3, name="fc")
    fused = gradients_and_states(net, ("fc_weight",))
    with pipeline.without("FuseReluGradient"):
        assert_close(fused, gradients_and_states(net, ("fc_weight",)))
    executor = lowering.simple_bind(net, grad_req={"fc_weight": "write"}, data=(4, 6))
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=array.shape).astype("float32") for name, array in executor.arg_dict.items()}
    executor.forward(is_train=True, **values)
    executor.backward([np.ones((4, 3), "float32")])
    assert np.abs(np.asarray(executor.grad_dict["fc_weight"])).sum() > 0
    assert not any(np.asarray(array).any() for array in executor.aux_dict.values())
