"""Training heads stripped: the same values without labels."""

import numpy as np
import pytest

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol.symbol import Symbol
from tests.surgery.networks import arrays_for, classifier, outputs_of

X = sym.Variable("data")
LABEL = sym.Variable("softmax_label")


def check_same_values(symbol: Symbol, outputs: tuple[int, ...] | None = None, **shapes: tuple[int, ...]) -> Symbol:
    """The stripped symbol computes the outputs numbered so (all) of the original; returned after a JSON round trip."""
    stripped = sym.load_json(nn.inference_symbol(symbol).tojson())
    args, aux = arrays_for(symbol, **shapes)
    expected = outputs_of(symbol, args, aux)
    chosen = range(len(expected)) if outputs is None else outputs
    got = outputs_of(stripped, args, aux)
    assert len(got) == len(chosen)
    for a, i in zip(got, chosen, strict=True):
        np.testing.assert_allclose(a, expected[i], rtol=1e-6, atol=1e-7)
    return stripped


@pytest.mark.slow("compiles")
def test_classifier_loses_its_label_and_keeps_names_and_states():
    stripped = check_same_values(classifier(), data=(2, 3, 6, 6))
    assert stripped.list_outputs() == ["softmax_output"]
    assert stripped.list_arguments() == [n for n in classifier().list_arguments() if n != "softmax_label"]
    assert stripped.list_auxiliary_states() == classifier().list_auxiliary_states()


def test_matrix_gets_one_softmax_node():
    stripped = nn.inference_symbol(classifier())
    assert stripped.outputs[0].node.op is not None
    assert stripped.outputs[0].node.op.name == "softmax"
    assert stripped.get_attr("axis") == "-1"


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    ("params", "shape"),
    [
        ({}, (2, 5)),
        ({}, (2, 3, 4)),
        ({}, (2, 3, 2, 2)),
        ({"multi_output": True}, (2, 3, 2, 2)),
        ({"multi_output": True}, (2, 3)),
        ({"preserve_shape": True}, (2, 3, 4)),
        ({"multi_output": True, "use_ignore": True, "ignore_label": 1}, (2, 3, 4)),
        ({"grad_scale": 0.5, "normalization": "valid"}, (3, 4)),
    ],
    ids=str,
)
def test_softmax_has_the_right_axes(params, shape):
    check_same_values(sym.SoftmaxOutput(X, LABEL, name="softmax", **params), data=shape)


@pytest.mark.parametrize("op", ["LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"])
def test_regression_heads(op):
    net = getattr(sym, op)(sym.FullyConnected(X, num_hidden=3, name="fc"), sym.Variable("y"), name="out")
    stripped = check_same_values(net, data=(2, 4))
    assert "y" not in stripped.list_arguments()
    assert stripped.list_outputs() == ["out_output"]


def test_support_vector_head_and_label_free_losses():
    scores = sym.FullyConnected(X, num_hidden=3, name="fc")
    check_same_values(sym.SVMOutput(scores, sym.Variable("svm_label"), name="svm"), data=(2, 4))
    check_same_values(sym.Group([sym.MakeLoss(scores), sym.make_loss(scores), sym.BlockGrad(scores)]), data=(2, 4))


def test_inner_block_grad_disappears():
    net = sym.relu(sym.BlockGrad(sym.FullyConnected(X, num_hidden=3, name="fc"), name="stop"), name="relu")
    assert "stop_output" not in nn.inference_symbol(net).get_internals().list_outputs()
    check_same_values(net, data=(2, 4))


@pytest.mark.slow("computes much")
def test_outputs_that_need_a_label_fall_away_with_what_only_they_need():
    prediction = sym.softmax(sym.FullyConnected(X, num_hidden=3, name="fc"), name="prediction")
    picked = sym.pick(prediction, sym.Variable("my_label"), name="picked")
    loss = sym.MakeLoss(sym.negative(sym.log(picked)), name="loss")
    net = sym.Group([loss, sym.BlockGrad(prediction, name="prob"), sym.BlockGrad(sym.Variable("my_label"))])
    stripped = check_same_values(net, outputs=(1,), data=(2, 4), my_label=(2,))
    assert stripped.list_outputs() == ["prob_output"]
    assert stripped.list_arguments() == ["data", "fc_weight", "fc_bias"]


