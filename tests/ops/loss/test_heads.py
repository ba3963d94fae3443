"""Regression heads, MakeLoss, make_loss, SVMOutput: labels, quirks, kinks, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

DATA, LABEL = sym.Variable("data"), sym.Variable("label")
REGRESSIONS = [sym.LinearRegressionOutput, sym.MAERegressionOutput, sym.LogisticRegressionOutput]


def gradient(net: sym.Symbol, data, **args) -> np.ndarray:
    arrays = {"data": np.asarray(data, np.float32)} | {n: np.asarray(a, np.float32) for n, a in args.items()}
    return np.asarray(evaluated(lowering.grad_fn(net, ["data"]), arrays)[1]["data"])


# -- regression ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", REGRESSIONS)
def test_labels_of_regressions(op):
    net = op(DATA, LABEL)
    assert net.infer_shape(data=(4, 3))[0] == [(4, 3), (4, 3)]
    assert net.infer_shape(data=(4, 1))[0] == [(4, 1), (4,)]
    assert net.infer_shape(data=(4, 1), label=(4, 1))[0] == [(4, 1), (4, 1)]
    assert net.infer_shape(data=(4, 3, 2), label=(4, 6))[0] == [(4, 3, 2), (4, 6)]
    assert net.infer_shape_partial(data=(0, 3), label=(4, 3))[0] == [(4, 3), (4, 3)]
    assert net.infer_shape_partial(data=(4, 0))[0] == [(4, 0), ()]  # (4,) or (4, d): not known yet
    for label in ((12,), (4,), (3, 4)):
        with pytest.raises(InferenceError, match=r"input 'label'; expected \(4, 3\); got"):
            net.infer_shape(data=(4, 3), label=label)


@pytest.mark.parametrize("op", REGRESSIONS)
def test_the_gradient_is_divided_by_the_outputs_of_a_sample(op):
    one = gradient(op(DATA, LABEL), [[2.0]], label=[[1.0]])
    four = gradient(op(DATA, LABEL), [[[2.0] * 2] * 2], label=[[[1.0] * 2] * 2])
    np.testing.assert_allclose(four, np.broadcast_to(one / 4, (1, 2, 2)), rtol=1e-6)


@pytest.mark.parametrize("op", REGRESSIONS)
def test_labels_receive_zeros(op):
    args = {"data": np.ones((2, 3), np.float32), "label": np.zeros((2, 3), np.float32)}
    np.testing.assert_array_equal(evaluated(lowering.grad_fn(op(DATA, LABEL)), args)[1]["label"], np.zeros((2, 3)))


def test_the_absolute_error_has_derivative_minus_1_at_0():
    np.testing.assert_array_equal(
        gradient(sym.MAERegressionOutput(DATA, LABEL), [1, 2, 3], label=[2, 2, 2]), [-1, -1, 1]
    )


def test_logistic_regression_saturates_without_overflow():
    data = np.array([-1e4, 1e4], np.float32)
    (out,), _ = evaluated(lowering.to_jax(sym.LogisticRegressionOutput(DATA, LABEL)), {"data": data, "label": data * 0})
    np.testing.assert_array_equal(out, [0, 1])


# -- MakeLoss, make_loss ---------------------------------------------------------------------------------------------


def test_make_loss_ignores_the_head_gradient():
    for net in (sym.MakeLoss(DATA), sym.make_loss(DATA)):
        heads = [np.full((2, 3), 7, np.float32)]
        _, grads, _ = evaluated(lowering.grad_fn(net), {"data": np.ones((2, 3), np.float32)}, head_grads=heads)
        np.testing.assert_array_equal(grads["data"], np.ones((2, 3)))


def test_batch_normalization_of_make_loss_counts_rows_of_the_last_axis():
    net = sym.MakeLoss(DATA, normalization="batch")
    for shape, rows in (((4, 3), 4), ((2, 3, 5), 6), ((7,), 1)):
        np.testing.assert_allclose(gradient(net, np.ones(shape)), np.full(shape, 1 / rows), rtol=1e-6)


def test_valid_normalization_counts_at_least_one():
    net = sym.MakeLoss(DATA, normalization="valid", valid_thresh=1.0)
    np.testing.assert_array_equal(gradient(net, [1.0, 0.5]), [1, 1])
    np.testing.assert_array_equal(gradient(net, [1.5, 2.0]), [0.5, 0.5])


def test_the_output_of_make_loss_is_named_loss():
    assert sym.make_loss(DATA, name="m").list_outputs() == ["m_loss"]
    assert sym.MakeLoss(DATA, name="m").list_outputs() == ["m_output"]


# -- SVMOutput -------------------------------------------------------------------------------------------------------


def test_a_score_on_the_margin_has_no_gradient():
    for linear in (False, True):
        net = sym.SVMOutput(DATA, LABEL, use_linear=linear)
        np.testing.assert_array_equal(gradient(net, [[1.0, -1.0]], label=[0]), [[0, 0]])


def test_linear_and_squared_hinge():
    data, label = [[0.5, 0.5, -2.0]], [0]
    np.testing.assert_array_equal(
        gradient(sym.SVMOutput(DATA, LABEL, use_linear=True), data, label=label), [[-1, 1, 0]]
    )
    np.testing.assert_array_equal(gradient(sym.SVMOutput(DATA, LABEL), data, label=label), [[-1, 3, 0]])


def test_labels_of_svm_output():
    net = sym.SVMOutput(DATA, LABEL, name="svm")
    assert net.infer_shape(data=(4, 2, 3))[0] == [(4, 2, 3), (4, 2)]
    assert net.infer_shape_partial(data=(0, 3), label=(4,))[0] == [(4, 3), (4,)]
    with pytest.raises(InferenceError, match=r"'SVMOutput', node 'svm', input 'label'; expected \(2,\); got \(2, 3\)"):
        net.infer_shape(data=(2, 3), label=(2, 3))
    with pytest.raises(InferenceError, match=r"an axis each; expected at least 2 axes; got \(2,\)"):
        net.infer_shape(data=(2,))


def test_parameters_are_checked_when_the_node_is_made():
    with pytest.raises(ParamError, match="normalization expect one of 'batch', 'null', 'valid'"):
        sym.MakeLoss(DATA, normalization="rows")
    with pytest.raises(ParamError, match="grad_scale expect float"):
        sym.LinearRegressionOutput(DATA, LABEL, grad_scale="much")
