"""Calls that memory does not hold, that are interrupted, or that meet NaN, and the arrays after them."""

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from lowering import mx
from lowering.host.evaluator import Evaluator
from symjax_nnvm.errors import OutOfMemoryError
from tests.support import warm

LONG = 3 * 10**5
"""The elements of a column and of a row whose product takes 360 GB."""


def outer() -> Any:
    return mx.nd.ones((LONG, 1)) * mx.nd.ones((1, LONG))


def add_in_place(x: Any) -> None:
    x += outer().sum()


def write_out(x: Any) -> None:
    mx.nd.broadcast_add(mx.nd.ones((LONG, 1)), mx.nd.ones((1, LONG)), out=x)


def step_back(x: Any) -> None:
    with mx.autograd.record():
        loss = (outer() * x[0, 0]).sum()
    loss.backward()


FAILS: dict[str, Callable[[Any], Any]] = {
    "broadcast": lambda x: outer().wait_to_read(),
    "zeros": lambda x: mx.nd.zeros((LONG, LONG)),
    "+=": add_in_place,
    "out=": write_out,
    "recorded": step_back,
}


@pytest.mark.parametrize("call", FAILS)
def test_what_memory_does_not_hold_is_named_and_leaves_arrays_as_they_were(call: str):
    x = mx.nd.array([[1, 2, 3], [4, 5, 6]])
    x.attach_grad()
    x[0, 1] = 7
    with pytest.raises(OutOfMemoryError, match=r"more memory than there is.*Use smaller arrays") as raised:
        FAILS[call](x)
    assert isinstance(raised.value, mx.MXNetError)
    assert isinstance(raised.value, MemoryError)
    np.testing.assert_array_equal(x.asnumpy(), [[1, 7, 3], [4, 5, 6]])
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.asnumpy(), np.zeros((2, 3)))
    assert not mx.autograd.is_recording()
    mx.nd.waitall()  # no result without memory is left


def test_an_interrupted_call_leaves_arrays_as_they_were(monkeypatch: pytest.MonkeyPatch):
    x = mx.nd.ones((2, 3))
    x.attach_grad()
    x[1] = 5

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    def record() -> None:
        with mx.autograd.record():
            (x * x).sum().backward()

    for call in (lambda: x.__imod__(2), lambda: mx.nd.elemwise_add(x, x, out=x), record):
        with monkeypatch.context() as patch:
            patch.setattr(Evaluator, "__call__", interrupted)
            with pytest.raises(KeyboardInterrupt):
                call()
        np.testing.assert_array_equal(x.asnumpy(), [[1, 1, 1], [5, 5, 5]])
        assert not mx.autograd.is_recording()
    record()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.asnumpy(), [[2, 2, 2], [10, 10, 10]])


def test_nan_is_a_number_like_others_and_told_of_where_jax_is_asked_to():
    x = mx.nd.zeros((2,))
    np.testing.assert_array_equal((x / x).asnumpy(), [np.nan, np.nan])
    with jax.debug_nans(True), pytest.raises(mx.MXNetError, match=r"invalid value \(nan\).*'broadcast_div'"):
        x /= x
    np.testing.assert_array_equal(x.asnumpy(), [0, 0])


NEVER_ALLOCATED = f"""
import jax, jax.numpy as jnp
from lowering import mx
from lowering.host.evaluator import Evaluator
column, row = jnp.ones(({LONG}, 1)), jnp.ones((1, {LONG}))
product = jax.jit(lambda x, y: (x * y, x))
x = mx.nd.zeros((1,))
x.cell.value, x.cell.shape = product(column, row)[0], ({LONG}, {LONG})
evaluator = Evaluator(jax.make_jaxpr(lambda x: x + 1)(jax.typeof(x.cell.value)).jaxpr, ())
reads = (
    x.asnumpy,
    lambda: evaluator.taken([product(column, row)[0]]),
    lambda: x[0].copy(),
    lambda: x.reshape((-1,)).copy(),
    lambda: x.__setitem__((0, 0), 1),
)
for read in reads:
    try:
        read()
    except (mx.MXNetError, jax.errors.JaxRuntimeError) as error:
        print("Out of memory" in str(error))
"""


@pytest.mark.slow("starts processes")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems may promise such memory")
def test_reading_what_was_never_allocated_ends_no_process():
    """A program that ran before finds no memory for its result now: NumPy ended the process that read it."""
    done = warm.run(["-c", NEVER_ALLOCATED])
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 5), done.stderr[-2000:]
