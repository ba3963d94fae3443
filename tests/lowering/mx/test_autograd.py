"""`mx.autograd`: MXGradient through what was called."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from lowering import mx
from lowering.mx import autograd
from lowering.mx.tape.backward import Tape


def leaf(*values: float) -> mx.nd.NDArray:
    """An array with a gradient."""
    x = mx.nd.array(values)
    x.attach_grad()
    return x


def test_gradients_of_what_was_recorded():
    x, w = leaf(1, 2, 3), leaf(4, 5, 6)
    with autograd.record():
        y = (x * w + x[1]).sum() * 2
    assert not autograd.is_recording()
    y.backward()
    assert x.grad.asnumpy().tolist() == [8, 16, 12]  # pyright: ignore
    assert w.grad.asnumpy().tolist() == [2, 4, 6]  # pyright: ignore


def test_switches_by_name():
    before = autograd.set_recording(is_recording=True), autograd.set_training(train_mode=True)
    assert autograd.is_recording()
    assert autograd.is_training()
    assert (autograd.set_recording(before[0]), autograd.set_training(before[1])) == (True, True)


def test_head_gradients_and_requests():
    x = mx.nd.array([1.0, 2])
    x.attach_grad(grad_req="add")
    for _ in range(2):
        with autograd.record():
            y = x * x
        y.backward(mx.nd.array([1.0, 10]))
    assert x.grad.asnumpy().tolist() == [4, 80]  # pyright: ignore
    target = mx.nd.zeros(2)
    autograd.mark_variables(x, target)
    with autograd.record():
        heads = [x * 2, x * 3]
    autograd.backward(heads, [mx.nd.ones(2), mx.nd.ones(2)])
    assert target.asnumpy().tolist() == [5, 5]
    with pytest.raises(nn.GradientError, match="There are no heads to differentiate"):
        autograd.backward([])


def test_what_is_detached_or_paused_is_constant():
    x = leaf(2)
    with autograd.record():
        y = x * x
        with autograd.pause():
            z = x * 3
        out = y.detach() * x + z
    out.backward()
    assert x.grad.asnumpy().tolist() == [4]  # pyright: ignore


def test_dropout_drops_the_same_in_both_directions():
    x = leaf(*np.ones(64))
    with autograd.record():
        y = mx.nd.Dropout(x, p=0.5)
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), y.asnumpy())  # pyright: ignore
    assert {0.0, 2.0} == set(y.asnumpy())
    with autograd.record(train_mode=False):
        assert (mx.nd.Dropout(x, p=0.5).asnumpy() == 1).all()
    with autograd.record(), autograd.predict_mode():
        assert (mx.nd.Dropout(x, p=0.5).asnumpy() == 1).all()


def test_training_writes_moving_averages_where_a_gradient_passes():
    mean, var = mx.nd.zeros(2), mx.nd.ones(2)
    x, beta = mx.nd.array([[1.0, 2], [3, 4]]), mx.nd.zeros(2)
    args = (x, mx.nd.ones(2), beta, mean, var)
    mx.nd.BatchNorm(*args, momentum=0.5)
    with autograd.train_mode():
        mx.nd.BatchNorm(*args, momentum=0.5)
    with autograd.record():
        mx.nd.BatchNorm(*args, momentum=0.5)
    assert mean.asnumpy().tolist() == [0, 0]
    beta.attach_grad()
    with autograd.record(train_mode=False):
        mx.nd.BatchNorm(*args, momentum=0.5)
    assert mean.asnumpy().tolist() == [0, 0]
    with autograd.record():
        mx.nd.BatchNorm(*args, momentum=0.5)
    assert mean.asnumpy().tolist() == [1, 1.5]


def test_second_order():
    x = leaf(2, 3)
    with autograd.record():
        (slope,) = autograd.grad([x * x * x], [x], create_graph=True)
        out = (slope * x).sum()
    out.backward()
    assert slope.asnumpy().tolist() == [12, 27]
    assert x.grad.asnumpy().tolist() == [36, 81]  # pyright: ignore  # of 3x³


def test_a_loss_head_ignores_what_comes_down():
    x = leaf(*np.zeros(4)).reshape((1, 4))
    x.attach_grad()
    with autograd.record():
        out = mx.nd.SoftmaxOutput(x, mx.nd.array([2]))
    out.backward()
    assert x.grad.asnumpy().tolist() == [[0.25, 0.25, -0.75, 0.25]]  # pyright: ignore


def test_a_function_of_ones_own():
    class Double(autograd.Function):
        dialect = 100

        def forward(self, x: mx.nd.NDArray) -> mx.nd.NDArray:  # pyright: ignore
            self.save_for_backward(x)
            return x * 2

        def backward(self, dy: mx.nd.NDArray) -> mx.nd.NDArray:  # pyright: ignore
            return dy * self.dialect * self.saved_tensors[0]

    x = leaf(1, 2)
    with autograd.record():
        y = Double()(x) * 3
    y.backward()
    assert y.asnumpy().tolist() == [6, 12]
    assert x.grad.asnumpy().tolist() == [300, 600]  # pyright: ignore


def test_loops_and_branches():
    """Python's, so that what they do is recorded."""
    x = leaf(1, 2, 3)
    with autograd.record():
        outputs, state = mx.nd.contrib.foreach(lambda row, s: (row * s, s + row), x, mx.nd.ones(1))
        y = mx.nd.contrib.cond(state > 5, lambda: outputs.sum(), lambda: outputs)
    y.backward()
    assert outputs.asnumpy().ravel().tolist() == [1, 4, 12]
    assert x.grad.asnumpy().tolist() == [6, 5, 4]  # pyright: ignore  # of a + b (1 + a) + c (1 + a + b)
    steps, (last,) = mx.nd.contrib.while_loop(lambda i: i < 3, lambda i: (i * 2, [i + 1]), [mx.nd.zeros(1)], 4)
    assert (steps.asnumpy().ravel().tolist(), last.asscalar()) == ([0, 2, 4, 0], 3)
    with pytest.raises(nn.CallError, match="max_iterations should be specified"):
        mx.nd.contrib.while_loop(lambda i: i < 3, lambda i: (i, [i]), [x])


