"""SSD's operators: kept quirks by name, what MXNet refuses while it runs, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.refusals import refused

A, B, C = (sym.Variable(name) for name in "abc")
ANCHORS = np.array([[[0, 0, 0.4, 0.4], [0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], [0.6, 0, 1, 0.3]]], np.float32)
LABEL = np.array([[[2, 0, 0, 0.4, 0.4], [-1, -1, -1, -1, -1]]], np.float32)
PREDICTED = np.zeros((1, 2, 4), np.float32)


def run(symbol, **args):
    return [np.asarray(o) for o in jax.jit(lowering.to_jax(symbol))({k: jnp.asarray(v) for k, v in args.items()})[0]]


def targets(label=LABEL, **params):
    """loc_target, loc_mask, cls_target."""
    return run(sym._contrib_MultiBoxTarget(A, B, C, **params), a=ANCHORS, b=label, c=PREDICTED)


def detections(prob, **params):
    prob = np.asarray(prob, np.float32)[None]
    loc = np.zeros((1, 16), np.float32)
    return run(sym._contrib_MultiBoxDetection(A, B, C, **params), a=prob, b=loc, c=ANCHORS)[0][0]


@pytest.mark.slow("computes much")
def test_targets_of_an_object():
    loc, mask, cls = targets()
    assert cls.tolist() == [[3, 3, 0, 0]]
    assert mask.reshape(4, 4)[:, 0].tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(loc.reshape(4, 4)[1, :2], [(0.2 - 0.25) / 0.5 / 0.1] * 2, rtol=1e-5)


@pytest.mark.slow("compiles")
def test_an_image_without_objects_is_ignored_altogether():
    loc, mask, cls = targets(np.full((1, 2, 5), -1, np.float32), ignore_label=-5.0)
    assert cls.tolist() == [[-5] * 4]
    assert not loc.any()
    assert not mask.any()


@pytest.mark.slow("computes much")
def test_rows_after_the_first_without_a_class_do_not_count():
    label = np.concatenate([LABEL, LABEL[:, :1]], 1)
    label[0, 2] = [1, 0.5, 0.5, 1, 1]
    assert targets(label)[2].tolist() == [[3, 3, 0, 0]]


@pytest.mark.slow("computes much")
def test_the_best_anchor_of_an_object_counts_at_any_overlap():
    assert targets(np.array([[[0, 0.9, 0.9, 1, 1]]], np.float32))[2].tolist() == [[0, 0, 1, 0]]


@pytest.mark.nightly("computes much")
def test_mended_mining_takes_what_there_is():
    """Three negatives are wanted for each of the two positives, and two anchors are left."""
    assert targets(negative_mining_ratio=3.0)[2].tolist() == [[3, 3, 0, 0]]
    assert targets(negative_mining_ratio=0.5)[2].tolist() == [[3, 3, 0, -1]]


@pytest.mark.nightly("computes much")
def test_minimum_negative_samples_is_without_effect():
    assert targets(negative_mining_ratio=0.5, minimum_negative_samples=2)[2].tolist() == [[3, 3, 0, -1]]


@pytest.mark.slow("computes much")
def test_detections_of_a_class_suppress_each_other():
    rows = detections([[0.1] * 4, [0.8, 0.9, 0.2, 0.3], [0.1, 0, 0.7, 0.6]])
    assert rows[:, 0].tolist() == [0, -1, 1, 1]
    np.testing.assert_allclose(rows[:, 1], [0.9, 0.8, 0.7, 0.6])


@pytest.mark.nightly("computes much")
def test_background_id_is_without_effect():
    prob = [[0.1] * 4, [0.8, 0.9, 0.2, 0.3], [0.1, 0, 0.7, 0.6]]
    np.testing.assert_array_equal(detections(prob, background_id=1), detections(prob))


@pytest.mark.slow("computes much")
def test_rows_past_nms_topk_keep_the_order_of_anchors():
    """They have class -1; what else stands there is what MXNet left."""
    rows = detections([[0.1] * 4, [0.5, 0.6, 0.7, 0.9]], nms_topk=1)
    assert rows[:, 0].tolist() == [0, -1, -1, -1]
    np.testing.assert_allclose(rows[:, 1], [0.9, 0.6, 0.7, 0.9])


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_worked_on_in_float32(dtype):
    prob = jnp.asarray([[[0.1] * 4, [0.5, 0.6, 0.7, 0.9]]], dtype)
    args = {"a": prob, "b": jnp.zeros((1, 16), dtype), "c": jnp.asarray(ANCHORS, dtype)}
    rows = jax.jit(lowering.to_jax(sym._contrib_MultiBoxDetection(A, B, C)))(args)[0][0]
    assert rows.dtype == dtype
    np.testing.assert_allclose(np.asarray(rows[0, 0, 2:], np.float32), np.asarray(ANCHORS[0, 3]), atol=0.004)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sym._contrib_MultiBoxPrior(A, sizes=()), ("sizes=()", "at least one")),
        (lambda: sym._contrib_MultiBoxPrior(A, steps=(0.1, -0.1)), ("steps=(0.1, -0.1)", "both")),
        (lambda: sym._contrib_MultiBoxPrior(A, steps=(0.1,)), ("steps=(0.1,)", "2 numbers")),
        (lambda: sym._contrib_MultiBoxPrior(A, offsets=(0.5, 1.5)), ("'offsets'", "≤ 1", "1.5")),
        (lambda: sym._contrib_MultiBoxTarget(A, B, C, variances=(0.1, 0.2)), ("variances=(0.1, 0.2)", "4 numbers")),
        (
            lambda: sym._contrib_MultiBoxTarget(A, B, C, negative_mining_ratio=3, negative_mining_thresh=0),
            ("negative_mining_thresh=0", "> 0"),
        ),
        (lambda: sym._contrib_MultiBoxDetection(A, B, C, variances=(1,)), ("variances=(1.0,)", "4 numbers")),
    ],
)
def test_parameters_that_do_not_fit_are_named(make, words):
    with refused(ParamError, *words):
        make()


TARGET = sym._contrib_MultiBoxTarget(A, B, C, name="n")
DETECTION = sym._contrib_MultiBoxDetection(A, B, C, name="n")


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym._contrib_MultiBoxPrior(A, name="n"), {"a": (1, 2, 3)}, ("'data'", "at least 4 axes", "got 3")),
        (TARGET, {"a": (2, 5, 4), "b": (2, 3, 5), "c": (2, 3, 5)}, ("'anchor'", "(1, 5, 4)", "(2, 5, 4)")),
        (TARGET, {"a": (1, 5, 4), "b": (2, 3, 4), "c": (2, 3, 5)}, ("'label'", "greater than or equal to 5", "got 4")),
        (TARGET, {"a": (1, 5, 4), "b": (2, 3, 5), "c": (2, 3, 6)}, ("'cls_pred'", "(2, 3, 6)")),
        (TARGET, {"a": (1, 5, 4), "b": (2, 3, 5), "c": (3, 3, 5)}, ("'cls_pred'", "(3, 3, 5)")),
        (DETECTION, {"a": (2, 3, 5), "b": (2, 21), "c": (1, 5, 4)}, ("'loc_pred'", "(2, 20)", "(2, 21)")),
        (DETECTION, {"a": (2, 3, 5), "b": (2, 20), "c": (2, 5, 4)}, ("'anchor'", "(1, 5, 4)")),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with refused(InferenceError, *words, "'n'"):
        symbol.infer_shape(**shapes)


def test_inference_runs_backwards():
    assert DETECTION.infer_shape(a=(2, 3, 5))[0] == [(2, 3, 5), (2, 20), (1, 5, 4)]
    assert DETECTION.infer_shape_partial(b=(2, 20))[0][2] == (1, 5, 4)
    assert TARGET.list_outputs() == ["n_loc_target", "n_loc_mask", "n_cls_target"]
