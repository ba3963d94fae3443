"""`Predictor`: a network with its parameters, folded and kept, as a function of its data."""

from __future__ import annotations

import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, InferenceError, LoweringError
from tests.comparison import assert_close

DATA = {"data": (2, 2, 4, 4)}


def network() -> sym.Symbol:
    data = sym.Variable("data")
    hidden = sym.BatchNorm(sym.Convolution(data, kernel=(3, 3), num_filter=3, name="conv"), fix_gamma=False, name="bn")
    return sym.SoftmaxOutput(sym.FullyConnected(sym.relu(hidden), num_hidden=4, name="fc"), name="softmax")


NET = network()
RNG = np.random.default_rng(3)
ARG_SHAPES, _, AUX_SHAPES = NET.infer_shape(**DATA)
ARRAYS = {
    name: RNG.uniform(0.5, 1.5, shape).astype("float32")
    for name, shape in zip(NET.list_arguments(), ARG_SHAPES, strict=True)
}
AUX = {
    name: RNG.uniform(0.5, 1.5, shape).astype("float32")
    for name, shape in zip(NET.list_auxiliary_states(), AUX_SHAPES, strict=True)
}
X = ARRAYS["data"]
ARGS = {name: value for name, value in ARRAYS.items() if name not in ("data", "softmax_label")}


def expected(x: np.ndarray) -> np.ndarray:
    return np.asarray(lowering.to_jax(nn.inference_symbol(NET))({**ARGS, "data": x}, AUX)[0][0])


def test_it_predicts_what_the_network_computes():
    predict = lowering.Predictor(NET, ARGS, AUX)
    assert predict.inputs == ["data"]
    (output,) = predict(data=X)
    assert_close(np.asarray(output), expected(X), 1e-5, "output")
    ran = [record.name for record in predict.plan.records if record.ran]
    assert ran == ["SimplifyInference", "FoldScaleAxis", "AlterOpLayout", "PrecomputePrune"]
    assert "bn_gamma" not in predict._held


def test_a_checkpoint_is_loaded(tmp_path: Path):
    nn.save_checkpoint(tmp_path / "net", 3, NET, ARGS, AUX)
    predict = lowering.Predictor.load(tmp_path / "net", 3)
    assert_close(np.asarray(predict(data=X)[0]), expected(X), 1e-5, "output")


def test_one_executable_for_each_signature_whoever_asks():
    predict = lowering.Predictor(NET, ARGS, AUX).warm(**DATA)
    assert len(predict._executables) == 1
    found: dict[int, np.ndarray] = {}

    def ask(number: int) -> None:
        found[number] = np.asarray(predict(data=X * number if number % 2 else X[:1] * number)[0])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(predict._executables) == 2
    for number, value in found.items():
        assert_close(value, expected(X * number if number % 2 else X[:1] * number), 1e-5, f"call {number}")


def test_half_precision_gives_float32():
    (output,) = lowering.Predictor(NET, ARGS, AUX, dtype="bfloat16")(data=X)
    assert output.dtype == jnp.float32
    assert_close(np.asarray(output), expected(X), 5e-2, "output")


def test_dtypes_of_inputs_follow_where_they_are_warmed():
    net = sym.broadcast_mul(sym.Variable("data"), sym.Variable("w"))
    predict = lowering.Predictor(net, {"w": np.ones((1, 3), "int32")}).warm(data=(2, 3))
    assert predict(data=np.ones((2, 3), "int32"))[0].dtype == jnp.int32
    assert len(predict._executables) == 1


def test_random_networks_take_a_key():
    predict = lowering.Predictor(sym.Dropout(sym.Variable("data"), mode="always", name="drop"), {})
    with pytest.raises(LoweringError, match="needs a PRNG key"):
        predict(data=np.ones(8))
    one, same, other = (predict.warm(data=(8,))(jax.random.key(seed), data=np.ones(8))[0] for seed in (0, 0, 5))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_what_is_amiss_is_told():
    predict = lowering.Predictor(NET, ARGS, AUX)
    for call, error, told in (
        (lambda: predict(), LoweringError, "missing.*data"),
        (lambda: predict(dta=X), LoweringError, "data"),
        (lambda: predict(data=X, fc_weight=ARGS["fc_weight"]), LoweringError, "has.*fc_weight.*already"),
        (lambda: predict(data=X[:, :1]), InferenceError, "conv"),
        (lambda: predict.warm(dta=(1, 2, 4, 4)), LoweringError, "data"),
        (lambda: lowering.Predictor(NET, ARGS), LoweringError, "bn_moving_mean"),
        (lambda: lowering.Predictor(NET, {**ARGS, "fc_wait": X}, AUX), LoweringError, "fc_wait"),
        (lambda: lowering.Predictor(NET, ARGS, AUX, ctx="gpu"), CallError, "platform="),  # pyright: ignore
    ):
        with pytest.raises(error, match=told):
            call()
