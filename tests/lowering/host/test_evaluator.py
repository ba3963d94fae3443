"""NumPy's answers where they differ from XLA's by themselves; the ladder has every operator."""

import functools
import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lowering.host import convolved, reductions
from lowering.host.evaluator import as_numpy, evaluator_of
from lowering.host.placed import empty, owned, placed
from lowering.host.primitives import NotEvaluated

INTEGERS = np.array([-7, -1, 0, 1, 7, np.iinfo(np.int32).min], np.int32)
FLOATS = np.array([-np.inf, -1e10, -2.5, -1.5, -0.0, 0.0, 0.5, 1.5, 2.5, 300.7, 1e10, np.inf, np.nan], np.float32)
SHIFTS = np.array([0, 1, 31, 32, 40, -1], np.int32)
SQUARE = np.arange(20, dtype=np.float32).reshape(4, 5)
KEY = jax.random.key(3)


def scattered(mode: Any) -> Any:
    def scatter(x: Any) -> Any:
        return x.at[jnp.array([1, 9, 1, -1])].add(jnp.ones((4, 5)), mode=mode)

    return scatter


def pooled(x: jax.Array) -> jax.Array:
    """The sum of the largest in windows of 2², squared, by way of their elements along axes of their own."""
    windows = x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2)
    largest = lax.stop_gradient(windows.max((3, 5), keepdims=True))
    return jnp.sum(jnp.where(windows == largest, windows**2, 0))


MANY = np.sin(np.arange(6400, dtype="f")).reshape(20, 2, 80, 2)

