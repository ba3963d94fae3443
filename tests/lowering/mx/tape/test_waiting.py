"""Hybridised calls under `record()` wait: their outputs and gradients are one program, and nobody sees it."""

import gc
import threading
import warnings
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.mx.ndarray.cells import LateCell
from lowering.mx.tape import programs
from lowering.mx.tape.programs import WaitingCall

pytestmark = pytest.mark.quick


def _net(layers: int = 1) -> mx.gluon.HybridBlock:
    net = mx.gluon.nn.HybridSequential()
    net.add(*(mx.gluon.nn.Dense(4, activation="tanh") for _ in range(layers)))
    net.initialize(mx.init.Xavier())
    net(mx.nd.ones((3, 4)))
    net.hybridize()
    return net


@pytest.fixture
def data() -> mx.nd.NDArray:
    mx.random.seed(3)
    return mx.nd.array(np.random.RandomState(0).normal(size=(3, 4)))


def _call(array: mx.nd.NDArray) -> WaitingCall:
    assert isinstance(array.entry, tuple)
    assert isinstance(array.entry[0], WaitingCall)
    return array.entry[0]


def _gradients(net: mx.gluon.HybridBlock) -> list[np.ndarray]:
    return [param.grad().asnumpy() for param in net.collect_params().values()]


def _expected(net: mx.gluon.HybridBlock, data: mx.nd.NDArray, times: int = 1) -> list[np.ndarray]:
    """The gradients of the same network operator by operator."""
    net.hybridize(active=False)
    with mx.autograd.record():
        y = data
        for _ in range(times):
            y = net(y)
    y.backward()
    expected = _gradients(net)
    net.hybridize()
    return expected


