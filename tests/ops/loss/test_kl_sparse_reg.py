"""IdentityAttachKLSparseReg: the penalty by its definition, and refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

DATA = sym.Variable("data")
PARAMS = {"sparseness_target": 0.2, "penalty": 0.3, "momentum": 0.7}


def values(shape: tuple[int, ...], dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(activations, moving average, head gradient)."""
    rng = np.random.RandomState(0)
    average = rng.uniform(0.2, 0.8, shape[1]).astype(np.float32)
    return rng.uniform(0.1, 0.9, shape).astype(dtype), average, rng.randn(*shape).astype(dtype)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("shape", "dtype", "rtol"), [((4, 3), np.float32, 1e-5), ((2, 3, 4), np.float32, 1e-5), ((4, 3), np.float16, 1e-3)]
)
def test_gradient_and_moving_average_by_their_definition(shape: tuple[int, ...], dtype: Any, rtol: float):
    x, average, head = values(shape, dtype)
    net = sym.IdentityAttachKLSparseReg(DATA, name="reg", **PARAMS)
    (out,), grads, new = evaluated(lowering.grad_fn(net), {"data": x}, {"reg_moving_avg": average}, head_grads=[head])
    np.testing.assert_array_equal(out, x)
    units = tuple(axis for axis in range(x.ndim) if axis != 1)
    rho = 0.7 * average + 0.3 * x.astype(np.float32).mean(units)
    assert_close(new["reg_moving_avg"], rho, 1e-6, "moving average")
    penalty = (0.3 * (-0.2 / rho + 0.8 / (1 - rho))).reshape([-1 if axis == 1 else 1 for axis in range(x.ndim)])
    assert grads["data"].dtype == dtype
    assert_close(grads["data"], head.astype(np.float32) + penalty, rtol, "gradient")


def test_the_average_rests_outside_training():
    x, average, _ = values((4, 3))
    net = sym.IdentityAttachKLSparseReg(DATA, name="reg", **PARAMS)
    _, new = evaluated(lowering.to_jax(net), {"data": x}, {"reg_moving_avg": average})
    np.testing.assert_array_equal(new["reg_moving_avg"], average)


def test_the_penalty_is_constant_in_gradients_of_gradients():
    x, average, head = values((4, 3))
    net = sym.IdentityAttachKLSparseReg(DATA, name="reg", **PARAMS)
    first = net.gradient(["data"], head_grads=[sym.Variable("head")])
    _, grads, _ = evaluated(
        lowering.grad_fn(first, ["data", "head"]),
        {"data": x, "head": head},
        {"reg_moving_avg": average},
        head_grads=[head],
    )
    np.testing.assert_array_equal(grads["data"], np.zeros_like(x))
    np.testing.assert_array_equal(grads["head"], head)


def test_refusals_are_named():
    for name in ("sparseness_target", "momentum"):
        for value in (-0.1, 1.5):
            with pytest.raises(ParamError, match=name):
                sym.IdentityAttachKLSparseReg(DATA, **{name: value})
    with pytest.raises(InferenceError, match="No axis of units"):
        sym.IdentityAttachKLSparseReg(DATA).infer_shape(data=(5,))
    with pytest.raises(InferenceError, match="floating point types, not int32"):
        sym.IdentityAttachKLSparseReg(DATA).infer_type(data="int32")
    assert sym.IdentityAttachKLSparseReg(DATA, name="reg").list_outputs() == ["reg_output"]
