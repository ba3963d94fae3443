"""`mx.np`: functions, indices, writes and gradients are MXNet 1.9.1's, in values, dtypes, shapes and errors."""

import inspect
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as onp
import pytest

from lowering import mx
from lowering.mx.numpy import new_arrays
from lowering.mx.numpy_extension import functions as extensions
from symjax_nnvm import CutNumberWarning
from tests.goldens.numpy_says import SAID, names_of, text_of

np, npx = mx.np, mx.npx

_SAYS = [line.split("  =>  ") for line in SAID.read_text(encoding="utf-8").splitlines()]
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)(?![\w])")

OURS: dict[str, str] = {
    **dict.fromkeys(("grad(np.arccosh,F32)",), "the derivative outside of the domain is NaN, as of arccosh(pos) there"),
    **dict.fromkeys(
        ("np.pad(f1, ((1, 1),), mode='zz')", "npx.cast(f1, 'zz')"),
        "a ValueError, as of other parameters: MXNet's is the KeyError of a table, or NumPy's TypeError",
    ),
    "grad(lambda x: np.polyval(f1, x), pos)": "MXNet's gradient of x is 0 unless p has one, too",
    **dict.fromkeys(("np.shape(2)", "np.shape([1, 2])"), "NumPy has shapes of numbers and lists"),
    **dict.fromkeys(
        ("kind(np.random.multivariate_normal(f1[:2], sym, check_valid='warn'))",),
        "MXNet drops check_valid, which is refused here",
    ),
    **dict.fromkeys(
        (
            "np.argpartition(F32, 1, axis=None)",
            "np.histogram2d(f1, f1, 2)",
            "np.histogram2d(f1, pos)",
            "np.histogram2d(f1, pos, (2, 3))",
            "np.histogram2d(pos, pos, 1)",
            "np.histogramdd(F32)",
            "np.histogramdd(F32, (1, 2, 3))",
            "np.histogramdd(F32, 2)",
            "np.histogramdd(sq, 1)",
            "np.histogramdd(sq, 2)",
            "np.lexsort([i64, f1])",
            "np.min_scalar_type(F32)",
            "np.min_scalar_type(f1)",
            "np.min_scalar_type(f64)",
            "np.min_scalar_type(pos)",
            "np.min_scalar_type(sq)",
            "np.nanpercentile(F32, 25, axis=0)",
            "np.nanquantile(F32, 0.25, axis=0)",
            "np.partition(F32, 1, axis=None)",
            "onp.linspace(f1[0],5,3)",
        ),
        "NumPy's own result, today's of another dtype, form or order",
    ),
    **dict.fromkeys(("np.around(f16)", "np.round(f16)", "np.round_(f16)"), "MXNet has no rounding of float16"),
    **dict.fromkeys(("np.fliplr(m2)", "np.unique(b)"), "MXNet has these for all dtypes but bool"),
    **dict.fromkeys(
        ("np.diagflat(f0)", "npx.reshape_like(f0, f1[:1])", "npx.pick(f1, f0)"), "MXNet refuses an array without axes"
    ),
    **dict.fromkeys(
        ("np.insert(F32, 1, 9, axis=1)", "np.insert(f1, slice(0, 2), 7)"),
        "MXNet's insert of a number works at a number, without an axis",
    ),
    "npx.topk(F32, axis=0, ret_typ='both')": "MXNet gives our answer where it is asked alone, and stops after others",
    "np.insert(f1, idx, pos[:2])": "MXNet's insert takes indices of int64 alone",
    "np.linalg.norm(f1, np.inf)": "MXNet's front leaves infinite norms without an axis to an operator that has none",
    **dict.fromkeys(
        (
            "np.pad(f1, ((1, 1),), mode='edge')",
            "np.pad(f1, ((1, 1),), mode='minimum')",
            "np.pad(f1, ((1, 2),))",
            "np.pad(f1, ((2, 1),), mode='reflect')",
            "np.pad(f1, ((2, 1),), mode='symmetric')",
        ),
        "MXNet's pad needs two axes",
    ),
    **dict.fromkeys(
        (
            "np.blackman(3)",
            "np.blackman(5)",
            "npx.layer_norm(F32, f1[:2], f1[:2], axis=0)",
            "npx.log_softmax(f16)",
            "npx.softmax(f16)",
        ),
        "rounding: of 2 minus 1.99997, of cosines, of float16",
    ),
    **dict.fromkeys(
        ("np.hsplit(F32, 2)",), "no equal parts: refused as by NumPy, and by split, vsplit and dsplit of both"
    ),
    **dict.fromkeys(("np.prod(E, axis=0)", "np.product(E, axis=0)"), "the product of nothing is 1"),
    "i32**40": "powers outside of a dtype are NumPy's",
    "np.unique(np.sqrt(F32))": "NaN is one of several elements",
    "grad(lambda x: np.linalg.eigh(x)[0],sym)": "MXNet's gradient of eigenvalues needs that of the vectors",
    **dict.fromkeys(("np.roots(f1)", "np.roots(f64)", "np.roots(pos)"), "complex numbers are NumPy's arrays"),
}
"""Expression → why our answer is another one."""


