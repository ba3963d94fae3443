"""`mx.nd`: arrays with MXNet's manners. What is expected here was asked of MXNet 1.9.1."""

import inspect
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import DTypeLike

import symjax_nnvm as nn
from lowering import mx


def numbers(*shape: int) -> mx.nd.NDArray:
    """0, 1, 2, … in float32."""
    return mx.nd.array(np.arange(np.prod(shape)).reshape(shape))


X = numbers(2, 3)


def test_it_prints_as_mxnet_prints():
    assert repr(mx.nd.array([[1, 2], [3, 4]])) == "\n[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>"
    assert repr(mx.nd.ones((1,), dtype="int32")) == "\n[1]\n<NDArray 1 @cpu(0)>"


def test_what_it_is():
    assert (X.shape, X.ndim, X.size, X.dtype, len(X)) == ((2, 3), 2, 6, np.float32, 2)
    assert X.context == X.ctx == mx.cpu() == mx.Context("cpu", 0) != mx.cpu(1)
    assert X.stype == "default"
    assert X.T.shape == (3, 2)
    assert isinstance(X.value, jax.Array)


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (mx.nd.array(np.arange(3)), np.arange(3, dtype=np.float32)),
        (mx.nd.array(jnp.arange(3)), np.arange(3, dtype=np.int32)),
        (mx.nd.zeros(3), np.zeros(3, np.float32)),
        (mx.nd.ones((2,), dtype="int32"), np.ones(2, np.int32)),
        (mx.nd.full((2,), 7), np.full(2, 7, np.float32)),
        (mx.nd.arange(5), np.arange(5, dtype=np.float32)),
        (mx.nd.arange(1, 3, repeat=2), np.array([1, 1, 2, 2], np.float32)),
        (mx.nd.arange(1.3, 5, 1.3, dtype="int32"), np.array([1, 2, 3], np.int32)),
        (mx.nd.arange(-2.7, 1, 1.9, dtype="uint8"), np.array([254, 255], np.uint8)),
        (mx.nd.arange(1.3, 4.5, 1.3), np.arange(3, dtype=np.float32) * np.float32(1.3) + np.float32(1.3)),
        (mx.nd.linspace(0, 1, 3), np.array([0, 0.5, 1], np.float32)),
        (mx.nd.eye(2, 3, 1), np.eye(2, 3, 1, dtype=np.float32)),
        (mx.nd.concatenate([X, X], axis=1), np.tile(np.arange(6, dtype=np.float32).reshape(2, 3), (1, 2))),
        (mx.nd.moveaxis(numbers(2, 3, 4), 0, 2), np.moveaxis(np.arange(24.0).reshape(2, 3, 4), 0, 2)),
        (mx.nd.from_numpy(np.ones(2, np.int32)), np.ones(2, np.int32)),
        (mx.nd.onehot_encode(mx.nd.array([1, 0]), mx.nd.zeros((2, 3))), np.eye(3)[[1, 0]]),
    ],
)
def test_creation(made: mx.nd.NDArray, value: np.ndarray):
    np.testing.assert_array_equal(made.asnumpy(), value)
    assert value.dtype == np.float64 or made.dtype == value.dtype


def test_64_bits_are_told_to_be_narrowed():
    with pytest.warns(nn.NarrowedDtypeWarning, match="int64 became int32"):
        assert mx.nd.zeros(2, dtype="int64").dtype == np.int32


INDICES = {
    "row": (1, [3, 4, 5]),
    "element": ((1, 2), [5]),
    "last row": (-1, [3, 4, 5]),
    "column": ((slice(0, 2), 1), [1, 4]),
    "rows": ([1, 0], [[3, 4, 5], [0, 1, 2]]),
    "array": (mx.nd.array([1, 0]), [[3, 4, 5], [0, 1, 2]]),
    "reversed": (slice(None, None, -1), [[3, 4, 5], [0, 1, 2]]),
    "new axis": ((slice(None), None), [[[0, 1, 2]], [[3, 4, 5]]]),
    "dots": ((Ellipsis, 0), [0, 3]),
    "pairs": (([0, 1], [1, 2]), [1, 5]),
}


