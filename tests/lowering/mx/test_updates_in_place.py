"""Optimisers write what they keep in place, unless a caller holds it."""

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.executor.bound_arrays import ArrayCell


def _updated(name: str, steps: int, look: bool, **kwargs: object) -> tuple[np.ndarray, list[np.ndarray]]:
    """The weight after some updates, and the slots. look: whether a caller holds the slots between."""
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, **kwargs))
    weight, held = mx.nd.arange(6).reshape((2, 3)), []
    weight = weight.copy()
    for step in range(steps):
        updater(0, mx.nd.ones((2, 3)) * (step + 1), weight)
        if look:
            held += [(slot.value, slot.asnumpy().copy()) for slot in mx.optimizer.slots_of(updater.states[0])]
    for array, value in held:  # what a caller got is still there
        np.testing.assert_array_equal(np.asarray(array), value)
    return weight.asnumpy(), [slot.asnumpy() for slot in mx.optimizer.slots_of(updater.states[0])]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["sgd", "adam", "dcasgd", "ftml", "lamb", "rmsprop"])
def test_a_slot_that_a_caller_holds_is_left_as_it_is(name: str) -> None:
    kwargs = {"momentum": 0.9} if name in ("sgd", "dcasgd") else {}
    alone, held = (_updated(name, 4, look, **kwargs) for look in (False, True))
    np.testing.assert_array_equal(alone[0], held[0])
    for a, b in zip(alone[1], held[1], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("compiled_fully")
def test_a_slot_that_nobody_holds_is_written_in_place() -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", momentum=0.9))
    weight, grad = mx.nd.ones((4,)), mx.nd.ones((4,))
    updater(0, grad, weight)
    (slot,) = mx.optimizer.slots_of(updater.states[0])
    assert isinstance(slot.cell, ArrayCell)
    inside = slot.cell.value  # not by way of the array, which would say that a caller holds it
    updater(0, grad, weight)
    assert inside.is_deleted()
    value = slot.value
    updater(0, grad, weight)
    assert not value.is_deleted()


def test_one_state_for_two_parameters_is_updated_twice() -> None:
    optimizer: Any = mx.optimizer.create("sgd", momentum=0.5, learning_rate=1.0)
    weights = [mx.nd.zeros((2,)), mx.nd.zeros((2,))]
    state = optimizer.create_state(0, weights[0])
    optimizer.update([0, 1], weights, [mx.nd.ones((2,)), mx.nd.ones((2,))], [state, state])
    assert [weight.asnumpy().tolist() for weight in weights] == [[-1, -1], [-1, -1]]


def test_a_custom_operator_that_a_program_calls_may_update() -> None:
    made: list[Any] = []

    class Scale(mx.operator.CustomOp):
        def __init__(self) -> None:
            self.weight = mx.nd.ones((3,))
            self.updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", momentum=0.5, learning_rate=0.125))

        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] * self.weight)

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            self.assign(in_grad[0], req[0], out_grad[0] * self.weight)
            self.updater(0, out_grad[0] * in_data[0], self.weight)

    @mx.operator.register("test_updates_in_place_scale")
    class _(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Scale:
            made.append(Scale())
            return made[-1]

    net = mx.sym.Custom(mx.sym.Variable("x"), op_type="test_updates_in_place_scale")
    outputs = lowering.differentiable(net)
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(jax.tree.leaves(outputs({"x": x}, {}))[0])))
    x = np.ones(3, np.float32)
    assert [np.asarray(gradient(x)).tolist() for _ in range(3)] == [[1.0] * 3, [0.875] * 3, [0.6875] * 3]
    (used,) = [each for each in made if each.updater.states]
    (slot,) = mx.optimizer.slots_of(used.updater.states[0])
    for _ in range(2):  # and outside of the program, in place
        used.updater(0, mx.nd.ones((3,)), used.weight)
    assert np.isfinite(slot.asnumpy()).all()
    assert np.isfinite(np.asarray(gradient(x))).all()


@pytest.mark.slow("compiles")
def test_slots_may_be_read_while_another_thread_updates() -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.create("adam"))
    weight, grad = mx.nd.ones((64,)), mx.nd.ones((64,))
    updater(0, grad, weight)
    first, _ = mx.optimizer.slots_of(updater.states[0])
    done, problems = threading.Event(), []

    def read() -> None:
        try:
            while not done.is_set():
                assert np.isfinite(first.asnumpy()).all()
        except Exception as error:
            problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(300):
        updater(0, grad, weight)
    done.set()
    reader.join()
    assert not problems