@pytest.fixture(autouse=True)
def numpy_dialect() -> Iterator[None]:
    npx.set_np()
    with jax.enable_x64(True), warnings.catch_warnings():
        for kind in (RuntimeWarning, CutNumberWarning):  # NumPy's, of 1 / 0; numbers that lose their fraction
            warnings.simplefilter("ignore", kind)
        yield
    npx.reset_np()


def _differs(said: str, given: str) -> bool:
    """Whether two texts differ in more than the last digits of numbers."""
    if _NUMBER.sub("#", said).replace(" ", "") != _NUMBER.sub("#", given).replace(" ", ""):
        return True
    numbers = (onp.array([float(x) for x in _NUMBER.findall(text)]) for text in (said, given))
    return not onp.allclose(*numbers, rtol=2e-4, equal_nan=True)


@pytest.mark.nightly("every case", but_one_in=4)
@pytest.mark.slow("evaluates some hundred operators")
@pytest.mark.parametrize("part", range(8))
def test_expressions_give_what_mxnet_gives(part: int):
    wrong = []
    for expression, said in _SAYS[part::8]:
        try:
            given = text_of(eval(expression, names_of(mx, expression)))
        except (mx.MXNetError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError) as error:
            classes = {"MXNetError" if cls is mx.MXNetError else cls.__name__ for cls in type(error).__mro__}
            given = said if said[1:] in classes else f"!{type(error).__name__}: {error}"
        if _differs(said, given) != (expression in OURS):
            wrong.append((expression, said, given))
    assert wrong == []


AS_NUMPY = (
    *("np.delete(x, slice(0, 5, 2))", "np.insert(x, slice(0, 4, 2), x[:2])", "np.hsplit(x, 3)[1]"),
    *("np.trace(y, 1)", "np.trace(z, 0, 2, 1)", "np.diagonal(z, 1, 0, 2)", "np.full_like(x, 2, dtype='int32')"),
    *("np.greater_equal(2, x)", "np.less_equal(2, x)", "np.greater(2, x)", "np.less(2, x)", "np.var(y, 1, ddof=1)"),
    *("np.tensordot(y, z, axes=([0], [2]))", "np.rot90(z, 3, (2, 1))", "np.moveaxis(z, 2, 0)", "np.append(y, y, 1)"),
)
"""Parameters that the usual expressions above leave as they are; NumPy has the answers."""


def test_other_parameters_mean_what_they_do_in_numpy():
    x, y = onp.arange(6.0) % 4, onp.arange(6.0).reshape(2, 3) ** 2
    arrays = {"x": x, "y": y, "z": onp.arange(8.0).reshape(2, 2, 2) ** 2}
    ours = {"np": np, **{name: np.array(array, dtype="float64") for name, array in arrays.items()}}
    for expression in AS_NUMPY:
        expected, found = eval(expression, {"np": onp, **arrays}), eval(expression, ours)
        assert found.dtype == expected.dtype, expression
        onp.testing.assert_allclose(found.asnumpy(), expected, err_msg=expression)