@pytest.mark.parametrize("name", INDICES)
def test_indexing(name: str):
    """One element is of shape (1,): classic arrays have at least one axis. Recorded, it goes through operators."""
    key, value = INDICES[name]
    np.testing.assert_array_equal(X[key].asnumpy(), np.array(value))
    x = numbers(2, 3)
    x.attach_grad()
    with mx.autograd.record():
        recorded = x[key]
    np.testing.assert_array_equal(recorded.asnumpy(), np.array(value))
    assert recorded.entry is not None


def test_an_index_out_of_range():
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 2"):
        _ = X[5]
    with pytest.raises(IndexError, match="too many indices"):
        _ = X[0, 0, 0]
    assert [row.asnumpy().tolist() for row in X] == [[0, 1, 2], [3, 4, 5]]


def test_writing_and_views():
    """What takes one run of the memory is a view, as in MXNet; a column is a copy."""
    x = numbers(2, 3)
    x[0] = 7
    x[:, 2] = mx.nd.array([8, 9])
    row, flat, column = x[1], x.reshape((-1,)), x[:, 0]
    row[:] = [1, 2, 3]
    flat[0] = -1
    column[:] = 100
    assert x.asnumpy().tolist() == [[-1, 7, 8], [1, 2, 3]]
    x[:] = 4
    assert row.asnumpy().tolist() == [4, 4, 4]
    assert flat.sum().asscalar() == 24
    x += 1
    assert flat[3].asscalar() == 5


def test_a_value_that_does_not_fit_is_refused():
    x = numbers(2, 3)
    with pytest.raises(ValueError, match=r"a shape that broadcasts to \(2, 3\); got shape \(5,\)"):
        x[:] = np.ones(5)


def test_numpys_memory_is_copied():
    source = np.ones(3, np.float32)
    x, y = mx.nd.array(source), mx.nd.zeros(3)
    y[:] = source
    source[:] = 5
    assert x.sum().asscalar() == y.sum().asscalar() == 3
    copy = x.asnumpy()
    copy[:] = 9
    assert x.sum().asscalar() == 3


INT = mx.nd.array([1, 2, 3], dtype="int32")


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (INT + 1.5, np.array([2, 3, 4], np.int32)),
        (INT / 2, np.array([0, 1, 1], np.int32)),
        (INT > 1, np.array([0, 1, 1], np.int32)),
        (1 - X[0], np.array([1, 0, -1], np.float32)),
        (2 ** X[0], np.array([1, 2, 4], np.float32)),
        (X % 2 == 1, np.array([[0, 1, 0], [1, 0, 1]], np.float32)),
        (X + X[0], np.array([[0, 2, 4], [3, 5, 7]], np.float32)),
        (mx.nd.maximum(X[0], 1), np.array([1, 1, 2], np.float32)),
        (mx.nd.subtract(1, X[0]), np.array([1, 0, -1], np.float32)),
        (mx.nd.lesser(1, X[0]), np.array([0, 0, 1], np.float32)),
        (-X[0], np.array([0, -1, -2], np.float32)),
        (abs(X[0] - 1), np.array([1, 0, 1], np.float32)),
        (X.sum(axis=1), np.array([3, 12], np.float32)),
        (X.astype("int32") * INT, np.array([[0, 2, 6], [3, 8, 15]], np.int32)),
    ],
)
def test_arithmetic_has_mxnets_dtypes(result: mx.nd.NDArray, value: np.ndarray):
    np.testing.assert_array_equal(result.asnumpy(), value)
    assert result.dtype == value.dtype


def test_what_does_not_combine():
    with pytest.raises(nn.InferenceError, match="expected float32, got int32"):
        _ = X + INT
    with pytest.raises(TypeError, match=r"'numpy.ndarray'> not supported: an NDArray combines .* mx.nd.array"):
        _ = X + np.ones((2, 3))
    with pytest.raises(TypeError, match="A symbol and an NDArray cannot be combined"):
        _ = mx.sym.Variable("x") + X


