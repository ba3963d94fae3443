"""Which variables look like parameters: by what reads them, in bodies of loops and in branches, too."""

from collections.abc import Callable

import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.inspect.roles import data_inputs, learned_variables
from symjax_nnvm.symbol import Symbol

X, STEPS, W, V = (sym.Variable(name) for name in ("x", "steps", "w", "v"))


def _dense(x: Symbol, weight: Symbol) -> Symbol:
    return sym.FullyConnected(x, weight=weight, num_hidden=4, no_bias=True)


def _loop(step: Callable[[Symbol], Symbol]) -> Symbol:
    def body(part: Symbol, states: list[Symbol]) -> tuple[Symbol, list[Symbol]]:
        return part, [step(states[0])]

    return sym.contrib.foreach(body, STEPS, [X])[1][0]


def _branches(x: Symbol) -> Symbol:
    return sym.contrib.cond(sym.sum(x) > 0, lambda: _dense(x, W), lambda: _dense(x, V))


NETWORKS = {
    "foreach": (lambda: _loop(lambda x: _dense(_dense(x, W), V)), {"x", "steps"}),
    "while_loop": (
        lambda: sym.contrib.while_loop(
            lambda x: sym.sum(x) < 9, lambda x: ([x], [_dense(_dense(x, W), V)]), [X], max_iterations=3
        )[1][0],
        {"x"},
    ),
    "cond": (lambda: _branches(X), {"x"}),
    "cond in foreach": (lambda: _loop(_branches), {"x", "steps"}),
    "foreach in foreach": (
        lambda: _loop(lambda x: sym.contrib.foreach(lambda row, s: (row, [_dense(_dense(s[0], W), V)]), x, [x])[1][0]),
        {"x", "steps"},
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_found_in_bodies_and_branches(name: str):
    make, fed = NETWORKS[name]
    net = make()
    assert {node.name for node in learned_variables(net)} == {"w", "v"}
    assert data_inputs(net) == fed


def test_a_value_computed_outside_that_a_body_reads_as_its_weight_is_no_variable():
    doubled = W * 2
    net = sym.Group([doubled, _loop(lambda x: _dense(x, doubled))])
    assert {node.name for node in learned_variables(net)} <= {"w"}
    assert all(node.is_variable for node in learned_variables(net))


def test_explain_differentiates_the_parameters_of_a_loop_in_their_order():
    net = sym.make_loss(sym.sum(NETWORKS["foreach"][0]()))
    explained = lowering.explain(net, is_train=True, x=(2, 4), steps=(3, 1))
    assert explained.plan.options.wrt == tuple(name for name in net.list_arguments() if name in ("w", "v"))
    assert "_backward" in str(explained)
