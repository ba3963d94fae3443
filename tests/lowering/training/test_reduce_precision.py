"""ReducePrecision: which nodes run in half precision, and that the graph stays what it was otherwise."""

from typing import get_args

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import PassError, apply_pass
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FFlops, Precision, TPrecision
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.op import list_unique_ops
from symjax_nnvm.passes.reduce_precision import reduce_precision
from tests.lowering.training.networks import convolutional, images
from tests.support.traced import evaluated


def reduced(net: sym.Symbol) -> sym.Symbol:
    return sym.Symbol(reduce_precision(Graph(net.outputs), "bfloat16").outputs)


def dtypes(net: sym.Symbol) -> dict[str, str]:
    """The dtype of every output in the reduced graph, by name."""
    internals = reduced(net).get_internals()
    _, outputs, _ = internals.infer_type(**dict.fromkeys(net.list_arguments(), np.float32))
    return {name: np.dtype(dtype).name for name, dtype in zip(internals.list_outputs(), outputs, strict=True)}


def test_products_are_half_and_losses_whole():
    found = dtypes(convolutional())
    half = {name.removesuffix("_output") for name, dtype in found.items() if dtype == "bfloat16"}
    assert {"conv", "bn", "relu", "fc"} <= half
    assert found["softmax_output"] == "float32"
    assert found["conv_weight"] == found["bn_moving_mean"] == "float32"


def test_names_and_order_of_arguments_stay():
    net = convolutional()
    assert reduced(net).list_arguments() == net.list_arguments()
    assert reduced(net).list_auxiliary_states() == net.list_auxiliary_states()
    assert reduced(net).list_outputs() == net.list_outputs()


def test_the_given_graph_is_not_changed():
    net = convolutional()
    before = net.tojson()
    reduced(net)
    assert net.tojson() == before


def test_two_dtypes_meet_in_the_wider_one():
    data = sym.Variable("data")
    product = sym.FullyConnected(data, num_hidden=3, no_bias=True, name="fc")
    assert dtypes(sym.elemwise_add(product, sym.exp(data), name="sum"))["sum_output"] == "float32"
    assert dtypes(sym.elemwise_add(product, product, name="twice"))["twice_output"] == "bfloat16"


def test_an_entry_is_cast_once():
    data = sym.Variable("data")
    twice = sym.FullyConnected(data, num_hidden=2, name="a") + sym.FullyConnected(data, num_hidden=2, name="b")
    assert reduced(twice).get_internals().list_outputs().count("data_bfloat16_output") == 1


def test_integers_pass_through():
    indices = sym.Variable("data", dtype="int32")
    net = sym.FullyConnected(sym.Embedding(indices, input_dim=5, output_dim=4, name="emb"), num_hidden=2, name="fc")
    assert "data_bfloat16_output" not in reduced(net).get_internals().list_outputs()
    args = {
        "data": np.array([1, 4], np.int32), "emb_weight": np.ones((5, 4), np.float32),
        "fc_weight": np.ones((2, 4), np.float32), "fc_bias": np.zeros(2, np.float32),
    }  # fmt: skip
    (out,), _ = evaluated(lowering.to_jax(reduced(net)), args)
    np.testing.assert_array_equal(out, np.full((2, 2), 4, np.float32))
    assert out.dtype == np.float32


def test_loops_run_whole():
    def step(data: sym.Symbol, states: list[sym.Symbol]):
        new = sym.dot(data, sym.Variable("w")) + states[0]
        return new, [new]

    out, _ = sym.contrib.foreach(step, sym.Variable("data"), [sym.Variable("state")])
    args = {"data": np.ones((3, 2, 2), np.float32), "state": np.zeros((2, 2), np.float32), "w": np.eye(2, dtype="f4")}
    net = sym.MakeLoss(out, name="loss")
    (a,), _ = evaluated(lowering.to_jax(net), args)
    (b,), _ = evaluated(lowering.to_jax(reduced(net)), args)
    np.testing.assert_array_equal(a, b)


@pytest.mark.slow("compiles")
def test_values_are_near_and_gradients_float32():
    net, batch = convolutional(), images()
    args, aux = lowering.init_params(net, {"data": batch["data"].shape}, 0, "xavier")
    wrt = list(args)
    (exact,), grads, new_aux = jax.jit(lowering.grad_fn(net, wrt=wrt))(args | batch, aux)
    (near,), near_grads, near_aux = jax.jit(lowering.grad_fn(reduced(net), wrt=wrt))(args | batch, aux)
    np.testing.assert_allclose(near, exact, atol=0.02)
    for name in wrt:
        assert near_grads[name].dtype == np.float32
        np.testing.assert_allclose(near_grads[name], grads[name], atol=0.05 * float(abs(grads[name]).max()) + 1e-3)
    for name, value in new_aux.items():
        assert near_aux[name].dtype == np.float32
        np.testing.assert_allclose(near_aux[name], value, rtol=0.05, atol=0.01)


def test_the_pass_by_name_consumes_its_dtype():
    graph = apply_pass(Graph(convolutional().outputs, {"compute_dtype": "float16"}), "ReducePrecision")
    assert "compute_dtype" not in graph.attrs
    with pytest.raises(PassError, match="expected bfloat16 or float16"):
        reduce_precision(graph, "int8")


def test_cards_say_half_of_products_alone_and_either_of_what_works_in_every_dtype():
    said = {op: TPrecision.get(op, "float32") for op in list_unique_ops()}
    assert set(said.values()) == set(get_args(Precision))
    assert all(op in FFlops for op, precision in said.items() if precision != "float32")
    products = {"Convolution", "Deconvolution", "FullyConnected", "RNN", "dot", "batch_dot"}
    assert products <= {op.name for op, precision in said.items() if precision == "half"}
    assert not {"softmax", "SoftmaxOutput", "LayerNorm", "exp", "sum"} & {
        op.name for op in said if said[op] != "float32"
    }


@pytest.mark.nightly("thousands of nodes")
def test_a_long_chain_is_linear_and_does_not_recurse():
    net = sym.Variable("data")
    for _ in range(20000):
        net = sym.relu(net)
    assert len(reduced(net).outputs) == 1