def test_what_was_not_recorded_is_told():
    x = leaf(1)
    with pytest.raises(nn.GradientError, match="not in a computational graph. Call attach_grad"):
        (x * 2).backward()
    with autograd.record():
        y = x * 2
    with pytest.raises(nn.GradientError, match=r"not computed from the variables \[0\]"):
        autograd.grad(y, [leaf(3)])


def test_a_recorded_graph_as_a_symbol():
    x, z = leaf(1, 2), leaf(3, 4)
    with autograd.record():
        y = x * x + 2 * z - mx.nd.array([1, 1])
    symbol = autograd.get_symbol(y)
    assert isinstance(symbol, mx.sym.Symbol)
    assert symbol.list_arguments() == ["var0", "var1", "null0"]
    assert symbol.get_internals().list_outputs()[::2] == ["var0", "var1", "node_2_output", "node_3_output"]
    assert symbol.eval(var0=x, var1=z, null0=mx.nd.zeros(2))[0].asnumpy().tolist() == [7, 12]
    assert autograd.get_symbol(x).list_arguments() == ["var0"]
    with pytest.raises(nn.GradientError, match="was not computed while recording"):
        autograd.get_symbol(mx.nd.ones(1))


def test_what_was_differentiated_is_used_up():
    x = leaf(2)
    with autograd.record():
        y = x * x
        z = y * 3
    y.backward(retain_graph=True)
    y.backward()
    assert np.asarray(x.grad).tolist() == [4]
    for head in (y, z):
        with pytest.raises(nn.GradientError, match="retain_graph=True"):
            head.backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y, c: x.__iadd__(1),
        lambda x, y, c: x.__setitem__(slice(None), 1),
        lambda x, y, c: y.__setitem__(0, 1),
        lambda x, y, c: y.__imul__(x),
        lambda x, y, c: mx.nd.relu(x, out=y),
    ],
)
def test_a_write_to_what_is_recorded_is_refused(write: Any):
    x, c = leaf(1, 2), mx.nd.zeros(2)
    with autograd.record():
        y = x * 2
        with pytest.raises(nn.GradientError, match="already in a computational graph"):
            write(x, y, c)


def test_a_recorded_value_is_copied_whole_and_not_into_a_part():
    x, c = leaf(1, 2), mx.nd.zeros(2)
    with autograd.record():
        c[:] = x
        y = c * c
        with pytest.raises(nn.GradientError, match="Inplace operations"):
            mx.nd.zeros(2).__setitem__(0, x[0:1])
        with pytest.raises(nn.GradientError, match="Inplace operations"):
            mx.nd.zeros(2).__iadd__(x)
    y.backward()
    assert np.asarray(x.grad).tolist() == [2, 4]


def test_a_gradient_that_does_not_depend_on_a_variable_has_zeros():
    x = leaf(1, 2)
    with autograd.record():
        (slope,) = autograd.grad(x * 3, x, create_graph=True)
    slope.backward()
    assert np.asarray(x.grad).tolist() == [0, 0]


