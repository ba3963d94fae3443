"""The formulas of `symjax_nnvm.ops.formulas`: every operator has one or a reason, and those that are expressions of one
element are what the operator computes."""

import math
import re
from collections.abc import Iterator

import numpy as np
import pytest

import lowering
from docs.tools.generate import by_family
from docs.web.operator_pages import formulas
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ops.formulas import FORMULAS, WITHOUT, formula_of
from symjax_nnvm.symbol.operator_functions import operator_function
from tests.support.traced import evaluated

PUBLIC = {op.name: op for ops in by_family()[0].values() for op in ops}

_SIGNS = {"≥": ">=", "≤": "<=", "≠": "!=", " = ": " == ", "·": "*", "eˣ": "exp(x)", "e⁻ˣ": "exp(-x)", "π": "pi"} | {
    "xʸ": "x**y",
    "x²": "x**2",
    "scalarˣ": "scalar**x",
    "x^scalar": "x**scalar",
    "^(": "**(",
    "ln ": "ln*",
    "∞": "inf",
    "⌊": "floor(",
    "⌋": ")",
    "⌈": "ceil(",
    "⌉": ")",
    "√(": "sqrt(",
}
_NAMES = {name: getattr(math, name) for name in ("exp", "log", "floor", "ceil", "sqrt", "sin", "cos", "tanh", "pi")}


def as_python(formula: str) -> str:
    """The right side of `out = …`, as an expression of Python's."""
    text = re.split(r"; |, dX|, 0| where ", formula.removeprefix("out = "))[0]
    for sign, python in _SIGNS.items():
        text = text.replace(sign, python)
    return re.sub(r"ln\*(\w+)", r"log(\1)", re.sub(r"\|(\w)\|", r"abs(\1)", text)).replace("ln(", "log(")


def expressions() -> Iterator[tuple[str, str]]:
    """(operator, expression of x, y and scalar), of operators that work element by element."""
    elementwise = [op for family, ops in by_family()[0].items() if family.startswith("elementwise") for op in ops]
    for name, op in sorted((op.name, op) for op in elementwise):
        lines = formula_of(name)
        if lines and list(op.inputs) in (["data"], ["lhs", "rhs"]):
            code = as_python(lines[0])
            try:
                names = set(compile(code, name, "eval").co_names)
            except SyntaxError:
                continue
            if names <= {"x", "y", "scalar", "abs", "sign", "inf", "max", "min", "round", "log", *_NAMES}:
                yield name, code


EXPRESSIONS = dict(expressions())


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_formula_of_one_element_is_what_the_operator_computes(name: str):
    classic = name.replace("_npi_", "_")
    op, x, y = Op.get(name), np.array([0.3, 0.5, 0.9, 2.5, -2.5, -0.4], np.float32), 1.5
    if classic == "arccosh":
        x = np.abs(x) + 1
    elif classic in ("arctanh", "log", "log10", "log2", "log1p", "cbrt", "rcbrt", "_power", "broadcast_power"):
        x = np.abs(x) / 3
    elif classic in ("_power_scalar", "_rpower_scalar"):
        x = np.abs(x)
    names = [f"a{i}" for i in range(len(op.inputs))]
    params = {"scalar": y} if name.endswith("_scalar") or "gradientmultiplier" in name else {}
    net = operator_function(op, name)(*map(sym.Variable, names), **params)
    (found,), _ = evaluated(lowering.to_jax(net), dict(zip(names, (x, np.full_like(x, y)), strict=False)))
    known = {**_NAMES, "y": y, "scalar": y, "inf": math.inf, "sign": lambda v: float(np.sign(v))}
    known["round"] = lambda v: math.copysign(math.floor(abs(v) + 0.5), v)
    expected = [eval(EXPRESSIONS[name], {**known, "x": float(v)}) for v in x]
    np.testing.assert_allclose(np.asarray(found).ravel(), np.array(expected, np.float32), rtol=2e-5, atol=1e-6)


def test_the_formulas_of_most_operators_of_elements_are_expressions():
    assert len(EXPRESSIONS) > 60


def test_every_operator_has_a_formula_or_a_reason():
    without = {name for names in WITHOUT.values() for name in names}
    assert {name for name, op in PUBLIC.items() if not formulas(op)} == without


def test_every_row_is_of_an_operator():
    """One operator at least takes each row, by its own name or as one of a family."""
    taken = {lines for lines in map(formula_of, PUBLIC) if lines}
    assert [name for name, row in FORMULAS.items() if ((row,) if isinstance(row, str) else row) not in taken] == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("_mod_scalar", "out = x - ⌊x / scalar⌋ · scalar; 0 where scalar = 0"),
        ("broadcast_power", "out = xʸ"),
        ("preloaded_multi_mp_sgd_mom_update", "mom ← momentum · mom - lr · h, weight ← weight + mom"),
        ("_sample_normal", "p(x) = exp(-(x - mu)² / (2 sigma²)) / (sigma √(2π))"),
        ("Custom", None),
    ],
)
def test_variants_have_the_formula_of_their_family(name: str, line: str | None):
    assert formula_of(name)[-1:] == (() if line is None else (line,))


def test_help_shows_the_formula():
    assert "out[n, f, i, j] = bias[f] + Σ weight" in (sym.Convolution.__doc__ or "")
