"""Storage types of operators' results are MXNet 1.9.1's."""

from collections.abc import Mapping
from typing import Any

import pytest

from symjax_nnvm.ir.attributes import FInferStorageType
from symjax_nnvm.ir.node import NodeEntry, apply
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.passes.infer.infer_storage import infer_storage, sparse_gradients
from symjax_nnvm.symbol.symbol import Symbol

_OF = {"d": "default", "r": "row_sparse", "c": "csr"}

_ONE = {"c": "c", "r": "r"}
_BOTH = {"cc": "c", "rr": "r", "cr": "d", "dc": "d", "cd": "d", "rd": "d"}
_UNARY = [
    *("abs", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "degrees", "expm1", "fix", "floor", "log1p"),
    *("negative", "radians", "relu", "rint", "round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
    *("_copy", "BlockGrad", "zeros_like", "make_loss", "_contrib_round_ste", "_contrib_sign_ste", "_mul_scalar"),
    *("_contrib_gradientmultiplier", "_div_scalar", "_scatter_plus_scalar", "_scatter_minus_scalar"),
]

MXNET: list[tuple[str, dict[str, Any], Mapping[str, str]]] = [
    *((name, {}, _ONE) for name in _UNARY),
    *((name, {}, _BOTH) for name in ("elemwise_add", "elemwise_sub", "_maximum", "_minimum", "_hypot", "_grad_add")),
    ("elemwise_mul", {}, {"cc": "c", "rr": "r", "dc": "c", "cd": "c", "dr": "r", "rd": "r", "cr": "d", "rc": "d"}),
    ("broadcast_mul", {}, {"cd": "c", "dc": "d", "cc": "d", "rd": "d", "rr": "d"}),
    ("broadcast_div", {}, {"cd": "c", "dc": "d", "cc": "d", "rd": "d", "rr": "d"}),
    ("add_n", {"num_args": 2}, {"rr": "r", "cc": "d", "rd": "d"}),
    ("_identity_with_attr_like_rhs", {}, {"dr": "r", "dc": "c", "rd": "d", "cr": "r"}),
    ("_scatter_elemwise_div", {}, {"rd": "r", "rc": "r", "rr": "r", "cc": "d", "dr": "d"}),
    *((f"_{name}_scalar", {"scalar": 0.0}, _ONE) for name in ("plus", "minus", "not_equal", "greater", "lesser")),
    *((f"_{name}_scalar", {"scalar": 2.0}, _ONE) for name in ("equal", "greater", "greater_equal")),
    *((f"_{name}_scalar", {"scalar": -1.0}, _ONE) for name in ("equal", "lesser", "lesser_equal")),
    *((f"_{name}_scalar", {"scalar": 0.0}, {"c": "d"}) for name in ("equal", "greater_equal", "lesser_equal")),
    *((f"_{name}_scalar", {"scalar": 2.0}, {"c": "d"}) for name in ("plus", "minus", "not_equal", "lesser")),
    *((f"_{name}_scalar", {"scalar": -1.0}, {"r": "d"}) for name in ("greater", "greater_equal", "not_equal")),
    ("_contrib_quadratic", {"a": 1.0, "b": 2.0}, {"c": "c", "r": "d"}),
    ("_contrib_quadratic", {"a": 1.0, "c": 1.0}, {"c": "d", "r": "d"}),
    ("clip", {"a_min": -1.0, "a_max": 0.5}, _ONE),
    ("cast_storage", {"stype": "csr"}, {"d": "c", "c": "c"}),
    ("cast_storage", {"stype": "row_sparse"}, {"d": "r", "r": "r"}),
    ("cast_storage", {"stype": "default"}, {"c": "d", "r": "d"}),
    ("slice", {"begin": (0,), "end": (2,)}, {"c": "c", "r": "d"}),
    ("slice", {"begin": (0,), "end": (2,), "step": (1,)}, {"c": "d"}),
    ("take", {}, {"cd": "c", "rd": "d", "cc": "d"}),
    ("take", {"axis": 1}, {"cd": "d"}),
    ("take", {"mode": "raise"}, {"cd": "d"}),
    ("Concat", {"dim": 0, "num_args": 2}, {"cc": "c", "cd": "d", "rr": "d"}),
    ("Concat", {"dim": 1, "num_args": 2}, {"cc": "d"}),
    ("_sparse_retain", {}, {"rd": "r"}),
    ("_square_sum", {"axis": 1, "keepdims": True}, {"r": "r"}),
    ("_square_sum", {"axis": 1}, {"r": "d"}),
    ("dot", {}, {"dc": "c", "cd": "d", "cr": "d", "cc": "d", "rd": "d"}),
    ("dot", {"transpose_a": True}, {"cd": "r", "cr": "r", "cc": "d", "dc": "d"}),
    ("dot", {"transpose_b": True}, {"dc": "c", "cd": "d"}),
    ("dot", {"transpose_a": True, "transpose_b": True}, {"cd": "d", "dc": "d"}),
    ("dot", {"forward_stype": "csr"}, {"dd": "c", "cd": "c"}),
    ("dot", {"forward_stype": "default"}, {"dc": "d"}),
    *((name, {}, {"c": "d", "r": "d"}) for name in ("exp", "cos", "sigmoid", "softsign", "erf", "ones_like")),
    ("sum", {}, {"c": "d", "r": "d"}),
]
"""Operator, parameters, and the storage types of results by those of inputs, of which it is shown."""


def storage_of(op: str, params: dict[str, Any], inputs: str) -> str:
    variables = [Symbol.create_variable(f"x{i}").outputs[0] for i in range(len(inputs))]
    given = {f"x{i}": _OF[letter] for i, letter in enumerate(inputs)}
    return infer_storage([apply(op, *variables, **params)], given)[0]


@pytest.mark.parametrize(("op", "params", "expected"), MXNET, ids=lambda value: value if type(value) is str else None)
def test_the_result_of_an_operator_is_stored_as_mxnets(op: str, params: dict[str, Any], expected: Mapping[str, str]):
    found = {inputs: storage_of(op, params, inputs) for inputs in expected}
    assert found == {inputs: _OF[letter] for inputs, letter in expected.items()}


def test_every_operator_with_a_rule_of_storage_is_compared():
    ruled = {op.name for op in list_unique_ops() if FInferStorageType.get(op) is not None}
    assert ruled <= {Op.get(op).name for op, _, _ in MXNET}


def test_storage_goes_through_a_graph():
    x, y = (Symbol.create_variable(name).outputs[0] for name in "xy")
    squares = apply("square", apply("elemwise_mul", x, y))
    assert infer_storage([squares, apply("exp", squares)], {"x": "csr"}) == ["csr", "default"]


def _words(table: NodeEntry, sparse: bool) -> NodeEntry:
    data = Symbol.create_variable("data").outputs[0]
    return apply("Embedding", data, table, input_dim=5, output_dim=2, sparse_grad=sparse)


def test_a_gradient_is_sparse_where_every_reader_gives_a_sparse_one():
    table, x = (Symbol.create_variable(name).outputs[0] for name in ("table", "x"))
    assert sparse_gradients([_words(table, True)], {}) == ["table"]
    assert sparse_gradients([_words(table, True), _words(table, True)], {}) == ["table"]
    assert sparse_gradients([_words(table, True), _words(table, False)], {}) == []
    assert sparse_gradients([_words(table, True), apply("exp", table)], {}) == []
    assert sparse_gradients([apply("dot", x, table)], {"x": "csr"}) == ["table"]
    assert sparse_gradients([apply("dot", x, table)], {}) == []
    assert sparse_gradients([apply("dot", x, table, transpose_a=True)], {"x": "csr"}) == []