def test_a_function_of_constants_of_several_shapes():
    class First(autograd.Function):
        def forward(self, x: Any, y: Any, z: Any) -> Any:
            return x * 2

        def backward(self, dy: Any) -> Any:
            return dy * 2, mx.nd.zeros(2), mx.nd.zeros(5)

    x = leaf(1, 2, 3)
    with autograd.record():
        y = First()(x, mx.nd.zeros(2), mx.nd.zeros(5))
        with pytest.raises(nn.GradientError, match="The Function First cannot be turned"):
            autograd.get_symbol(y)
    y.backward()
    assert np.asarray(x.grad).tolist() == [2, 2, 2]


def test_the_gradient_of_relu_at_nan():
    x = leaf(np.nan, 1, -1)
    for function, expected in (
        (mx.nd.relu, [np.nan, 1, 0]),
        (lambda x: mx.nd.Activation(x, act_type="relu"), [0, 1, 0]),
    ):
        with autograd.record():
            y = function(x)
        y.backward()
        np.testing.assert_array_equal(np.asarray(x.grad), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_gradients_of_whole_numbers_are_whole_numbers(dtype: str):
    x, y = mx.nd.array([3, 5], dtype=dtype), mx.nd.array([2, 2], dtype=dtype)
    for array in (x, y):
        array.attach_grad()
    with autograd.record():
        z = x * x + 3 * x * y
    z.backward()
    assert np.asarray(x.grad).dtype == np.dtype(dtype)
    assert (np.asarray(x.grad).tolist(), np.asarray(y.grad).tolist()) == ([12, 16], [9, 15])
    x.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            z = x * x
        z.backward(mx.nd.array([1, 2], dtype=dtype))
    assert np.asarray(x.grad).tolist() == [12, 40]
    with autograd.record():
        z = (x.astype("float32") * 2.5).sum()
    assert autograd.grad(z, x)[0].asnumpy().tolist() == [2, 2]  # cut off, as in MXNet


def test_an_index_has_a_gradient_of_zeros():
    rows, at = mx.nd.ones((3, 2)), mx.nd.array([0, 1], dtype="int32")
    for array in (rows, at):
        array.attach_grad()
    with autograd.record():
        taken = mx.nd.take(rows, at * 1)
    taken.backward()
    assert np.asarray(rows.grad).tolist() == [[1, 1], [1, 1], [0, 0]]
    assert np.asarray(at.grad).tolist() == [0, 0]


def test_a_mode_inside_a_record_keeps_what_it_does_not_say():
    with autograd.record(train_mode=False):
        with autograd.train_mode():
            assert (autograd.is_recording(), autograd.is_training()) == (True, True)
        assert (autograd.is_recording(), autograd.is_training()) == (True, False)
        with autograd.pause(train_mode=True):
            assert (autograd.is_recording(), autograd.is_training()) == (False, True)
    with autograd.train_mode():
        assert not autograd.is_recording()


COPIES: dict[str, Any] = {
    "copy": lambda x: x.copy(),
    "copyto a context": lambda x: x.copyto(mx.cpu(1)),
    "as_in_context": lambda x: x.as_in_context(mx.cpu(1)).as_in_context(mx.cpu(0)),
    "copyto an array": lambda x: x.copyto(mx.nd.zeros(x.shape)),
    "copyto an array of another dtype": lambda x: x.copyto(mx.nd.zeros(x.shape, dtype="float16")).astype("float32"),
}


@pytest.mark.parametrize("name", COPIES)
def test_gradients_flow_through_copies(name: str):
    x = mx.nd.array([3.0, 1, 2])
    x.attach_grad()
    with mx.autograd.record():
        y = COPIES[name](x * 2)
        z = y * y + x
    z.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 8 * x.asnumpy() + 1)  # pyright: ignore
    with mx.autograd.record():
        symbol = mx.autograd.get_symbol(COPIES[name](x) * 2)
    assert symbol.list_arguments() == ["var0"]


def test_a_copy_onto_an_array_of_the_tape_is_refused():
    x, marked = mx.nd.ones((2,)), mx.nd.zeros((2,))
    x.attach_grad()
    marked.attach_grad()
    with mx.autograd.record(), pytest.raises(mx.MXNetError, match="already in a computational graph"):
        x.copyto(marked)


def test_a_gradient_through_a_copy_is_recorded():
    x = mx.nd.array([3.0])
    x.attach_grad()
    with mx.autograd.record():
        (first,) = mx.autograd.grad(x.copy() ** 3, [x], create_graph=True)
    first.backward()
    assert x.grad.asscalar() == 18  # pyright: ignore


