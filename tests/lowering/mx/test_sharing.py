"""Memory that executors share: an array under several names, in several executors, and views of it."""

import numpy as np

from lowering import mx

A, B, X = (mx.sym.Variable(name) for name in "abx")


def numbers(array: mx.nd.NDArray | None) -> list[float]:
    return array.asnumpy().ravel().tolist()  # pyright: ignore[reportOptionalMemberAccess]


def test_one_array_under_two_names_of_two_executors():
    w = mx.nd.ones(2)
    first, second = (A * 2).bind(mx.cpu(), {"a": w}), (B * 3).bind(mx.cpu(), {"b": w})
    w[:] = 5
    assert numbers(first.forward()[0]) == [10, 10]
    assert numbers(second.forward()[0]) == [15, 15]
    first.arg_dict["a"][:] = 7
    assert numbers(second.arg_dict["b"]) == numbers(w) == [7, 7]
    second.arg_dict["b"][:] = 1
    assert numbers(first.forward()[0]) == [2, 2]


def test_one_array_under_two_names_of_one_executor():
    w = mx.nd.ones(2)
    executor = (A + 10 * B).bind(mx.cpu(), {"a": w, "b": w})
    w[:] = 5
    assert numbers(executor.forward()[0]) == [55, 55]


def test_gradients_are_added_to_one_array_by_all_that_hold_it():
    w, g = mx.nd.ones(2), mx.nd.zeros(2)
    executor = (A + 10 * B).bind(mx.cpu(), {"a": w, "b": w}, {"a": g, "b": g}, grad_req="add")
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones(2))
    assert numbers(g) == [22, 22]
    other = (B * 3).bind(mx.cpu(), {"b": w}, {"b": g}, grad_req="add")
    other.forward(is_train=True)
    other.backward(mx.nd.ones(2))
    assert numbers(g) == [25, 25]


def test_views_are_arguments_and_gradients():
    whole, grads = mx.nd.arange(8), mx.nd.zeros(8)
    executor = (X * 2).bind(mx.cpu(), {"x": whole.reshape((2, 4))}, {"x": grads.reshape((2, 4))})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 4)))
    assert numbers(executor.outputs[0]) == list(range(0, 16, 2))
    assert numbers(grads) == [2] * 8
    whole[:] = 1
    assert numbers(executor.forward()[0]) == [2] * 8
    executor.arg_dict["x"][:] = 3
    assert numbers(whole) == [3] * 8


def test_gradients_go_through_a_part_to_the_whole():
    whole, grads = mx.nd.arange(8), mx.nd.zeros(8)
    executor = (X * 2).bind(mx.cpu(), {"x": whole[2:4]}, {"x": grads[2:4]})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(2))
    assert numbers(grads) == [0, 0, 2, 2, 0, 0, 0, 0]
    assert numbers((X * 2).eval(x=whole[2:4])[0]) == [4, 6]
    added = (A + 10 * B).bind(mx.cpu(), [whole[0:2], whole[2:4]], [grads[0:2], grads[2:4]], grad_req="add")
    for _ in range(2):
        added.forward(is_train=True)
        added.backward(mx.nd.ones(2))
    assert numbers(grads) == [2, 2, 22, 22, 0, 0, 0, 0]


def test_overlapping_views_are_added_to_one_after_the_other():
    whole, grads = mx.nd.ones(4), mx.nd.zeros(4)
    executor = (A + 10 * B).bind(mx.cpu(), [whole[0:3], whole[1:4]], [grads[0:3], grads[1:4]], grad_req="add")
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(3))
    assert numbers(grads) == [1, 11, 11, 10]


def test_a_view_is_a_state():
    data = mx.sym.BatchNorm(X, name="bn", fix_gamma=False, momentum=0.5)
    states = mx.nd.zeros((2, 3))
    args = {"x": mx.nd.arange(6).reshape((2, 3)), "bn_gamma": mx.nd.ones(3), "bn_beta": mx.nd.zeros(3)}
    executor = data.bind(mx.cpu(), args, {"x": mx.nd.zeros((2, 3))}, aux_states=[states[0], states[1]])
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 3)))
    np.testing.assert_allclose(states.asnumpy(), [[0.75, 1.25, 1.75], [1.125] * 3])


def test_an_array_over_numpys_memory_is_shared():
    memory = np.ones(3, np.float32)
    array = mx.nd.from_numpy(memory)
    assert not memory.flags.writeable
    executor = (X * 2).bind(mx.cpu(), {"x": mx.nd.ones(3)}, {"x": array})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(3))
    assert memory.tolist() == numbers(array) == [2, 2, 2]
    array[1] = 5
    assert memory.tolist() == [2, 5, 2]
