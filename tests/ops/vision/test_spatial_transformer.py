"""Spatial transformers: inference in both directions, refusals, and what sampling means."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.refusals import refused

X, G = sym.Variable("x"), sym.Variable("g")
IDENTITY = np.array([[1, 0, 0, 0, 1, 0]], np.float32)
AFFINE = {"transform_type": "affine", "target_shape": (3, 4)}
TRANSFORMER = {**AFFINE, "sampler_type": "bilinear"}


def run(symbol, **args):
    return np.asarray(jax.jit(lowering.to_jax(symbol))({k: jnp.asarray(v) for k, v in args.items()})[0][0])


def image(*shape: int):
    return np.random.RandomState(0).uniform(size=shape).astype(np.float32)


def test_the_identity_returns_the_data():
    x = image(1, 2, 3, 4)
    np.testing.assert_allclose(run(sym.SpatialTransformer(X, G, **TRANSFORMER), x=x, g=IDENTITY), x, rtol=1e-6)


def test_a_transformer_is_a_sampler_on_a_grid():
    x, loc = image(2, 2, 3, 4), image(2, 6)
    two = sym.BilinearSampler(X, sym.GridGenerator(G, **AFFINE))
    one = sym.SpatialTransformer(X, G, **TRANSFORMER)
    np.testing.assert_allclose(run(one, x=x, g=loc), run(two, x=x, g=loc), rtol=1e-6)


def test_a_flow_moves_the_data_by_pixels():
    x, flow = image(1, 1, 3, 4), np.zeros((1, 2, 3, 4), np.float32)
    flow[:, 0] = 1
    moved = run(sym.BilinearSampler(X, sym.GridGenerator(G, transform_type="warp")), x=x, g=flow)
    np.testing.assert_allclose(moved[..., :3], x[..., 1:], rtol=1e-5)
    np.testing.assert_allclose(moved[..., 3], 0, atol=1e-6)


def test_infinite_data_outside_do_not_reach_the_samples():
    x = np.array([[[[1, np.inf], [1, np.inf]]]], np.float32)
    far_left = np.full((1, 2, 1, 1), -1.5, np.float32)
    assert run(sym.BilinearSampler(X, G), x=x, g=far_left).tolist() == [[[[0.75**2]]]]


def test_half_precision_positions_are_not_rounded_to_pixels():
    """1000 columns: float16 would place a sample half a column wrong."""
    x = np.arange(1000, dtype=np.float16).reshape(1, 1, 1, 1000)
    sample = run(sym.BilinearSampler(X, G), x=x, g=np.array([0.3, 0], np.float16).reshape(1, 2, 1, 1))
    assert abs(sample.item() - (np.float16(0.3).item() + 1) * 999 / 2) < 0.3


def test_inference_runs_backwards():
    sampled = sym.BilinearSampler(X, G) + sym.Variable("y", shape=(2, 3, 4, 5))
    assert sampled.infer_shape_partial(x=(0, 0, 7, 8))[0][:2] == [(2, 3, 7, 8), (2, 2, 4, 5)]
    assert sym.SpatialTransformer(X, G, **TRANSFORMER).infer_shape(x=(2, 3, 7, 8))[0] == [(2, 3, 7, 8), (2, 6)]
    grid = sym.GridGenerator(X, transform_type="warp") + sym.Variable("y", shape=(2, 2, 4, 5))
    assert grid.infer_shape()[0][0] == (2, 2, 4, 5)


def test_hidden_outputs_are_mxnets():
    assert sym.SpatialTransformer(X, G, **TRANSFORMER, name="n").list_outputs() == ["n_output"]
    assert sym.SpatialTransformer(X, G, **TRANSFORMER).outputs[0].node.num_outputs() == 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sym.GridGenerator(X, transform_type="affine"), ("target_shape=(0, 0)", "at least 2")),
        (lambda: sym.GridGenerator(X, transform_type="affine", target_shape=(1, 4)), ("target_shape=(1, 4)",)),
        (lambda: sym.GridGenerator(X, transform_type="shear"), ("transform_type", "'affine', 'warp'", "shear")),
        (lambda: sym.SpatialTransformer(X, G, **{**TRANSFORMER, "target_shape": (3,)}), ("target_shape=(3,)",)),
        (lambda: sym.SpatialTransformer(X, G, target_shape=(3, 4)), ("transform_type",)),
    ],
)
def test_parameters_that_do_not_fit_are_named(make, words):
    with refused(ParamError, *words):
        make()


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym.GridGenerator(X, **AFFINE, name="n"), {"x": (2, 5)}, ("'data'", "(2, 6)")),
        (sym.GridGenerator(X, transform_type="warp", name="n"), {"x": (1, 2, 1, 4)}, ("'data'", "at least 2", "got 1")),
        (sym.BilinearSampler(X, G, name="n"), {"x": (2, 3, 4), "g": (2, 2, 3, 3)}, ("'data'", "(2, 3, 4)")),
        (sym.BilinearSampler(X, G, name="n"), {"x": (2, 3, 4, 4), "g": (2, 3, 3, 3)}, ("'grid'", "(2, 3, 3, 3)")),
        (sym.BilinearSampler(X, G, name="n"), {"x": (2, 3, 4, 4), "g": (1, 2, 3, 3)}, ("'grid'", "(1, 2, 3, 3)")),
        (sym.SpatialTransformer(X, G, **TRANSFORMER, name="n"), {"x": (2, 3, 4, 4), "g": (3, 6)}, ("'loc'", "(3, 6)")),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with refused(InferenceError, *words, "'n'"):
        symbol.infer_shape(**shapes)


@pytest.mark.nightly("a third order")
def test_third_order_gradients_exist():
    """Samples are linear in x and in y: the third derivative of dx dy exists and that of dx dx is zero."""
    second = sym.BilinearSampler(X, G).gradient(["g"]).gradient(["g"])
    third = second.gradient(["x"])
    args = {"x": image(1, 1, 3, 3), "g": np.full((1, 2, 1, 1), 0.3, np.float32)}
    assert run(second, **args).ravel().any()
    assert run(third, **args).shape == (1, 1, 3, 3)
    assert run(third, **args).sum() == pytest.approx(0, abs=1e-6)
