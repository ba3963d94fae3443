"""Calls of `mx.nd`: equal calls share what they prepare, views compile nothing, gradients use what was computed."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowering import mx
from lowering.mx.keys import next_key
from lowering.mx.ndarray.array import run_symbol
from lowering.mx.tape.expressions import shared_expression
from lowering.mx.tape.recording import Given
from symjax_nnvm.errors import LoweringError, SymbolTypeError
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
    names = tuple(call.function.names)
    backward = jax.jit(lambda given, heads: call.function.traced_gradients(names, given, heads))
    text = backward.lower(Given(list(call.values), None, list(call.outputs)), [y.value]).as_text()
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


@pytest.mark.slow("compiles")
@pytest.mark.nightly("27 of the same", but_one_in=3)
@pytest.mark.usefixtures("compiled_fully")  # else what earlier tests called moves up here
@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv", "rsub", "rtruediv", "gt", "lt", "eq"])
def test_a_number_that_changes_compiles_nothing_and_gives_what_a_recorded_call_gives(op: str, dtype: str):
    x = nd.array([[-3.7, 0.3, 2.0], [1e-3, 700.0, -0.1]], dtype=dtype)
    function = getattr(x, f"__{op}__")
    numbers = [0.1, -3.7, 1e-3, 2.0, 1.0, 1e4, 2, 0.3]
    for number in (0.7, 5, 0.9, 7):
        function(number)
        jnp.asarray(number)  # JAX compiles this once, and again when its caches were cleared
    with compilations() as seen:
        results = [function(number) for number in numbers]
    assert not seen
    x.attach_grad()
    for number, result in zip(numbers, results, strict=True):
        with mx.autograd.record():
            expected = getattr(x, f"__{op}__")(number)
        assert result.dtype == expected.dtype
        # XLA multiplies by the reciprocal of a number that it knows.
        bound = float(jnp.finfo(dtype).eps) if "div" in op else 0
        np.testing.assert_allclose(result.asnumpy().astype("f8"), expected.asnumpy().astype("f8"), rtol=bound)


def test_a_number_is_of_64_bits_where_the_array_is():
    for _ in range(2):
        assert (nd.array([3.0]) * 0.1).asnumpy().tolist() == [np.float32(3) * np.float32(0.1)]
        with jax.enable_x64(True):
            assert (nd.array([3.0], dtype="float64") * 0.1).asnumpy().tolist() == [3.0 * 0.1]


def test_numbers_and_whole_numbers_keep_their_meaning():
    whole = nd.array([3, 4], dtype="int32")
    assert [(whole * n).asnumpy().tolist() for n in (2, 3, 16777217)] == [[6, 8], [9, 12], [50331651, 67108868]]
    x = nd.array([2.0, 3.0])
    assert [(x**n).asnumpy().tolist() for n in (2, 3, 0.5)][:2] == [[4, 9], [8, 27]]
    assert [nd.sgd_update(x, x, lr=rate).asnumpy().tolist() for rate in (1, 0.5)] == [[0, 0], [1, 1.5]]
    assert [nd.sgd_update(x, x, rate).asnumpy().tolist() for rate in (1, 0.5)] == [[0, 0], [1, 1.5]]
    for bad in (0.5, -1.0):
        weight = nd.ones(2)
        arrays = [nd.zeros(2) for _ in range(3)]
        if bad > 0:
            nd.ftml_update(weight, nd.ones(2), *arrays, lr=bad, t=1)
            continue
        with pytest.raises(mx.MXNetError, match="lr"):
            nd.ftml_update(weight, nd.ones(2), *arrays, lr=bad, t=1)


@pytest.mark.parametrize(
    ("update", "states", "fixed", "changing"),
    [
        ("sgd_mom_update", 1, {"momentum": 0.9, "wd": 0.01}, ["lr"]),
        ("adam_update", 2, {"wd": 0.01, "clip_gradient": 0.5}, ["lr"]),
        ("mp_sgd_update", 1, {}, ["lr"]),
        ("lamb_update_phase1", 2, {"wd": 0.1}, ["t"]),
        ("rmsprop_update", 1, {}, ["lr"]),
    ],
)
def test_a_rate_that_changes_compiles_nothing(update: str, states: int, fixed: dict[str, Any], changing: list[str]):
    random = np.random.RandomState(0)
    arrays = [abs(random.randn(3, 4)).astype(np.float32) for _ in range(2 + states)]
    function = getattr(nd, update)

    def step(number: float) -> np.ndarray:
        return function(*map(nd.array, arrays), **fixed, **dict.fromkeys(changing, number)).asnumpy()

    for number in (7, 8):
        step(number)
    with compilations() as seen:
        results = [step(number) for number in (1, 2, 3)]
    assert not seen
    assert len({result.tobytes() for result in results}) == 3
    symbol = getattr(mx.sym, update)(
        *map(mx.sym.Variable, "abcde"[: len(arrays)]), **fixed, **dict.fromkeys(changing, 2)
    )
    named = dict(zip("abcde", map(nd.array, arrays), strict=False))
    executor = symbol.bind(mx.cpu(), named, aux_states={name: named[name] for name in symbol.list_auxiliary_states()})
    bound = 1e-5 if "t" in changing else 2e-6  # 1 - 0.999², which float32 has to 3e-5, divides the moving averages
    np.testing.assert_allclose(results[1], executor.forward()[0].asnumpy(), rtol=bound)


DRAWS = [nd.random.uniform, nd.random.normal, nd.random.exponential]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_draws_of_new_shapes_compile_nothing_and_are_those_of_their_own_program(draw: Any, dtype: str):
    draw(shape=(2,), dtype=dtype)
    with compilations() as seen:
        mx.random.seed(3)
        drawn = [draw(shape=shape, dtype=dtype) for shape in [(3, 5), (7,), (2, 1, 4)]]
    assert not seen
    mx.random.seed(3)
    for array in drawn:
        symbol = getattr(mx.sym.random, draw.__name__)(shape=array.shape, dtype=dtype)
        (own,), _ = shared_expression(symbol, 0, False, "cpu").forward([], next_key())
        np.testing.assert_array_equal(array.asnumpy(), np.asarray(own))


def test_a_draw_whose_shape_nothing_says_is_refused_in_words():
    with pytest.raises(LoweringError, match="shape of a new array cannot be inferred"):
        run_symbol(mx.sym.random.uniform(), [], mx.cpu())


def test_out_and_name_come_after_the_operators_own_arguments():
    x, one, several = nd.array([[1.0, -4.0]]), nd.zeros((1, 2)), [nd.zeros((1, 1)), nd.zeros((1, 1))]
    assert nd.abs(x, one) is one
    assert one.asnumpy().tolist() == [[1, 4]]
    assert nd.clip(x, 0, 1, one, "named") is one
    assert one.asnumpy().tolist() == [[1, 0]]
    assert nd.elemwise_add(x, x, one).asnumpy().tolist() == one.asnumpy().tolist() == [[2, -8]]
    nd.split(x, 2, 1, False, several)
    assert [array.asscalar() for array in several] == [1, -4]
    assert nd.negative(x, None).asnumpy().tolist() == [[-1, 4]]
    data = mx.sym.var("data")
    assert mx.sym.relu(data, "named").name == mx.sym.Activation(data, "tanh", "named").name == "named"
    assert mx.sym.relu(data, "named", {"__lr_mult__": 2}).attr("__lr_mult__") == "2"


def test_a_parameter_that_is_null_is_left_out():
    x, null = nd.array([[1.0, -4.0]]), mx.base._Null
    assert nd.sum(x, 1, null, null).asnumpy().tolist() == nd.sum(x, axis=1, keepdims=null).asnumpy().tolist() == [-3]
    assert nd.norm(x, null, axis=0).asnumpy().tolist() == [1, 4]
    assert nd.concat(x, x, dim=null).shape == (1, 4)
    assert mx.sym.sum(mx.sym.var("data"), 1, null, name="total", exclude=null).attr_dict() == {"total": {"axis": "1"}}


@pytest.mark.parametrize("further", [("text",), (5,), (nd.zeros(2), "name", 5)])
def test_what_is_no_out_is_one_argument_too_many(further: Any):
    with pytest.raises(SymbolTypeError, match="abs takes 1 positional arguments"):
        nd.abs(nd.ones(2), *further)
    with pytest.raises(SymbolTypeError, match="abs takes 1 positional arguments"):
        nd.abs(nd.ones(2), nd.zeros(2), out=nd.zeros(2))