CASES: dict[str, tuple[Any, list[Any]]] = {
    "quotients of integers": (lax.div, [INTEGERS, np.array([2, 2, 2, 0, -2, 0], np.int32)]),
    "remainders of integers": (lax.rem, [INTEGERS, np.array([2, 2, 2, 0, -2, 0], np.int32)]),
    "remainders": (lax.rem, [FLOATS, np.full_like(FLOATS, -2)]),
    "signs": (lax.sign, [FLOATS]),
    "rounding to even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), [FLOATS]),
    "rounding away from zero": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), [FLOATS]),
    "casts to int32": (lambda x: lax.convert_element_type(x, np.int32), [FLOATS]),
    "casts to uint8": (lambda x: lax.convert_element_type(x, np.uint8), [FLOATS]),
    "casts to bool": (lambda x: lax.convert_element_type(x, bool), [FLOATS]),
    "casts to half": (lambda x: lax.convert_element_type(x, jnp.bfloat16), [FLOATS]),
    "left shifts": (lax.shift_left, [np.full(6, -5, np.int32), SHIFTS]),
    "right shifts": (lax.shift_right_logical, [np.full(6, -5, np.int32), SHIFTS]),
    "right shifts with the sign": (lax.shift_right_arithmetic, [np.full(6, -5, np.int32), SHIFTS]),
    "whole powers": (lambda x: (lax.integer_pow(x, 5), lax.integer_pow(x, -3), lax.integer_pow(x, 0)), [SQUARE + 1]),
    "where erf is a number": (lax.erf_inv, [np.linspace(-1.5, 1.5, 13, dtype="f").reshape(1, 13)]),
    "digamma at its poles and beyond": (lax.digamma, [np.append(FLOATS, np.array([-3, 1, 1e-30, 7], np.float32))]),
    "polygamma at its poles and beyond": (
        lambda x: [lax.polygamma(jnp.full_like(x, n), x) for n in (0, 1, 2, 2.5, -1)],
        [np.append(FLOATS, np.array([-3, 1, 7], np.float32))],
    ),
    "zeros ahead": (lax.clz, [INTEGERS]),
    "one of four cases": (lambda i, *x: lax.select_n(i, *x), [SHIFTS[:2], *[np.full(2, i) for i in range(4)]]),
    "padding between and off": (lambda x: lax.pad(x, 9.0, [(-1, 2, 1), (1, -3, 0)]), [SQUARE]),
    "padding that leaves nothing": (lambda x: lax.pad(x, 9.0, [(-4, 0, 0), (0, 0, 0)]), [SQUARE]),
    "a slice that leaves the array": (lambda x: lax.dynamic_slice(x, (3, -9), (2, 2)), [SQUARE]),
    "an update that leaves the array": (lambda x: lax.dynamic_update_slice(x, x[:2] + 50, (3, 2)), [SQUARE]),
    "rows out of bounds, filled": (lambda x: jnp.take(x, jnp.array([0, 7, -5]), axis=0, mode="fill"), [SQUARE]),
    "rows out of bounds, the nearest": (lambda x: jnp.take(x, jnp.array([0, 7, -5]), axis=0, mode="clip"), [SQUARE]),
    "numbers along an axis": (lambda x: jnp.take_along_axis(x, jnp.array([[0], [2], [1], [4]]), 1), [SQUARE]),
    "writes out of bounds, dropped": (scattered("drop"), [SQUARE]),
    "writes a number": (lambda x: x.at[()].add(2.0), [np.float32(3)]),
    "writes out of bounds, at the nearest": (scattered("clip"), [SQUARE]),
    "sorting with NaN": (lambda x: lax.sort((x, jnp.arange(13)), num_keys=1), [FLOATS[::-1].copy()]),
    "sorting half precision with NaN": (
        lambda x: (lax.sort(x), lax.sort((x, x * 0, jnp.arange(13)), num_keys=2), lax.top_k(x, 3)),
        [FLOATS[::-1].astype(jnp.bfloat16)],
    ),
    "sorting by two keys": (lambda x, y: lax.sort((x, y, y * x), num_keys=2), [INTEGERS % 2, INTEGERS]),
    "the largest, the first of equals": (lambda x: lax.top_k(x, 3), [np.array([[1, 3, 3, 2, 3]], np.float32)]),
    "extremes of nothing": (lambda x: (lax.reduce_max(x, (0,)), lax.reduce_min(x, (0,))), [SQUARE[:0]]),
    "sums backwards": (lambda x: lax.cumsum(x, 1, reverse=True), [SQUARE]),
    "windows": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 1), [(1, 0), (0, 1)], (2, 1), (1, 2)),
        [SQUARE],
    ),
    "convolution of data apart, cut off around": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 2), [(-1, 0), (4, -2)], (2, 3), (1, 2)),
        [SQUARE.reshape(1, 1, 4, 5), SQUARE[:2, :3].reshape(1, 1, 2, 3)],
    ),
    "windows with holes, and one of a size of its own": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3), (3, 1), [(2, 1), (0, 2)], (1, 1), (2, 2)),
        [SQUARE],
    ),
    "grouped, spread and strided convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (2, 1), [(1, 2), (0, 1)], (1, 2), (2, 1), feature_group_count=2),
        [np.arange(120, dtype="f").reshape(2, 4, 3, 5) / 60, np.arange(48, dtype="f").reshape(6, 2, 2, 2)],
    ),
    "convolution without places": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), [(0, 0), (0, 0)]),
        [SQUARE.reshape(1, 1, 4, 5), np.ones((1, 1, 5, 2), "f")],
    ),
    "convolution with more places than data, of fewer channels": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), [(2, 2), (3, 1)], (1, 1), (1, 2), feature_group_count=2),
        [np.arange(480, dtype="f").reshape(3, 8, 4, 5) / 240, np.arange(48, dtype="f").reshape(2, 4, 3, 2)],
    ),
    "the gradient of pooling": (jax.grad(pooled), [np.arange(7200, dtype="f").reshape(5, 2, 30, 24) % 7]),
    "rows of two numbers": (lambda x, y: (x * y, lax.reduce_min(x - y, (1, 3))), [MANY, MANY[:, :1, :, :1]]),
    "batches of products": (
        lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (2,)))),
        [np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.arange(40, dtype=np.float32).reshape(5, 4, 2)],
    ),
    "loops": (lambda x: lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 2), (0, x)), [SQUARE]),
    "loops of a batch": (
        jax.vmap(lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + s[0]), (0, 0))),
        [np.array([0, 3, 5])],
    ),
    "a scan from the end": (lambda x: lax.scan(lambda s, r: (s + r, s * r), x[0], x, reverse=True), [SQUARE]),
    "a branch out of bounds": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), [np.int32(7), SQUARE]),
    "a sum of gradients": (
        jax.grad(lambda x: lax.scan(lambda s, r: (s + jnp.sin(r) * s, s * r), x[0], x)[1].sum()), [SQUARE[:, :3]],
    ),
    "the gradient of a branch": (
        jax.grad(lambda x: lax.cond(x[0, 0] > 0, lambda x: jnp.sin(x).sum(), lambda x: (x * x).sum(), x)), [SQUARE],
    ),
    "an array that nothing wrote": (lambda x: x + 0 * lax.empty(x.shape, x.dtype), [SQUARE]),
    "bits": (
        lambda key: [jax.random.bits(k, (3, 2), np.uint8) for k in jax.random.split(jax.random.fold_in(key, 5))],
        [KEY],
    ),
    "bits of many, computed in parts": (lambda key: jax.random.bits(key, (7, 10_001)), [KEY]),
    "draws": (lambda key: (jax.random.uniform(key, (40,)), jax.random.permutation(key, 9)), [KEY]),
    "normal draws": (lambda key: jax.random.normal(key, (300,)), [KEY]),
}  # fmt: skip


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("name", CASES)
def test_results_are_xlas(name: str):
    function, given = CASES[name]
    arrays = [*map(jnp.asarray, given)]
    closed = jax.make_jaxpr(function)(*arrays)
    with np.errstate(all="ignore"):
        results = evaluator_of(closed)(*map(as_numpy, arrays))
    for result, expected in zip(results, jax.tree.leaves(jax.jit(function)(*arrays)), strict=True):
        assert np.asarray(result).dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-7)


