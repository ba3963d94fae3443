"""Python that a compiled program calls: what it may compute with, and whose threads compute it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.core import python_calls

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class _Computes(mx.operator.CustomOp):
    """What `computes` makes of the input; the gradient is the input's."""

    computes: ClassVar[Callable[[Any], Any]]

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        self.assign(out_data[0], req[0], type(self).computes(in_data[0]))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.assign(in_grad[0], req[0], out_grad[0] * 1)


@mx.operator.register("_test_computes")
class _ComputesProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> _Computes:
        return _Computes()


@pytest.fixture
def computes() -> Iterator[Callable[[Callable[[Any], Any]], None]]:
    yield lambda function: setattr(_Computes, "computes", staticmethod(function))
    del _Computes.computes


def _net() -> mx.sym.Symbol:
    return mx.sym.Custom(mx.sym.Variable("x") + 1, op_type="_test_computes", name="op") * 2


def _clients(x: jax.Array) -> set[Any]:
    return {device.client for device in x.devices()}


@pytest.mark.slow("compiles")
def test_it_computes_by_a_client_of_its_own(computes: Any):
    outside, seen = mx.nd.ones((2, 3)) * 5, []
    net, count = _net(), mx.nd.zeros(1)

    def function(x: Any) -> Any:
        count[:] = count + 1
        y = mx.nd.broadcast_mul(x, outside) + mx.nd.array(np.asarray(jnp.sin(jnp.zeros(()))))
        seen.append((python_calls.is_called_back(), _clients(y.value), _clients(outside.value)))
        return y + mx.nd.random.uniform(shape=(2, 3)) * 0

    computes(function)
    for run in (jax.jit(lowering.to_jax(net)), jax.jit(jax.vmap(lambda args: lowering.to_jax(net)(args)))):
        given = X if len(seen) == 0 else X[None]
        np.testing.assert_allclose(np.asarray(run({"x": given})[0][0]).reshape(2, 3), (X + 1) * 10)
    ours = jax.devices("cpu")[0].client
    assert all(called and ours not in made | taken for called, made, taken in seen)
    assert not python_calls.is_called_back()
    assert _clients(outside.value) == _clients(count.value) == {ours}
    assert count.asscalar() == 2


@pytest.mark.slow("compiles")
def test_a_program_in_it_that_calls_python_has_another_client(computes: Any):
    inner, seen = jax.jit(lowering.to_jax(_net())), []

    def function(x: Any) -> Any:
        seen.append(_clients(jnp.zeros(1) + 1))
        if len(seen) > 1:
            return x * 1
        return mx.nd.array(np.asarray(inner({"x": x.asnumpy()})[0][0]))

    computes(function)
    assert jax.jit(lowering.to_jax(_net()))({"x": X})[0][0].tolist() == ((X + 2) * 4).tolist()
    assert len(seen) == 2
    assert not seen[0] & seen[1]


def test_without_such_a_client_numpy_computes_and_all_else_is_refused(computes: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(python_calls, "_client", lambda depth: None)
    computes(lambda x: x.asnumpy() * 3)
    assert jax.jit(lowering.to_jax(_net()))({"x": X})[0][0].tolist() == ((X + 1) * 6).tolist()
    computes(lambda x: x * 3)
    with pytest.raises(jax.errors.JaxRuntimeError, match="can use only NumPy.*CustomOp's|asnumpy"):
        jax.block_until_ready(jax.jit(lowering.to_jax(_net()))({"x": X}))
    assert lowering.compile(_net())({"x": X})[0][0].tolist() == ((X + 1) * 6).tolist()


def test_what_python_writes_while_another_thread_does_is_told(computes: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lowering.executor.bound_arrays._PATIENCE", 0.1)
    held, done, shared = threading.Event(), threading.Event(), mx.nd.zeros(2)

    def hold() -> None:
        with shared.cell.lock:
            held.set()
            done.wait(60)

    def function(x: Any) -> Any:
        shared[0:1] = 1
        return x

    computes(function)
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    with pytest.raises(jax.errors.JaxRuntimeError, match="another thread is writing"):
        jax.block_until_ready(jax.jit(lowering.to_jax(_net()))({"x": X}))
    done.set()
    thread.join()


@pytest.mark.slow("compiles")
def test_arrays_from_outside_are_refused(computes: Any):
    """JAX would copy them from one client to the other by threads that may all be waiting."""
    for outside in (jnp.ones((2, 3)), jax.device_put(jnp.ones((2, 3)), jax.devices("cpu")[0])):
        computes(lambda x, outside=outside: mx.nd.array(np.asarray(jnp.asarray(x.asnumpy()) + outside)))
        with pytest.raises(jax.errors.JaxRuntimeError, match="cannot use a jax.Array from outside.*np.asarray"):
            jax.block_until_ready(jax.jit(lowering.to_jax(_net()))({"x": X}))
        assert lowering.to_jax(_net())({"x": X})[0][0].tolist() == ((X + 2) * 2).tolist()
