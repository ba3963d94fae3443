"""An operator is added by its card and its rule: every part of the house knows it then, without another edit."""

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering.core.rules import lowers
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FCorrectLayout, FNotDerivative
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.op import Deviation, Op
from symjax_nnvm.ir.register import register_op, same_shape
from symjax_nnvm.ir.rules.costs import Flops
from symjax_nnvm.ir.rules.layout_rules import ChannelsLast, Corrected
from symjax_nnvm.passes.eliminate_common_expressions import eliminate_common_expressions
from symjax_nnvm.passes.mirror import mirror_plan
from symjax_nnvm.passes.reduce_precision import reduce_precision
from symjax_nnvm.viz.plot_style import colour_of

X = sym.Variable("x")


@dataclass(frozen=True, kw_only=True)
class NoiseParams:
    scale: float = nn.param(1.0, ge=0, doc="deviation of the noise")
    shape: tuple[int, ...] = nn.param((), doc="for the test of batch sizes")


@pytest.fixture(scope="module", autouse=True)
def _operator() -> None:
    register_op(
        "_test_new_noise",
        params=NoiseParams,
        infer_shape=same_shape,
        gradient=lambda node, ograds: ograds,
        flops=lambda p, ins, outs: Flops(7 * prod(ins[0]), 1),
        workspace=lambda p, ins, outs: 1000 * prod(ins[0]),
        precision="half",
        draws=lambda p: "training" if p.scale else None,
        deviation=Deviation("this noise is louder; MXNet's is quiet", when=lambda p: p.scale > 2),
        not_derivative=lambda p: "noise has none" if p.scale else None,
        layout="agnostic",
        drawing="normalization",
        recompute="never",
        shape_parameters=("shape",),
        doc="Noise, for tests.",
    )

    @lowers("_test_new_noise", needs=("key",))
    def rule(p: NoiseParams, data: jax.Array, *, key: Any) -> jax.Array:
        return data if key is None else data + p.scale * jax.random.normal(key, data.shape, data.dtype)

    assert rule is not None


def noise(**params: Any) -> nn.Symbol:
    return sym._test_new_noise(X, name="noise", **params)


@pytest.mark.slow("reads the whole project")
def test_it_runs_and_draws_when_the_card_says_so():
    x = np.ones((2, 3), np.float32)
    (quiet,), _ = lowering.to_jax(noise(), is_train=False)({"x": x}, {}, None)
    np.testing.assert_array_equal(quiet, x)
    (silent,), _ = lowering.to_jax(noise(scale=0.0), is_train=True)({"x": x}, {}, None)
    np.testing.assert_array_equal(silent, x)
    (loud,), _ = lowering.to_jax(noise(), is_train=True)({"x": x}, {}, jax.random.key(0))
    assert np.abs(np.asarray(loud) - x).max() > 0
    with pytest.raises(nn.NNVMError, match="key"):
        lowering.to_jax(noise(), is_train=True)({"x": x}, {}, None)


def test_its_cost_is_counted():
    assert nn.summarize(noise(), {"x": (2, 3)}).flops == Flops(42, 1)
    cost = nn.estimate(noise(), {"x": (2, 3)})
    assert (cost.flops, cost.uncounted) == (85, ())
    assert cost.peak_bytes > 4 * 6000


def test_check_tells_that_it_draws_and_deviates():
    assert "Draws different random numbers from MXNet, in training only" in str(nn.check(noise()))
    assert "louder" not in str(nn.check(noise()))
    assert "This noise is louder; MXNet's is quiet" in str(nn.check(noise(scale=3.0)))
    assert "random" not in str(nn.check(noise(scale=0.0)))


def test_passes_know_it():
    assert len(eliminate_common_expressions(Graph((noise() + noise()).outputs)).indexed_graph()) == 4
    assert mirror_plan((noise() * 2).outputs, lambda node: True) is not None
    assert mirror_plan(noise().outputs, lambda node: True) is None
    cast = sym.Symbol(reduce_precision(Graph((noise() + 1).outputs), "bfloat16").outputs)
    assert cast.get_internals().infer_type(x=np.float32)[1][2] == "bfloat16"


def test_surgery_drawings_and_reports_know_it():
    (place,) = nn.hard_coded_batch(noise(shape=(4, 3)))
    assert (place.op, place.size) == ("_test_new_noise", 4)
    assert colour_of(Op.get("_test_new_noise")) == colour_of(Op.get("Dropout")) in nn.plot_network(noise()).source
    node = noise().outputs[0].node
    assert FCorrectLayout[node.op](node.attrs.parsed, ChannelsLast(4)) == Corrected()
    assert FNotDerivative[node.op](node.attrs) == "noise has none"


def test_what_the_card_leaves_out_has_the_default_of_most():
    register_op("_test_new_plain", infer_shape=same_shape, doc="For tests.")
    plain = sym._test_new_plain(X, name="plain")
    assert nn.summarize(plain, {"x": (2, 3)}).uncounted == ("_test_new_plain",)
    assert colour_of(Op.get("_test_new_plain")) == "#f0f0f0"
    assert len(eliminate_common_expressions(Graph((plain + plain).outputs)).indexed_graph()) == 3