def test_reshape_knows_mxnets_codes():
    assert numbers(2, 3, 4).reshape((0, -4, 1, 3, -2)).shape == (2, 1, 3, 4)
    assert X.reshape(3, -1).shape == X.reshape(shape=(3, 2)).shape == (3, 2)
    assert X.expand_dims(0).shape == (1, 2, 3)
    assert X.flatten().shape == (2, 3)


def test_scalars_and_truth():
    one = mx.nd.array([2.5])
    assert (one.asscalar(), float(one), int(one), bool(one)) == (2.5, 2.5, 2, True)
    with pytest.raises(ValueError, match="The current array is not a scalar"):
        X.asscalar()
    with pytest.raises(ValueError, match="truth value of an NDArray with multiple elements is ambiguous"):
        bool(X)


@pytest.mark.slow("compiles")
def test_copies():
    x = numbers(3)
    copy, target = x.copy(), mx.nd.zeros(3, dtype="int32")
    assert x.copyto(target) is target
    assert target.asnumpy().tolist() == [0, 1, 2]
    assert x.as_in_context(mx.cpu()) is x
    assert x.as_in_context(mx.cpu(1)).context == mx.cpu(1)
    assert x.astype("float32", copy=False) is x
    assert x.astype("float16").dtype == np.float16
    x[:] = 0
    assert copy.asnumpy().tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(copy)).asnumpy().tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="copyto needs an array of the same shape"):
        x.copyto(mx.nd.zeros(2))


def test_an_operator_runs_by_the_rules_of_graphs():
    weight, out = mx.nd.ones((2, 3)), mx.nd.zeros((2, 2))
    assert mx.nd.FullyConnected(X, weight, num_hidden=2, no_bias=True, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), [[3, 3], [12, 12]])
    parts = mx.nd.split(X, num_outputs=3, axis=1)
    assert [part.shape for part in parts] == [(2, 1)] * 3
    assert mx.nd.concat(X, X, dim=1).shape == (2, 6)
    assert mx.nd.stack(X, X).shape == (2, 2, 3)
    assert mx.nd.linalg.gemm2(X, X, transpose_b=True).shape == (2, 2)


def test_states_are_written():
    """An update operator writes its states and what it is given as out=."""
    weight, grad, mom = mx.nd.ones(2), mx.nd.ones(2), mx.nd.zeros(2)
    mx.nd.sgd_mom_update(weight, grad, mom, lr=0.5, momentum=0.9, out=weight)
    assert weight.asnumpy().tolist() == [0.5, 0.5]
    assert mom.asnumpy().tolist() == [-0.5, -0.5]


def test_objects_and_words_that_are_numbers_are_taken():
    assert mx.nd.array(np.array([1, True, 2.5], object)).asnumpy().tolist() == [1, 1, 2.5]
    assert mx.nd.array(np.array([[1, 2]], object), dtype="int32").dtype == np.int32
    assert mx.nd.array(["1.5", "2"]).asnumpy().tolist() == [1.5, 2]
    assert np.isnan(mx.nd.array([1, None]).asnumpy()).tolist() == [False, True]
    others = [None, {}, [object()], ["a"], [[1, 2], [3]], [1 + 2j], object()]
    for other in others:
        with pytest.raises(TypeError, match="source_array must be array like object"):
            mx.nd.array(other)
    for dtype in ("int32", object, "<U1"):
        with pytest.raises(TypeError, match="source_array must be array like object"):
            mx.nd.array([None], dtype=dtype)


def test_what_is_no_array_is_told():
    for call, told in (
        (lambda: mx.nd.relu(5), "Argument data must have NDArray type, but got 5. mx.nd.array"),
        (lambda: mx.nd.FullyConnected([mx.nd.ones((1, 2))], num_hidden=2), "data .* a list of arrays. Pass them one"),
        (lambda: mx.nd.broadcast_add(mx.nd.ones(2), 3), "Argument rhs must have NDArray type, but got 3"),
        (lambda: mx.nd.concat((mx.nd.ones(2), mx.nd.ones(2))), "Positional arguments must .* a list of arrays"),
    ):
        with pytest.raises(AssertionError, match=told) as error:
            call()
        assert isinstance(error.value, TypeError | mx.MXNetError)


