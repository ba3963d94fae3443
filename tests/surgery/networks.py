"""Small networks that surgery is tried on, and how their values are compared."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["arrays_for", "classifier", "outputs_of"]


def classifier() -> Symbol:
    """data (n, 3, 6, 6) → softmax over 5 classes, with a state (BatchNorm), Dropout and a shared trunk."""
    body = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv1")
    body = sym.Activation(sym.BatchNorm(body, name="bn1"), act_type="relu", name="relu1")
    fc1 = sym.FullyConnected(sym.Dropout(body, name="drop"), num_hidden=7, name="fc1")
    return sym.SoftmaxOutput(sym.FullyConnected(fc1, num_hidden=5, name="fc2"), name="softmax")


def arrays_for(symbol: Symbol, **shapes: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random arguments and states of a symbol, the same for the same name and shape."""
    inferred, _, aux = symbol.infer_shape(**shapes)

    def draw(name: str, shape: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng(sum(name.encode()))
        return rng.uniform(0.5, 1.5, shape).astype("float32") - (0 if "moving_var" in name else 1)

    return (
        {n: draw(n, s) for n, s in zip(symbol.list_arguments(), inferred, strict=True)},
        {n: draw(n, s) for n, s in zip(symbol.list_auxiliary_states(), aux, strict=True)},
    )


def outputs_of(symbol: Symbol, args: Mapping[str, Any], aux: Mapping[str, Any], **options: Any) -> list[np.ndarray]:
    """The outputs with those of the arrays that the symbol takes."""
    run = lowering.to_jax(symbol, **options)
    taken = {name: args[name] for name in symbol.list_arguments()}
    states = {name: aux[name] for name in symbol.list_auxiliary_states()}
    return [np.asarray(out) for out in run(taken, states, jax.random.key(0))[0]]
