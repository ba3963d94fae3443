"""A few samples at a time: where that is right, and that it gives the same."""

import numpy as np
import pytest

import lowering
from lowering.serving import microbatch
from lowering.serving.plan import serving_plan, whole_plan
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError
from tests.support.comparison import assert_close

x = sym.Variable("data")


def network() -> sym.Symbol:
    h = sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=4, name="conv")
    h = sym.BatchNorm(h, fix_gamma=False, name="bn")
    h = sym.Concat(sym.Activation(h, act_type="relu"), h, dim=1)
    h = sym.Flatten(sym.Pooling(h, kernel=(2, 2), stride=(2, 2), pool_type="avg"))
    return sym.softmax(sym.FullyConnected(h, num_hidden=5, name="fc"))


def predictor(net: sym.Symbol, batch: int) -> lowering.Predictor:
    rng = np.random.default_rng(0)
    shapes, _, states = net.infer_shape(data=(batch, 3, 6, 6))
    args = {n: rng.random(s, np.float32) for n, s in zip(net.list_arguments(), shapes, strict=True) if n != "data"}
    aux = {n: np.ones(s, np.float32) for n, s in zip(net.list_auxiliary_states(), states, strict=True)}
    return lowering.Predictor(net, args, aux)


def chunk_of(net: sym.Symbol, batch: int, monkeypatch: pytest.MonkeyPatch, size: int) -> int | None:
    """The chunk, where arrays of so many samples of the largest, 4 KiB, are the most that a cache holds."""
    monkeypatch.setattr(microbatch, "CHUNK_BYTES", size * 2 * 4 * 36 * 4)
    monkeypatch.setattr(microbatch, "FOR_CHUNKS", 1)
    predict = predictor(net, batch)
    inputs = {"data": ((batch, 3, 6, 6), "float32")}
    return whole_plan(predict._programs, predict._kept, predict._options, inputs).chunk


@pytest.mark.parametrize(("batch", "size", "chunk"), [(12, 4, 4), (12, 5, 4), (10, 4, 2), (7, 4, 1), (4, 4, None)])
def test_the_largest_divisor_that_fits(batch: int, size: int, chunk: int | None, monkeypatch: pytest.MonkeyPatch):
    assert chunk_of(network(), batch, monkeypatch, size) == chunk


def test_of_one_sample_no_batch_is_planned_and_no_client_is_made(monkeypatch: pytest.MonkeyPatch):
    predict = predictor(network(), 1)
    for unused in ("batch_of", "_network", "cpu_streams.one_core"):
        monkeypatch.setattr(f"lowering.serving.plan.{unused}", None)
    inputs = {"data": ((1, 3, 6, 6), "float32")}
    plan = serving_plan(predict._programs, predict._kept, predict._options, inputs)
    assert plan == whole_plan(predict._programs, predict._kept, predict._options, inputs)


def test_chunks_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch):
    data = np.random.default_rng(1).standard_normal((12, 3, 6, 6)).astype("float32")
    whole = predictor(network(), 12)(data=data)
    assert chunk_of(network(), 12, monkeypatch, 4) == 4
    parts = predictor(network(), 12)(data=data)
    assert_close(np.asarray(parts[0]), np.asarray(whole[0]), 1e-6, "output")


@pytest.mark.parametrize(
    "mixing",
    [
        lambda net: sym.softmax(net, axis=0),
        lambda net: sym.broadcast_sub(net, sym.mean(net, axis=0, keepdims=True)),
        lambda net: sym.Reshape(net, shape=(12, 5)),
        lambda net: sym.reverse(net, axis=0),
        lambda net: sym.elemwise_add(net, sym.Variable("offset", shape=(12, 5))),
    ],
    ids=["softmax", "mean", "shape", "reverse", "offset"],
)
def test_samples_that_may_mix_stay_together(mixing, monkeypatch: pytest.MonkeyPatch):
    assert chunk_of(mixing(network()), 12, monkeypatch, 4) is None


def test_parameters_are_not_read_again_for_chunks_that_are_small_beside_them(monkeypatch: pytest.MonkeyPatch):
    assert chunk_of(network(), 12, monkeypatch, 4) == 4
    assert chunk_of(sym.FullyConnected(network(), num_hidden=20_000, name="heavy"), 12, monkeypatch, 4) is None


@pytest.mark.parametrize("most", [1, 2, 7, 100, 4096])
def test_a_chunk_is_the_largest_divisor_that_fits(most: int):
    for number in (1, 2, 7, 12, 97, 96, 100, 1024, 1001, 9973, 5040):
        assert microbatch._largest_divisor(number, most) == max(
            c for c in range(1, number + 1) if number % c == 0 and c <= most
        )


def test_a_huge_batch_is_divided_at_once():
    assert microbatch._largest_divisor(2**50, 1 << 20) == 1 << 20
    net = sym.FullyConnected(x, num_hidden=2, name="fc")
    small = lowering.Predictor(net, {"fc_weight": np.ones((2, 5), np.float32), "fc_bias": np.ones(2, np.float32)})
    with pytest.raises(LoweringError, match="more memory than there is"):
        small.warm(data=(2**50, 5))
