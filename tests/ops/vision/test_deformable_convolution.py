"""Deformable convolution: inference, refusals, mended quirks, laws."""

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

DATA = sym.Variable("data")
OPS = ("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution")


def conv(op: str = OPS[0], **params: Any) -> sym.Symbol:
    return getattr(sym, op)(DATA, name="conv", **({"kernel": (3, 2), "num_filter": 4} | params))


def test_inputs_are_learnt_from_data():
    arguments, outputs, _ = conv(OPS[1], num_deformable_group=2, stride=(2, 1)).infer_shape_partial(data=(0, 6, 7, 5))
    assert arguments == [(0, 6, 7, 5), (0, 24, 3, 4), (0, 12, 3, 4), (4, 6, 3, 2), (4,)]
    assert outputs == [(0, 4, 3, 4)]


def test_the_result_is_learnt_from_the_offset():
    arguments, outputs, _ = conv().infer_shape_partial(conv_offset=(5, 12, 3, 4))
    assert arguments[0] == (5, 0, 5, 5)
    assert outputs == [(5, 4, 3, 4)]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"kernel": (3,)}, ("kernel=(3,)", "two sizes")),
        ({"layout": "NCW"}, ("layout='NCW'", "NCHW")),
        ({"layout": "NHWC"}, ("layout='NHWC'", "NCHW")),
        ({"num_deformable_group": 0}, ("num_deformable_group", "≥ 1")),
        ({"pad": (1,)}, ("pad", "same number of dimensions")),
    ],
)
def test_impossible_parameters_are_named(op: str, params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, op, *words):
        conv(op, **params)


@pytest.mark.parametrize(
    ("params", "shapes", "words"),
    [
        ({"num_deformable_group": 2}, {"data": (1, 3, 5, 5)}, ("num_deformable_group", "divisor of 3", "got 2")),
        ({}, {"data": (1, 3, 5, 5), "conv_offset": (1, 6, 3, 4)}, ("offset", "(1, 12, 3, 4)", "(1, 6, 3, 4)")),
        ({}, {"data": (1, 3, 5, 5), "conv_offset": (1, 12, 3)}, ("offset", "4 axes", "(1, 12, 3)")),
        ({}, {"data": (1, 3, 2, 5)}, ("kernel", "at most 2", "got 3")),
    ],
)
def test_impossible_shapes_are_named(params: dict[str, Any], shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, OPS[0], "conv", *words):
        conv(**params).infer_shape(**shapes)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("op", OPS)
def test_without_offsets_it_is_the_convolution(op: str):
    geometry = {"kernel": (2, 2), "num_filter": 4, "num_group": 2, "stride": (1, 2), "pad": (1, 0), "dilate": (1, 2)}
    rng = np.random.RandomState(0)
    args = {"data": rng.randn(2, 4, 4, 5), "conv_weight": rng.randn(4, 2, 2, 2), "conv_bias": rng.randn(4)}
    plain = sym.Convolution(DATA, name="conv", **geometry)
    with jax.enable_x64(True):
        (expected,), _ = jax.jit(lowering.to_jax(plain))(args)
        more = {"conv_offset": np.zeros((2, 8, *expected.shape[2:]))}
        if op == OPS[1]:
            more["conv_mask"] = np.ones((2, 4, *expected.shape[2:]))
        (ours,), _ = jax.jit(lowering.to_jax(conv(op, **geometry)))(args | more)
    assert_close(ours, expected, 1e-12, "convolution")


@pytest.mark.slow("compiles")
def test_offsets_learn_from_zero():
    """At an element the slope is that towards the next one: zero offsets, where training starts, have a gradient."""
    net = sym.Convolution(DATA, name="offset", kernel=(1, 1), num_filter=2, no_bias=True)
    net = getattr(sym, OPS[0])(DATA, net, name="conv", kernel=(1, 1), num_filter=1, no_bias=True)
    args = {
        "data": jnp.arange(9.0).reshape(1, 1, 3, 3),
        "offset_weight": jnp.zeros((2, 1, 1, 1)),
        "conv_weight": jnp.ones((1, 1, 1, 1)),
    }
    _, grads, _ = jax.jit(lowering.grad_fn(net, ["offset_weight"]))(args, head_grads=[jnp.ones((1, 1, 3, 3))])
    # Slopes are 3 in y and 1 in x, but for the last row and column, where the map ends.
    assert np.asarray(grads["offset_weight"]).ravel().tolist() == [
        3.0 * (0 + 1 + 2 + 3 + 4 + 5),
        0 + 1 + 3 + 4 + 6 + 7.0,
    ]


def test_im2col_step_need_not_divide_the_batch():
    assert conv(OPS[1], im2col_step=2).infer_shape(data=(3, 2, 5, 5))[1] == [(3, 4, 3, 4)]
    with pytest.raises(ParamError, match="im2col_step"):
        conv(OPS[0], im2col_step=2)
