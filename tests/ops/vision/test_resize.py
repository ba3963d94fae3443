"""Bilinear resizing, adaptive pooling, cropping: sizes, refusals, and results by their definition."""

import resource
from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ops.vision import resize as ops
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


def resize(**params: Any) -> sym.Symbol:
    return sym._contrib_BilinearResize2D(DATA, name="op", **params)


def value(net: sym.Symbol, data: Any) -> np.ndarray:
    (out,), _ = evaluated(lowering.to_jax(net), {"data": np.asarray(data, np.float32)})
    return np.asarray(out)


# -- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "data", "sizes"),
    [
        ({}, (5, 5), (1, 1)),
        ({"height": 7, "width": 2}, (5, 5), (7, 2)),
        ({"scale_height": 0.7, "scale_width": 0.29, "height": 9, "width": 9}, (10, 100), (7, 29)),
        ({"mode": "odd_scale", "scale_height": 2.0, "scale_width": 1.5}, (3, 4), (5, 6)),
        ({"mode": "odd_scale", "scale_height": 0.5, "scale_width": 0.7}, (5, 5), (3, 3)),
        ({"mode": "to_even_down"}, (5, 4), (4, 4)),
        ({"mode": "to_even_up"}, (5, 4), (6, 4)),
        ({"mode": "to_odd_down"}, (5, 4), (5, 3)),
        ({"mode": "to_odd_up"}, (5, 4), (5, 5)),
    ],
)
def test_sizes_are_those_of_mxnet(params: dict[str, Any], data: tuple[int, int], sizes: tuple[int, int]):
    assert resize(**params).infer_shape(data=(1, 2, *data))[1] == [(1, 2, *sizes)]


def test_batch_channels_and_sizes_are_learnt_from_the_other_side():
    net = resize(mode="like", like=sym.Variable("like"))
    assert net.infer_shape_partial(data=(1, 2, 3, 4), like=(0, 0, 5, 6))[1] == [(1, 2, 5, 6)]
    net = sym._contrib_AdaptiveAvgPooling2D(DATA, output_size=(2,)) + sym.Variable("other", shape=(3, 4, 2, 2))
    assert net.infer_shape_partial(data=(0, 0, 7, 7))[0][0] == (3, 4, 7, 7)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        ("_contrib_BilinearResize2D", {"height": 0}, ("height", "≥ 1")),
        ("_contrib_BilinearResize2D", {"scale_height": 2.0}, ("scale_width is missing",)),
        ("_contrib_BilinearResize2D", {"mode": "odd_scale"}, ("scale_height is missing", "odd_scale")),
        ("_contrib_BilinearResize2D", {"scale_height": -1.0, "scale_width": 1.0}, ("scale_height=-1.0", "> 0")),
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": (1, 2, 3)}, ("output_size=(1, 2, 3)", "at most 2")),
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": (0,)}, ("output_size", "≥ 1")),
        ("Crop", {}, ("h_w=(0, 0)", "≥ 1 for one input")),
        ("Crop", {"h_w": (2,)}, ("h_w=(2,)", "2 numbers")),
        ("Crop", {"h_w": (2, 2), "offset": (1,)}, ("offset=(1,)", "2 numbers")),
    ],
)
def test_impossible_parameters_are_named(name: str, params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, name, *words):
        getattr(sym, name)(DATA, **params)


@pytest.mark.parametrize(
    ("net", "shape", "words"),
    [
        (resize(height=2), (1, 2, 3), ("4D in (batch, channel, y, x)", "(1, 2, 3)")),
        (resize(mode="to_even_down"), (1, 1, 1, 4), ("mode", "at least 1 element")),
        (resize(scale_height=0.1, scale_width=1.0), (1, 1, 3, 3), ("Nothing would be left of 3 elements",)),
        (sym._contrib_AdaptiveAvgPooling2D(DATA, name="op"), (1, 2), ("4D in", "(1, 2)")),
        (sym.Crop(DATA, h_w=(6, 3), name="op"), (1, 2, 5, 5), ("crop height", "h_w", "at most 5")),
        (sym.Crop(DATA, h_w=(3, 3), offset=(0, 3), name="op"), (1, 2, 5, 5), ("offset[1]", "at most 2", "got 3")),
        (sym.Crop(DATA, h_w=(3, 3), name="op"), (1, 5, 5), ("4D in", "(1, 5, 5)")),
    ],
)
def test_impossible_shapes_are_named(net: sym.Symbol, shape: tuple[int, ...], words: tuple[str, ...]):
    with refused(InferenceError, "op", *words):
        net.infer_shape(data=shape)


def test_a_crop_larger_than_the_data_is_refused():
    """MXNet infers its shape, and crops past the end."""
    with pytest.raises(InferenceError, match="crop height"):
        sym.Crop(DATA, sym.Variable("like")).infer_shape(data=(1, 2, 5, 5), like=(1, 1, 6, 6))


# -- values ----------------------------------------------------------------------------------------------------------


