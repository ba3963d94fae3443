"""UpSampling: inputs, inference backwards, refusals, and the filter that interpolates."""

from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.refusals import refused
from tests.support.traced import evaluated

A, B = sym.Variable("a"), sym.Variable("b")


def nearest(*inputs: sym.Symbol, **params: Any) -> sym.Symbol:
    return sym.UpSampling(*inputs, scale=2, sample_type="nearest", name="up", **params)


def bilinear(**params: Any) -> sym.Symbol:
    return sym.UpSampling(A, sample_type="bilinear", name="up", **{"scale": 2, **params})


def test_bilinear_has_a_weight_that_starts_as_an_interpolation():
    for count in ({}, {"num_args": 1}):
        net = bilinear(num_filter=3, **count)
        assert net.list_arguments() == ["a", "up_weight"]
        assert net.attr_dict()["up_weight"]["__init__"] == '["bilinear", {}]'
    assert sym.UpSampling(scale=2, sample_type="nearest", num_args=2, name="up").list_arguments() == [
        "up_arg0",
        "up_arg1",
    ]


@pytest.mark.parametrize(("scale", "kernel"), [(1, 1), (2, 4), (3, 5), (4, 8)])
def test_filter_sizes(scale: int, kernel: int):
    arguments, outputs, _ = bilinear(scale=scale).infer_shape(a=(1, 2, 3, 4))
    assert arguments[1] == (2, 1, kernel, kernel)
    assert outputs == [(1, 2, 3 * scale, 4 * scale)]


def test_shapes_are_learnt_from_the_result():
    net = nearest(A) + sym.Variable("like", shape=(1, 2, 6, 8))
    assert net.infer_shape_partial()[0][0] == (1, 2, 3, 4)
    net = nearest(A, B, multi_input_mode="sum")
    assert net.infer_shape_partial(a=(1, 0, 2, 2), b=(0, 3, 1, 1))[0] == [(1, 3, 2, 2), (1, 3, 1, 1)]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"scale": 0, "sample_type": "nearest"}, ("scale", "≥ 1")),
        ({"scale": 2, "sample_type": "cubic"}, ("sample_type", "'bilinear', 'nearest'")),
        ({"sample_type": "nearest"}, ("Required parameter scale",)),
        ({"scale": 2, "sample_type": "bilinear", "num_args": 3}, ("num_args=3", "expected 1 or 2")),
    ],
)
def test_impossible_parameters_are_named(params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, "UpSampling", *words):
        sym.UpSampling(A, **params)


@pytest.mark.parametrize(
    ("net", "shapes", "words"),
    [
        (nearest(A), {"a": (1, 2, 3)}, ("4D in (batch, channel, y, x)", "(1, 2, 3)")),
        (nearest(A, B), {"a": (1, 2, 4, 4), "b": (1, 2, 3, 3)}, ("input height of 3", "arg1", "a divisor of 8")),
        (nearest(A, B), {"a": (1, 2, 4, 2), "b": (1, 2, 2, 2)}, ("magnified differently", "[4, 2]")),
        (nearest(A, B, multi_input_mode="sum"), {"a": (1, 2, 2, 2), "b": (1, 3, 2, 2)}, ("arg1", "(1, 2, 2, 2)")),
        (bilinear(num_filter=3), {"a": (1, 2, 2, 2)}, ("num_filter", "got 3", "2, the number of channels")),
        (bilinear(), {"a": (1, 2, 2, 2), "up_weight": (2, 1, 3, 3)}, ("weight", "(2, 1, 4, 4)")),
    ],
)
def test_impossible_shapes_are_named(net: sym.Symbol, shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, "UpSampling", "up", *words):
        net.infer_shape(**shapes)


def test_the_initial_filter_interpolates():
    tent = 1 - np.abs(np.arange(4) - 1.5) / 2
    weight = np.outer(tent, tent).astype(np.float32).reshape(1, 1, 4, 4)
    ramp = np.broadcast_to(np.arange(5, dtype=np.float32), (1, 1, 5, 5))
    (out,), _ = evaluated(lowering.to_jax(bilinear(num_filter=1)), {"a": ramp, "up_weight": weight})
    np.testing.assert_allclose(out[0, 0, 5, 1:-1], np.arange(8) / 2 + 0.25, rtol=1e-6)


@pytest.mark.slow("compiles")
def test_half_precision_gradients_are_summed_in_single():
    net = sym.UpSampling(A, scale=64, sample_type="nearest")
    head = np.ones((1, 1, 64, 64), np.float16)
    _, grads, _ = evaluated(lowering.grad_fn(net), {"a": np.ones((1, 1, 1, 1), np.float16)}, head_grads=[head])
    assert grads["a"][0, 0, 0, 0] == 4096