def test_an_array_that_is_missing_is_named():
    with pytest.raises(
        nn.CallError, match=r"FullyConnected is missing inputs.*'weight', 'bias'.*only in a graph of mx.sym"
    ):
        mx.nd.FullyConnected(X, num_hidden=2)
    with pytest.raises(AttributeError, match="mx.nd: .*'flor'.*Did you mean"):
        mx.nd.flor(X)


def test_an_expression_with_a_number_runs_alike_before_and_after_it_is_compiled():
    assert [float((X * 3.25)[1, 2]) for _ in range(6)] == [16.25] * 6


def test_draws_begin_anew_with_a_seed():
    mx.random.seed(3)
    first, other = (mx.random.uniform(0, 1, shape=(3,)).asnumpy() for _ in range(2))
    mx.random.seed(3)
    assert (mx.nd.random.uniform(shape=(3,)).asnumpy() == first).all()
    assert not (first == other).all()
    assert mx.nd.random_normal(shape=(2,)).shape == mx.random.normal(0, 1, (2,)).shape == (2,)


def test_saving_and_loading(tmp_path: Path):
    file = str(tmp_path / "x.params")
    mx.nd.save(file, {"x": X, "i": INT})
    loaded = mx.nd.load(file)
    assert isinstance(loaded, dict)
    assert loaded["i"].dtype == np.int32
    np.testing.assert_array_equal(loaded["x"].asnumpy(), X.asnumpy())
    mx.nd.save(file, [X])
    assert isinstance(mx.nd.load(file), list)
    mx.nd.waitall()


@pytest.mark.parametrize("data", [[1, 2], {"a": np.ones(2)}, [np.ones(2)]])
def test_only_arrays_are_saved(tmp_path: Path, data: Any):
    with pytest.raises(TypeError, match="save only accept dict str->NDArray or list of NDArray"):
        mx.nd.save(str(tmp_path / "x"), data)
    assert not list(tmp_path.iterdir())


def test_contexts():
    with mx.Context("cpu", 3):
        assert mx.current_context() == mx.cpu(3)
        assert mx.nd.zeros(1).context == mx.cpu(3)
    assert mx.current_context() == mx.cpu(0)
    assert str(mx.cpu_pinned()) == "cpu_pinned(0)"
    if not mx.num_gpus():
        with pytest.raises(TypeError, match=r"There is no gpu\(0\).*mx.cpu\(\)"):
            mx.nd.zeros(1, ctx=mx.gpu())


# -- bools, NumPy's numbers and its names of dtypes ------------------------------------------------------------------