def test_what_was_differentiated_is_a_constant_in_what_is_recorded_later():
    x = leaf(3, 1, 2)
    with autograd.record():
        h = x * 2
        y, never = h * h, h * 5
    y.backward()
    with autograd.record():
        z = h * 3 + h[1] * x + h.copy()
        h += 1
        z = z + h * x
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 + 2 * np.array([3, 1, 2]) + 1)  # pyright: ignore
    with pytest.raises(mx.MXNetError, match="not in a computational graph any more"):
        never.backward()


def test_a_state_that_is_carried_on_is_cut_off_between_passes():
    x, state, expected = leaf(0.5), mx.nd.zeros((1,)), 0.0
    for _ in range(3):
        with autograd.record():
            state = mx.nd.tanh(state + x)
        state.backward()
        expected = np.tanh(expected + 0.5)
        np.testing.assert_allclose(x.grad.asnumpy(), 1 - expected**2, rtol=1e-5)  # pyright: ignore


@pytest.mark.parametrize("part", [slice(None), 0, (0, 1)])
def test_a_write_outside_of_record_leaves_an_array_on_the_tape(part: Any):
    x: Any = mx.nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = x * 2
        with autograd.pause():
            y[part] = 7
        z = y * y
    y[part] = 9
    autograd.backward([y, z])
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 + 4 * z.asnumpy() ** 0.5)
    assert y.asnumpy().max() == 9


def test_nothing_that_wants_a_gradient_is_told():
    x = leaf(1, 2)
    x.attach_grad("null")
    with autograd.record():
        y = x * 2
    with pytest.raises(nn.GradientError, match="There are no inputs in computation graph that require gradients"):
        y.backward()


def test_a_function_that_returns_too_few_gradients_is_told():
    class Product(autograd.Function):
        def forward(self, a: Any, b: Any) -> Any:
            return a * b

        def backward(self, head: Any) -> Any:
            return head

    x = leaf(1, 2)
    with autograd.record():
        y = Product()(x, x)
    with pytest.raises(nn.GradientError, match=r"Product.backward must return one gradient .*2 arrays; got 1"):
        y.backward()


def test_deviation_gradients_are_of_the_values_that_were_recorded():
    x = leaf(1, 2)
    with autograd.record():
        y = x * x
    x[:] = 5
    y.backward()
    assert x.grad is not None
    assert x.grad.asnumpy().tolist() == [2, 4]


def test_a_gradient_is_freed_with_its_array():
    x = mx.nd.ones((2, 2))
    x.attach_grad()
    with mx.autograd.record():
        y = x * x
    y.backward()
    assert x.grad is not None
    gradient = weakref.ref(x.grad)
    gc.disable()
    try:
        del x, y
        assert gradient() is None
    finally:
        gc.enable()


def test_a_function_is_called_once():
    class Square(autograd.Function):
        def forward(self, x: Any) -> Any:
            self.save_for_backward(x)
            return x * x

        def backward(self, head: Any) -> Any:
            return head * 2 * self.saved_tensors[0]

    square, x = Square(), leaf(1, 2)
    with autograd.record():
        y = square(x)
        with pytest.raises(
            AssertionError, match="can only be called once. Create a new instance for each call: Square"
        ):
            square(y)  # y's gradient would read what this call keeps
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4]  # pyright: ignore


def test_no_variables_are_told():
    x = leaf(1, 2)
    with autograd.record():
        y = x * 2
    for error in (AssertionError, mx.MXNetError):
        with pytest.raises(error, match="variables cannot be an empty list"):
            autograd.grad(y, [])


@pytest.mark.parametrize("key", [np.s_[:, :3], np.s_[2:], np.s_[1::2, ::-1], np.s_[..., 1]])
def test_a_part_up_to_the_end_is_one_function_of_all_sizes(key: Any):
    """Each size of a batch had a function of its own, which was kept."""
    functions: list[Any] = []
    for n in (5, 8):
        data = np.arange(4.0 * n, dtype="f").reshape(n, 4)
        x: Any = mx.nd.array(data)
        x.attach_grad()
        with mx.autograd.record():
            part = x[key]
            functions.append(Tape([part.entry], lambda leaf: leaf.grad_req).calls[0].function)
            loss = (part * part).sum()
        loss.backward()
        expected = np.zeros_like(data)
        expected[key] = 2 * data[key]
        np.testing.assert_array_equal(x.grad.asnumpy(), expected)
    assert functions[0] is functions[1]