@pytest.mark.nightly("compiles")
def test_ssd_like_training_symbol_gives_its_detections():
    anchors = sym.Variable("anchors")
    scores = sym.Reshape(sym.FullyConnected(X, num_hidden=12, name="cls"), shape=(0, 3, 4))
    boxes = sym.FullyConnected(X, num_hidden=16, name="loc")
    target, mask, classes = sym.contrib.MultiBoxTarget(anchors, sym.Variable("label"), scores, name="target")
    prob = sym.SoftmaxOutput(scores, classes, multi_output=True, use_ignore=True, name="cls_prob")
    loss = sym.MakeLoss(sym.smooth_l1(mask * (boxes - target), scalar=1.0), name="loc_loss")
    found = sym.contrib.MultiBoxDetection(prob, boxes, anchors, name="detection")
    net = sym.Group([prob, loss, sym.MakeLoss(classes, name="cls_label"), sym.MakeLoss(found, name="det_out")])
    stripped = check_same_values(net, outputs=(0, 3), data=(2, 6), anchors=(1, 4, 4), label=(2, 3, 5))
    assert stripped.list_outputs() == ["cls_prob_output", "det_out_output"]
    assert "label" not in stripped.list_arguments()


def test_what_any_operator_reads_as_its_label_alone_is_a_label():
    boxes = sym.Variable("ground_truth")
    targets = sym.contrib.MultiBoxTarget(sym.Variable("anchors"), boxes, X)
    assert nn.inference_symbol(sym.Group([X * 2, targets[0]])).list_inputs() == ["data"]
    with pytest.raises(nn.GraphError, match="Every output needs a label"):
        nn.inference_symbol(targets)


def test_a_pure_loss_is_an_error_that_says_where_to_cut():
    scores = sym.FullyConnected(X, num_hidden=3, name="fc")
    net = sym.MakeLoss(sym.softmax_cross_entropy(scores, LABEL), name="loss")
    with pytest.raises(nn.GraphError, match=r"softmax_label.*nnvm.cut.*: fc_output"):
        nn.inference_symbol(net)
    assert nn.cut(net, "fc_output").list_arguments() == ["data", "fc_weight", "fc_bias"]


def test_an_autoencoders_data_are_no_label():
    net = sym.LinearRegressionOutput(sym.FullyConnected(X, num_hidden=4, name="fc"), X, name="out")
    assert check_same_values(net, data=(2, 4)).list_arguments() == ["data", "fc_weight", "fc_bias"]


def test_labels_can_be_named():
    net = sym.Group([sym.relu(X, name="keep"), sym.relu(sym.Variable("y"), name="drop")])
    assert nn.inference_symbol(net, labels=["y"]).list_outputs() == ["keep_output"]
    assert nn.inference_symbol(net).list_outputs() == ["keep_output", "drop_output"]


def test_control_dependencies_and_hidden_attributes_stay():
    head = sym.SoftmaxOutput(sym.FullyConnected(X, num_hidden=3, name="fc"), LABEL, name="softmax")
    head.set_attrs({"__mood__": "calm"})
    head.add_control_deps(sym.relu(X, name="first"))
    node = nn.inference_symbol(head).outputs[0].node
    assert [dep.name for dep in node.control_deps] == ["first"]
    assert node.attrs.dict["__mood__"] == "calm"


def test_the_given_symbol_is_not_touched():
    net = classifier()
    before = net.tojson()
    stripped = nn.inference_symbol(net)
    assert net.tojson() == before
    stripped.set_attrs({"__mark__": "1"})
    assert {id(e.node) for e in net.get_internals().outputs}.isdisjoint(
        id(e.node) for e in stripped.get_internals().outputs
    )
