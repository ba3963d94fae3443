"""group2ctx: each `ctx_group` of a graph runs on its own device; nothing else changes but roundings, as XLA fuses
operators within a device alone."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol import AttrScope

pytestmark = [pytest.mark.eight_devices, pytest.mark.usefixtures("compiled_fully")]

RNG = np.random.default_rng(5)


def embedding() -> sym.Symbol:
    """A large table on one device, the rest on another."""
    with AttrScope(ctx_group="table"):
        words = sym.Embedding(sym.Variable("data"), input_dim=50, output_dim=6, name="words")
    with AttrScope(ctx_group="rest"):
        hidden = sym.BatchNorm(sym.FullyConnected(words, num_hidden=5, name="fc"), fix_gamma=False, name="norm")
        return sym.SoftmaxOutput(sym.Dropout(sym.tanh(hidden), p=0.4, name="drop"), name="softmax")


def layers() -> sym.Symbol:
    """Layers in turn on two devices, with a weight that both read, and an output on each."""
    data, shared = sym.Variable("data"), sym.Variable("shared")
    with AttrScope(ctx_group="one"):
        first = sym.FullyConnected(data, shared, num_hidden=4, no_bias=True, name="first")
    with AttrScope(ctx_group="two"):
        second = sym.FullyConnected(sym.relu(first), shared, num_hidden=4, no_bias=True, name="second")
    with AttrScope(ctx_group="one"):
        third = sym.LinearRegressionOutput(first * sym.sin(second), name="third")
    return sym.Group([third, sym.make_loss(sym.sum(second), name="loss")])


NETWORKS: dict[str, tuple[Callable[[], sym.Symbol], dict[str, int], tuple[int, ...]]] = {
    "an embedding on one, the rest on another": (embedding, {"table": 3, "rest": 5}, (8, 4)),
    "layers in turn": (layers, {"one": 1, "two": 2}, (3, 4)),
}


def steps(net: sym.Symbol, shape: tuple[int, ...], values: Any, req: str, **places: Any) -> tuple[Any, Any]:
    """Return outputs, gradients and states of two steps, of one forward pass after them, and the executor."""
    executor = lowering.simple_bind(net, grad_req=req, seed=3, data=shape, **places)
    executor.copy_params_from(*values)
    outputs = [list(map(np.asarray, executor.forward_backward())) for _ in range(2)]
    executor.forward(is_train=True)
    executor.backward()
    outputs.append([np.asarray(output) for output in executor.forward(is_train=False)])
    grads = {name: np.asarray(grad) for name, grad in executor.grad_dict.items() if grad is not None}
    return (outputs, grads, {name: np.asarray(state) for name, state in executor.aux_dict.items()}), executor


@pytest.mark.nightly("every network", but_one_in=4)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("req", ["write", "add"])
def test_groups_run_where_they_are_and_compute_the_same(name: str, req: str):
    network, groups, shape = NETWORKS[name]
    net, devices = network(), {group: jax.devices()[number] for group, number in groups.items()}
    arg_shapes, _, aux_shapes = net.infer_shape(data=shape)
    args = {n: RNG.uniform(-1, 1, s).astype("float32") for n, s in zip(net.list_arguments(), arg_shapes, strict=True)}
    args["data"] = RNG.integers(0, 4, shape).astype("float32")
    aux = {n: np.ones(s, "float32") for n, s in zip(net.list_auxiliary_states(), aux_shapes, strict=True)}
    expected, _ = steps(net, shape, (args, aux), req)
    actual, executor = steps(net, shape, (args, aux), req, group2ctx=devices)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6), actual, expected)
    arrays = {**executor.arg_dict, **executor.aux_dict}
    assert {device for array in arrays.values() for device in array.devices()} == set(devices.values())
    for variable, group in (("words_weight", "table"), ("norm_moving_mean", "rest"), ("fc_weight", "rest")):
        if variable in arrays:
            assert arrays[variable].devices() == {devices[group]}
    for argument, grad in executor.grad_dict.items():
        assert grad is None or grad.devices() == arrays[argument].devices()
    where = {"softmax_output": "rest", "third_output": "one", "loss_loss": "two"}
    for output, array in executor.output_dict.items():
        assert array.devices() == {devices[where[output]]}


def test_nodes_in_no_group_run_on_the_device_of_the_executor():
    with AttrScope(ctx_group="a"):
        inner = sym.exp(sym.Variable("x"), name="inner")
    here, there = jax.devices()[2], jax.devices()[4]
    net = sym.Group([inner, sym.zeros((2,)) + sym.Variable("y")])
    executor = lowering.simple_bind(net, ctx=here, group2ctx={"a": there}, x=(2,), y=(2,))
    first, second = executor.forward()
    assert (first.devices(), second.devices()) == ({there}, {here})
    assert executor.arg_dict["y"].devices() == {here}
