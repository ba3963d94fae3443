"""Deconvolution: inference backwards, refusals, what it is the transpose of, and the code XLA makes of it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


def deconv(**params: Any) -> sym.Symbol:
    return sym.Deconvolution(DATA, name="deconv", **({"kernel": (3, 2), "num_filter": 4} | params))


def test_there_is_no_bias_unless_asked_for():
    assert deconv().list_arguments() == ["data", "deconv_weight"]
    assert deconv(no_bias=False).list_arguments() == ["data", "deconv_weight", "deconv_bias"]


# -- inference backwards ---------------------------------------------------------------------------------------------


def test_the_weight_has_the_channels_of_data_first():
    arguments, outputs, _ = deconv(num_group=2, stride=(2, 1)).infer_shape_partial(data=(0, 6, 5, 5))
    assert arguments == [(0, 6, 5, 5), (6, 2, 3, 2)]
    assert outputs == [(0, 4, 11, 6)]


def test_channels_are_learnt_from_the_weight():
    arguments, _, _ = deconv(layout="NHWC").infer_shape_partial(deconv_weight=(6, 3, 2, 4))
    assert arguments == [(0, 0, 0, 6), (6, 3, 2, 4)]


def test_the_result_gives_the_sizes_of_data():
    net = deconv(stride=(2, 3), pad=(1, 0), adj=(1, 2)) + sym.Variable("like", shape=(7, 4, 10, 10))
    assert dict(zip(net.list_arguments(), net.infer_shape_partial()[0], strict=True))["data"] == (7, 0, 5, 3)


def test_a_target_is_the_result_whatever_the_data():
    assert deconv(stride=(2, 2), target_shape=(8, 9)).infer_shape_partial(data=(2, 3, 0, 0))[1] == [(2, 4, 8, 9)]


def test_gradients_have_known_shapes_as_soon_as_their_arguments_have():
    first = deconv(no_bias=False).gradient(["data", "deconv_weight", "deconv_bias"])
    assert first.infer_shape(data=(2, 3, 5, 6))[1] == [(2, 3, 5, 6), (3, 4, 3, 2), (4,)]


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"kernel": (1, 1, 1, 1)}, ("kernel", "4D convolution not supported")),
        ({"adj": (1,), "stride": (2, 2)}, ("adj", "same number of dimensions", "(3, 2)")),
        ({"adj": (0, 2), "stride": (1, 2)}, ("adj=(0, 2)", "smaller than stride", "(1, 2)")),
        ({"adj": (1, 0)}, ("adj=(1, 0)", "smaller than stride")),
        ({"adj": (-1, 0)}, ("adj", "≥ 0", "(-1, 0)")),
        ({"target_shape": (8,)}, ("target_shape", "same number of dimensions", "(3, 2)")),
        ({"target_shape": (0, 9)}, ("target_shape=(0, 9)", "≥ 1")),
        ({"num_group": 3}, ("num_filter=4", "num_group=3")),
        ({"layout": "NCW"}, ("layout", "'NCW'", "2 spatial axes")),
        ({"workspace": 9000}, ("workspace", "8192")),
    ],
)
def test_impossible_parameters_are_named(params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, "Deconvolution", *words):
        deconv(**params)


@pytest.mark.parametrize(
    ("params", "shapes", "words"),
    [
        ({"num_group": 2}, {"data": (1, 3, 5, 5)}, ("num_group", "divisor of 3", "got 2")),
        ({"pad": (4, 0)}, {"data": (1, 3, 5, 5)}, ("pad", "at most 3", "got 4")),
        ({"target_shape": (12, 6)}, {"data": (1, 3, 5, 5)}, ("too big target shape", "at most 7", "got 12")),
        ({"target_shape": (6, 6)}, {"data": (1, 3, 5, 5)}, ("target_shape", "7 less an even number", "got 6")),
        ({}, {"data": (1, 3, 5)}, ("kernel", "4 axes", "(1, 3, 5)")),
        ({}, {"data": (1, 3, 5, 5), "deconv_weight": (4, 3, 3, 2)}, ("weight", "(3, 4, 3, 2)", "(4, 3, 3, 2)")),
    ],
)
def test_impossible_shapes_are_named(params: dict[str, Any], shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, "Deconvolution", "deconv", *words):
        deconv(**params).infer_shape(**shapes)


def test_a_result_that_no_data_have_is_refused():
    """Once data are known; what a reader asks of the result before is a guess, and dropped."""
    net = deconv(stride=(2, 2)) + sym.Variable("like", shape=(7, 4, 6, 10))
    assert None not in net.infer_shape_partial()[0]
    for size in ((2, 5), (3, 5)):
        with pytest.raises(InferenceError):
            net.infer_shape(data=(7, 2, *size))


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_it_is_the_transpose_of_the_convolution(layout: str):
    geometry = {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 0), "dilate": (1, 2), "num_group": 2, "layout": layout}
    down = sym.Convolution(DATA, sym.Variable("w"), num_filter=6, no_bias=True, **geometry)
    up = sym.Deconvolution(DATA, sym.Variable("w"), num_filter=4, adj=(1, 1), **geometry)
    rng = np.random.RandomState(0)
    large, small, weight = rng.randn(2, 4, 6, 7), rng.randn(2, 6, 3, 2), rng.randn(6, 2, 3, 2)
    if layout == "NHWC":
        large, small, weight = (np.moveaxis(x, 1, -1) for x in (large, small, weight))
    with jax.enable_x64(True):
        (down_large,), _ = evaluated(lowering.to_jax(down), {"data": large, "w": weight})
        (up_small,), _ = evaluated(lowering.to_jax(up), {"data": small, "w": weight})
    up_small, down_large = np.asarray(up_small), np.asarray(down_large)
    assert up_small.shape == large.shape
    assert_close(np.sum(up_small * large), np.sum(down_large * small), 1e-12, "inner product")


def test_it_compiles_to_one_convolution():
    function = lowering.to_jax(deconv(stride=(2, 2), pad=(1, 0), adj=(1, 0)))
    args = {"data": jnp.ones((1, 3, 4, 4)), "deconv_weight": jnp.ones((3, 4, 3, 2))}
    text = jax.jit(lambda args: function(args)[0]).lower(args).as_text()
    assert text.count("stablehlo.convolution") == 1