GAMMA, ZETA_3 = 0.5772156649015329, 1.2020569031595942
POLYGAMMAS = {
    (0, 1.0): -GAMMA,
    (0, 0.5): -GAMMA - 2 * math.log(2),
    (0, 0.25): -GAMMA - math.pi / 2 - 3 * math.log(2),
    (0, -0.5): 2 - GAMMA - 2 * math.log(2),
    (0, -0.75): 4 / 3 - GAMMA - math.pi / 2 - 3 * math.log(2),
    (0, 12.0): math.fsum(1 / k for k in range(1, 12)) - GAMMA,
    (0, 1e12): math.log(1e12) - 5e-13,
    (0, 1e-12): -1e12 - GAMMA,
    (1, 1.0): math.pi**2 / 6,
    (1, 0.5): math.pi**2 / 2,
    (1, 40.0): math.pi**2 / 6 - math.fsum(1 / k**2 for k in range(1, 40)),
    (2, 1.0): -2 * ZETA_3,
    (2, 0.5): -14 * ZETA_3,
    (3, 1.0): math.pi**4 / 15,
    (5, 0.5): 8 * math.pi**6,
}
"""(order, x) → the derivative of digamma of this order, in closed form."""


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_derivatives_of_log_gamma_are_right_to_the_last_digits(dtype: str):
    """Results of fewer bits are those of float64, rounded."""
    with jax.enable_x64(True), np.errstate(all="ignore"):
        orders, x = (np.array(numbers, jnp.dtype(dtype)) for numbers in zip(*POLYGAMMAS, strict=True))
        results = evaluator_of(jax.make_jaxpr(lambda n, x: (lax.polygamma(n, x), lax.digamma(x)))(orders, x))(orders, x)
        wanted = np.array([*POLYGAMMAS.values()]).astype(x.dtype).astype(float)
    assert {result.dtype for result in results} == {x.dtype}
    is_exact = x.astype(float) == [of for _, of in POLYGAMMAS]
    np.testing.assert_allclose(results[0].astype(float)[is_exact], wanted[is_exact], rtol=5e-14)
    np.testing.assert_array_equal(results[1][orders == 0], results[0][orders == 0])


@pytest.mark.parametrize(
    ("function", "primitive"),
    [
        (lambda x: jnp.linalg.cholesky(x[:, :4]), "cholesky"),
        (lambda x: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(x.shape, x.dtype), x), "pure_callback"),
        (lambda x: lax.select_n(x.astype(int), *[x] * 40), "select_n"),
        (lambda x: lax.scan(lambda s, r: (lax.reduce_precision(s, 5, 3), r), x[0], x), "reduce_precision"),
    ],
)
def test_what_is_not_in_the_table_is_named(function: Any, primitive: str):
    with pytest.raises(NotEvaluated, match=f"^{primitive}$"):
        evaluator_of(jax.make_jaxpr(function)(SQUARE))


def test_the_cost_of_loops_is_counted():
    once = evaluator_of(jax.make_jaxpr(lambda x: jnp.sin(x))(SQUARE))
    often = evaluator_of(jax.make_jaxpr(lambda x: lax.scan(lambda s, _: (jnp.sin(s), None), x, None, 50)[0])(SQUARE))
    assert 40 < often.microseconds / once.microseconds < 200


def test_equal_equations_are_computed_once():
    closed = jax.make_jaxpr(lambda x: (jnp.exp(x) + jnp.exp(x), x * 0.0, x * -0.0, x * 0.0))(np.ones(3, "f"))
    evaluator = evaluator_of(closed)
    assert len(evaluator._calls) == 4 < len(closed.jaxpr.eqns)
    twice, zero, negative, again = evaluator(np.ones(3, "f"))
    np.testing.assert_array_equal(twice, 2 * np.exp(np.ones(3, "f")))
    assert [bool(np.signbit(array[0])) for array in (zero, negative, again)] == [False, True, False]


