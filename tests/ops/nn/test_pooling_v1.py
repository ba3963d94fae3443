"""Pooling_v1: where it is not Pooling: zeros as padding, ties, divisors."""

from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


def value_and_gradient(data: np.ndarray, **params: Any) -> tuple[np.ndarray, np.ndarray]:
    net = sym.Pooling_v1(DATA, **params)
    (out,), _ = evaluated(lowering.to_jax(net), {"data": data})
    _, grads, _ = evaluated(lowering.grad_fn(net), {"data": data}, head_grads=[np.ones(out.shape, data.dtype)])
    return np.asarray(out)[0, 0], np.asarray(grads["data"])[0, 0]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, ("kernel", "0D pooling not supported", "2 or 3 sizes")),
        ({"kernel": (2,)}, ("kernel", "1D pooling not supported")),
        ({"kernel": (0, 2)}, ("kernel", "≥ 1")),
        ({"kernel": (2, 2), "stride": (1,)}, ("stride=(1,)", "2 numbers")),
        ({"kernel": (2, 2), "pool_type": "lp"}, ("pool_type", "'avg', 'max', 'sum'")),
        ({"kernel": (2, 2), "pooling_convention": "same"}, ("pooling_convention", "'full', 'valid'")),
    ],
)
def test_impossible_parameters_are_named(params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, "Pooling_v1", *words):
        sym.Pooling_v1(DATA, **params)


@pytest.mark.parametrize(
    ("params", "shape", "words"),
    [
        ({"kernel": (6, 2)}, (1, 2, 5, 5), ("kernel", "(6) exceeds input (5 padded to 5)")),
        ({"kernel": (2, 2)}, (1, 2, 5), ("4D in (batch, channel, y, x)", "(1, 2, 5)")),
        ({"global_pool": True}, (1, 2, 5), ("4D in (batch, channel, y, x)", "(1, 2, 5)")),
    ],
)
def test_impossible_shapes_are_named(params: dict[str, Any], shape: tuple[int, ...], words: tuple[str, ...]):
    with refused(InferenceError, "Pooling_v1", *words):
        sym.Pooling_v1(DATA, **params).infer_shape(data=shape)


def test_maxima_see_zeros_around_the_data():
    out, grad = value_and_gradient(np.full((1, 1, 2, 2), -1, np.float32), kernel=(2, 2), pad=(1, 1))
    np.testing.assert_array_equal(out, [[0, 0, 0], [0, -1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(grad, np.ones((2, 2)))


@pytest.mark.slow("computes much")
def test_every_tie_receives_the_gradient():
    _, grad = value_and_gradient(np.zeros((1, 1, 3, 3), np.float32), kernel=(2, 2))
    np.testing.assert_array_equal(grad, [[1, 2, 1], [2, 4, 2], [1, 2, 1]])
    _, grad = value_and_gradient(np.zeros((1, 1, 3, 3), np.float32), global_pool=True)
    np.testing.assert_array_equal(grad, np.ones((3, 3)))


@pytest.mark.slow("computes much")
def test_a_mean_is_over_the_whole_window():
    out, grad = value_and_gradient(
        np.ones((1, 1, 3, 3), np.float32), pool_type="avg", kernel=(2, 2), stride=(2, 2), pooling_convention="full"
    )
    np.testing.assert_allclose(out, [[1, 0.5], [0.5, 0.25]])
    np.testing.assert_allclose(grad, np.full((3, 3), 0.25))


@pytest.mark.slow("computes much")
def test_a_window_past_the_data_is_minus_infinity_and_has_no_gradient():
    data = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    out, grad = value_and_gradient(data, kernel=(1, 1), stride=(3, 3), pooling_convention="full")
    np.testing.assert_array_equal(out[-1], [-np.inf] * 3)
    assert grad.sum() == 4


@pytest.mark.slow("computes much")
def test_half_precision_is_summed_in_single():
    out, _ = value_and_gradient(np.ones((1, 1, 64, 64), np.float16), pool_type="avg", global_pool=True)
    assert out[0, 0] == 1  # MXNet: 0.5
