"""`mx.model.FeedForward`: it trains, predicts, scores and is saved as MXNet's does."""

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


@pytest.mark.slow("compiles")
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


SEED_3 = {
    False: ([[-0.70755, 0.05146, -0.00608, 0.04675], [0.90755, 0.14854, 0.20608, 0.15325]], 0.290872),
    True: ([[-0.72839, 0.08288, 0.01696, 0.0286], [0.92839, 0.11712, 0.18304, 0.1714]], 0.178539),
}
"""MXNet 1.9.1's weights after two shuffled epochs, without and with validation, and NumPy's next number."""


@pytest.mark.parametrize("validates", [False, True])
def test_two_shuffled_epochs_are_mxnets(validates: bool, caplog: pytest.LogCaptureFixture):
    data = np.random.RandomState(0).normal(size=(50, 4)).astype(np.float32)
    label = (data[:, 0] > 0).astype(np.float32)
    weights = {"fc_weight": mx.nd.ones((2, 4)) * 0.1, "fc_bias": mx.nd.zeros(2)}
    trained = model(num_epoch=2, learning_rate=0.5, arg_params=weights, aux_params={})
    seen: list[Any] = []
    before = np.random.get_state()
    np.random.seed(3)
    try:
        with caplog.at_level(logging.INFO):
            trained.fit(
                data,
                label,
                (data[:30], label[:30]) if validates else None,
                epoch_end_callback=lambda epoch, *_: seen.append(epoch),
                batch_end_callback=lambda param: seen.append((param.epoch, param.nbatch)),
                eval_batch_end_callback=lambda param: seen.append(("validation", param.nbatch)),
            )
        following = np.random.rand()
    finally:
        np.random.set_state(before)
    weight, number = SEED_3[validates]
    np.testing.assert_allclose((trained.arg_params or {})["fc_weight"].asnumpy(), weight, atol=1e-5)
    assert round(following, 6) == number
    validation = [("validation", 0)] if validates else []
    epochs = [[*((epoch, nbatch) for nbatch in (1, 2, 3)), epoch, *validation] for epoch in (0, 1)]
    assert seen == epochs[0] + epochs[1]
    lines = [record.getMessage().partition("=")[0] for record in caplog.records]
    told = ["Resetting Data Iterator", "Time cost", *(["Validation-accuracy"] if validates else [])]
    assert lines == ["Start training with [cpu(0)]", *(f"Epoch[{epoch}] {line}" for epoch in (0, 1) for line in told)]


@pytest.mark.parametrize(("size", "resets"), [(2, [1]), (3, [1]), (4, [0, 1]), (7, [0, 0, 1, 1])])
def test_epochs_of_other_sizes_begin_anew_where_mxnets_do(
    size: int, resets: list[int], caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO):
        model(num_epoch=2, epoch_size=size).fit(mx.io.NDArrayIter(X[:48], Y[:48], 16))
    lines = [record.getMessage() for record in caplog.records if "Resetting" in record.getMessage()]
    assert lines == [f"Epoch[{epoch}] Resetting Data Iterator" for epoch in resets]


def test_an_iterator_without_batches_ends():
    class Empty(mx.io.NDArrayIter):
        def next(self) -> Any:
            raise StopIteration

    with pytest.raises(mx.MXNetError, match="The iterator has no batches"):
        model(num_epoch=1, epoch_size=2).fit(Empty(X, Y, 16))


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
    assert counts == [1, 2, 3, 1, 2, 3]  # MXNet counts from 1 here
    assert trained.arg_params is not None


@pytest.mark.slow("compiles")
def test_buckets():
    sentences = [[1, 2, 3]] * 8 + [[1, 2, 3, 4, 5]] * 8
    data = mx.rnn.BucketSentenceIter(sentences, 4, buckets=[3, 5], invalid_label=0)

    def network_of(key: int) -> mx.sym.Symbol:
        embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=6, output_dim=4, name="embed")
        scores = mx.sym.FullyConnected(mx.sym.Reshape(embedded, shape=(-1, 4)), num_hidden=6, name="fc")
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
