"""Making arrays compiles nothing: a program for every new shape would stay in JAX's caches for good."""

import jax
import numpy as np
import pytest

from lowering import initializer
from lowering.executor import bind, simple_bind
from symjax_nnvm import symbol as sym
from tests.support.compilations import compilations


def _network() -> sym.Symbol:
    x = sym.BatchNorm(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), name="bn")
    return sym.SoftmaxOutput(sym.Cast(x, dtype="bfloat16"), name="softmax")


SIZES = range(31, 37)


def test_compilations_are_seen():
    with compilations() as seen:
        jax.numpy.zeros((17, 19, 23), np.int8)
    assert seen


@pytest.mark.parametrize("device", [None, "cpu"])
def test_binding_ever_new_shapes_compiles_nothing(device):
    network = _network()
    simple_bind(network, device, data=(1, 2), type_dict={"data": "float16"})  # the PRNG key's own program
    with compilations() as seen:
        for size in SIZES:
            executor = simple_bind(network, device, data=(size, size + 1), type_dict={"data": "float16"})
            assert executor.arg_dict["fc_weight"].shape == (3, size + 1)
            assert executor.arg_dict["softmax_label"].dtype == jax.numpy.bfloat16
            assert not np.any(np.asarray(executor.grad_dict["fc_weight"]))
    assert not seen


def test_rebinding_and_writing_compile_nothing():
    network = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
    executor = simple_bind(network, data=(50, 2))
    with compilations() as seen:
        for size in SIZES:
            rng = np.ones((size, 2), np.float32)
            args = {"data": rng, "fc_weight": np.ones((3, 2), np.float32), "fc_bias": np.zeros(3, np.float32)}
            bind(network, None, args, {"data": np.zeros_like(rng)})
            executor = executor.reshape(data=(size, 2), allow_up_sizing=True)
            executor.arg_dict["data"] = 2.0
            executor.copy_params_from({"fc_bias": np.ones(3)})
            assert (np.asarray(executor.arg_dict["data"]) == 2).all()
    assert not seen


def test_reshaping_keeps_what_fits():
    executor = simple_bind(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc"), data=(4, 2))
    executor.arg_dict["data"] = np.arange(8, dtype=np.float32).reshape(4, 2)
    smaller = executor.reshape(data=(3, 2))
    np.testing.assert_array_equal(smaller.arg_dict["data"], np.arange(6, dtype=np.float32).reshape(3, 2))


@pytest.mark.parametrize("name", ["zeros", "ones", '["constant", {"value": 0.5}]'])
def test_constant_initialisers_compile_nothing(name):
    made = initializer.create(name)
    with compilations() as seen:
        for size in SIZES:
            value = made("fc_weight", (size, 3), jax.numpy.bfloat16, None)
            assert (value.shape, value.dtype) == ((size, 3), jax.numpy.bfloat16)
    assert not seen
