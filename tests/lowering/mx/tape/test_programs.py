"""Short tapes that come again and again are differentiated by one program, with the gradients of single calls."""

from typing import Any

import numpy as np
import pytest

from lowering import mx
from tests.support.compilations import compilations

nd = mx.nd


def leaves(*shapes: tuple[int, ...], grad_req: str = "write") -> list[Any]:
    random = np.random.RandomState(0)
    arrays = [nd.array(random.uniform(0.5, 1.5, shape)) for shape in shapes]
    for array in arrays:
        array.attach_grad(grad_req)
    return arrays


def steps(count: int, function: Any, arrays: list[Any], **backward: Any) -> list[list[Any]]:
    """The gradients of each step."""
    rows = []
    for _ in range(count):
        with mx.autograd.record():
            out = function(*arrays)
        mx.autograd.backward(out, **backward)
        rows.append([array.grad.asnumpy() if array.grad is not None else None for array in arrays])
    return rows


NETWORKS = {
    "a layer": (lambda x, w: nd.sum(nd.relu(nd.dot(x, w, transpose_b=True))), [(4, 5), (3, 5)]),
    "a leaf that is used twice": (lambda x: nd.sum(x * x + x), [(2, 3)]),
    "several outputs, one of them unused": (lambda x: nd.sum(nd.split(x, 2, axis=1)[1] ** 2), [(2, 4)]),
    "two heads": (lambda x, y: [x * y, nd.exp(x)], [(2,), (2,)]),
    "a number": (lambda x: nd.mean(3 - 2 * x), [(2, 2)]),
    "a part that no gradient goes through": (lambda x, y: nd.sum(nd.BlockGrad(x) * y), [(3,), (3,)]),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_stay_the_same_from_step_to_step(name: str):
    function, shapes = NETWORKS[name]
    first, *others = steps(5, function, leaves(*shapes))
    assert any(gradient.any() for gradient in first)
    for row in others:
        for one, other in zip(first, row, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_fourth_step_compiles_nothing():
    arrays = leaves((4, 5), (3, 5))
    function = NETWORKS["a layer"][0]
    steps(3, function, arrays)
    with compilations() as seen:
        steps(2, function, arrays)
    assert not seen


def test_gradients_are_added_and_left_out_as_requested():
    x, y = leaves((3,), (3,))
    x.attach_grad("add")
    y.attach_grad("null")
    for i, (of_x, of_y) in enumerate(steps(4, lambda x, y: nd.sum(x * y), [x, y])):
        np.testing.assert_allclose(of_x, (i + 1) * y.asnumpy(), rtol=1e-6)
        assert of_y is None


def test_head_gradients_shapes_and_second_passes_are_told_apart():
    for size in (2, 3, 2, 3, 2, 3, 2, 3):
        (x,) = leaves((size,))
        given = nd.arange(size)
        (row,) = steps(1, lambda x: x * x, [x], head_grads=[given])
        np.testing.assert_allclose(row[0], 2 * x.asnumpy() * given.asnumpy(), rtol=1e-6)
    (x,) = leaves((2,))
    for _ in range(4):
        with mx.autograd.record():
            out = nd.sum(x * x)
        out.backward(retain_graph=True)
        out.backward()
        with pytest.raises(mx.MXNetError, match="retain_graph=True"):
            out.backward()


def test_heads_may_be_leaves():
    (x,) = leaves((2,))
    x.backward()
    assert x.grad.asnumpy().tolist() == [1, 1]
    with mx.autograd.record():
        y = 3 * x
    mx.autograd.backward([y, x])
    assert x.grad.asnumpy().tolist() == [4, 4]


def test_draws_keep_their_numbers():
    (x,) = leaves((64,))
    for _ in range(4):
        with mx.autograd.record():
            out = nd.Dropout(x, p=0.5)
        out.backward()
        np.testing.assert_allclose(x.grad.asnumpy() * x.asnumpy(), out.asnumpy(), rtol=1e-6)


def test_what_python_or_a_new_record_computes_is_differentiated_call_by_call():
    class Twice(mx.autograd.Function):
        def forward(self, x: Any) -> Any:
            return 2 * x

        def backward(self, *heads: Any) -> Any:
            return 2 * heads[0]

    (x,) = leaves((3,))
    for row in steps(4, lambda x: nd.sum(Twice()(x) * x), [x]):
        np.testing.assert_allclose(row[0], 4 * x.asnumpy(), rtol=1e-6)
    for _ in range(4):
        with mx.autograd.record():
            (slope,) = mx.autograd.grad(x * x * x, x, create_graph=True)
        slope.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 6 * x.asnumpy(), rtol=1e-6)
