"""Calls of `mx.nd`: equal calls share what they prepare, views compile nothing, gradients use what was computed."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from lowering import mx
from tests.support.compilations import compilations

nd = mx.nd


def test_equal_calls_are_prepared_once_and_different_ones_apart(monkeypatch: pytest.MonkeyPatch):
    x, y = nd.array([[1.0, -2.0], [0.5, 4.0]]), nd.array([[-1.0, 2.0]])
    assert nd.clip(x, 0.0, 1.0).asnumpy().tolist() == [[1, 0], [0.5, 1]]
    monkeypatch.setattr(importlib.import_module("lowering.mx.ndarray.array"), "_prepare", None)
    assert nd.clip(y, 0.0, 1.0).asnumpy().tolist() == [[0, 1]]
    monkeypatch.undo()
    assert nd.clip(x, 0.0, 2.0).asnumpy().tolist() == [[1, 0], [0.5, 2]]
    assert nd.sum(x, axis=1).shape == nd.sum(x, 1).shape == (2,)
    assert nd.sum(x, axis=1, keepdims=True).shape == (2, 1)


def test_numbers_that_are_equal_and_differ():
    x = nd.zeros((1,))
    signs = [np.signbit(nd._internal._maximum_scalar(x - 1, scalar=zero).asscalar()) for zero in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]
    assert nd.sum(nd.ones((2, 3)), axis=(0, 1)).shape == (1,)
    with pytest.raises(mx.MXNetError):
        nd.sum(nd.ones((2, 3)), axis=(False, 1.5))


def test_training_is_another_call():
    x = nd.ones((100,))
    with mx.autograd.train_mode():
        dropped = nd.Dropout(x, p=0.5).asnumpy()
    assert set(np.unique(dropped)) == {0, 2}
    assert set(np.unique(nd.Dropout(x, p=0.5).asnumpy())) == {1}


def test_views_compile_nothing_and_chains_of_them_have_no_end():
    x = nd.arange(7 * 11 * 13).reshape((7, 11, 13))
    with compilations() as seen:
        for shape in ((13, 77), (-1,), (0, 143), (91, 11)):
            assert x.reshape(shape).asnumpy().ravel().tolist() == list(range(1001))
        assert x[2:5].asnumpy().tolist() == x.asnumpy()[2:5].tolist()
        assert x[3][4].asnumpy().tolist() == x.asnumpy()[3, 4].tolist()
    assert not [event for event in seen if "backend_compile" in event]
    chain = x
    for i in range(3000):
        chain = chain.reshape((91, 11) if i % 2 else (1001,))
    chain[5] = -1
    assert (x.asnumpy().ravel()[55:66] == -1).all()


def test_a_view_follows_its_array():
    x = nd.zeros((2, 6))
    row, wide = x[1], x.reshape((3, 4))
    x[:] = 3
    assert row.asnumpy().tolist() == [3] * 6
    row[2:4] = 7
    assert wide.asnumpy().tolist() == [[3, 3, 3, 3], [3, 3, 3, 3], [7, 7, 3, 3]]
    assert (row.shape, row.dtype, wide[2].shape, x[None, 1].shape) == ((6,), np.float32, (4,), (1, 6))


def test_gradients_are_computed_of_outputs_that_are_there():
    """The gradient of exp is its output: the compiled gradient does not compute exp again."""
    x = nd.array([0.5, 1.5])
    x.attach_grad()
    with mx.autograd.record():
        y = nd.exp(x)
    call = y.entry[0]
    names = tuple(call.expression.names)
    run = call.expression._backward(names).__closure__
    compiled = next(cell.cell_contents for cell in run if hasattr(cell.cell_contents, "lower"))
    text = compiled.lower(list(call.values), None, [y.value], list(call.outputs), {}, {}).as_text()
    assert "exponential" not in text
    y.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.asnumpy(), np.exp([0.5, 1.5]), rtol=1e-6)


def test_axes_that_cannot_be_moved_are_a_value_error():
    x = nd.ones((2, 3, 4))
    assert nd.moveaxis(x, [0, -1], [-1, 0]).shape == (4, 3, 2)
    for source, destination in ((3, 0), (0, -4), ([0, 1], [0]), ([0, 0], [0, 1]), ([0, 1], [-1, 2])):
        with pytest.raises(ValueError, match="axis"):
            nd.moveaxis(x, source, destination)