_YES = [True, np.True_, 3 > 2]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("yes", _YES, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_a_bool_is_1_or_0_in_arithmetic(yes: Any, dtype: str):
    a = mx.nd.array([0, 1, 2], dtype=dtype)
    found = {
        "+": (a + yes, yes + a, [1, 2, 3]),
        "-": (a - yes, -(yes - a), [-1, 0, 1]),
        "*": (a * yes, yes * a, [0, 1, 2]),
        "/": (a / yes, yes * a, [0, 1, 2]),
        "**": (a**yes, yes**a - 1 + a, [0, 1, 2]),
        "%": (a % yes, (yes % (a + 2)) - 1, [0, 0, 0]),
        "==": (a == yes, mx.nd.equal(yes, a), [0, 1, 0]),
        "!=": (a != yes, mx.nd.not_equal(yes, a), [1, 0, 1]),
        ">": (a > yes, mx.nd.lesser(yes, a), [0, 0, 1]),
        ">=": (a >= yes, mx.nd.lesser_equal(yes, a), [0, 1, 1]),
        "<": (a < yes, mx.nd.greater(yes, a), [1, 0, 0]),
        "<=": (a <= yes, mx.nd.greater_equal(yes, a), [1, 1, 0]),
        "max": (mx.nd.maximum(a, yes), mx.nd.maximum(yes, a), [1, 1, 2]),
        "and": (mx.nd.logical_and(a, yes), mx.nd.logical_and(yes, a), [0, 1, 1]),
        "xor": (mx.nd.logical_xor(a, yes), mx.nd.logical_xor(yes, a), [1, 0, 0]),
    }
    for operator, (right, left, expected) in found.items():
        assert right.asnumpy().tolist() == expected, operator
        assert left.asnumpy().tolist() == expected, operator
        assert right.dtype == left.dtype == np.dtype(dtype).type
    assert (a * np.False_).asnumpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("yes", _YES, ids=repr)
def test_a_bool_changes_an_array_in_place(yes: object):
    a = numbers(3)
    a += yes
    a *= yes
    assert a.asnumpy().tolist() == [1, 2, 3]
    a -= yes
    a **= yes
    a /= yes
    assert a.asnumpy().tolist() == [0, 1, 2]
    a %= yes
    assert a.asnumpy().tolist() == [0, 0, 0]


def test_the_gradient_of_arithmetic_with_a_bool():
    a = numbers(3)
    a.attach_grad()
    with mx.autograd.record():
        out = (a + True) * np.True_ - (False - a)
    out.backward()
    assert np.asarray(a.grad).tolist() == [2, 2, 2]


def test_symbols_take_no_bools_as_in_mxnet():
    for given in (True, np.True_):
        with pytest.raises(TypeError, match="not supported"):
            _ = mx.sym.Variable("x") + given


@pytest.mark.parametrize(
    ("function", "three_and_two", "equal_twos"),
    [
        ("add", 5, 4), ("subtract", 1, 0), ("multiply", 6, 4), ("divide", 1.5, 1.0), ("modulo", 1, 0), ("power", 9, 4),
        ("maximum", 3, 2), ("minimum", 2, 2), ("equal", 0, 1), ("not_equal", 1, 0), ("greater", 1, 0),
        ("greater_equal", 1, 1), ("lesser", 0, 0), ("lesser_equal", 0, 1), ("logical_and", 1, 1), ("logical_or", 1, 1),
        ("logical_xor", 0, 0),
    ],
)  # fmt: skip
def test_functions_of_two_numbers_are_numbers(function: str, three_and_two: float, equal_twos: float):
    assert getattr(mx.nd, function)(3, 2) == three_and_two
    assert getattr(mx.nd, function)(2, 2) == equal_twos
    if function in ("power", "pow", "maximum", "minimum", "hypot"):  # those that mx.sym has, too
        assert getattr(mx.sym, function)(3, 2) == three_and_two
        assert isinstance(getattr(mx.sym, function)(mx.sym.var("x"), 2), mx.sym.Symbol)


@pytest.mark.parametrize("shape", [(2, 2, 3), (2, 3), [4, 2, 3]])
def test_an_array_broadcasts_to_axes_in_front(shape: Any):
    x = mx.nd.array(np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(x.broadcast_to(shape).asnumpy(), np.broadcast_to(x.asnumpy(), shape))
    x.attach_grad()
    with mx.autograd.record():
        y = x.broadcast_to(shape)
    y.backward()
    np.testing.assert_array_equal(mx.nd.array(x.grad).asnumpy(), np.full((2, 3), np.prod(shape) / 6))


@pytest.mark.parametrize("shape", [(3, 3), (3,), (2, 0), (4, -1, 3)])
def test_a_shape_to_which_nothing_broadcasts(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match="operands could not be broadcast together"):
        mx.nd.ones((2, 3)).broadcast_to(shape)


@pytest.mark.parametrize("key", [1.0, np.float32(1), (0, 1.0), "a", {1}])
def test_what_is_no_index_is_refused(key: Any):
    with pytest.raises(ValueError, match="does not support slicing with key"):
        _ = mx.nd.ones((2, 3))[key]
    with pytest.raises(ValueError, match="does not support slicing with key"):
        mx.nd.ones((2, 3))[key] = 1


_DTYPES = {
    "float16": ["f2", "<f2", "e", "half", np.float16, np.dtype("f2")],
    "float32": ["f4", "<f4", "=f4", ">f4", "f", "single", np.float32, np.dtype(">f4")],
    "int8": ["i1", "b", "byte", np.int8],
    "uint8": ["u1", "|u1", "B", np.dtype("u1")],
    "int32": ["i4", "<i4", "i", "intc", np.dtype("<i4"), np.int32],
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(("dtype", "given"), [(name, given) for name, all_ in _DTYPES.items() for given in all_])
def test_a_dtype_may_be_spelled_as_numpy_spells_it(dtype: str, given: DTypeLike):
    a = numbers(2, 2)
    made = [
        a.astype(given), mx.nd.cast(a, dtype=given), mx.nd.Cast(a, given), mx.nd.array([1, 2], dtype=given),
        mx.nd.array(a, dtype=given), mx.nd.zeros((2,), dtype=given), mx.nd.ones((2,), dtype=given),
        mx.nd.full((2,), 3, dtype=given), mx.nd.empty((2,), dtype=given), mx.nd.arange(3, dtype=given),
        mx.nd.linspace(0, 1, 3, dtype=given), mx.nd.eye(3, dtype=given),
        mx.nd.one_hot(mx.nd.array([0, 1]), depth=2, dtype=given),
    ]  # fmt: skip
    if dtype != "int8":
        made += [mx.nd.topk(a, dtype=given), mx.nd.argsort(a, dtype=given)]
    if dtype.startswith("float"):
        made += [mx.nd.random.uniform(0, 1, (2,), dtype=given), mx.nd.softmax(a, dtype=given)]
    assert [array.dtype for array in made] == [np.dtype(dtype).type] * len(made)
    assert mx.sym.cast(mx.sym.Variable("x"), dtype=given, name="cast").attr_dict() == {"cast": {"dtype": dtype}}


def test_what_is_no_dtype_is_refused():
    for given in ("xx", "f3", "complex64", "S1", "i4,i4"):
        with pytest.raises(ValueError, match="dtype"):
            numbers(2).astype(given)
        with pytest.raises(ValueError, match="dtype"):
            mx.sym.cast(mx.sym.Variable("x"), dtype=given)


# -- bools as indices ------------------------------------------------------------------------------------------------

_MASK = [True, False, True, False]
_FIVE = [True, False, True, False, True]


@pytest.mark.parametrize(
    ("key", "same"),
    [
        (True, 1), (False, 0), ((True,), slice(None)), ((False,), slice(None)), ((True, False), (1, 0)),
        ((True, 2), (1, 2)), ((2, True), (2, 1)), ((True, slice(1, 3)), slice(1, 3)),
        ((slice(1, 3), True), slice(1, 3)),
        ((None, True), None), ((True, None), None), ((..., True), ...), ((True, [0, 1]), [0, 1]),
        (np.array(_MASK), [1, 0, 1, 0]), (_MASK, [1, 0, 1, 0]), ([True], [1]), ([np.True_, np.False_], [1, 0]),
        (np.array(_FIVE), [1, 0, 1, 0, 1]), ([True, 2], [1, 2]), ((np.array(_MASK),), [1, 0, 1, 0]),
        ((_MASK, 1), ([1, 0, 1, 0], 1)), ((1, np.array(_FIVE)), (1, [1, 0, 1, 0, 1])),
        ((slice(0, 2), np.array(_FIVE)), (slice(0, 2), [1, 0, 1, 0, 1])),
        ((_MASK, _MASK), ([1, 0, 1, 0], [1, 0, 1, 0])),
        ((np.array(_MASK), [0, 1, 2, 3]), ([1, 0, 1, 0], [0, 1, 2, 3])), ((True, _MASK), [1, 0, 1, 0]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("recorded", [False, True])
def test_a_bool_that_is_read_is_no_mask(key: Any, same: Any, recorded: bool):
    a = numbers(4, 5)
    a.attach_grad()
    with mx.autograd.record() if recorded else mx.autograd.pause():
        found = a[key]
    expected = np.arange(20, dtype=np.float32).reshape(4, 5)[same]
    np.testing.assert_array_equal(found.asnumpy(), np.atleast_1d(expected))


def test_an_index_array_of_two_axes_takes_0_and_1():
    mask = np.arange(20).reshape(4, 5) % 3 == 0
    assert numbers(4, 5)[mask].shape == (4, 5, 5)
    assert numbers(4, 5)[mask.tolist()].shape == (4, 5, 5)


@pytest.mark.parametrize(
    ("key", "same"),
    [
        (True, ...), (False, ...), ((True,), ...), ((True, False), ...), ((True, 2), 2), ((2, True), 2),
        ((slice(1, 3), True), slice(1, 3)), (np.array(_MASK), [0, 1]), (_MASK, [0, 1]), ([False], [0]),
        ((_MASK, 1), ([0, 1], 1)), ((1, np.array(_FIVE)), (1, [0, 1])), ((_MASK, _MASK), ([0, 1], [0, 1])),
    ],
)  # fmt: skip
def test_a_bool_that_is_written_stands_for_no_axis(key: Any, same: Any):
    a, expected = numbers(4, 5), np.arange(20, dtype=np.float32).reshape(4, 5)
    a[key] = -1
    expected[same] = -1
    np.testing.assert_array_equal(a.asnumpy(), expected)


@pytest.mark.parametrize("key", [np.True_, np.False_, np.array(True), mx.nd.array(_MASK, dtype="bool")], ids=repr)
def test_masks_are_refused_as_in_mxnet(key: object):
    a = numbers(4, 5)
    with pytest.raises(ValueError, match=r"boolean indexing.*boolean_mask"):
        a[key]
    with pytest.raises(ValueError, match="boolean indexing"):
        a[key, 1] = 0
    assert a.asnumpy().sum() == 190


def test_a_comparison_as_an_index_is_numbers():
    assert numbers(4, 5)[mx.nd.array([1, 2, 3, 4]) > 2].asnumpy()[:, 0].tolist() == [0, 0, 5, 5]


def test_the_current_context_has_an_older_name():
    with mx.cpu(2), pytest.warns(DeprecationWarning, match=r"Please use Context.current_context"):
        assert mx.Context.default_ctx == mx.cpu(2)


@pytest.mark.parametrize("make", [mx.nd.zeros, mx.nd.ones, mx.nd.empty, lambda shape: mx.nd.full(shape, 2)])
def test_a_size_below_0_is_told(make):
    with pytest.raises(mx.MXNetError, match=r"'shape'; expected whole numbers ≥ 0; got \(2, -1\)"):
        make((2, -1))


def test_randn_without_sizes_draws_one_number():
    assert mx.nd.random.randn().shape == mx.nd.random.normal().shape == (1,)
    assert mx.nd.random.randn(2, 3, loc=100).shape == (2, 3)


def test_functions_of_arrays_have_the_signature_of_what_they_take():
    signature = inspect.signature(mx.nd.sum)
    assert list(signature.parameters) == ["data", "axis", "keepdims", "exclude", "ctx", "out", "name"]
    assert signature.parameters["data"].annotation is signature.return_annotation is mx.nd.NDArray
    assert list(inspect.signature(mx.nd.random.uniform).parameters)[-3:] == ["ctx", "out", "name"]
    assert list(inspect.signature(mx.sym.sum).parameters)[-3:] == ["name", "attr", "attributes"]
    page = mx.nd.sum.__doc__ or ""
    assert "out: the array" in page
    assert "node" not in page
    arguments = signature.bind(mx.nd.ones((2, 3)), axis=1, out=mx.nd.zeros(2), name="s")
    assert mx.nd.sum(*arguments.args, **arguments.kwargs).asnumpy().tolist() == [3, 3]
