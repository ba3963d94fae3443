from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import pipeline
from symjax_nnvm import symbol as sym
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
