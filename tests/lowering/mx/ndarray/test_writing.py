"""What may be written to an array, and how: NumPy's rule of broadcasting, at every door. MXNet 1.9.1 was asked."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.mx.ndarray.cells import HostCell

SHAPE = (3, 4)

ACCEPTED = [(3, 4), (1, 3, 4), (1, 1, 3, 4), (1, 4), (4,), (3, 1), (1,), (1, 1, 1), ()]
REFUSED = [(4, 3), (12,), (1, 12), (6, 2), (2, 2, 3), (3,), (2,), (0,), (2, 3, 4)]
"""The first five have as many elements."""

WHOLE = {
    "[:]": lambda value: _written(mx.nd.zeros(SHAPE), slice(None), value),
    "[...]": lambda value: _written(mx.nd.zeros(SHAPE), Ellipsis, value),
    "[0:3]": lambda value: _written(mx.nd.zeros(SHAPE), slice(0, 3), value),
    "view": lambda value: _written(mx.nd.zeros((6, 4))[1:4], slice(None), value),
    "row": lambda value: _written(mx.nd.zeros((2, 3, 4)), 1, value)[1],
    "reshaped": lambda value: _written(mx.nd.zeros((4, 3)).reshape(SHAPE), slice(None), value),
    "every other": lambda value: _written(mx.nd.zeros((6, 4)), slice(None, None, 2), value)[::2],
    "CustomOp": lambda value: _written(mx.nd.NDArray(HostCell(np.zeros(SHAPE, np.float32))), slice(None), value),
    "indices": lambda value: _written(mx.nd.zeros((6, 4)), [0, 2, 1], value)[[0, 2, 1]],
}


def _written(array: mx.nd.NDArray, key: Any, value: Any) -> mx.nd.NDArray:
    array[key] = value
    return array


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("way", WHOLE)
@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, mx.nd.array], ids=["numpy", "list", "NDArray"])
def test_a_value_broadcasts_as_numpys_does_or_is_refused(way: str, kind: Callable[[np.ndarray], Any]):
    for shape in ACCEPTED:
        value = numbers(shape)
        expected = np.zeros(SHAPE, np.float32)
        expected[:] = value
        np.testing.assert_array_equal(WHOLE[way](kind(value)).asnumpy(), expected, err_msg=str(shape))
    for shape in REFUSED:
        with pytest.raises(ValueError, match="does not fit") as raised:
            WHOLE[way](kind(numbers(shape)))
        assert isinstance(raised.value, mx.MXNetError), shape


@pytest.mark.parametrize("way", WHOLE)
@pytest.mark.parametrize("dtype", ["float16", "int32", "uint8"])
def test_an_array_keeps_its_dtype_whatever_is_written(way: str, dtype: str):
    written = WHOLE[way](mx.nd.ones(SHAPE, dtype=dtype))
    assert written.dtype == written.asnumpy().dtype == np.float32
    np.testing.assert_array_equal(written.asnumpy(), np.ones(SHAPE))


def test_a_weight_that_was_not_transposed_is_told_so():
    with pytest.raises(ValueError, match=r"value\.T has that shape"):
        mx.nd.zeros(SHAPE)[:] = numbers((4, 3))
    with pytest.raises(ValueError, match=r"value\.reshape\(\(3, 4\)\) has that shape"):
        mx.nd.zeros(SHAPE)[:] = numbers((12,))


@pytest.mark.parametrize("shape", ACCEPTED)
def test_a_recorded_value_broadcasts_and_its_gradient_comes_back(shape: tuple[int, ...]):
    if not shape:
        return
    x, array = mx.nd.array(numbers(shape)), mx.nd.zeros(SHAPE)
    x.attach_grad()
    with mx.autograd.record():
        array[:] = 2 * x
        total = array.sum()
    total.backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full(shape, 2 * 12 / x.size, np.float32))


def dense() -> mx.gluon.nn.Dense:
    layer = mx.gluon.nn.Dense(3, in_units=4)
    layer.initialize()
    return layer


def executor() -> Any:
    return (mx.sym.var("a") + 1).simple_bind(mx.cpu(), a=SHAPE)


def store(pushed: Any) -> Any:
    kv = mx.kv.create()
    kv.init(3, mx.nd.zeros(SHAPE))
    kv.push(3, pushed)
    return kv


def normalised() -> Any:
    return mx.sym.BatchNorm(mx.sym.var("data"), name="bn").simple_bind(mx.cpu(), data=(2, 6, 2))


DOORS: dict[str, tuple[Callable[[mx.nd.NDArray], object], type[Exception]]] = {
    "weight.data()[:]": (lambda value: _written(dense().weight.data(), slice(None), value), ValueError),
    "weight.grad()[:]": (lambda value: _written(dense().weight.grad(), slice(None), value), ValueError),
    "set_data": (lambda value: dense().weight.set_data(value), AssertionError),
    "arg_dict": (lambda value: _written(executor().arg_dict["a"], slice(None), value), ValueError),
    "arg_arrays": (lambda value: _written(executor().arg_arrays[0], slice(None), value), ValueError),
    "grad_dict": (lambda value: _written(executor().grad_dict["a"], slice(None), value), ValueError),
    "aux_dict": (lambda value: _written(normalised().aux_dict["bn_moving_mean"], slice(None), value), ValueError),
    "forward": (lambda value: executor().forward(a=value), ValueError),
    "copy_params_from": (lambda value: executor().copy_params_from({"a": value}), ValueError),
    "copyto": (lambda value: value.copyto(mx.nd.zeros(SHAPE)), mx.MXNetError),
    "out=": (lambda value: mx.nd.relu(value, out=mx.nd.zeros(SHAPE)), mx.MXNetError),
    "zeros(out=)": (lambda value: mx.nd.zeros(value.shape, out=mx.nd.zeros(SHAPE)), mx.MXNetError),
    "ones(out=)": (lambda value: mx.nd.ones(value.shape, out=mx.nd.zeros(SHAPE)), mx.MXNetError),
    "uniform(out=)": (lambda value: mx.nd.random.uniform(shape=value.shape, out=mx.nd.zeros(SHAPE)), mx.MXNetError),
    "kv.push": (store, mx.MXNetError),
    "kv.push of several": (lambda value: store([mx.nd.zeros(SHAPE), value]), mx.MXNetError),
    "kv.pull": (lambda value: store(mx.nd.zeros(SHAPE)).pull(3, out=value), mx.MXNetError),
    "Constant": (lambda value: dense().weight.initialize(mx.init.Constant(value), force_reinit=True), ValueError),
    "Load": (lambda value: mx.init.Load({"a": value})("a", mx.nd.zeros(SHAPE)), AssertionError),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("shape", [(4, 3), (12,)])
def test_no_door_takes_a_value_of_another_shape(door: str, shape: tuple[int, ...]):
    write, kind = DOORS[door]
    with pytest.raises(mx.MXNetError) as raised:
        write(mx.nd.array(numbers(shape)))
    assert isinstance(raised.value, kind)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 1), (1,)])
def test_a_store_broadcasts_nothing(shape: tuple[int, ...]):
    for pushed in (mx.nd.zeros(shape), [mx.nd.zeros(SHAPE), mx.nd.zeros(shape)]):
        with pytest.raises(mx.MXNetError):
            store(pushed)


@pytest.mark.parametrize(
    "value", ["abc", {}, 1j, [[1, 2], [3]], object(), {1}, [1, "a"]], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("key", [slice(None), 0], ids=["all", "a row"])
def test_what_is_no_array_of_numbers_is_no_value(key: Any, value: Any):
    with pytest.raises(TypeError, match="does not support assignment with non-array-like object") as raised:
        mx.nd.zeros(SHAPE)[key] = value
    assert isinstance(raised.value, mx.MXNetError)


def test_words_that_are_numbers_and_none_are_values():
    for value, number in (("3", 3.0), (None, np.nan), ([None] * 4, np.nan), (np.float16(2), 2.0), (range(4), range(4))):
        array = _written(mx.nd.zeros(SHAPE), slice(None), value).asnumpy()
        np.testing.assert_array_equal(array[0], np.broadcast_to(number, (4,)))


WRONG_INDICES = [
    (slice(0, 3, 0), ValueError, "slice step cannot be zero"),
    ((Ellipsis, Ellipsis), IndexError, "more than one ellipsis"),
    (([0, 1], [0, 1, 2]), ValueError, "cannot be broadcast to one shape"),
    (slice(0.5, 2), TypeError, "bounds of a slice"),
    (slice("a", None), TypeError, "bounds of a slice"),
    (["a"], TypeError, "Indices must be numbers"),
    ([[0], [0, 1]], TypeError, "must have the same length"),
    (1j, ValueError, "does not support slicing with key 1j"),
    ([7], IndexError, "index 7 is out of bounds for axis 0 with size 3"),
    (np.array([0, -4]), IndexError, "index -4 is out of bounds"),
]


@pytest.mark.parametrize(("key", "kind", "words"), WRONG_INDICES, ids=repr)
def test_a_wrong_index_is_told_whether_read_written_or_recorded(key: Any, kind: type[Exception], words: str):
    x = mx.nd.zeros(SHAPE)
    x.attach_grad()

    def recorded() -> None:
        with mx.autograd.record():
            x[key]

    for use in (lambda: x[key], lambda: _written(x, key, 5), recorded):
        with pytest.raises(kind, match=words) as raised:
            use()
        assert isinstance(raised.value, mx.MXNetError)


READS: list[Callable[[mx.nd.NDArray], Any]] = [
    lambda x: x.value,
    lambda x: x[1].value,
    lambda x: x[1:3].asnumpy(),
    lambda x: x.asnumpy(),
    np.asarray,
    lambda x: x.copy().value,
    lambda x: (x * 1).value,
    lambda x: x.reshape((4, 3)).value,
]
WRITES: list[tuple[Callable[[mx.nd.NDArray], Any], Callable[[np.ndarray], Any]]] = [
    (lambda x: x.__setitem__(1, 5), lambda x: x.__setitem__(1, 5)),
    (lambda x: x.__setitem__((2, slice(1, 3)), x[1][1:3]), lambda x: x.__setitem__((2, slice(1, 3)), x[1, 1:3])),
    (lambda x: x.__setitem__([0, 2], x[1:3] + 1), lambda x: x.__setitem__([0, 2], x[1:3] + 1)),
    (lambda x: x[1].__setitem__(slice(None), 2.5), lambda x: x.__setitem__(1, 2.5)),
    (lambda x: x[1][2:].__iadd__(1), lambda x: x.__setitem__((1, slice(2, None)), x[1, 2:] + 1)),
    (lambda x: x.reshape((4, 3))[3].__imul__(2), lambda x: x.reshape((4, 3))[3].__imul__(2)),
    (lambda x: x.__iadd__(x[0].sum()), lambda x: x.__iadd__(x[0].sum())),
    (lambda x: x.__setitem__(slice(None), x * 0.5), lambda x: x.__setitem__(slice(None), x * 0.5)),
]


@pytest.mark.parametrize("late", [False, True])
def test_what_was_read_does_not_change_when_parts_are_written(late: bool):
    draws = np.random.RandomState(0)
    expected = numbers(SHAPE)
    array = mx.nd.array(expected)
    if late:  # a gradient, whose memory is another kind of cell's
        array.attach_grad()
        assert array.grad is not None
        array = array.grad
        array[:] = mx.nd.array(expected)
    view = array[1:]
    was_read: list[tuple[Any, np.ndarray]] = []
    for _ in range(60):
        write, same = WRITES[draws.randint(len(WRITES))]
        write(array)
        same(expected)
        np.testing.assert_array_equal(view.asnumpy(), expected[1:])
        if draws.randint(3) == 0:
            value = READS[draws.randint(len(READS))](array)
            was_read.append((value, np.array(value)))
    np.testing.assert_array_equal(array.asnumpy(), expected)
    for value, then in was_read:
        np.testing.assert_array_equal(np.asarray(value), then)


def test_a_tape_a_pending_result_and_an_executor_keep_what_they_took():
    x, y = mx.nd.ones((3,)), mx.nd.ones((3,))
    x[0] = 2
    x.attach_grad()
    with mx.autograd.record():
        z = x * x
    x[1] = 7  # not recorded any more
    z.backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.asnumpy(), [4, 2, 2])
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.HybridLambda("relu"))
    net.hybridize()
    y[0] = -1
    y.attach_grad()
    with mx.autograd.record():
        z = net(y)
    y[1] = -1
    np.testing.assert_array_equal(z.asnumpy(), [0, 1, 1])
    executor = (mx.sym.var("a") * 2).bind(mx.cpu(), {"a": y})
    y[2] = 4
    executor.arg_dict["a"][0] = 3
    np.testing.assert_array_equal(executor.forward()[0].asnumpy(), [6, -2, 8])
    np.testing.assert_array_equal(y.asnumpy(), [3, -1, 4])


def test_a_part_is_written_in_the_memory_that_is_there():
    x = mx.nd.zeros((4, 3))
    x[0] = 1
    memory = x.cell.own_memory()
    x[1] = x[0] + 1
    x[2][1:] = 5
    x.reshape((12,))[11] = 6
    assert memory is not None
    assert x.cell.own_memory() is memory
    np.testing.assert_array_equal(memory, [[1, 1, 1], [2, 2, 2], [0, 5, 5], [0, 0, 6]])
    value = x.value
    x[0] = 9
    assert x.cell.own_memory() is not memory
    assert float(value[0, 0]) == 1


def test_a_value_that_does_not_fit_leaves_an_array_as_it_was():
    x = mx.nd.zeros((2, 3), dtype="int32")
    x[0] = 1
    for value in (2**40, [[1, 2], [3, 4]], "a"):
        with pytest.raises((mx.MXNetError, ValueError)):
            x[1] = value
    np.testing.assert_array_equal(x.asnumpy(), [[1, 1, 1], [0, 0, 0]])


IN_PLACE = {"+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv}


NP: Any = mx.np


@pytest.mark.slow("asks every operator")
@pytest.mark.parametrize("array", [mx.nd.array, NP.array], ids=["nd", "np"])
@pytest.mark.parametrize("word", IN_PLACE)
def test_in_place_operators_write_memory_and_give_the_numbers_of_plain_ones(array: Any, word: str):
    update = IN_PLACE[word]
    plain = getattr(operator, update.__name__.removeprefix("i"))
    floats = np.array([[1.5, -0.0, np.inf], [np.nan, 3e4, 1e-3]], np.float32)
    for first in (floats, floats.astype(np.float16)):
        for other in (array(first[::-1], dtype=first.dtype), array([[2]], dtype=first.dtype), 3, 1.5):
            x = array(first, dtype=first.dtype)
            copy = x.copy()
            with lowering.effort("full" if first.dtype == np.float32 else "auto"):
                expected = plain(x, other).asnumpy().astype(first.dtype)
            part, y = x[1], x.detach()
            assert update(x, other) is x
            for shown, numbers in ((x, expected), (part, expected[1]), (y, expected), (copy, first)):
                np.testing.assert_array_equal(shown.asnumpy(), numbers)


def test_in_place_operators_write_the_same_memory_until_the_whole_is_read():
    x, y = mx.nd.ones((4, 5)), mx.nd.ones((4, 5))
    x += y
    memory = x.cell.own_memory()
    for _ in range(3):
        x *= 2
        x -= y
        x[1] += y[0]
    assert x.cell.own_memory() is memory is not None
    before = x.value
    x += x
    assert x.value is not before
    np.testing.assert_array_equal(x.asnumpy(), 2 * np.asarray(before))
    for other in (mx.nd.ones((3, 2)), mx.nd.ones((4, 5), dtype="int32"), "a", 10**400):
        with pytest.raises(mx.MXNetError):
            x += other
    np.testing.assert_array_equal(x.asnumpy(), 2 * np.asarray(before))
