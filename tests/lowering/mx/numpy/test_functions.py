"""`mx.np`: functions, indices, writes and gradients are MXNet 1.9.1's, in values, dtypes, shapes and errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as onp
import pytest

from lowering import mx
from symjax_nnvm import CutNumberWarning

np, npx, autograd = mx.np, mx.npx, mx.autograd

_SAYS = [
    line.split("  =>  ")
    for line in (Path(__file__).parent / "mxnet_says.txt").read_text(encoding="utf-8").splitlines()[1:]
]
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)(?![\w])")


@pytest.fixture(autouse=True)
def numpy_dialect() -> Iterator[None]:
    npx.set_np()
    with jax.enable_x64(True), warnings.catch_warnings():
        for kind in (RuntimeWarning, CutNumberWarning):  # NumPy's, of 1 / 0; numbers that lose their fraction
            warnings.simplefilter("ignore", kind)
        yield
    npx.reset_np()


def _grad(f: Callable[..., Any], *xs: Any) -> list[Any]:
    xs = tuple(x.copy() for x in xs)
    for x in xs:
        x.attach_grad()
    with autograd.record():
        y = f(*xs)
    y.backward()
    return [x.grad for x in xs]


def _setit(x: Any, key: Any, value: Any) -> Any:
    x = x.copy()
    x[key] = value
    return x


def _upd(f: Callable[[Any], Any], x: Any) -> Any:
    x = x.copy()
    f(x)
    return x


def _arrays() -> dict[str, Any]:
    return {
        "F32": np.array([[1.5, -2.0, 3.0], [0.25, 5.0, -6.0]]),
        "f1": np.array([1.0, 2.0, 3.0]),
        "f0": np.array(2.5),
        "i32": np.array([[1, 2, 3], [4, 5, 6]], dtype="int32"),
        "i64": np.array([3, 1, 2], dtype="int64"),
        "u8": np.array([1, 2, 250], dtype="uint8"),
        "b": np.array([True, False, True], dtype="bool"),
        "f16": np.array([1.0, 2.0, 3.0], dtype="float16"),
        "f64": np.array([1.0, 2.0, 3.0], dtype="float64"),
        "E": np.zeros((0, 3)),
        "idx": np.array([0, 1], dtype="int32"),
        "m2": np.array([[True, False, True], [False, True, False]], dtype="bool"),
        "sq": np.array([[4.0, 1.0], [2.0, 3.0]]),
        "pos": np.array([0.1, 0.5, 0.9]),
    }


def _text(result: Any) -> str:
    if isinstance(result, list | tuple):
        return f"({', '.join(map(_text, result))})"
    if isinstance(result, onp.generic | float | int) and not isinstance(result, bool):
        return repr(float(result))
    return repr(result).replace("\n", "").replace("       ", " ")


def _differs(said: str, given: str) -> bool:
    """Whether two texts differ in more than the last digits of numbers."""
    if _NUMBER.sub("#", said).replace(" ", "") != _NUMBER.sub("#", given).replace(" ", ""):
        return True
    numbers = (onp.array([float(x) for x in _NUMBER.findall(text)]) for text in (said, given))
    return not onp.allclose(*numbers, rtol=2e-4, equal_nan=True)


@pytest.mark.slow("evaluates some hundred operators")
@pytest.mark.parametrize("part", range(4))
def test_expressions_give_what_mxnet_gives(part: int):
    names = {**_arrays(), "np": np, "npx": npx, "onp": onp, "grad": _grad, "setit": _setit, "upd": _upd}
    wrong = []
    for expression, said in _SAYS[part::4]:
        try:
            given = _text(eval(expression, names))
        except (mx.MXNetError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError) as error:
            classes = {"MXNetError" if cls is mx.MXNetError else cls.__name__ for cls in type(error).__mro__}
            given = said if said[1:] in classes else f"!{type(error).__name__}: {error}"
        if _differs(said, given):
            wrong.append((expression, said, given))
    assert wrong == []


def test_a_number_that_loses_its_fraction_is_told_once_a_place():
    whole, real = np.array([5], dtype="int32"), np.array([5.0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default", CutNumberWarning)
        for _ in range(2):
            whole * 1.5
        (
            np.maximum(2.5, whole),
            np.clip(whole, 0.5, 9),
            np.where(whole > 1, whole, 0.5),
            np.array([True], dtype="bool") + 1.5,
        )
        whole / 2.5, 2.5 / whole, whole * 2.0, -whole, real * 1.5, np.clip(real, 0.5, None), whole ** onp.int64(2)
    said = [str(warning.message).partition(", as in")[0] for warning in told]
    assert said == [
        "np.multiply: an array of int32 takes 1.5 as 1.0",
        "np.maximum: an array of int32 takes 2.5 as 2.0",
        "np.clip: an array of int32 takes 0.5 and 9 as 0.0 and 9",
        "np.where: an array of int32 takes 0.5 as 0.0",
        "np.add: an array of bool takes 1.5 as 1.0",
    ]
    assert {warning.filename for warning in told} == {__file__}
