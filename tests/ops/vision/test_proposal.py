"""Region proposals: anchors, repetition, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ops.vision.proposal import ProposalParams, base_anchors
from tests.support.refusals import refused

A, B, C = (sym.Variable(name) for name in "abc")
ONE = {"scales": (2.0,), "ratios": (1.0,), "feature_stride": 8, "rpn_min_size": 1, "name": "n"}


def proposals(scores, info=(16.0, 16.0, 1.0), **params):
    """Rows and scores for a 2 × 2 map whose anchors do not move."""
    prob = np.concatenate([np.zeros((1, 1, 2, 2)), np.reshape(scores, (1, 1, 2, 2))], 1)
    args = {"a": prob, "b": np.zeros((1, 4, 2, 2)), "c": np.array([info])}
    symbol = sym._contrib_Proposal(A, B, C, output_score=True, **ONE, **params)
    return [
        np.asarray(o)
        for o in jax.jit(lowering.to_jax(symbol))({k: jnp.asarray(v, jnp.float32) for k, v in args.items()})[0]
    ]


def test_the_anchors_of_faster_rcnn():
    """Those of the published implementation for stride 16, ratio 1/2 and 1, scale 8, counted from 0."""
    anchors = base_anchors(ProposalParams(scales=(8.0,), ratios=(0.5, 1.0)))
    assert anchors.tolist() == [[-84, -40, 99, 55], [-56, -56, 71, 71]]


@pytest.mark.slow("compiles")
def test_proposals_repeat_where_few_are_left():
    rois, scores = proposals([0.1, 0.4, 0.3, 0.2], threshold=0.0, rpn_post_nms_top_n=5)
    kept = np.unique(scores).size
    assert kept < 5
    np.testing.assert_array_equal(rois[kept:], rois[: 5 - kept])
    assert scores[0] == np.float32(0.4)


@pytest.mark.nightly("compiles")
def test_padding_and_small_boxes_come_last():
    _, scores = proposals([0.1, 0.4, 0.3, 0.2], (16.0, 8.0, 1.0), threshold=1.0, rpn_post_nms_top_n=4)
    np.testing.assert_allclose(scores[:, 0], [0.3, 0.1, -1, -1])
    _, scores = proposals([0.1, 0.4, 0.3, 0.2], (16.0, 16.0, 13.0), threshold=1.0, rpn_post_nms_top_n=4)
    assert (scores == -1).any()


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym._contrib_Proposal(A, B, C, **ONE), {"a": (2, 2, 3, 3)}, ("a batch of 1", "got 2", "MultiProposal")),
        (sym._contrib_MultiProposal(A, B, C, **ONE), {"a": (2, 4, 3, 3)}, ("'cls_prob'", "2 channels", "got 4")),
        (
            sym._contrib_MultiProposal(A, B, C, **ONE),
            {"a": (2, 2, 3, 3), "c": (2, 4)},
            ("'im_info'", "(2, 3)", "(2, 4)"),
        ),
        (sym._contrib_MultiProposal(A, B, C, **ONE), {"a": (2, 2, 3)}, ("'cls_prob'", "(2, 2, 3)")),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with refused(InferenceError, *words, "'n'"):
        symbol.infer_shape(**shapes)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"scales": ()}, ("scales=()", "at least one")),
        ({"rpn_post_nms_top_n": 0}, ("'rpn_post_nms_top_n'", "≥ 1")),
        ({"ratios": (1.0, 0.0)}, ("'ratios'", "> 0")),
    ],
)
def test_parameters_that_do_not_fit_are_named(params, words):
    with refused(ParamError, *words):
        sym._contrib_Proposal(A, B, C, **params)


def test_inference_knows_the_other_inputs():
    symbol = sym._contrib_MultiProposal(A, B, C, rpn_post_nms_top_n=5, **ONE)
    inputs, outputs, _ = symbol.infer_shape(a=(3, 2, 4, 5))
    assert inputs == [(3, 2, 4, 5), (3, 4, 4, 5), (3, 3)]
    assert outputs == [(15, 5)]
    assert symbol.outputs[0].node.num_outputs() == 2
