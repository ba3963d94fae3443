"""Gradients of calls that wait, wait: for who reads them, or for the update, which is one program with them."""

import threading
from typing import Any

import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.mx.ndarray.cells import LateCell
from lowering.mx.tape.policy import UPDATED_OFTEN, UPDATES
from lowering.mx.tape.programs import WaitingGradients, _TapeProgram
from symjax_nnvm.errors import TrainingError
from tests.support.compilations import compilations


def _net() -> mx.gluon.nn.HybridSequential:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(5, activation="tanh", in_units=4), mx.gluon.nn.Dense(3, in_units=5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


class Run:
    """A network with first values that are the same in every run, its data and its trainer."""

    def __init__(self, optimizer: str = "sgd", **params: float):
        mx.random.seed(3)
        random = np.random.RandomState(0)
        self.net, self.loss = _net(), mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self.loss.hybridize()
        self.data = mx.nd.array(random.normal(size=(6, 4)))
        self.label = mx.nd.array(random.randint(0, 3, 6))
        self.params = list(self.net.collect_params().values())
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), optimizer, params or {"learning_rate": 0.1})

    def backward(self) -> mx.nd.NDArray:
        with mx.autograd.record():
            losses = self.loss(self.net(self.data), self.label)
        losses.backward()
        return losses

    def wait(self) -> list[bool]:
        """Whether the gradient of each parameter waits."""
        cells: list[Any] = [param.grad().cell for param in self.params]
        return [type(cell.computed_by) is WaitingGradients for cell in cells]

    def gradients(self) -> list[np.ndarray]:
        return [p.grad().asnumpy() for p in self.params]

    def values(self) -> list[np.ndarray]:
        return [p.data().asnumpy() for p in self.params]


def _assert_close(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7)


@pytest.fixture
def traced(monkeypatch) -> list[str]:
    """The programs that are traced: the backward pass of a tape, and updates."""
    seen: list[str] = []
    run, update = _TapeProgram._run, mx.optimizer.apply_rule
    monkeypatch.setattr(_TapeProgram, "_run", lambda *args: seen.append("backward") or run(*args))
    monkeypatch.setattr(mx.optimizer, "apply_rule", lambda *args: seen.append("update") or update(*args))
    return seen


OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1, "momentum": 0.9},
    "adam": {"learning_rate": 0.01},
    "nag": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01},
    "lamb": {"learning_rate": 0.01},
    "sgld": {"learning_rate": 0.01},
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_one_program_and_ends_where_two_programs_end(name, traced):
    one, two = Run(name, **OPTIMIZERS[name]), Run(name, **OPTIMIZERS[name])
    for _ in range(3):
        mx.random.seed(5)
        one.backward()
        assert all(one.wait())
        one.trainer.step(6)
        assert not any(one.wait())
    assert traced == ["backward", *["update"] * 4]
    for _ in range(3):
        mx.random.seed(5)
        two.backward()
        two.gradients()
        two.trainer.step(6)
    _assert_close(one.values(), two.values())
    _assert_close(one.gradients(), two.gradients())


def test_a_trainer_of_the_same_kind_compiles_nothing_anew():
    def steps(net: Any, trainer: Any) -> None:
        for _ in range(2):
            with mx.autograd.record():
                outputs = net(mx.nd.ones((6, 4)))
            outputs.backward()
            trainer.step(6)
        mx.nd.waitall()

    net, options = _net(), {"learning_rate": 0.1, "momentum": 0.9}
    steps(net, mx.gluon.Trainer(net.collect_params(), "sgd", options))
    with compilations() as seen:
        steps(net, mx.gluon.Trainer(net.collect_params(), "sgd", {**options, "learning_rate": 0.2}))
    assert not seen


@pytest.mark.slow("compiles")
@lowering.effort("full")
def test_only_the_first_update_and_frequent_ones_are_compiled_with_the_network(traced):
    run, expected = Run(), Run()
    subsets = [[*range(4)], *([i] for i in range(4)), *([i, 3] for i in range(3)), [0, 1, 2], [0, 1]]
    for _ in range(UPDATED_OFTEN + 4):
        for subset in subsets:
            for each in (run, expected):
                each.backward()
                if each is expected:
                    each.gradients()
                for i, param in enumerate(each.params):
                    param.data()._fresh_grad = i in subset
                each.trainer.step(6, ignore_stale_grad=True)
    _assert_close(run.values(), expected.values())
    assert traced.count("backward") == 2 + UPDATES  # of each network alone, and of one with so many of ten updates


@pytest.mark.slow("compiles")
def test_reading_a_gradient_the_output_or_all_computes_them():
    expected = Run()
    expected.backward()
    for read in (
        lambda run, losses: run.params[0].grad().asnumpy(),
        lambda run, losses: losses.asnumpy(),
        lambda run, losses: losses.wait_to_read(),
        lambda run, losses: mx.nd.waitall(),
        lambda run, losses: run.params[0].grad() * 2,
        lambda run, losses: run.params[0].grad()[0],
    ):
        run = Run()
        losses = run.backward()
        assert all(run.wait())
        read(run, losses)
        _ = run.params[0].grad()[0].asnumpy()
        assert not any(run.wait())
        _assert_close(run.gradients(), expected.gradients())


