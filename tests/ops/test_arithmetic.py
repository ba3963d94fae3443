"""Python's operators and the functions of symbols and numbers: which node, which automatic name, which value."""

import operator

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, NotImplementedForSymbol, SymbolTypeError
from symjax_nnvm.symbol import NameManager
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

X = np.array([0.5, 1.0, 2.0, -1.5], np.float32)
Y = np.array([2.0, 1.0, -0.5, 2.0], np.float32)

# expression, operator, automatic name, scalar (names and scalars read off MXNet 1.9.1)
EXPRESSIONS = [
    ("x + y", "elemwise_add", "_plus0", None),
    ("x + 1", "_plus_scalar", "_plusscalar0", "1"),
    ("1 + x", "_plus_scalar", "_plusscalar0", "1"),
    ("x - y", "elemwise_sub", "_minus0", None),
    ("x - 1", "_minus_scalar", "_minusscalar0", "1"),
    ("1 - x", "_rminus_scalar", "_rminusscalar0", "1"),
    ("x * y", "elemwise_mul", "_mul0", None),
    ("x * 2.5", "_mul_scalar", "_mulscalar0", "2.5"),
    ("2.5 * x", "_mul_scalar", "_mulscalar0", "2.5"),
    ("x / y", "elemwise_div", "_div0", None),
    ("x / 2", "_div_scalar", "_divscalar0", "2"),
    ("2 / x", "_rdiv_scalar", "_rdivscalar0", "2"),
    ("x % y", "_mod", "_mod0", None),
    ("x % 2", "_mod_scalar", "_modscalar0", "2"),
    ("2 % x", "_rmod_scalar", "_rmodscalar0", "2"),
    ("abs(x) ** y", "_power", "_power0", None),
    ("x ** 2", "_power_scalar", "_powerscalar0", "2"),
    ("2 ** x", "_rpower_scalar", "_rpower_scalar0", "2"),
    ("-x", "_mul_scalar", "_mulscalar0", "-1.0"),
    ("abs(x)", "abs", "abs0", None),
    ("x == y", "_equal", "_equal0", None),
    ("x == 1", "_equal_scalar", "_equal_scalar0", "1"),
    ("x != y", "_not_equal", "_not_equal0", None),
    ("x != 1", "_not_equal_scalar", "_not_equal_scalar0", "1"),
    ("x > y", "_greater", "_greater0", None),
    ("x > 1", "_greater_scalar", "_greater_scalar0", "1"),
    ("1 > x", "_lesser_scalar", "_lesser_scalar0", "1"),
    ("x >= y", "_greater_equal", "_greater_equal0", None),
    ("x >= 1", "_greater_equal_scalar", "_greater_equal_scalar0", "1"),
    ("1 >= x", "_lesser_equal_scalar", "_lesser_equal_scalar0", "1"),
    ("x < y", "_lesser", "_lesser0", None),
    ("x < 1", "_lesser_scalar", "_lesser_scalar0", "1"),
    ("1 < x", "_greater_scalar", "_greater_scalar0", "1"),
    ("x <= y", "_lesser_equal", "_lesser_equal0", None),
    ("x <= 1", "_lesser_equal_scalar", "_lesser_equal_scalar0", "1"),
    ("1 <= x", "_greater_equal_scalar", "_greater_equal_scalar0", "1"),
    ("maximum(x, y)", "_maximum", "_maximum0", None),
    ("maximum(x, 1)", "_maximum_scalar", "_maximumscalar0", "1"),
    ("maximum(1, x)", "_maximum_scalar", "_maximumscalar0", "1"),
    ("minimum(x, y)", "_minimum", "_minimum0", None),
    ("minimum(1.5, x)", "_minimum_scalar", "_minimumscalar0", "1.5"),
    ("hypot(x, y)", "_hypot", "_hypot0", None),
    ("hypot(2, x)", "_hypot_scalar", "_hypotscalar0", "2"),
    ("power(abs(x), y)", "_power", "_power0", None),
    ("power(x, 2)", "_power_scalar", "_powerscalar0", "2"),
    ("power(2, x)", "_rpower_scalar", "_rpowerscalar0", "2"),
    ("x + float32(2)", "_plus_scalar", "_plusscalar0", "2.0"),
    ("x + float32(0.1)", "_plus_scalar", "_plusscalar0", "0.1"),
]
_FUNCTIONS = ("maximum", "minimum", "hypot", "power")


