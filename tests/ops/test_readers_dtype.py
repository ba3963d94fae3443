"""Arrays made out of nothing, where no dtype was chosen, have the dtype that the operators reading them need."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.errors import InferenceError
from tests.ops.test_recurrent_layers import GOLDENS, golden, load
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

MADE = {
    "_zeros": {"shape": (3,)},
    "_ones": {"shape": (3,)},
    "_full": {"shape": (3,), "value": 0.5},
    "_arange": {"start": 0, "stop": 3},
    "_linspace": {"start": 0, "stop": 1, "num": 3},
    "_eye": {"N": 1, "M": 3},
    "_random_uniform": {"shape": (3,)},
    "_random_normal": {"shape": (3,)},
    "_random_gamma": {"shape": (3,)},
    "_random_exponential": {"shape": (3,)},
    "_random_poisson": {"shape": (3,)},
    "_random_negative_binomial": {"shape": (3,)},
    "_random_generalized_negative_binomial": {"shape": (3,)},
}
"""Operators without inputs → parameters."""


def made(op: str, **more: object) -> sym.Symbol:
    return getattr(sym, op)(**MADE[op], **more)


@pytest.mark.nightly("every case", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("op", MADE)
def test_a_reader_of_another_dtype_decides_deviation(op: str, dtype: str):
    x = sym.Variable("x")
    for net in (made(op) + x, x + made(op)):
        assert [np.dtype(t) for t in net.infer_type(x=dtype)[1]] == [np.dtype(dtype)]
        with jax.enable_x64(True):
            args = {"x": jnp.zeros((1, 3) if op == "_eye" else 3, dtype)}
            outputs, _ = evaluated(lowering.to_jax(net), args, key=jax.random.key(0))
        assert outputs[0].dtype == dtype


@pytest.mark.parametrize("op", MADE)
def test_float32_where_nobody_needs_another(op: str):
    x = sym.Variable("x")
    assert made(op).infer_type()[1] == [np.float32]
    assert (made(op) + x).infer_type()[0] == [np.float32]  # and its readers', as in MXNet
    assert sym.Cast(made(op), dtype="float16").infer_type()[1] == [np.float16]


@pytest.mark.parametrize("op", MADE)
def test_a_dtype_that_somebody_chose_stays(op: str):
    with pytest.raises(InferenceError, match="float64"):
        (made(op, dtype="float64") + sym.Variable("x")).infer_type(x="float16")


@pytest.mark.parametrize("op", ["_full", "_arange", "_linspace", "_random_uniform"])
def test_fractions_do_not_become_integers(op: str):
    with pytest.raises(InferenceError, match="int32"):
        (made(op) + sym.Variable("x")).infer_type(x="int32")


def test_samples_from_arrays_too():
    draws = sym.sample_normal(sym.Variable("mu"), sym.Variable("sigma"), shape=(2,))
    arguments, outputs, _ = (draws * sym.Variable("x")).infer_type(mu="float32", x="float16")
    assert (arguments, outputs) == ([np.float32, np.float32, np.float16], [np.float16])


def test_a_loop_lets_the_graph_outside_decide_first():
    x, state = sym.Variable("x"), sym.Variable("state")
    sums, _ = sym.contrib.foreach(lambda a, b: (a + sym.ones((2,)), b + sym.zeros((2,))), x, state)
    assert sums.infer_type(x="float16", state="float64")[1] == [np.float16]
    assert sums.infer_type()[0] == [np.float32] * len(sums.list_arguments())


# -- Gluon's recurrent layers, whose first states are zeros that its functions call float32 ----------------------------


@pytest.mark.parametrize("layer", ["lstm", "rnn"])
def test_recurrent_layers_run_in_half_and_double_precision(layer: str):
    expected = golden(layer, "out")["0"]
    for dtype, rtol in (("float16", 2e-3), ("float64", 1e-6)):
        with jax.enable_x64(True):
            args = {name: value.astype(dtype) for name, value in golden(layer, "arg").items()}
            (output,), _ = evaluated(lowering.to_jax(load(layer)), args)
            assert output.dtype == dtype
            assert_close(output, expected, rtol, f"{layer} in {dtype}")


@pytest.mark.slow("compiles")
def test_their_gradients_are_verified_in_float64():
    assert lowering.check_gradients(load("lstm"), golden("lstm", "arg"), {}, finite_differences=False).ok


@pytest.mark.nightly("compiles")
def test_the_command_verifies_a_network_of_words_and_a_recurrent_layer(capsys: pytest.CaptureFixture[str]):
    prefix = GOLDENS.parent / "networks" / "gluon_lstm"
    options = ["--shape", "data=2,3", "--directions", "1", "--no-finite-differences"]
    assert main(["verify", str(prefix), *options]) == 0
    assert "agrees" in capsys.readouterr().out


@pytest.mark.nightly("compiles")
def test_they_train_in_bfloat16():
    net = sym.LinearRegressionOutput(load("lstm"), sym.Variable("label"), name="out")
    trainer = lowering.Trainer(net, optimizer="sgd", compute_dtype="bfloat16")
    batch = {"data": golden("lstm", "arg")["data"], "label": np.ones((3, 2, 8), np.float32)}
    trainer.init(0, **{name: value.shape for name, value in batch.items()})
    before = trainer.step(batch)[0]
    assert before.dtype == np.float32
    text = trainer.step_fn.lower(trainer.require_state(), batch).as_text()
    assert any("bf16" in line for line in text.splitlines() if "stablehlo.dot_general" in line)
    assert np.abs(trainer.step(batch)[0] - 1).mean() < np.abs(before - 1).mean()


def test_what_a_table_of_words_says_of_its_dtype_gives_way():
    net = sym.Embedding(sym.Variable("x"), sym.Variable("w"), input_dim=3, output_dim=2, dtype="float32")
    assert (sym.tanh(net) + sym.Variable("y")).infer_type(x="int32", y="float64")[0] == [np.int32, *[np.float64] * 2]
    assert net.infer_type(x="int32")[0] == [np.int32, np.float32]
