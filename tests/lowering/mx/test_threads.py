"""Arrays that several threads write: what reads an array to write it anew loses nothing that others wrote."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx.keys import next_randomness

_THREADS, _TIMES = 8, 50


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns a thousand times as often as by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def _in_threads(step: Callable[[int], object]) -> None:
    def run(number: int) -> None:
        for _ in range(_TIMES):
            step(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.slow("computes much")
def test_slices_of_one_array():
    x = mx.nd.zeros(_THREADS)
    rows = [x[k : k + 1] for k in range(_THREADS)]

    def assign(k: int) -> None:
        x[k : k + 1] = x[k : k + 1] + 1

    def add(k: int) -> None:
        x[k : k + 1] += 1

    def write(k: int) -> None:
        rows[k][:] = rows[k] + 1

    for step in (assign, add, write):
        _in_threads(step)
    assert x.asnumpy().tolist() == [3 * _TIMES] * _THREADS


def test_one_array_in_place_and_through_a_view():
    x = mx.nd.zeros(2)
    arrays = [x, x.reshape((2, 1)), x[0:2]]

    def add(number: int) -> None:
        array = arrays[number % 3]
        array += 2
        array -= 1

    _in_threads(add)
    assert x.asnumpy().tolist() == [_THREADS * _TIMES] * 2


def test_results_written_to_an_array_that_was_read():
    x, state = mx.nd.zeros(1), mx.nd.zeros(1)
    one = mx.nd.ones(1)
    _in_threads(lambda _: mx.nd.broadcast_add(x, one, out=x))
    assert x.asscalar() == _THREADS * _TIMES
    x[:] = 0
    _in_threads(lambda _: mx.nd.sgd_mom_update(x, one, state, lr=1.0, momentum=1.0, out=x))
    count = _THREADS * _TIMES
    assert state.asscalar() == -count
    assert x.asscalar() == -count * (count + 1) / 2


def test_a_stores_updates():
    store = mx.kv.create()
    store.init(3, mx.nd.zeros(2))
    store.set_optimizer(mx.optimizer.create("sgd", learning_rate=1.0))
    held = mx.nd.zeros(2)
    _in_threads(lambda _: store.push(3, mx.nd.ones(2)))
    store.pull(3, out=held)
    assert held.asnumpy().tolist() == [-_THREADS * _TIMES] * 2


@pytest.mark.slow("computes much")
def test_sums_of_gradients():
    x = mx.nd.ones(2)
    x.attach_grad("add")
    net = mx.sym.Variable("a") * 3
    grad = mx.nd.zeros(2)
    bound = [net.bind(mx.cpu(), {"a": mx.nd.ones(2)}, args_grad={"a": grad}, grad_req="add") for _ in range(_THREADS)]

    def recorded(_: int) -> None:
        with mx.autograd.record():
            y = x * 2
        y.backward()

    def executed(number: int) -> None:
        bound[number].forward(is_train=True)
        bound[number].backward(mx.nd.ones(2))

    _in_threads(recorded)
    _in_threads(executed)
    assert np.asarray(x.grad).tolist() == [2 * _THREADS * _TIMES] * 2
    assert grad.asnumpy().tolist() == [3 * _THREADS * _TIMES] * 2


class _Slow(dict[str, int]):
    """Lets other threads run after each look."""

    def get(self, *args: Any) -> Any:
        number = super().get(*args)
        time.sleep(1e-5)
        return number


def test_no_two_threads_draw_by_one_key_or_make_names_of_one_number():
    keys, names, blocks, manager = [], [], [], mx.name.NameManager()
    net = mx.gluon.nn.HybridSequential()
    manager._counter, net._scope._counter = _Slow(), _Slow()

    def name(_: int) -> None:
        with manager:
            names.append(mx.sym.Variable("x").abs().name)

    def make(_: int) -> None:
        with net.name_scope():
            blocks.append(mx.gluon.nn.Flatten().name)

    mx.random.seed(3)
    for step, made in ((lambda _: keys.append(next_randomness()[1]), keys), (name, names), (make, blocks)):
        _in_threads(step)
        assert len(set(made)) == len(made) == _THREADS * _TIMES
    assert sorted(keys) == list(range(1, _THREADS * _TIMES + 1))