@pytest.mark.parametrize(("text", "op", "name", "scalar"), EXPRESSIONS, ids=[row[0] for row in EXPRESSIONS])
def test_expression(text: str, op: str, name: str, scalar: str | None):
    def evaluate(x, y, module):
        names = {function: getattr(module, function) for function in _FUNCTIONS}
        return eval(text, {"x": x, "y": y, "float32": np.float32, **names})

    with NameManager():
        symbol = evaluate(sym.Variable("x"), sym.Variable("y"), sym)
    node = symbol.outputs[0].node
    assert (node.op.name, node.name, node.attrs.dict.get("scalar")) == (op, name, scalar)
    args = {key: value for key, value in (("x", X), ("y", Y)) if key in symbol.list_arguments()}
    (value,), _ = evaluated(lowering.to_jax(symbol), args)
    assert value.dtype == np.float32
    assert_close(value, np.asarray(evaluate(X, Y, np), np.float32), 1e-6, text)


def test_pow_is_another_name_of_power():
    with NameManager():
        assert sym.pow(2, sym.Variable("x")).name == "_rpowerscalar0"


def test_automatic_names_count_per_hint():
    x, y = sym.Variable("x"), sym.Variable("y")
    with NameManager():
        assert [s.name for s in (x + y, x + y, x * y, x + 1, x + 2)] == [
            *("_plus0", "_plus1", "_mul0", "_plusscalar0", "_plusscalar1")
        ]


def test_alias_gives_the_hint_and_the_canonical_name_the_operator():
    x, y = sym.Variable("x"), sym.Variable("y")
    with NameManager():
        made = [
            sym.ElementWiseSum(x, y),
            sym.identity(x),
            sym.stop_gradient(x),
            sym.broadcast_plus(x, y),
            sym.add(x, y),
        ]
    assert [(s.name, s.attr("op_name")) for s in made] == [
        ("elementwisesum0", "add_n"),
        ("identity0", "_copy"),
        ("stop_gradient0", "BlockGrad"),
        ("broadcast_plus0", "broadcast_add"),
        ("add0", "elemwise_add"),
    ]


@pytest.mark.parametrize("function", [operator.add, operator.mul, operator.mod, operator.gt, operator.pow])
def test_two_symbols_combine_without_broadcasting(function):
    symbol = function(sym.Variable("x"), sym.Variable("y"))
    with pytest.raises(InferenceError, match="inferred shape"):
        symbol.infer_shape(x=(2, 3), y=(1, 3))


@pytest.mark.parametrize("name", _FUNCTIONS)
@pytest.mark.parametrize("other", [None, True, "1", np.ones(2)])
def test_functions_take_symbols_and_numbers(name: str, other):
    x = sym.Variable("x")
    for operands in ((x, other), (other, x), (1, 2)):
        with pytest.raises(SymbolTypeError, match="one operand must be a symbol"):
            getattr(sym, name)(*operands)


def test_undefined_operators():
    x = sym.Variable("x")
    for function in (operator.floordiv, operator.matmul, operator.and_):
        with pytest.raises(TypeError):
            function(x, x)
    with pytest.raises(TypeError):
        operator.invert(x)  # pyright: ignore[reportArgumentType]
    assert not hasattr(x, "T")


def test_symbols_hold_no_values():
    x = sym.Variable("x")
    with pytest.raises(NotImplementedForSymbol):
        bool(x)
    with pytest.raises(NotImplementedForSymbol):
        operator.iadd(x, 1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


def test_gradient_of_an_expression():
    x, y = sym.Variable("x"), sym.Variable("y")
    assert lowering.check_gradients((x * y + 2 * x - y / 3) ** 2 % 7, {"x": X[:3], "y": Y[:3]}).ok
