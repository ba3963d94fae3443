"""What MXNet calls contributed: layers, samplers, texts."""

from pathlib import Path

import numpy as np
import pytest

from lowering import mx
from lowering.mx.gluon import contrib, nn
from lowering.mx.gluon.contrib.data.text import WikiText2, WikiText103
from lowering.mx.ndarray import storage_types as storage
from symjax_nnvm.errors import ModelNotFoundError, ParamError


def test_blocks_side_by_side():
    for kind in (contrib.nn.Concurrent, contrib.nn.HybridConcurrent):
        both = kind(axis=1)
        both.add(contrib.nn.Identity(), nn.HybridLambda(lambda F, x: x * 2))
        assert both(mx.nd.array([[1.0, 2.0]])).asnumpy().tolist() == [[1, 2, 2, 4]]


def test_a_sparse_embedding_is_dense_and_says_so_once():
    storage.warn_once.cache_clear()
    with pytest.warns(storage.DenseWarning, match="Arrays are dense here"):
        layer = contrib.nn.SparseEmbedding(5, 3, prefix="net_")
    layer.initialize()
    assert layer(mx.nd.array([1, 4])).shape == (2, 3)
    assert repr(layer) == "SparseEmbedding(5 -> 3, float32)"
    assert contrib.nn.SparseEmbedding(2, 2).weight.shape == (2, 2)


def test_synchronised_normalisation_counts_devices():
    with pytest.warns(UserWarning, match="if not using all the GPUs"):
        layer = contrib.nn.SyncBatchNorm(in_channels=2)
    layer.initialize()
    data = mx.nd.array(np.random.default_rng(1).normal(3, 2, (4, 2, 5, 5)))
    with mx.autograd.record():
        found = layer(data).asnumpy()
    np.testing.assert_allclose(found.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.data().asnumpy(), 0.1 * data.asnumpy().mean((0, 2, 3)), rtol=1e-5)


def test_wrong_factors_and_layouts():
    with pytest.raises(AssertionError, match="wrong length 3"):
        contrib.nn.PixelShuffle2D((1, 2, 3))
    with pytest.raises(AssertionError, match="Only supports 'NCHW' and 'NHWC'"):
        contrib.cnn.DeformableConvolution(3, layout="NCDHW")
    with pytest.raises(AssertionError, match="Only support odd number, get h2h_kernel"):
        contrib.rnn.Conv2DLSTMCell((3, 8, 8), 2, 3, 2)
    with pytest.raises(AssertionError, match="For 1D convolution"):
        contrib.rnn.Conv1DRNNCell((3, 8), 2, (3, 3), 1)


def test_an_intervals_sampler_comes_back_for_the_rest():
    assert list(contrib.data.IntervalSampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5]
    once = contrib.data.IntervalSampler(7, 3, rollover=False)
    assert (list(once), len(once)) == ([0, 3, 6], 3)
    with pytest.raises(AssertionError, match="Interval 8 must be smaller than or equal to length 7"):
        contrib.data.IntervalSampler(7, 8)


TEXT = " = Title = \n\n the cat sat \n the dog sat \n"


@pytest.mark.parametrize(("kind", "folder"), [(WikiText2, "wikitext-2"), (WikiText103, "")])
def test_a_text_is_rows_of_words_and_of_the_next(tmp_path: Path, kind: type[WikiText2], folder: str):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "wiki.train.tokens").write_text(TEXT)
    text = kind(tmp_path, seq_len=4)
    words = ["=", "Title", "=", "<eos>", "the", "cat", "sat", "<eos>", "the", "dog", "sat", "<eos>"]
    data, label = text[1]
    assert text.vocabulary.to_tokens(data.asnumpy().tolist()) == words[4:8]
    assert text.vocabulary.to_tokens(label.asnumpy().tolist()) == words[5:9]
    assert (len(text), data.dtype, text.frequencies["the"]) == (2, np.int32, 2)
    assert kind(tmp_path, vocab=text.vocabulary, seq_len=3).vocabulary is text.vocabulary
    with pytest.raises(ModelNotFoundError, match=rf"wiki.test.tokens. {kind.__name__} is read.*unpack wikitext-"):
        kind(tmp_path, "test")
    with pytest.raises(ParamError, match="No such segment"):
        kind(tmp_path, "dev")
