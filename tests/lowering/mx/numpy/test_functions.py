"""`mx.np`: functions, indices, writes and gradients are MXNet 1.9.1's, in values, dtypes, shapes and errors."""

from __future__ import annotations

import inspect
import re
import warnings
from collections import Counter
from collections.abc import Iterator
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
    **dict.fromkeys(
        ("grad(np.arccosh,F32)",),
        "the derivative outside of the domain is NaN, as of arccosh(pos) there",
    ),
    **dict.fromkeys(
        (
            "np.pad(f1, ((1, 1),), mode='zz')",
            "npx.cast(f1, 'zz')",
        ),
        "a ValueError, as of other parameters: MXNet's is the KeyError of a table, or NumPy's TypeError",
    ),
    **dict.fromkeys(
        ("np.shape(2)", "np.shape([1, 2])"),
        "NumPy has shapes of numbers and lists",
    ),
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
        ),
        "NumPy's own result, today's of another dtype, form or order",
    ),
    **dict.fromkeys(
        ("np.around(f16)", "np.round(f16)", "np.round_(f16)"),
        "MXNet has no rounding of float16",
    ),
    **dict.fromkeys(
        ("np.fliplr(m2)", "np.unique(b)"),
        "MXNet has these for all dtypes but bool",
    ),
    **dict.fromkeys(
        ("np.diagflat(f0)", "npx.reshape_like(f0, f1[:1])", "npx.pick(f1, f0)"),
        "MXNet refuses an array without axes",
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
        ("np.hsplit(F32, 2)",),
        "no equal parts: refused as by NumPy, and by split, vsplit and dsplit of both",
    ),
    **dict.fromkeys(
        (
            "np.prod(E, axis=0)",
            "np.product(E, axis=0)",
        ),
        "the product of nothing is 1",
    ),
    **dict.fromkeys(
        (
            "np.roots(f1)",
            "np.roots(f64)",
            "np.roots(pos)",
        ),
        "complex numbers are NumPy's arrays",
    ),
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


def test_percentiles_of_nothing_are_nan():
    empty, q = np.zeros((0, 2)), np.array([25.0, 75.0])
    assert onp.isnan(np.quantile(empty, 0.5).item())
    assert onp.isnan(np.percentile(empty, q, axis=0, keepdims=True).asnumpy()).all()
    assert np.percentile(empty, q, axis=0, keepdims=True).shape == (2, 1, 2)


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
    x, mask = np.ones((2, 2)), np.array([[True, False], [False, True]], dtype="bool")
    nd_np: Any = mx.nd.np
    nd_np._internal.boolean_mask_assign_scalar(x, mask, 7.0, start_axis=0, out=x)
    assert x.tolist() == [[7.0, 1.0], [1.0, 7.0]]
    with pytest.raises(AttributeError, match=r"mx\.np\._internal has no function 'boolean'"):
        np._internal.boolean()


def test_every_function_is_asked_five_times():
    functions = {
        "np": [*np.FUNCTIONS, *new_arrays.FUNCTIONS, *np.fallback.NAMES],
        "np.linalg": np.linalg.__all__,
        "np.random": np.random.__all__,
        "npx": [*extensions.NAMES, *extensions.OWN],
    }
    asked = Counter(
        name for expression, _ in _SAYS for name in set(re.findall(r"(?<![\w.])np[.\w]+|npx[.\w]+", expression))
    )
    few = {name for owner, names in functions.items() for own in names if asked[name := f"{owner}.{own}"] < 5}
    assert few == {"np.rad2deg", "np.deg2rad", "np.set_printoptions", "np.genfromtxt"}  # MXNet lacks two; files; None
