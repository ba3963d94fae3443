"""Operators of regions: refusals, malformed and missing regions, transposes, long lists of regions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.ops.vision import regions
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.comparison import assert_close
from tests.support.refusals import refused

pytestmark = pytest.mark.slow("takes many seconds as a whole")

DATA, ROIS = sym.Variable("data"), sym.Variable("rois")

FORMS: dict[str, dict[str, Any]] = {
    "ROIPooling": {"pooled_size": (2, 2)},
    "_contrib_ROIAlign": {"pooled_size": (2, 2)},
    "_contrib_RROIAlign": {"pooled_size": (2, 2)},
    "_contrib_PSROIPooling": {"output_dim": 1, "pooled_size": 2},
    "_contrib_DeformablePSROIPooling": {"output_dim": 1, "pooled_size": 2, "group_size": 2, "no_trans": True},
}
"""Each operator with parameters for data of four channels and regions without offsets."""


def pooled(op: str, **params: Any) -> sym.Symbol:
    return getattr(sym, op)(DATA, ROIS, name="pool", **({"spatial_scale": 1.0} | FORMS[op] | params))


def region(op: str, *corners: float, image: float = 0) -> list[float]:
    """A region, upright: as centre and size if the operator wants that."""
    x0, y0, x1, y1 = corners
    return (
        [image, (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, 0] if op == "_contrib_RROIAlign" else [image, *corners]
    )


def run(net: sym.Symbol, data: Any, rois: Any) -> np.ndarray:
    with jax.enable_x64(True):
        args = {"data": np.asarray(data, np.float64), "rois": np.asarray(rois, np.float64)}
        (out,), _ = jax.jit(lowering.to_jax(net))(args)
    return np.asarray(out)


@pytest.mark.parametrize("op", FORMS)
def test_impossible_parameters_are_named(op: str):
    for params, words in (
        ({"spatial_scale": 2.0}, ("spatial_scale", "≤ 1")),
        ({"pooled_size": 0}, ("pooled_size", "≥ 1")),
    ):
        with refused(ParamError, op, *words):
            pooled(op, **params)


@pytest.mark.parametrize("op", ["ROIPooling", "_contrib_ROIAlign", "_contrib_RROIAlign"])
def test_a_pooled_size_has_two_numbers(op: str):
    with pytest.raises(ParamError, match="pooled_size=.*expected dimension=2"):
        pooled(op, pooled_size=(2,))


@pytest.mark.parametrize("op", FORMS)
def test_impossible_shapes_are_named(op: str):
    columns = 6 if op == "_contrib_RROIAlign" else 5
    for shapes, words in (
        ({"data": (1, 4, 5), "rois": (2, columns)}, ("data should be a 4D tensor", "(1, 4, 5)")),
        ({"data": (1, 4, 5, 5), "rois": (2, 4)}, ("rois", f"(2, {columns})", "(2, 4)")),
        ({"data": (1, 4, 5, 5), "rois": (2,)}, ("rois should be a 2D tensor", "(2,)")),
    ):
        with refused(InferenceError, op, "pool", *words):
            pooled(op).infer_shape(**shapes)


@pytest.mark.parametrize("op", ["_contrib_PSROIPooling", "_contrib_DeformablePSROIPooling"])
def test_too_few_channels_for_the_groups_are_refused(op: str):
    with pytest.raises(InferenceError, match="at least output_dim.*= 4 channels of data; got 3"):
        pooled(op).infer_shape(data=(1, 3, 5, 5), rois=(2, 5))


def test_channels_that_bins_do_not_share_out_are_refused():
    with pytest.raises(InferenceError, match="multiple of 4 channels; got 6"):
        pooled("_contrib_ROIAlign", position_sensitive=True).infer_shape(data=(1, 6, 5, 5), rois=(2, 5))


def test_offsets_of_classes_that_do_not_share_out_the_channels_are_refused():
    net = sym._contrib_DeformablePSROIPooling(
        DATA, ROIS, name="pool", spatial_scale=1.0, output_dim=3, pooled_size=2, group_size=1
    )
    assert net.infer_shape_partial(data=(1, 3, 5, 5), rois=(2, 5))[0][2] == (2, 0, 2, 2)
    with pytest.raises(InferenceError, match="twice a divisor of output_dim=3; got 4"):
        net.infer_shape(data=(1, 3, 5, 5), rois=(2, 5), pool_trans=(2, 4, 2, 2))


@pytest.mark.nightly("every operator", but_one_in=4)
@pytest.mark.parametrize("op", FORMS)
def test_a_region_of_no_image_gives_zeros_and_receives_nothing(op: str):
    data = np.random.RandomState(0).uniform(0.5, 1, (2, 4, 5, 6))
    rois = [region(op, 1, 1, 4, 4, image=image) for image in (-1, 1, 2)]
    net = pooled(op)
    out = run(net, data, rois)
    assert (out[[0, 2]] == 0).all()
    assert (out[1] != 0).all()
    with jax.enable_x64(True):
        args = {"data": data, "rois": np.asarray(rois)}
        _, grads, _ = jax.jit(lowering.grad_fn(net, ["data"]))(args, head_grads=[np.ones(out.shape)])
    assert (np.asarray(grads["data"])[0] == 0).all()


@pytest.mark.parametrize("op", FORMS)
def test_constant_data_have_constant_means(op: str):
    out = run(pooled(op), np.full((1, 4, 6, 7), 3.0), [region(op, 0.5, 0.75, 4.5, 4), region(op, 0, 0, 6, 5)])
    assert_close(out, np.full(out.shape, 3.0), 1e-12, "means")


@pytest.mark.parametrize("op", FORMS)
def test_a_region_outside_the_map_gives_zeros(op: str):
    assert (
        run(pooled(op), np.ones((1, 4, 6, 7)), [region(op, 30, 40, 50, 60), region(op, -60, -50, -40, -30)]) == 0
    ).all()


def test_an_empty_bin_of_roi_pooling_gives_zero_and_receives_nothing():
    # Regions that reach over the edge have bins beyond it.
    assert run(pooled("ROIPooling"), -np.ones((1, 1, 4, 4)), [[0, 2, 0, 9, 3]]).ravel().tolist() == [-1, 0, -1, 0]


def test_the_first_of_equal_maxima_receives_the_gradient_of_roi_pooling():
    net = pooled("ROIPooling", pooled_size=(1, 1))
    args = {"data": jnp.ones((1, 1, 3, 3)), "rois": jnp.asarray([[0.0, 1, 1, 2, 2]])}
    _, grads, _ = jax.jit(lowering.grad_fn(net, ["data"]))(args, head_grads=[jnp.ones((1, 1, 1, 1))])
    assert np.argmax(np.asarray(grads["data"])) == 4
    assert np.sum(np.asarray(grads["data"])) == 1


def test_bins_of_roi_pooling_are_cut_where_rounded_quotients_say():
    # In an increasing map the greatest element is the last; bins end at ceil((i + 1) · (length / 7)), rounded twice.
    data = np.arange(20.0 * 20, dtype=np.float32).reshape(1, 1, 20, 20)
    lengths = np.arange(2, 20)
    rois = np.asarray([[0, 0, 0, length - 1, length - 1] for length in lengths], np.float32)
    function = lowering.to_jax(pooled("ROIPooling", pooled_size=(7, 7)))
    ours = jax.jit(lambda args: function(args)[0][0])({"data": data, "rois": rois})
    steps = lengths.astype(np.float32)[:, None] / np.float32(7)
    last = np.minimum(np.ceil(np.arange(1, 8, dtype=np.float32) * steps), 20) - 1
    np.testing.assert_array_equal(ours[:, 0], last[:, :, None] * 20 + last[:, None, :])


def test_samples_of_roi_align_are_counted_by_rounded_quotients():
    # 14 · (1 / 7), with the reciprocal rounded, is more than 2 and would make 3 samples.
    rois = np.asarray([[0, 0, 0, 14, 14]], np.float32)
    args = {"data": np.random.RandomState(0).randn(1, 1, 15, 15).astype(np.float32), "rois": rois}

    def means(samples: int) -> jax.Array:
        function = lowering.to_jax(pooled("_contrib_ROIAlign", pooled_size=(7, 7), sample_ratio=samples))
        return jax.jit(lambda args: function(args)[0][0])(args)

    assert_close(means(-1), means(2), 1e-5, "ROIAlign")


def adjoint(net: sym.Symbol, data: np.ndarray, rois: np.ndarray) -> None:
    """<G, P x> = <Pᵀ G, x>: the gradient is the transpose of a linear operator."""
    rng = np.random.RandomState(1)
    with jax.enable_x64(True):
        args = {"data": jnp.asarray(data), "rois": jnp.asarray(rois)}
        (out,), _ = jax.jit(lowering.to_jax(net))(args)
        g = rng.randn(*out.shape)
        _, grads, _ = jax.jit(lowering.grad_fn(net, ["data"]))(args, head_grads=[g])
        assert_close(np.sum(grads["data"] * data), np.sum(out * g), 1e-11, "inner product")


@pytest.mark.nightly("computes much")
def test_rotated_regions_with_adaptive_samples_have_the_transpose_for_a_gradient():
    rois = np.asarray([[0, 4, 3, 6, 3, 30], [1, 2, 2, 9, 1, -75], [0, 3, 3, 0, 0, 10.0]])
    adjoint(pooled("_contrib_RROIAlign"), np.random.RandomState(0).randn(2, 3, 6, 7), rois)


@pytest.mark.nightly("computes much")
def test_a_ratio_of_0_is_adaptive_with_its_gradient():
    rois = np.asarray([[0, 0.5, 1, 5, 4.5], [1, 2, 2, 6, 5.5]])
    for ratio in (0, -1):
        adjoint(pooled("_contrib_ROIAlign", sample_ratio=ratio), np.random.RandomState(0).randn(2, 3, 6, 7), rois)


@pytest.mark.nightly("computes much")
def test_adaptive_samples_are_as_many_as_asked_for():
    """ceil(size of a bin) samples, whether counted from the region or given."""
    data = np.random.RandomState(0).randn(1, 1, 12, 12)
    for op, name in (("_contrib_ROIAlign", "sample_ratio"), ("_contrib_RROIAlign", "sampling_ratio")):
        for size, count in ((9.5, 10), (3.0, 3), (0.25, 1)):
            rois = [region(op, 1.2, 1.7, 1.2 + size, 1.7 + size)]
            ours = run(pooled(op, pooled_size=(1, 1)), data, rois)
            assert_close(ours, run(pooled(op, pooled_size=(1, 1), **{name: count}), data, rois), 1e-12, op)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(regions, "_CHUNK", 64)


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.parametrize("op", ["_contrib_ROIAlign", "_contrib_PSROIPooling"])
def test_long_lists_of_regions_are_pooled_in_turn(op: str, small_chunks: Callable[[], None]):
    rng = np.random.RandomState(0)
    data = rng.randn(2, 4, 5, 6)
    rois = np.asarray([region(op, *rng.uniform(0, 5, 4), image=i % 2) for i in range(7)])
    whole = run(pooled(op), data, rois)
    small_chunks()
    assert_close(run(pooled(op), data, rois), whole, 1e-12, "in turn")
    adjoint(pooled(op), data, rois)