def test_gradients_of_weights_are_sums_over_parts_of_the_samples(monkeypatch: pytest.MonkeyPatch):
    """The windows are as large as the data: parts of them are multiplied at once, and their products added."""
    monkeypatch.setattr(convolved, "_COLUMNS", 100)
    rng = np.random.default_rng(0)
    data, heads = (rng.normal(size=shape).astype("f") for shape in ((5, 3, 6, 7), (5, 4, 6, 7)))
    convolve: Any = functools.partial(
        lax.conv_general_dilated,
        window_strides=(1, 1),
        padding=[(1, 1), (1, 1)],
        dimension_numbers=("CNHW", "IOHW", "CNHW"),
    )
    (result,) = evaluator_of(jax.make_jaxpr(convolve)(data, heads))(data, heads)
    np.testing.assert_allclose(result, convolve(data, heads), rtol=1e-5, atol=1e-5)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("params", "data", "weight"),
    [
        ({"window_strides": (2, 1), "padding": [(1, 0), (2, 1)]}, (2, 3, 9, 8), (4, 3, 3, 3)),
        ({"window_strides": (1, 1), "padding": [(2, 2), (1, 1)], "lhs_dilation": (2, 2)}, (2, 3, 5, 4), (4, 3, 3, 3)),
        (
            {"window_strides": (1, 1), "padding": [(0, 0), (0, 0)], "dimension_numbers": ("NHWC", "IOHW", "CNHW")},
            (2, 9, 8, 3),
            (3, 4, 3, 3),
        ),
    ],
)
def test_a_large_convolution_is_compiled_alone_when_its_calls_have_cost_that(
    monkeypatch: pytest.MonkeyPatch, params: Any, data: tuple[int, ...], weight: tuple[int, ...]
):
    monkeypatch.setattr(convolved, "_SMALLEST", 1)
    rng = np.random.default_rng(0)
    operands = [rng.normal(size=shape).astype("f") for shape in (data, weight)]
    convolve: Any = functools.partial(lax.conv_general_dilated, **params)
    closed = jax.make_jaxpr(convolve)(*operands)
    alone = convolved._alone(closed.jaxpr.eqns[0])
    assert alone is not None
    assert alone is convolved._alone(closed.jaxpr.eqns[0]), "equal convolutions share a program"
    evaluator = evaluator_of(closed)
    monkeypatch.setattr(convolved, "_PRODUCTS", 2 * alone._products)
    alone._spent = 0
    results = [evaluator(*operands)[0]]
    assert alone._compiled is None
    results.append(evaluator(*operands)[0])
    assert alone._compiled is not None
    assert alone._kept.bytes > 0
    alone._kept.forget()
    results.append(evaluator(*operands)[0])
    for result in results:
        np.testing.assert_allclose(result, convolve(*operands), rtol=1e-5, atol=1e-5)


def test_large_results_are_taken_over_and_parts_are_copied():
    whole = empty((300, 400), np.float32)
    whole[...] = 1
    first, second, part, turned = placed(owned([whole.reshape(-1), whole, whole[:200], whole.T]), None)
    assert first.unsafe_buffer_pointer() == whole.ctypes.data
    assert all(other.unsafe_buffer_pointer() != whole.ctypes.data for other in (second, part, turned))
    assert {array.unsafe_buffer_pointer() % 64 for array in (second, part, turned)} == {0}
    whole[...] = 2
    assert [float(array.max()) for array in (second, part, turned)] == [1, 1, 1]
    owner = np.ones((300, 400), np.float32)
    assert owned([owner])[0] is owner


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    "shape",
    [(64, 64, 64), (130, 300, 70), (1, 700, 600), (3, 9000, 40), (600, 1, 500), (2000, 300, 1), (1, 40_000, 30)],
)
def test_products_are_made_of_blocks_that_one_thread_computes(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
):
    rows, depth, columns = shape
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, rows, depth)), rng.normal(size=(2, columns, depth)).swapaxes(1, 2)
    expected, matmul, sizes = left @ right, np.matmul, []
    repeated: list[int] = []

    def noted(x: Any, y: Any, **kwargs: Any) -> Any:
        sizes.append(x.shape[-2] * x.shape[-1] * y.shape[-1])
        repeated.append(math.prod(np.broadcast_shapes(x.shape[:-2], y.shape[:-2])) // 2)
        return matmul(x, y, **kwargs)

    monkeypatch.setattr(reductions.np, "matmul", noted)
    np.testing.assert_allclose(reductions.product(left, right), expected, rtol=1e-10, atol=1e-10)
    is_long_row = 1 in (rows, columns) and rows * depth * columns >= 2**19  # OpenBLAS shares out even parts of such
    assert sum(map(operator.mul, sizes, repeated)) == (0 if is_long_row else rows * depth * columns)
    assert max(sizes, default=0) < 2**19
