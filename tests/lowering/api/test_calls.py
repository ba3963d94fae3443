"""What a call does in Python besides the compiled program: as much for a large network as for a small one."""

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.core.cache import Programs
from symjax_nnvm import symbol as sym

_MOST = 105
"""Calls of functions of Python, JAX's own among them."""


def network(layers: int) -> sym.Symbol:
    x = sym.Variable("data")
    for i in range(layers):
        x = sym.FullyConnected(x, num_hidden=4, name=f"fc{i}")
    return sym.SoftmaxOutput(x, name="softmax")


def python_calls(run: Callable[[], Any]) -> int:
    """How many functions of Python one run calls, after others have compiled and kept what can be kept."""
    for _ in range(3):
        jax.block_until_ready(run())
    count = 0

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def arrays(net: sym.Symbol) -> dict[str, jax.Array]:
    shapes, _, _ = net.infer_shape(data=(2, 4))
    return {
        name: jax.device_put(np.ones(shape, "float32"))
        for name, shape in zip(net.list_arguments(), shapes, strict=True)
    }


def two_calls(net: sym.Symbol) -> Callable[[], Any]:
    executor, x = lowering.simple_bind(net, data=(2, 4)), jax.device_put(np.ones((2, 4), "float32"))

    def run() -> Any:
        executor.forward(is_train=True, data=x)
        executor.backward()
        return executor.grad_dict["fc0_weight"]

    return run


def one_call(net: sym.Symbol) -> Callable[[], Any]:
    executor, x = lowering.simple_bind(net, data=(2, 4)), jax.device_put(np.ones((2, 4), "float32"))
    return lambda: executor.forward_backward(data=x)


def compiled(net: sym.Symbol) -> Callable[[], Any]:
    run, args = lowering.compile(net), arrays(net)
    return lambda: run(args)


def predicting(net: sym.Symbol) -> Callable[[], Any]:
    args = arrays(net)
    x = args.pop("data")
    del args["softmax_label"]
    predict = lowering.Predictor(net, args)
    return lambda: predict(data=x)


def training(net: sym.Symbol) -> Callable[[], Any]:
    trainer, args = lowering.Trainer(net, "sgd"), arrays(net)
    batch = {name: args[name] for name in ("data", "softmax_label")}
    trainer.init(0, data=(2, 4))
    return lambda: trainer.step(batch)


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("way", [two_calls, one_call, compiled, predicting, training])
def test_a_call_does_as_much_for_a_large_network_as_for_a_small_one(way: Callable[[sym.Symbol], Callable[[], Any]]):
    with lowering.effort("full"):
        small, large = python_calls(way(network(2))), python_calls(way(network(24)))
    assert small == large
    assert large <= _MOST


def test_an_executor_asks_for_its_programs_once(monkeypatch: pytest.MonkeyPatch):
    run = two_calls(network(2))
    run()
    monkeypatch.setattr(Programs, "gradient", None)
    run()