def _assert_same(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


@pytest.mark.slow("compiles")
@lowering.effort("full")
def test_a_call_waits_for_backward(data):
    net = _net()
    expected = _expected(net, data)
    with mx.autograd.record():
        y = net(data)
    call = _call(y)
    assert call.waits
    assert y.shape == (3, 4)
    assert y.dtype == np.float32
    y.backward()
    assert type(y.cell) is LateCell
    assert y.cell.computed_by is call
    _assert_same(_gradients(net), expected)
    assert y.cell.computed_by is None
    np.testing.assert_allclose(y.asnumpy(), net(data).asnumpy(), rtol=1e-6)
    program: Any = net._cached_op
    ((_, ways),) = [(key, value) for key, value in program._ways.items() if key[0]]
    assert ways.full.forward_keeping(True)._cache_size() == 0


def test_reading_an_output_runs_the_call(data):
    net = _net()
    expected = _expected(net, data)
    with mx.autograd.record():
        y = net(data)
        value = y.asnumpy()
        assert not _call(y).waits
    y.backward()
    _assert_same(_gradients(net), expected)
    np.testing.assert_array_equal(value, y.asnumpy())


def test_an_operator_of_a_waiting_output_runs_it(data):
    net = _net()
    with mx.autograd.record():
        y = (net(data) * 2).sum()
    y.backward()
    _assert_same(_gradients(net), [2 * gradient for gradient in _expected(net, data)])


def test_calls_that_read_each_other_are_one_program(data):
    net, loss = _net(), mx.gluon.loss.L2Loss()
    loss.hybridize()
    label = mx.nd.ones((3, 4))
    with mx.autograd.record():
        y = net(data)
        losses = loss(y, label)
    assert _call(y).waits
    assert _call(losses).waits
    losses.backward()
    got = _gradients(net)
    net.hybridize(active=False)
    with mx.autograd.record():
        again = loss(net(data), label)
    again.backward()
    _assert_same(got, _gradients(net))
    np.testing.assert_allclose(losses.asnumpy(), again.asnumpy(), rtol=1e-6)


def test_a_long_chain_runs_on_the_way(data):
    net = _net()
    expected = _expected(net, data, times=30)
    with mx.autograd.record():
        y = data
        for _ in range(30):
            y = net(y)
    y.backward()
    _assert_same(_gradients(net), expected)


def test_a_detached_output_is_a_constant(data):
    net, other = _net(), _net()
    with mx.autograd.record():
        fake = net(data)
        scored = other(fake.detach())
    scored.backward()
    assert all(not param.data()._fresh_grad for param in net.collect_params().values())
    _assert_same(_gradients(other), _expected(other, fake.detach()))


def test_a_written_output_keeps_what_was_written(data):
    net = _net()
    with mx.autograd.record():
        y = net(data)
    shown = y.detach()
    shown[:] = 7
    y.backward()
    assert (shown.asnumpy() == 7).all()
    assert (y.asnumpy() == 7).all()
    _assert_same(_gradients(net), _expected(net, data))


def test_inputs_are_those_of_the_call(data):
    net = _net()
    expected = _expected(net, data)
    with mx.autograd.record():
        y = net(data)
    data[:] = 0
    y.backward()
    _assert_same(_gradients(net), expected)


@pytest.mark.parametrize("times", [1, 3])
def test_a_retained_graph_is_differentiated_again(data, times):
    net = _net()
    expected = _expected(net, data)
    with mx.autograd.record():
        y = net(data)
    for _ in range(times):
        y.backward(retain_graph=True)
        _assert_same(_gradients(net), expected)


def test_added_gradients_are_added(data):
    net = _net()
    expected = _expected(net, data)
    net.collect_params().setattr("grad_req", "add")
    for _ in range(2):
        with mx.autograd.record():
            y = net(data)
        y.backward()
    _assert_same(_gradients(net), [2 * gradient for gradient in expected])


def test_gradients_of_gradients(data):
    net = _net()
    data.attach_grad()

    def gradient() -> mx.nd.NDArray:
        with mx.autograd.record():
            (first,) = mx.autograd.grad(net(data), [data], create_graph=True)
            squares = (first * first).sum()
        squares.backward()
        assert data.grad is not None
        return data.grad.asnumpy()

    got = gradient()
    net.hybridize(active=False)
    np.testing.assert_allclose(got, gradient(), rtol=1e-5, atol=1e-6)


def test_random_numbers_are_drawn_at_the_call(data):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(4), mx.gluon.nn.Dropout(0.5))
    net.initialize()
    net.hybridize()
    net(data)

    def outputs(read_first: bool) -> list[np.ndarray]:
        mx.random.seed(5)
        with mx.autograd.record():
            first, second = net(data), net(data)
            if read_first:
                second.wait_to_read()
        mx.autograd.backward([first, second])
        return [first.asnumpy(), second.asnumpy()]

    for a, b in zip(outputs(False), outputs(True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    first, second = outputs(False)
    assert (first != second).any()


def test_errors_are_raised_at_the_call(data):
    net = _net()
    with mx.autograd.record(), pytest.raises(mx.MXNetError):
        net(mx.nd.ones((3, 5)))


def test_a_dropped_call_is_freed_at_once(data):
    net = _net()
    gc.disable()
    try:
        with mx.autograd.record():
            y = net(data)
        call = weakref.ref(y.cell)
        del y
        assert call() is None
    finally:
        gc.enable()


def test_another_thread_reads(data):
    net = _net()
    with mx.autograd.record():
        y = net(data)
    read: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: read.append(y.asnumpy())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(read[0], read[1])
    y.backward()
    _assert_same(_gradients(net), _expected(net, data))


class _Product(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, a, b):
        return a * b


def test_what_waits_off_the_tape_is_computed_before(data):
    net, target, product = _net(), _net(), _Product()
    seen = []
    for hybrid in (False, True):
        for block in (net, target, product):
            block.hybridize(hybrid)
        with mx.autograd.record():
            y = net(data)
            aim = target(y).detach()  # computing it computes y, which is on the tape
            loss = product(net(y), aim)
        loss.backward()
        seen.append([*_gradients(net), loss.asnumpy(), aim.asnumpy(), y.asnumpy()])
    _assert_same(seen[1], seen[0])


def test_what_waits_for_a_call_that_is_used_up_can_be_read(data):
    net = _net()
    expected = net(net(data)).asnumpy()
    for computed_before in (False, True):
        with mx.autograd.record():
            y = net(data)
            z = net(y)
        assert _call(z).waits
        if computed_before:
            y.asnumpy()
        y.backward()
        assert _call(z).waits
        np.testing.assert_allclose(z.asnumpy(), expected, rtol=1e-6)
        with pytest.raises(mx.MXNetError, match="retain_graph"):
            z.backward()


def test_an_output_of_a_call_that_is_used_up_holds_no_others(data):
    net = _net()
    with mx.autograd.record():
        y = net(data)
    call = _call(y)
    y.backward()
    y.wait_to_read()
    assert not call.outputs


def test_waitall_computes_what_waits(data):
    net = _net()
    with mx.autograd.record():
        y = net(net(data))
    assert _call(y).waits
    mx.nd.waitall()
    assert not _call(y).waits


def test_an_output_may_be_read_while_another_thread_differentiates_it(data):
    net = _net()
    expected = _expected(net, data, 2)
    differentiated = threading.Event()
    seen = []
    original = WaitingCall.take

    def take(call, outputs):
        """Have another thread read what is about to be kept."""
        if not seen:
            seen.append(None)
            reader = threading.Thread(target=lambda: seen.append(y.asnumpy()))
            reader.start()
            reader.join(0.2)
            differentiated.set()
        original(call, outputs)

    with mx.autograd.record():
        y = net(net(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WaitingCall, "take", take)
        y.backward()
        _assert_same(_gradients(net), expected)
    assert differentiated.is_set()


def test_a_call_keeps_the_width_of_its_numbers():
    net = mx.gluon.nn.Dense(2, in_units=1)
    with jax.enable_x64(True):
        net.cast("float64")
        net.initialize(mx.init.Constant(1 / 3))
        net.hybridize()
        x = mx.nd.array([[1 / 3]], dtype="float64")
        with mx.autograd.record():
            read, differentiated = net(x), net(x)
            differentiated = differentiated * differentiated
    assert read.asnumpy()[0, 0] == pytest.approx(1 / 9, rel=1e-14)
    with jax.enable_x64(True):
        differentiated.backward()
        assert net.weight.grad().asnumpy()[0, 0] == pytest.approx(2 / 27, rel=1e-14)


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
def test_tapes_that_are_never_the_same_compile_no_program_each(data, monkeypatch):
    net = _net()
    compiled = []
    run = programs._TapeProgram._run
    monkeypatch.setattr(programs._TapeProgram, "_run", lambda *args: compiled.append(args) or run(*args))
    for first, second in [(i, j) for i in range(1, 5) for j in range(1, 5)]:
        with mx.autograd.record():
            outputs = [data, data]
            for _ in range(first):
                outputs[0] = net(outputs[0])
            for _ in range(second):
                outputs[1] = net(outputs[1])
        mx.autograd.backward(outputs)
        _gradients(net)
    assert 0 < len(compiled) < 7
    expected = _expected(net, data)
    for _ in range(4):
        with mx.autograd.record():
            y = net(data)
        y.backward()
        _assert_same(_gradients(net), expected)


def test_a_call_waits_for_numbers_of_its_own_width(data):
    class ToDouble(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.cast(x, "float64")

    net = ToDouble()
    net.hybridize()
    data.attach_grad()
    outputs = []
    for wide in (False, True):
        with jax.enable_x64(wide), warnings.catch_warnings(action="ignore"), mx.autograd.record():
            outputs.append(net(data))
    dtypes = [(y.dtype, y.asnumpy().dtype.type) for y in outputs]  # read where 64 bits are off
    assert dtypes == [(np.float32, np.float32), (np.float64, np.float64)]
