"""AlterOpLayout: which convolutions get channels last, and where a transposition stands."""

from collections.abc import Callable
from typing import Any

import pytest

from symjax_nnvm import graph
from symjax_nnvm import symbol as sym

LAST, FIRST = "_channels_last_convolution", "Convolution"
WINDOW = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 4}
POINT = {"kernel": (1, 1), "num_filter": 4}
EACH = {**WINDOW, "num_group": 4}

x, y = sym.Variable("x"), sym.Variable("y")


def conv(data: sym.Symbol, given: dict[str, Any], **others: Any) -> sym.Symbol:
    return sym.Convolution(data, **{"no_bias": True, **given, **others})


def ops(net: sym.Symbol) -> list[str]:
    """Operators after the pass, in order, without what lays weights."""
    made = graph.create(net).apply("AlterOpLayout").nodes()
    return [node.op.name for node in made if node.op is not None and not node.name.endswith("_weight_laid")]


def _matrix_between() -> sym.Symbol:
    flat = sym.FullyConnected(conv(x, POINT), num_hidden=16)
    return conv(sym.reshape(flat, shape=(0, 4, 2, 2)), POINT)


STAYING: dict[str, Callable[[], sym.Symbol]] = {
    "of one element": lambda: conv(x, POINT),
    "of one element, one axis": lambda: conv(x, {"kernel": (1,), "num_filter": 4}),
    "depth-wise": lambda: conv(x, EACH),
    "few channels in a group": lambda: conv(x, EACH, num_filter=16),
    "with what follows": lambda: sym.relu(sym.BatchNorm(conv(sym.tanh(x), POINT))) + 1,
    "two that are not connected": lambda: sym.Group([conv(x, POINT), conv(y, EACH)]),
    "two with a matrix between": _matrix_between,
}


@pytest.mark.parametrize("name", STAYING)
def test_a_convolution_alone_that_runs_in_either_order_stays(name: str):
    net = STAYING[name]()
    assert ops(net) == [node.op.name for node in graph.create(net).nodes() if node.op is not None]


ALTERED: dict[str, Callable[[], sym.Symbol]] = {
    "window": lambda: conv(x, WINDOW),
    "of one element, strided": lambda: conv(x, POINT, stride=(2, 2)),
    "of one element, padded": lambda: conv(x, POINT, pad=(1, 1)),
    "many channels in a group": lambda: conv(x, EACH, num_filter=32),
    "two, one after the other": lambda: conv(sym.relu(conv(x, POINT)), EACH),
    "two of the same data": lambda: sym.Group([conv(x, POINT), conv(x, EACH)]),
    "two that are added": lambda: conv(x, POINT) + conv(y, POINT),
    "two whose readers meet": lambda: sym.Concat(sym.relu(conv(x, POINT)), sym.tanh(conv(y, EACH)), dim=1),
}


@pytest.mark.parametrize("name", ALTERED)
def test_all_others_get_channels_last(name: str):
    found = ops(ALTERED[name]())
    assert FIRST not in found
    assert LAST in found


def test_each_region_is_judged_by_itself():
    """The window's region has channels last, the other one beside it in the same graph has not."""
    net = sym.Group([sym.relu(conv(x, WINDOW)), sym.tanh(conv(y, POINT))])
    assert ops(net) == ["transpose", LAST, "relu", "transpose", FIRST, "tanh"]


@pytest.mark.nightly("thousands of nodes")
def test_regions_are_found_in_linear_time_and_nesting_depth():
    """A thousand separate convolutions and a chain of ten thousand readers: no recursion, no quadratic walk."""
    chain = conv(x, POINT)
    for _ in range(10_000):
        chain = sym.relu(chain)
    net = sym.Group([chain, *(conv(sym.Variable(f"x{i}"), POINT) for i in range(1000))])
    assert set(ops(net)) == {FIRST, "relu"}
