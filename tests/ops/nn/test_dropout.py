"""Dropout: which elements it drops, how many, when, and that the gradient uses the very same mask."""

from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.core.cache import Programs
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError, ParamError
from symjax_nnvm.pipeline import Options
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")
KEY = jax.random.key(11)


def drop(**params: Any) -> sym.Symbol:
    return sym.Dropout(DATA, name="drop", **params)


def dropped(net: sym.Symbol, shape: tuple[int, ...], key: jax.Array = KEY, *, is_train: bool = True) -> np.ndarray:
    """The output for data of ones."""
    (out,), _ = evaluated(lowering.to_jax(net, is_train=is_train), {"data": np.ones(shape, np.float32)}, key=key)
    return np.asarray(out)


# -- statistics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_right_share_is_dropped_and_the_rest_keeps_the_mean(p: float):
    n = 40000
    out = dropped(drop(p=p), (n,))
    kept = out != 0
    assert abs(kept.mean() - (1 - p)) < 5 * np.sqrt(p * (1 - p) / n)
    np.testing.assert_allclose(out[kept], 1 / (1 - p), rtol=1e-6)


def test_elements_are_dropped_independently():
    kept = (dropped(drop(), (200, 200)) != 0).astype(np.float64) - 0.5
    for shifted in (np.roll(kept, 1, 0), np.roll(kept, 1, 1), np.roll(kept, 7, 1)):
        assert abs((kept * shifted).mean()) < 5 * 0.25 / 200


def test_masks_differ_between_keys_and_between_nodes_and_agree_for_one_key():
    net = sym.Group([sym.Dropout(DATA, name="a"), sym.Dropout(DATA, name="b")])
    run = lowering.to_jax(net, is_train=True)
    args = {"data": np.ones(200, np.float32)}
    (a, b), _ = run(args, key=KEY)
    (again, _), _ = run(args, key=KEY)
    (other, _), _ = run(args, key=jax.random.key(12))
    np.testing.assert_array_equal(a, again)
    assert (np.asarray(a) != np.asarray(b)).mean() > 0.3
    assert (np.asarray(a) != np.asarray(other)).mean() > 0.3


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (-1,)])
def test_axes_share_one_decision(axes: tuple[int, ...]):
    out = dropped(drop(axes=axes), (6, 20, 7))
    first = out
    for axis in axes:
        first = first.take([0], axis)
    np.testing.assert_array_equal(out, np.broadcast_to(first, out.shape))
    assert 0 < (first != 0).mean() < 1


# -- when ------------------------------------------------------------------------------------------------------------


def test_nothing_is_dropped_outside_training_and_no_key_is_needed():
    data = np.random.RandomState(0).randn(3, 4).astype(np.float32)
    (out,), _ = evaluated(lowering.to_jax(drop()), {"data": data})
    np.testing.assert_array_equal(out, data)
    (out,), _ = evaluated(lowering.to_jax(drop(p=0.0), is_train=True), {"data": data})
    np.testing.assert_array_equal(out, data)


def test_mode_always_drops_outside_training():
    assert (dropped(drop(mode="always"), (1000,), is_train=False) == 0).any()


def test_everything_is_dropped_at_p_1():
    np.testing.assert_array_equal(dropped(drop(p=1.0), (5,)), np.zeros(5))


def test_a_missing_key_is_an_error_that_names_the_node():
    with pytest.raises(LoweringError, match="'drop'.* needs a PRNG key"):
        lowering.to_jax(drop(), is_train=True)({"data": np.ones(3, np.float32)})


# -- gradient --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"axes": (1,)}, {"p": 0.8}])
def test_forward_alone_and_forward_with_backward_draw_the_same_mask(params: dict[str, Any]):
    net = drop(**params) * 2
    args = {"data": np.ones((8, 9), np.float32)}
    (alone,), _ = evaluated(lowering.to_jax(net, is_train=True), args, key=KEY)
    (out,), grads, _ = evaluated(lowering.grad_fn(net), args, key=KEY, head_grads=[np.ones((8, 9), np.float32)])
    np.testing.assert_array_equal(out, alone)
    np.testing.assert_array_equal(grads["data"], alone)


@pytest.mark.slow("compiles")
def test_a_second_backward_uses_the_same_mask():
    """Deviation: MXNet returns the unmasked head gradient when backward runs twice after one forward."""
    program = Programs(drop()).gradient(Options(is_train=True, wrt=("data",)))
    outputs, _, residuals = program.run_forward({"data": np.ones(50, np.float32)}, {}, KEY)
    head = np.random.RandomState(0).randn(50).astype(np.float32)
    first = program.run_backward(outputs, residuals, KEY, [head])["data"]
    second = program.run_backward(outputs, residuals, KEY, [head])["data"]
    np.testing.assert_array_equal(first, head * outputs[0])
    np.testing.assert_array_equal(second, first)


def test_the_gradient_outside_training_is_the_head_gradient():
    head = np.random.RandomState(0).randn(4).astype(np.float32)
    args = {"data": np.ones(4, np.float32)}
    _, grads, _ = evaluated(lowering.grad_fn(drop(), is_train=False), args, head_grads=[head])
    np.testing.assert_array_equal(grads["data"], head)


# -- inference and refusals ------------------------------------------------------------------------------------------


def test_the_mask_is_hidden():
    assert drop().list_outputs() == ["drop_output"]
    assert drop().get_internals().list_outputs() == ["data", "drop_output"]


def test_data_are_learnt_from_the_result():
    assert (drop() + sym.Variable("like", shape=(2, 3))).infer_shape()[0][0] == (2, 3)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_a_share_outside_0_and_1_is_named(p: float):
    with refused(ParamError, "Dropout", "'p'", "≥ 0 ≤ 1", str(p)):
        drop(p=p)


@pytest.mark.parametrize("axes", [(2,), (-3,), (0, -4)])
def test_axes_that_data_lack_are_errors(axes: tuple[int, ...]):
    with refused(InferenceError, "Dropout", "drop", "axes"):
        drop(axes=axes).infer_shape(data=(3, 4))
