"""Splitting, clipping, files; and what losses do with weights."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from lowering import mx
from lowering.mx import gluon
from lowering.mx.gluon import utils

CONTEXTS = [mx.cpu(0), mx.cpu(1)]


def test_batches_are_split_evenly_unless_they_need_not_be():
    x = mx.nd.arange(10).reshape((5, 2))
    with pytest.raises(ValueError, match=r"data with shape \(5, 2\) cannot be evenly split into 2 slices along axis 0"):
        utils.split_data(x, 2)
    assert [part.shape for part in utils.split_data(x, 2, even_split=False)] == [(3, 2), (2, 2)]
    assert [part.shape for part in utils.split_data(x, 2, batch_axis=1)] == [(5, 1), (5, 1)]
    parts = utils.split_and_load(np.ones((4, 2)), CONTEXTS)
    assert [part.context for part in parts] == CONTEXTS
    assert utils.split_and_load(x, [mx.cpu(1)])[0].context == mx.cpu(1)


@pytest.mark.slow("compiles")
def test_gradients_are_clipped_by_their_common_norm():
    arrays = [mx.nd.array([3.0, 0.0]), mx.nd.array([[4.0]])]
    assert utils.clip_global_norm(arrays, 1.0) == 5
    np.testing.assert_allclose(arrays[0].asnumpy(), [0.6, 0], rtol=1e-6)
    assert utils.clip_global_norm(arrays, 2.0, check_isfinite=False).shape == (1,)
    np.testing.assert_allclose(arrays[1].asnumpy(), [[0.8]], rtol=1e-6)
    with pytest.warns(UserWarning, match="nan or inf is detected"):
        utils.clip_global_norm([mx.nd.array([np.nan])], 1.0)
    with pytest.raises(AssertionError):
        utils.clip_global_norm([], 1.0)


def test_deviation_gradients_whose_squares_are_out_of_range_are_clipped():
    wide = [mx.nd.array([3e20, 0.0]), mx.nd.array([[4e20]])]
    assert utils.clip_global_norm(wide, 1.0) == pytest.approx(5e20)
    np.testing.assert_allclose(wide[1].asnumpy(), [[0.8]], rtol=1e-6)
    half = [mx.nd.full((4,), value, dtype="float16") for value in (3e4, 4e4)]
    assert utils.clip_global_norm(half, 1e-3) == pytest.approx(1e5, rel=1e-3)
    assert half[0].dtype == np.float16
    np.testing.assert_allclose(half[1].asnumpy(), np.full(4, 4e-4), rtol=1e-2)
    assert utils.clip_global_norm([mx.nd.array([3e-25, 4e-25])], 1.0) == pytest.approx(5e-25)


def test_files_are_taken_where_they_are(tmp_path: Path):
    path = tmp_path / "file.txt"
    path.write_text("words")
    sha1 = hashlib.sha1(b"words").hexdigest()
    assert utils.check_sha1(str(path), sha1)
    assert utils.download("https://nowhere/file.txt", str(tmp_path), sha1_hash=sha1) == str(path)
    with pytest.raises(AssertionError, match="Set the `path` option"):
        utils.download("https://nowhere/")
    with pytest.raises(AssertionError, match="at least 0, currently it's -1"):
        utils.download("https://nowhere/file.txt", retries=-1)
    utils.replace_file(str(path), str(tmp_path / "other"))
    assert (tmp_path / "other").read_text() == "words"
    assert utils._get_repo_file_url("a", "b").endswith("/a/b")


def test_known_shapes():
    assert utils.shape_is_known((1, 2))
    assert not any(map(utils.shape_is_known, (None, (), (0, 2))))
    with pytest.raises(AssertionError):
        utils.shape_is_known((-1, 2))


def test_losses_are_a_number_for_each_sample():
    pred, label = mx.nd.ones((2, 3, 4)) * 3, mx.nd.ones((2, 3, 4))
    assert gluon.loss.L2Loss()(pred, label).asnumpy().tolist() == [2, 2]
    assert gluon.loss.L2Loss(batch_axis=1)(pred, label).shape == (3,)
    weights = mx.nd.array([1, 0]).reshape((2, 1, 1))
    assert gluon.loss.L1Loss(weight=0.5)(pred, label, weights).asnumpy().tolist() == [1, 0]
    with pytest.raises(AssertionError, match="weight must be a number"):
        gluon.loss.L1Loss(weight=weights)(pred, label)
    pred.attach_grad()
    with mx.autograd.record():
        loss = gluon.loss.L1Loss()(pred, label)
    loss.backward()  # from ones
    np.testing.assert_allclose(pred.grad.asnumpy(), np.full((2, 3, 4), 1 / 12), rtol=1e-6)


@pytest.mark.slow("compiles")
def test_positive_weights_and_lengths():
    pred, label = mx.nd.array([[0.5, -1.0]]), mx.nd.array([[1, 0]])
    loss = gluon.loss.SigmoidBCELoss()(pred, label, None, mx.nd.array([[2.0, 2.0]])).asscalar()
    p = 1 / (1 + np.exp(-np.array([0.5, -1.0])))
    assert loss == pytest.approx(-(2 * np.log(p[0]) + np.log(1 - p[1])) / 2, rel=1e-5)
    from_sigmoid = gluon.loss.SigmoidBCELoss(from_sigmoid=True)
    again = from_sigmoid(mx.nd.array([p]), label, None, mx.nd.array([[2.0, 2.0]])).asscalar()
    assert again == pytest.approx(loss, rel=1e-5)
    scores, words = mx.nd.ones((1, 5, 4)), mx.nd.array([[1, 2, 0]])
    whole = gluon.loss.CTCLoss()(scores[:, :4], words[:, :2]).asscalar()
    assert gluon.loss.CTCLoss()(scores, words, mx.nd.array([4]), mx.nd.array([2])).asscalar() == pytest.approx(whole)


def test_stirlings_term_is_of_counts_above_one():
    pred, target = np.array([[2.0, 1.5]], np.float32), np.array([[1.0, 3.0]], np.float32)
    loss = gluon.loss.PoissonNLLLoss(from_logits=False, compute_full=True)
    found = loss(mx.nd.array(pred), mx.nd.array(target)).asscalar()
    stirling = target * np.log(target) - target + 0.5 * np.log(2 * target * np.pi)
    assert found == pytest.approx(np.mean(pred - target * np.log(pred + 1e-8) + stirling * (target > 1)), rel=1e-5)
    with mx.autograd.record():  # MXNet writes in place here, which the tape refuses
        loss(mx.nd.array(pred), mx.nd.array(target))


def test_words_that_losses_do_not_know_are_refused():
    with pytest.raises(AssertionError, match="layouts for pred"):
        gluon.loss.CTCLoss(layout="CTN")
    with pytest.raises(AssertionError, match="layouts for label"):
        gluon.loss.CTCLoss(label_layout="NTC")
    with pytest.raises(ValueError, match="label_format can only be signed or binary"):
        gluon.loss.LogisticLoss(label_format="other")
