"""Networks drawn at random, of all that the stages for inference touch: with and without them the same to 1e-12."""

import jax
import numpy as np
import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.ir import pass_registry
from symjax_nnvm.pipeline import Options, Pipeline
from tests.lowering.core.test_stages import assert_equal_with_and_without, drawn, ops

IMAGE = (2, 4, 5, 5)
KINDS = ("conv", "one", "spread", "norm", "norm", "norm", "drop", "relu", "sum", "mix", "normed mix", "mean", "point")


def layer(kind: str, number: int, rng: np.random.Generator, a: sym.Symbol, b: sym.Symbol) -> sym.Symbol:
    """A layer over one or two arrays of four channels, which gives such an array."""
    name = f"{kind.replace(' ', '_')}{number}"
    maybe, other = (bool(flag) for flag in rng.integers(2, size=2))
    shared = {"num_filter": 4, "no_bias": maybe, "name": name}
    match kind:
        case "conv":
            return sym.Convolution(a, kernel=(3, 3), pad=(1, 1), num_group=int(rng.choice([1, 2, 4])), **shared)
        case "one":
            return sym.Convolution(a, kernel=(1, 1), num_group=1 + other, **shared)
        case "spread":
            return sym.Deconvolution(a, kernel=(3, 3), pad=(1, 1), num_group=1 + other, **shared)
        case "norm":
            axis = int(rng.choice([1, 1, 1, -3, 2]))
            return sym.BatchNorm(a, fix_gamma=maybe, use_global_stats=other, axis=axis, name=name)
        case "drop":
            return sym.Dropout(a, name=name)
        case "relu":
            return sym.relu(a, name=name)
        case "sum":
            return a + b
        case "mix":
            return sym.Convolution(sym.Concat(a, b), kernel=(1, 1), **shared)
        case "normed mix":
            joined = sym.BatchNorm(sym.Concat(a, b), fix_gamma=False, name=f"{name}_bn")
            return sym.Convolution(joined, kernel=(1, 1), **shared)
        case "mean":
            return sym.Pooling(a, kernel=(3, 3), pad=(1, 1), pool_type="avg", count_include_pad=maybe)
        case _:
            return sym.Pooling(a, kernel=(1, 1), pool_type="avg" if maybe else "max")


def network(seed: int) -> sym.Symbol:
    rng = np.random.default_rng(seed)
    made = [sym.Variable("data")]
    for number in range(rng.integers(4, 14)):
        a, b = made[rng.integers(max(0, len(made) - 3), len(made))], made[rng.integers(len(made))]
        made.append(layer(str(rng.choice(KINDS)), number, rng, a, b))
    inner = [made[rng.integers(1, len(made))]] if rng.integers(2) else []
    return sym.Group([made[-1], *inner])


@pytest.mark.nightly("more networks", but_one_in=4)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("seed", range(12))
def test_a_network_at_random_computes_the_same(seed: int):
    net = network(seed)
    with jax.enable_x64(True), pass_registry.checking_passes():
        args, aux = drawn(net, "float64", data=IMAGE)
        args = {name: value if name == "data" else value - 1 for name, value in args.items()}
        assert_equal_with_and_without(net, {"data"}, args, aux, 1e-12)


def test_scales_are_folded_in_these_networks():
    networks = [network(seed) for seed in range(40)]
    plans = [Pipeline(n.outputs).plan(Options(constants=frozenset(n.list_inputs()) - {"data"})) for n in networks]
    norms = sum(n.tojson().count('"BatchNorm"') for n in networks)
    assert sum(ops(plan).count("_scale_shift") for plan in plans) < norms * 2 / 3