def test_what_is_written_meanwhile_holds():
    run, expected = Run(), Run()
    expected.backward()
    before, gradients = run.values(), expected.gradients()
    losses = run.backward()
    run.params[0].grad()[:] = 0
    run.params[1].set_data(run.params[1].data() * 0 + 7)
    run.trainer.step(6)
    values = run.values()
    np.testing.assert_array_equal(values[0], before[0])
    np.testing.assert_allclose(values[1], 7 - 0.1 / 6 * gradients[1], rtol=1e-6)
    np.testing.assert_allclose(values[2], before[2] - 0.1 / 6 * gradients[2], rtol=1e-6)
    _assert_close(run.gradients()[1:], gradients[1:])
    assert not run.gradients()[0].any()
    assert losses.shape == (6,)


def test_the_last_of_two_backward_passes_counts():
    run, expected = Run(), Run()
    first = run.backward()
    run.data, expected.data = run.data * 2, expected.data * 2
    second = run.backward()
    run.trainer.step(6)
    wanted = expected.backward()
    expected.trainer.step(6)
    _assert_close(run.values(), expected.values())
    np.testing.assert_allclose(second.asnumpy(), wanted.asnumpy(), rtol=1e-6)
    assert np.abs(first.asnumpy() - second.asnumpy()).max() > 0.01


def test_a_trainer_of_some_parameters_leaves_the_gradients_of_the_others():
    run, expected = Run(), Run()
    expected.backward()
    expected.gradients()
    expected.trainer.step(6)
    halves = [run.params[:2], run.params[2:]]
    trainers = [mx.gluon.Trainer(params, "sgd", {"learning_rate": 0.1}) for params in halves]
    run.backward()
    trainers[0].step(6)
    assert not any(run.wait())
    trainers[1].step(6)
    _assert_close(run.values(), expected.values())


def test_gradients_of_two_passes_are_computed_each():
    run, other = Run(), Run()
    trainer = mx.gluon.Trainer([*run.params, *other.params], "sgd", {"learning_rate": 0.1})
    run.backward()
    other.backward()
    trainer.step(6)
    expected = Run()
    expected.backward()
    expected.trainer.step(6)
    for each in (run, other):
        _assert_close(each.values(), expected.values())


def test_sums_are_computed_at_once():
    run = Run()
    for param in run.params:
        param.grad_req = "add"
    run.backward()
    first = run.gradients()
    run.backward()
    assert not any(run.wait())
    _assert_close(run.gradients(), [2 * gradient for gradient in first])


def test_numbers_that_no_gradient_goes_through_do_not_wait():
    class Net(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.params.get("weight", shape=(4,))

        def hybrid_forward(self, F, x, weight):
            scaled = F.broadcast_mul(x, weight)
            return scaled, F.cast(F.argmax(scaled, axis=1), "int32")

    net = Net()
    net.initialize(mx.init.One())
    net.hybridize()
    with mx.autograd.record():
        scaled, _ = net(mx.nd.ones((3, 4)))
    scaled.backward()
    cell = net.weight.grad().cell
    assert type(cell) is LateCell
    assert cell.computed_by is None
    np.testing.assert_array_equal(net.weight.grad().asnumpy(), np.full(4, 3, "float32"))


@pytest.mark.slow("compiles")
@lowering.effort("full")
def test_an_update_that_fails_leaves_the_gradients():
    run, expected = Run(), Run()
    expected.backward()
    run.backward()
    update = mx.optimizer.get_updater(mx.optimizer.create("sgd"))
    with pytest.raises(TrainingError, match="does not have the parameter's shape"):
        update([0], [run.params[0].grad()], [mx.nd.ones((2, 2))])
    assert all(run.wait())
    _assert_close(run.gradients(), expected.gradients())


def test_a_thread_reads_the_losses_while_another_steps():
    run, expected = Run(), Run()
    for _ in range(10):
        losses, wanted = run.backward(), expected.backward()
        wanted = wanted.asnumpy()
        expected.trainer.step(6)
        seen: list[np.ndarray] = []
        reader = threading.Thread(target=lambda losses=losses, seen=seen: seen.append(losses.asnumpy()))
        reader.start()
        run.trainer.step(6)
        reader.join()
        np.testing.assert_allclose(seen[0], wanted, rtol=1e-5)
    _assert_close(run.values(), expected.values())


@pytest.mark.nightly("computes much")
def test_a_thread_waits_for_all_while_another_steps():
    run, errors, stop = Run("adam", learning_rate=0.1), [], threading.Event()

    def wait() -> None:
        try:
            while not stop.is_set():
                mx.nd.waitall()
        except Exception as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    for _ in range(150):
        run.backward()
        run.trainer.step(6)
    stop.set()
    waiter.join()
    assert not errors


def test_64_bits_are_those_of_the_call():
    import jax

    run, expected = Run(), Run()
    expected.backward()
    expected.trainer.step(6)
    run.backward()
    with jax.enable_x64(True):
        run.trainer.step(6)
    assert [value.dtype for value in run.values()] == [np.float32] * 4
    _assert_close(run.values(), expected.values())


def test_a_cell_takes_the_result_of_the_computation_that_it_waits_for():
    cell, first, second = LateCell((2,), np.dtype("float32"), None), object(), object()
    cell.wait_for(first, 0)
    cell.wait_for(second, 0)
    cell.fill(first, mx.nd.ones((2,)).value)
    assert cell.computed_by is second
    cell.fill(second, mx.nd.zeros((2,)).value)
    assert cell.value.tolist() == [0, 0]
    cell.fill(first, mx.nd.ones((2,)).value)
    assert cell.value.tolist() == [0, 0]
