"""im2col and col2im: inference backwards, refusals, and the law that makes them useful."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.ops.nn import window_places
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"kernel": ()}, ("kernel", "0D convolution not supported")),
        ({"kernel": (2, 2), "pad": (1,)}, ("pad", "same number of dimensions", "(2, 2)")),
        ({"kernel": (2, 0)}, ("kernel", "≥ 1", "(2, 0)")),
    ],
)
def test_impossible_windows_are_named(params: dict[str, Any], words: tuple[str, ...]):
    for op, more in (("im2col", {}), ("col2im", {"output_size": (4,) * len(params["kernel"])})):
        with refused(ParamError, op, *words):
            getattr(sym, op)(DATA, **params, **more)


def test_an_output_size_of_another_rank_or_of_nothing_is_refused():
    with pytest.raises(ParamError, match="output_size=.*same number of dimensions"):
        sym.col2im(DATA, kernel=(2, 2), output_size=(4,))
    with refused(ParamError, "output_size", "≥ 1", "(4, 0)"):
        sym.col2im(DATA, kernel=(2, 2), output_size=(4, 0))


@pytest.mark.parametrize(
    ("net", "shape", "words"),
    [
        (sym.im2col(DATA, kernel=(5, 1)), (1, 2, 4, 4), ("kernel", "at most 4", "got 5")),
        (sym.im2col(DATA, kernel=(2, 2)), (1, 2, 4), ("4 axes", "(1, 2, 4)")),
        (sym.col2im(DATA, kernel=(2, 2), output_size=(3, 3)), (1, 6, 4), ("multiple of 4", "got 6")),
        (sym.col2im(DATA, kernel=(2, 2), output_size=(3, 4)), (1, 8, 4), ("(1, 8, 6)", "(1, 8, 4)")),
    ],
)
def test_impossible_shapes_are_named(net: sym.Symbol, shape: tuple[int, ...], words: tuple[str, ...]):
    with refused(InferenceError, *words):
        net.infer_shape(data=shape)


def test_batch_and_channels_are_learnt_from_the_columns():
    net = sym.im2col(DATA, kernel=(2, 3)) + sym.Variable("like", shape=(5, 12, 8))
    assert dict(zip(net.list_arguments(), net.infer_shape_partial()[0], strict=True))["data"] == (5, 2, 0, 0)


def test_columns_times_the_weight_are_the_convolution():
    window = {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 2)}
    rng = np.random.RandomState(0)
    data, weight = rng.randn(2, 3, 5, 6), rng.randn(4, 3, 3, 2)
    convolution = sym.Convolution(DATA, sym.Variable("w"), num_filter=4, no_bias=True, **window)
    with jax.enable_x64(True):
        (columns,), _ = evaluated(lowering.to_jax(sym.im2col(DATA, **window)), {"data": data})
        (expected,), _ = evaluated(lowering.to_jax(convolution), {"data": data, "w": weight})
    ours = np.einsum("fr,nrp->nfp", weight.reshape(4, -1), columns).reshape(expected.shape)
    assert_close(ours, expected, 1e-12, "convolution")


@pytest.mark.parametrize(
    "window",
    [
        {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 2)},
        {"kernel": (2, 1), "stride": (3, 4), "pad": (2, 0)},
    ],
)
def test_the_places_of_a_window_in_a_loop_give_what_they_give_one_by_one(
    monkeypatch: pytest.MonkeyPatch, window: dict[str, Any]
):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2, 3, 5, 6)).astype(np.float32)
    net = sym.im2col(DATA, **window)
    heads = [rng.normal(size=net.infer_shape(data=data.shape)[1][0]).astype(np.float32)]
    found = []
    for written_out in (window_places.WRITTEN_OUT, 0):
        monkeypatch.setattr(window_places, "WRITTEN_OUT", written_out)
        outputs, grads, _ = evaluated(lowering.grad_fn(net), {"data": data}, head_grads=heads)
        found.append([outputs[0], grads["data"]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_a_large_window_is_a_small_program():
    """It had operations for each place of the window: tracing 90,000 took a minute."""
    net = sym.im2col(DATA, kernel=(300, 300))
    args = {"data": jax.ShapeDtypeStruct((1, 1, 300, 300), np.dtype("float32"))}
    heads = [jax.ShapeDtypeStruct((1, 90_000, 1), np.dtype("float32"))]
    program = jax.make_jaxpr(lowering.grad_fn(net, ["data"], is_train=True))(args, {}, jax.random.key(0), heads)
    assert len(str(program)) < 20_000