def test_aligned_corners_keep_the_corners_and_others_the_outline():
    line = np.arange(4.0).reshape(1, 1, 1, 4)
    np.testing.assert_allclose(value(resize(height=1, width=2), line)[0, 0, 0], [0, 3])
    np.testing.assert_allclose(value(resize(height=1, width=2, align_corners=False), line)[0, 0, 0], [0.5, 2.5])
    np.testing.assert_allclose(
        value(resize(height=1, width=8, align_corners=False), line)[0, 0, 0], [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]
    )


@pytest.mark.parametrize("align_corners", [True, False])
def test_the_same_size_is_the_identity(align_corners: bool):
    data = np.random.RandomState(0).randn(1, 2, 3, 4).astype(np.float32)
    np.testing.assert_array_equal(value(resize(height=3, width=4, align_corners=align_corners), data), data)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (5, 4), (7, 9)])
def test_adaptive_pooling_by_its_definition(sizes: tuple[int, int]):
    data = np.random.RandomState(0).randn(1, 2, 5, 6)
    expected = np.zeros((1, 2, *sizes))
    windows = [[(i * d // n, -(-(i + 1) * d // n)) for i in range(n)] for n, d in zip(sizes, (5, 6), strict=True)]
    for i, (top, bottom) in enumerate(windows[0]):
        for j, (left, right) in enumerate(windows[1]):
            expected[:, :, i, j] = data[:, :, top:bottom, left:right].mean((2, 3))
    assert_close(value(sym._contrib_AdaptiveAvgPooling2D(DATA, output_size=sizes), data), expected, 1e-6, "means")


def test_half_precision_is_summed_in_single():
    data = np.ones((1, 1, 64, 66), np.float16)
    for sizes in ((1, 1), (1, 2)):
        (out,), _ = evaluated(
            lowering.to_jax(sym._contrib_AdaptiveAvgPooling2D(DATA, output_size=sizes)), {"data": data}
        )
        np.testing.assert_array_equal(out, np.ones((1, 1, *sizes)))


def test_crop_takes_integers():
    net = sym.Crop(DATA, h_w=(1, 2), offset=(1, 1))
    (out,), _ = evaluated(lowering.to_jax(net), {"data": np.arange(9, dtype=np.int32).reshape(1, 1, 3, 3)})
    np.testing.assert_array_equal(out[0, 0], [[4, 5]])
    assert out.dtype == np.int32


# -- large sizes -----------------------------------------------------------------------------------------------------

LINEAR = [
    ("_contrib_BilinearResize2D", {"height": 9, "width": 4, "align_corners": True}),
    ("_contrib_BilinearResize2D", {"height": 9, "width": 4, "align_corners": False}),
    ("_contrib_BilinearResize2D", {"height": 3, "width": 7}),
    ("_contrib_AdaptiveAvgPooling2D", {"output_size": (9, 4)}),
    ("_contrib_AdaptiveAvgPooling2D", {"output_size": (3, 5)}),
]


@pytest.mark.nightly("every case", but_one_in=5)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("op", "params"), LINEAR)
def test_a_sparse_matrix_gives_what_a_dense_one_gives(monkeypatch: pytest.MonkeyPatch, op: str, params: dict[str, Any]):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2, 3, 5, 7))
    net = getattr(sym, op)(DATA, **params)
    heads = [rng.normal(size=net.infer_shape(data=data.shape)[1][0]).astype(np.float32)]

    def both() -> list[Any]:
        outputs, grads, _ = lowering.grad_fn(net)({"data": data.astype(np.float32)}, head_grads=heads)
        return [outputs[0], grads["data"]]

    dense = both()
    monkeypatch.setattr(ops, "DENSE", 0)
    for a, b in zip(both(), dense, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "params", "shape", "sizes"),
    [
        ("_contrib_BilinearResize2D", {"height": 30_000, "width": 2}, (1, 1, 30_001, 2), (30_000, 2)),
        ("_contrib_BilinearResize2D", {"height": 1 << 31, "width": 1}, (0, 1, 3, 3), (1 << 31, 1)),
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": (30_000, 2)}, (1, 1, 30_001, 2), (30_000, 2)),
        ("_contrib_AdaptiveAvgPooling2D", {"output_size": (1 << 31, 1)}, (0, 1, 3, 3), (1 << 31, 1)),
    ],
)
def test_long_axes_make_no_matrix_of_both(
    op: str, params: dict[str, Any], shape: tuple[int, ...], sizes: tuple[int, int]
):
    """It was 7 GB here, and 50 GB where there is no image at all."""
    data, heads = np.ones(shape, np.float32), [np.ones((*shape[:2], *sizes), np.float32)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outputs, grads, _ = evaluated(lowering.grad_fn(getattr(sym, op)(DATA, **params)), {"data": data}, head_grads=heads)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18
    np.testing.assert_allclose(outputs[0], heads[0], rtol=1e-6)
    assert np.asarray(grads["data"]).sum(dtype=np.float64) == pytest.approx(heads[0].size, rel=1e-6)