def test_a_number_that_loses_its_fraction_is_told_once_a_place():
    whole, real = np.array([5], dtype="int32"), np.array([5.0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default", CutNumberWarning)
        for _ in range(2):
            _ = whole * 1.5
        _ = (
            np.maximum(2.5, whole),
            np.clip(whole, 0.5, 9),
            np.where(whole > 1, whole, 0.5),
            np.array([True], dtype="bool") + 1.5,
        )
        _ = whole / 2.5, 2.5 / whole, whole * 2.0, -whole, real * 1.5, np.clip(real, 0.5, None), whole ** onp.int64(2)
    said = [str(warning.message).partition(", as in")[0] for warning in told]
    assert said == [
        "np.multiply: an array of int32 takes 1.5 as 1.0",
        "np.maximum: an array of int32 takes 2.5 as 2.0",
        "np.clip: an array of int32 takes 0.5 and 9 as 0.0 and 9",
        "np.where: an array of int32 takes 0.5 as 0.0",
        "np.add: an array of bool takes 1.5 as 1.0",
    ]
    assert {warning.filename for warning in told} == {__file__}


def test_arrays_of_one_number_bound_the_slices_of_any_array_that_is_read_or_written():
    x, one = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array(1, dtype="int32")
    assert (x[one:].tolist(), x[:, one:2].tolist()) == ([[4.0, 5.0, 6.0]], [[2.0], [5.0]])
    x[:one, :: np.array(2.0)] = 0
    assert x.tolist() == [[0.0, 2.0, 0.0], [4.0, 5.0, 6.0]]


def test_an_element_is_updated_in_the_memory_of_its_array():
    x = np.arange(6).reshape((2, 3))
    x[0, 1] += 10
    x[1, 2] *= x[0, 1]
    element = x[0, 2]
    element[()] = 7
    assert x.tolist() == [[0.0, 11.0, 7.0], [3.0, 4.0, 55.0]]


def test_places_of_recorded_arrays_have_a_gradient_of_zero():
    for shape, axes in ((), 1), ((4,), 1), ((2, 2), 2):
        x: Any = np.array([1.0, 0.0, 2.0, 3.0])[: 1 if shape == () else 4].reshape(shape)
        x.attach_grad()
        with mx.autograd.record():
            places = np.nonzero(x)
            total = places[0].sum()
        total.backward()
        assert [len(places), x.grad.tolist()] == [axes, np.zeros(shape).tolist()]
        assert [axis.tolist() for axis in places] == [axis.tolist() for axis in np.nonzero(x)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: np.random.choice(5, 6, replace=False),
        lambda: np.random.choice(0),
        lambda: np.random.randint(5, 2),
        lambda: np.argmax(np.zeros(0)),
        lambda: np.einsum("ij->ijj", np.ones((2, 2))),
    ],
)
def test_deviation_what_mxnet_takes_from_memory_is_refused(ask: Any):
    with pytest.raises(mx.MXNetError):
        ask()


def test_deviation_powers_of_whole_numbers_are_numpys_and_a_determinant_of_nothing_is_1():
    for dtype in ("uint8", "int8", "int32", "int64"):
        values = onp.array([3, 7, 100], dtype)
        for exponent in (np.array(39, dtype=dtype), 39):
            assert (np.array(values, dtype=dtype) ** exponent).tolist() == (values ** onp.array(39, dtype)).tolist()
    assert np.linalg.det(np.zeros((0, 0))).item() == 1.0


def test_copies_are_on_the_context_that_is_current_or_named():
    x = np.ones(2, ctx=npx.cpu(1))
    x.attach_grad()
    with mx.autograd.record():
        copied = np.array(x) * 2
    copied.backward()
    assert [str(array.ctx) for array in (x, x.copy(), np.array(x), copied, x.grad)] == [
        *("cpu(1)", "cpu(1)", "cpu(0)", "cpu(0)", "cpu(1)")
    ]
    assert x.grad.tolist() == [2.0, 2.0]
    with npx.cpu(1):
        assert str(np.array(x).ctx) == "cpu(1)"
    assert str(np.ones(2, ctx="cpu(1)").ctx) == str(mx.nd.ones(2, ctx="cpu(1)").context) == "cpu(1)"
    with pytest.raises(TypeError, match="device_id must be a whole number"):
        np.ones(2, ctx="cpu(a)")


def test_a_number_in_an_array_is_shuffled_and_moments_that_do_not_fit_are_refused():
    number, zeros, eye = np.array(3.0), np.zeros(2), np.eye(2)
    np.random.shuffle(number)
    assert number.item() == 3.0
    draw, no_fit = np.random.multivariate_normal, r"A mean and a covariance do not fit; expected mean .* got mean "
    for arguments, message in (
        ((number, eye), rf"{no_fit}\(\), cov \(2, 2\)"),
        ((zeros, np.eye(3)), rf"{no_fit}\(2,\), cov \(3, 3\)"),
        ((zeros, np.ones((2, 3))), no_fit),
        ((zeros, zeros), no_fit),
        ((np.zeros((3, 2)), np.ones((2, 2, 2))), no_fit),
        (([0, 0], eye), r"Argument mean must have NDArray type, but got \[0, 0\]. mx.np.array\(value\) makes one"),
        ((zeros, eye, -1), r"size must be a shape; expected a whole number ≥ 0, .* got -1"),
        ((zeros, eye, 1.5), "size must be a shape"),
        ((zeros, eye, None, "raise"), "check_valid and tol are not supported. Leave them out: a covariance"),
    ):
        with pytest.raises(mx.MXNetError, match=message):
            draw(*arguments)
    assert draw(np.zeros((3, 1, 2)), np.ones((4, 2, 2)), [2]).shape == (2, 3, 4, 2)


def test_a_batch_norm_of_no_samples_leaves_the_moving_statistics():
    for shape, axis in ((0, 3), 1), ((0, 4, 3), -1):
        layer: Any = mx.gluon.nn.BatchNorm(axis=axis)
        layer.initialize()
        x = np.zeros(shape)
        x.attach_grad()
        with mx.autograd.record():
            y = layer(x)
        y.backward()
        assert (y.shape, x.grad.shape, layer.gamma.grad().tolist()) == (shape, shape, [0.0] * 3)
        assert (layer.running_mean.data().tolist(), layer.running_var.data().tolist()) == ([0.0] * 3, [1.0] * 3)


def test_numbers_of_a_text_file_are_in_the_dtype_that_is_asked_for_on_a_context(tmp_path: Path):
    (tmp_path / "numbers.txt").write_text("1 2\n3 x\n")
    for parameters, dtype, last in ({}, "float64", onp.nan), ({"dtype": "int32", "ctx": mx.cpu(0)}, "int32", -1):
        numbers = np.genfromtxt(tmp_path / "numbers.txt", **parameters)
        assert (numbers.dtype, numbers.shape) == (dtype, (2, 2))
        onp.testing.assert_array_equal(numbers.asnumpy(), [[1, 2], [3, last]])
    with pytest.raises(TypeError, match="np.round has no parameter 'axis'"):
        np.round(np.ones(2), axis=0)


def test_percentiles_of_nothing_are_nan():
    empty, q = np.zeros((0, 2)), np.array([25.0, 75.0])
    assert onp.isnan(np.quantile(empty, 0.5).item())
    assert onp.isnan(np.percentile(empty, q, axis=0, keepdims=True).asnumpy()).all()
    assert np.percentile(empty, q, axis=0, keepdims=True).shape == (2, 1, 2)


@pytest.mark.slow("compiles")
def test_equations_of_two_dtypes_have_gradients_of_their_inputs_dtypes():
    a, b = np.array([[2.0, 1.0], [0.0, 4.0]], dtype="float64"), np.array([1.0, 3.0])
    for solve in (np.linalg.solve, np.linalg.tensorsolve):
        a.attach_grad()
        b.attach_grad()
        with mx.autograd.record():
            x = solve(a, b)
        x.backward()
        assert (x.dtype, a.grad.dtype, b.grad.dtype) == ("float64", "float64", "float32")
        assert b.grad.tolist() == [0.5, 0.125]


@pytest.mark.slow("compiles")
def test_a_graph_takes_norms_of_matrices_that_no_axis_names():
    x = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    sym_np: Any = mx.sym.np
    for order, value in ((1, 9.0), (-1, 5.0), (onp.inf, 15.0), (-onp.inf, 6.0), ("nuc", 11.653786)):
        norm = sym_np.linalg.norm(mx.sym.var("x").as_np_ndarray(), ord=order)
        assert onp.allclose([norm.eval(x=x)[0].item(), np.linalg.norm(x, ord=order).item()], value)
    frobenius = sym_np.linalg.norm(mx.sym.var("x").as_np_ndarray(), "fro")
    with pytest.raises(mx.MXNetError, match="expected one axis, or two"):
        frobenius.eval(x=np.ones((2, 2, 2)))


def test_the_statistics_of_a_batch_norm_have_no_gradient_though_they_are_asked_for():
    x, gamma, mean = np.array([[1.0, 2.0], [3.0, 5.0]]), np.ones((2,)), np.zeros((2,))
    for array in (gamma, mean):
        array.attach_grad()
    with mx.autograd.record():
        y = npx.batch_norm(x, gamma, gamma, mean, mean).sum()
    y.backward()
    assert (gamma.grad.tolist(), mean.grad.tolist()) == ([2.0, 2.0], [0.0, 0.0])


def test_functions_have_the_signatures_and_the_operators_behind_them():
    assert str(inspect.signature(np.reshape)) == "(a, newshape, order='C', out=None)"
    assert str(inspect.signature(np.prod)) == "(a, axis=None, dtype=None, out=None, keepdims=False)"
    assert inspect.signature(np.interp) == inspect.signature(onp.interp)
    x, mask = np.ones((2, 2)), np.array([[True, False], [False, True]], dtype="bool")
    nd_np: Any = mx.nd.np
    nd_np._internal.boolean_mask_assign_scalar(x, mask, 7.0, start_axis=0, out=x)
    assert x.tolist() == [[7.0, 1.0], [1.0, 7.0]]
    with pytest.raises(AttributeError, match=r"mx\.np\._internal has no function 'boolean'"):
        np._internal.boolean()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: np.nosuchsum, "has no attribute 'nosuchsum'.$"),
        (
            lambda: np.fmax,
            r"Did you mean 'max' .* numpy.fmax is NumPy's: give it x.asnumpy\(\), and its result to np.array",
        ),
        (lambda: np.asarray, r"np.array\(x\) makes a copy"),
        (lambda: np.ones(2).fill, r"Write x\[:\] = number"),
        (lambda: np.random.seed, r"mx.random.seed\(n\) sets the seed of all random numbers"),
        (lambda: np.random.poisson, "numpy.random.poisson is NumPy's"),
        (lambda: np.linalg.invv, "Did you mean 'inv'"),
        (lambda: npx.Convolution, "mx.npx has no function 'Convolution'. Did you mean 'convolution'"),
        (lambda: mx.sym.np.nanmax, "mx.np.nanmax needs numbers, which a graph does not have"),  # pyright: ignore
    ],
)
def test_names_that_are_missing_have_a_way_out(ask: Any, words: str):
    with pytest.raises(AttributeError, match=words):
        ask()


ADDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("np.median", "np.nanmean", "np.nansum", "np.nanstd", "np.nanvar"),
        ("F32", "F32, axis=-1", "F32, axis=0, keepdims=True", "i32", "f0", "f64", "F32 / 0 * 0, axis=(0, 1)"),
    ),
    **dict.fromkeys(
        ("np.logical_and", "np.logical_or", "np.logical_xor"),
        ("F32, f1 > 2", "f1, 0", "0.0, i32", "b, b", "E, f1", "f0, idx"),
    ),
    "np.triu": ("F32", "F32, 1", "sq, k=-1", "i32", "E", "m2"),
    "np.cross": ("f1, f1[::-1]", "F32, f1", "f64, f1", "F32.T, F32.T, axis=0", "i32, i64"),
    "np.kron": ("F32, f1", "i32, idx", "f0, F32", "sq, sym", "f64, f1"),
    "np.gcd": ("i32, 4", "i64, i64", "6, i32", "u8, u8", "i32, i64"),
    "np.rad2deg": ("F32", "f0", "E", "f16", "f64"),
    "np.deg2rad": ("F32", "f0", "E", "f16", "f64"),
}
"""Function that MXNet lacks → calls, whose values, dtypes and shapes are NumPy's."""


def test_functions_that_mxnet_lacks_give_what_numpy_gives():
    wrong = []
    for name, calls in ADDED.items():
        for call in calls:
            names = names_of(mx, expression := f"{name}({call})")
            arrays = {key: value.asnumpy() if hasattr(value, "asnumpy") else value for key, value in names.items()}
            own, expected = eval(expression, names), onp.asarray(eval(expression, arrays | {"np": onp}))
            values = own.asnumpy() if hasattr(own, "asnumpy") else onp.asarray(own)
            same = onp.allclose(values, expected, rtol=1e-3 if expected.dtype == "float16" else 1e-6, equal_nan=True)
            if (values.dtype, values.shape) != (expected.dtype, expected.shape) or not same:
                wrong.append((expression, values, expected))
    assert wrong == []


