"""`mx.model.FeedForward`: it trains, predicts, scores and is saved as MXNet's does."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.float32)


def network() -> mx.sym.Symbol:
    """Two classes."""
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc"), name="softmax")


def model(symbol: Any = None, **options: Any) -> mx.model.FeedForward:
    """One that says that it is old."""
    given = {"num_epoch": 12, "learning_rate": 1.0, "numpy_batch_size": 16, **options}
    with pytest.warns(DeprecationWarning, match="Please use mxnet.mod.Module instead"):
        return mx.model.FeedForward(symbol or network(), **given)


def test_arrays(caplog: pytest.LogCaptureFixture):
    trained = model(momentum=0.5)
    with caplog.at_level(logging.INFO):
        trained.fit(X, Y[:, None], eval_data=(X.tolist(), Y.tolist()))
    lines = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("Epoch[3] Validation-accuracy=") for line in lines) == 1
    predicted = trained.predict(X)
    assert isinstance(predicted, np.ndarray)
    assert predicted.shape == (50, 2)
    assert np.mean(predicted.argmax(1) == Y) > 0.9
    outputs, data, label = trained.predict(mx.io.NDArrayIter(X, Y, 16), return_data=True)
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(label, Y)
    np.testing.assert_allclose(outputs, predicted, rtol=1e-6)
    assert trained.predict(X, num_batch=2).shape == (32, 2)
    seen: list[int] = []
    iterator = mx.io.NDArrayIter(X, Y, 25)
    value = trained.score(iterator, "acc", batch_end_callback=[lambda param: seen.append(param.nbatch)])
    assert value == np.mean(predicted.argmax(1) == Y)
    assert seen == [0, 1]
    assert trained.score(iterator, num_batch=1) == np.mean(predicted[:25].argmax(1) == Y[:25])


def test_iterators_begin_anew_as_often_as_mxnets() -> None:
    class Counted(mx.io.NDArrayIter):
        resets = 0

        def reset(self) -> None:
            self.resets += 1
            super().reset()

    data, validation, seen = Counted(X[:48], Y[:48], 16), Counted(X[:48], Y[:48], 16), []
    model(num_epoch=2).fit(data, eval_data=validation, eval_end_callback=lambda param: seen.append(param.epoch))
    assert (data.resets, validation.resets, seen) == (4, 5, [0, 1])  # what MXNet 1.9.1 does


def test_it_is_what_a_module_trains():
    weights = {"fc_weight": mx.nd.ones((2, 4)) * 0.1, "fc_bias": mx.nd.zeros(2)}
    data = mx.io.NDArrayIter(X[:48], Y[:48], 16)
    trained = model(num_epoch=2, arg_params=weights, aux_params={})
    trained.fit(data)
    module = mx.mod.Module(network())
    module.fit(data, num_epoch=2, arg_params=weights, aux_params={}, optimizer_params={"learning_rate": 1.0})
    for name, value in module.get_params()[0].items():
        np.testing.assert_array_equal((trained.arg_params or {})[name].asnumpy(), value.asnumpy())


def test_files_and_pickles(tmp_path: Path):
    trained = model(num_epoch=1)
    trained.fit(X, Y)
    expected = trained.predict(X)
    prefix = str(tmp_path / "net")
    trained.save(prefix)
    with pytest.warns(DeprecationWarning, match="FeedForward"):
        loaded = mx.model.FeedForward.load(prefix, 1, numpy_batch_size=10)
    assert loaded.begin_epoch == 1
    np.testing.assert_array_equal(loaded.predict(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(trained)).predict(mx.nd.array(X)), expected)
    arguments, states = mx.model.load_params(prefix, 1)
    assert (set(arguments), states) == ({"fc_weight", "fc_bias"}, {})


def test_create_and_epochs_of_a_size():
    counts: list[int] = []

    def count(param: Any) -> None:
        counts.append(param.nbatch)

    with pytest.warns(DeprecationWarning, match="FeedForward"):
        trained = mx.model.FeedForward.create(
            network(), mx.io.NDArrayIter(X[:32], Y[:32], 16), num_epoch=2, epoch_size=3, batch_end_callback=count
        )
    assert counts == [0, 1, 2, 0, 1, 2]
    assert trained.arg_params is not None


def test_buckets():
    sentences = [[1, 2, 3]] * 8 + [[1, 2, 3, 4, 5]] * 8
    data = mx.rnn.BucketSentenceIter(sentences, 4, buckets=[3, 5], invalid_label=0)

    def network_of(key: int) -> mx.sym.Symbol:
        embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=6, output_dim=4, name="embed")
        flat = mx.sym.Reshape(embedded, shape=(-1, 4))
        scores = mx.sym.FullyConnected(flat, num_hidden=6, name="fc")
        return mx.sym.SoftmaxOutput(
            scores, mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,)), name="softmax"
        )

    trained = model(network_of, num_epoch=2)
    trained.fit(data, eval_metric=mx.metric.Perplexity(0))
    assert set(trained.arg_params or ()) == {"embed_weight", "fc_weight", "fc_bias"}


def test_parameters_that_the_network_has_not():
    weights = {"fc_weight": mx.nd.ones((2, 4)), "fc_bias": mx.nd.zeros(2), "other": mx.nd.zeros(1)}
    allowing = model(arg_params=weights, aux_params={}, allow_extra_params=True, num_epoch=1)
    assert allowing.predict(X).shape == (50, 2)
    allowing.fit(X, Y)
    assert set(allowing.arg_params or ()) == {"fc_weight", "fc_bias"}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: m.fit(X), ValueError, "y must be specified"),
        (lambda m: m.fit([1.0], Y), TypeError, "X must be DataIter"),
        (lambda m: m.fit(X, list(Y)), TypeError, "y must be ndarray"),
        (lambda m: m.fit(X, Y[:3]), ValueError, "not equal"),
        (lambda m: m.fit(X, np.stack([Y, Y], 1)), ValueError, "1D or 2D"),
        (lambda m: m.fit(X, Y, eval_data=3), TypeError, "Eval data must be DataIter"),
        (lambda m: m.fit(X, Y, eval_data=(None, Y)), ValueError, "Eval data is NONE"),
        (lambda m: m.predict(X), ValueError, "The model has no parameters"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mistakes(call: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call(model())
