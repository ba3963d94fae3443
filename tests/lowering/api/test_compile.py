"""`compile`: the jitted function and what it shows of the executable."""

import importlib
from types import SimpleNamespace

import jax
import jax.export
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError, SymbolValueError

compiling = importlib.import_module("lowering.api.compile")  # the name `lowering.compile` is the function


@pytest.fixture
def run():
    return lowering.compile(sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc"))


@pytest.fixture
def args():
    shapes = {"x": (2, 4), "fc_weight": (3, 4), "fc_bias": (3,)}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def test_compiled_equals_plain(run, args):
    np.testing.assert_array_equal(run(args)[0][0], np.full((2, 3), 5.0))


def test_weights_are_arguments_and_not_constants(run, args):
    run(args)
    entry = run.hlo().splitlines()[0]
    assert "f32[3,4]" in entry
    assert "f32[2,4]" in entry


def test_memory_and_cost_speak_of_the_latest_call(run, args):
    run(args)
    assert run.memory().argument_size_in_bytes == (8 + 12 + 3) * 4
    assert run.cost()["flops"] >= 2 * 2 * 3 * 4


def test_shapes_may_be_given_instead_of_arrays(run, args):
    shapes = {
        name: jax.ShapeDtypeStruct((8, *value.shape[1:]) if name == "x" else value.shape, value.dtype)
        for name, value in args.items()
    }
    assert run.memory(shapes).output_size_in_bytes >= 8 * 3 * 4


def test_asking_before_any_call_says_what_to_do(run):
    with pytest.raises(LoweringError, match="Call the function once, or pass arrays"):
        run.hlo()


def test_export_writes_a_function_that_jax_reads_back(run, args, tmp_path):
    run.export(tmp_path / "model.stablehlo", args)
    loaded = jax.export.deserialize(bytearray((tmp_path / "model.stablehlo").read_bytes()))
    outputs, aux = loaded.call(args, {}, None)
    np.testing.assert_array_equal(outputs[0], run(args)[0][0])
    assert aux == {}


def test_donated_states_are_consumed():
    run = lowering.compile(sym.BatchNorm(sym.Variable("x"), name="bn"), is_train=True, donate_aux=True)
    one = jax.numpy.ones(3)
    aux = {"bn_moving_mean": one * 0, "bn_moving_var": one * 1}
    args = {"x": jax.numpy.ones((2, 3)), "bn_gamma": one, "bn_beta": one}
    _, new_aux = run(args, aux)
    assert aux["bn_moving_mean"].is_deleted()
    assert not new_aux["bn_moving_mean"].is_deleted()


def test_max_memory_refuses_shapes_before_they_are_traced(args):
    symbol = sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc")
    run = lowering.compile(symbol, max_memory="2K")
    np.testing.assert_array_equal(run(args)[0][0], np.full((2, 3), 5.0))
    large = args | {"x": np.ones((1000, 4), np.float32)}
    for call in (run, run.lower, run.hlo):
        with pytest.raises(LoweringError, match=r"node 'fc'; expected at most 2 KiB, the limit max_memory="):
            call(large)
    assert lowering.compile(symbol)(large)[0][0].shape == (1000, 3)
    with pytest.raises(SymbolValueError, match="not a size of memory"):
        lowering.compile(symbol, max_memory="plenty")


def test_max_memory_asks_once_for_each_signature(args, monkeypatch):
    asked = []
    estimate = compiling.estimate
    monkeypatch.setattr(compiling, "estimate", lambda *given: asked.append(given) or estimate(*given))
    run = lowering.compile(sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc"), max_memory=1 << 20)
    for _ in range(3):
        run(args)
    run(args | {"x": np.ones((3, 4), np.float32)})
    assert len(asked) == 2


def test_what_is_kept_of_each_signature_is_bounded(args, monkeypatch):
    run = lowering.compile(sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc"), max_memory=1 << 20)
    monkeypatch.setattr(run, "_jitted", SimpleNamespace(lower=lambda args, *_: SimpleNamespace(compile=lambda: args)))
    for length in range(1, 100):
        run.compiled(args | {"x": jax.ShapeDtypeStruct((length, 4), np.float32)})
    assert [len(run._compiled), len(run._fitting)] == [64, 64]
