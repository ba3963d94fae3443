"""Adjoints that one declaration derives (`ir/rules/linear.py`): <A(dY), G> = <dY, f(G)>, in float64, for each."""

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import FGradient, FIgnoreInputs, FListInputNames, TAdjointOf
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ir.rules.composition import Composition
from symjax_nnvm.ir.rules.derivatives import Derivatives
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol import Symbol
from tests.cases import Case, T, Tensor
from tests.support import ladder
from tests.support.traced import evaluated

KEY = jax.random.key(3)

DERIVED = [op for op in list_unique_ops() if op in TAdjointOf]

HAND_WRITTEN_AT_MOST = 26

MORE = (Case("_contrib_boolean_mask", (T(4, 3), Tensor((4,), 0, 2, "integers")), wrt=(0,)),)
"""Cases of operators that the table has none of: of boolean_mask, which runs where its mask is known, not jitted."""


@cache
def nodes() -> dict[Op, tuple[Case, Node]]:
    """A node of every derived adjoint: of the first gradient, or gradient of a gradient, of a case that has one."""
    found: dict[Op, tuple[Case, Node]] = {}
    for case in (*MORE, *(case for _, case in ladder.all_cases())):
        if len(found) == len(DERIVED):
            break
        symbol = ladder.build(case)
        names = ladder.wrt(case, symbol)
        if not names or Op.get(case.op) not in FGradient:
            continue
        first = symbol.gradient(names)
        seconds = [first.gradient(names, zeros_if_unreachable=True)] if case.op != "_npi_norm" else []  # it has none
        for graph in (first, *seconds):
            for node in post_order(graph.outputs):
                if node.op is not None and node.op in TAdjointOf:
                    found.setdefault(node.op, (case, node))
    return found


def run(case: Case, entries: list[NodeEntry], values: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The values of entries, floats as float64."""
    symbol = Symbol(entries)

    def wide(names: list[str]) -> dict[str, np.ndarray]:
        return {n: values[n].astype("float64") if values[n].dtype.kind == "f" else values[n] for n in names}

    function = lowering.to_jax(symbol, is_train=True)
    args = wide(symbol.list_arguments()), wide(symbol.list_auxiliary_states()), KEY
    outputs, _ = function(*args) if case in MORE else evaluated(function, *args)
    return [np.asarray(output) for output in outputs]


def inner(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """<a, b>; the arrays must be of the same shapes."""
    assert [x.shape for x in a] == [y.shape for y in b]
    return float(sum(np.sum(x * y) for x, y in zip(a, b, strict=True)))


def drawn(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.uniform(-1, 1, shape) for shape in shapes]


@pytest.mark.nightly("every linear operator", but_one_in=5)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("op", DERIVED, ids=lambda op: op.name)
def test_the_adjoint_is_the_transpose_of_its_operator(op: Op):
    case, found = nodes()[op]
    with jax.enable_x64(True):
        values = dict(zip([f"in{i}" for i in range(len(case.inputs))], case.values(), strict=True))
        inputs = run(case, list(found.inputs), values)
        names = [f"x{i}" for i in range(len(inputs))]
        node = Node(found.attrs.copy(), [NodeEntry(create_variable_node(name)) for name in names])
        at = dict(zip(names, inputs, strict=True))
        at["x0"] = drawn([inputs[0].shape])[0]
        for i in FIgnoreInputs[op](found.attrs):
            at[f"x{i}"] = np.full_like(inputs[i], np.nan)  # a model of shape and dtype alone
        transposed = run(case, [NodeEntry(node, i) for i in range(node.num_outputs())], at)
        along = drawn([x.shape for x in transposed])
        heads = [NodeEntry(create_variable_node(f"g{i}")) for i in range(len(along))]
        back = next(iter(FGradient[op](node, heads)))
        assert back is not None
        assert back.node.op is not None
        # The operator's own gradient, by the inputs in whose place G stands, must be the adjoint again.
        gradients = list(FGradient[back.node.op](back.node, node.inputs[:1]))
        again = [grad for grad, entry in zip(gradients, back.node.inputs, strict=True) if entry in heads]
        assert None not in again
        at |= {f"g{i}": g for i, g in enumerate(along)}
        applied, *twice = run(case, [back, *(grad for grad in again if grad is not None)], at)
    expected = inner([at["x0"]], [applied])
    assert inner(transposed, along) == pytest.approx(expected, rel=1e-11, abs=1e-12)
    assert inner(twice, along) == pytest.approx(expected, rel=1e-11, abs=1e-12)
    assert expected != 0


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("op", DERIVED, ids=lambda op: op.name)
def test_an_adjoint_ignores_what_its_input_is_only_the_model_of(op: Op):
    _, node = nodes()[op]
    assert next(iter(FListInputNames[op](node.attrs))) in ("ograd", "arg0")
    assert 0 not in FIgnoreInputs[op](node.attrs)
    heads = [NodeEntry(create_variable_node(f"g{i}")) for i in range(node.num_outputs())]
    gradients = list(FGradient[op](node, heads))
    assert [gradients[i] for i in FIgnoreInputs[op](node.attrs)] == [None] * len(list(FIgnoreInputs[op](node.attrs)))


@pytest.mark.parametrize(
    ("op", "params", "shapes"),
    [
        ("_npi_ediff1d", {"to_begin_arr_given": True, "to_end_scalar": 3.0}, [(3, 2), (2,)]),
        ("_npi_ediff1d", {"to_begin_scalar": 3.0, "to_end_arr_given": True}, [(3,), (1,)]),
        ("GridGenerator", {"transform_type": "affine", "target_shape": (3, 4)}, [(2, 6)]),
        ("GridGenerator", {"transform_type": "warp"}, [(1, 2, 3, 4)]),
    ],
)
def test_the_second_gradient_of_an_affine_operator_is_its_linear_part(
    op: str, params: dict[str, Any], shapes: list[tuple[int, ...]]
):
    """The gradient of <A(dY), G> by dY is f(X + G) - f(X): where an adjoint's own gradient is written by hand."""
    names = [f"x{i}" for i in range(len(shapes))]
    net = getattr(sym, op)(*map(sym.Variable, names), **params)
    heads = [sym.Variable(f"g{i}") for i in range(len(shapes))]
    second = net.gradient(names, head_grads=[sym.Variable("dy")]).gradient(["dy"], head_grads=heads)
    x, g = drawn(shapes), [array[::-1] for array in drawn(shapes)]

    def value(symbol: Symbol, *arrays: np.ndarray) -> np.ndarray:
        given = dict(zip([*names, *(f"g{i}" for i in range(len(g))), "dy"], arrays, strict=False))
        given = {name: given[name] for name in symbol.list_arguments()}
        return np.asarray(evaluated(lowering.to_jax(symbol), given)[0][0])

    with jax.enable_x64(True):
        before, after = value(net, *x), value(net, *map(np.add, x, g))
        np.testing.assert_allclose(value(second, *x, *g, before), after - before, rtol=1e-12, atol=1e-12)


def test_few_backward_operators_are_registered_by_hand():
    by_hand = [
        op.name
        for op in list_unique_ops()
        if op.name.startswith("_backward_")
        and op not in TAdjointOf
        and not isinstance(getattr(FGradient[op], "__self__", None), Derivatives | Composition)
    ]
    assert len(by_hand) <= HAND_WRITTEN_AT_MOST, by_hand
