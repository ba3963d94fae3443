"""What holds arrays of its own cannot be called with arrays that JAX traces."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError

NET = sym.sum(sym.Variable("data") * sym.Variable("w"))
ARGS = {"w": np.ones((2, 4), "f")}
X = jnp.ones((2, 4))


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap])
@pytest.mark.parametrize("word", ["auto", "full"])
def test_predictors_and_executors_name_the_function_that_may_be_traced(transform: Callable[..., Any], word: str):
    predict, executor = lowering.Predictor(NET, ARGS), lowering.simple_bind(NET, data=(2, 4), w=(2, 4))
    doors = {
        "A Predictor": lambda x: predict(data=x)[0].sum(),
        "An Executor": lambda x: executor.forward(data=x)[0].sum(),
    }
    for name, call in doors.items():
        with lowering.effort(word), pytest.raises(CallError, match=f"{name} cannot.*data.*lowering.to_jax"):
            transform(call)(X)


def test_a_compiled_function_may_be_traced():
    run = lowering.compile(NET)
    assert jax.jit(lambda x: run({"data": x, **ARGS})[0][0])(X) == 8