SWITCHES = {
    *("is_np_array", "is_np_shape", "np_array", "np_shape", "reset_np", "set_np", "set_np_shape", "use_np"),
    *("use_np_array", "use_np_shape"),
}
"""Functions of `npx` that switch the dialect: what they do is in `test_gluon.py` and `test_np_shape.py`."""


def test_every_function_is_asked_five_times():
    functions = {
        owner: [name for name, function in vars(module).items() if name[:1] != "_" and inspect.isfunction(function)]
        for owner, module in (("np", np), ("np.linalg", np.linalg), ("np.random", np.random), ("npx", npx))
    }
    functions["np"] += [*np.FUNCTIONS, *new_arrays.FUNCTIONS, *np.fallback.NAMES]
    functions["npx"] += [*extensions.NAMES, *extensions.OWN]
    asked = Counter(
        name for expression, _ in _SAYS for name in set(re.findall(r"(?<![\w.])np[.\w]+|npx[.\w]+", expression))
    )
    asked.update({name: len(calls) for name, calls in ADDED.items()})
    few = {name for owner, names in functions.items() for own in names if asked[name := f"{owner}.{own}"] < 5}
    without_inputs = {"npx.current_context", "npx.num_gpus", "npx.waitall", "np.set_printoptions"}
    of_files = {"np.genfromtxt", "npx.load", "npx.save"}
    assert few - {f"npx.{name}" for name in SWITCHES} == without_inputs | of_files | {"npx.gpu_memory_info"}
