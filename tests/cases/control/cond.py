"""Cases of `_cond`; the graphs are written once, for MXNet and for us."""

from typing import Any

from tests.cases import Case, T


def _branches(sym: Any, predicate: Any, a: Any, b: Any) -> Any:
    """Branches of two outputs that share their inputs."""
    outputs = sym.contrib.cond(sym.sum(predicate) < 1, lambda: [sym.sin(a) * b, a + b], lambda: [sym.exp(a) * b, a * b])
    return sym.Group(outputs)


def _outer(sym: Any, predicate: Any, a: Any, b: Any) -> Any:
    """Both branches read the output of an outer node."""
    outer = a * 2
    return sym.contrib.cond(sym.sum(predicate) < 1, lambda: sym.sin(a) * outer * b, lambda: sym.exp(b) + outer)


def _one_sided(sym: Any, predicate: Any, a: Any, b: Any) -> Any:
    """Each branch reads an input of its own."""
    return sym.contrib.cond(predicate, lambda: a * a, lambda: b * b * b)


def _nested(sym: Any, predicate: Any, a: Any, b: Any) -> Any:
    """A branch in a branch."""
    return sym.contrib.cond(
        sym.sum(predicate) < 1,
        lambda: sym.contrib.cond(sym.sum(a) < 0, lambda: a * b, lambda: sym.sin(a) * b),
        lambda: b * b,
    )


_LOW, _HIGH = T(1, low=0.1, high=0.2), T(1, low=1.1, high=1.2)
_GARBAGE = "gives inputs that only the other branch reads an undefined gradient; ours is zero"

CASES = [
    *[
        Case("_cond", (predicate, T(2, 3), T(2, 3)), wrt=(1, 2), tag=f"branches_{taken}", graph=_branches)
        for taken, predicate in (("then", _LOW), ("else", _HIGH))
    ],
    *[
        Case(
            "_cond", (predicate, T(3), T(3)), wrt=(1, 2), tag=f"one_sided_{taken}", graph=_one_sided, no_mxnet=_GARBAGE
        )
        for taken, predicate in (("then", _HIGH), ("else", T(1, low=0, high=1, kind="integers")))
    ],
    Case("_cond", (_LOW, T(3), T(3)), wrt=(1, 2), tag="nested", graph=_nested),
    Case(
        "_cond",
        (_LOW, T(2, 3), T(2, 3)),
        wrt=(1, 2),
        tag="outer",
        graph=_outer,
        no_mxnet="cannot differentiate a branch that reads an outer node",
    ),
    Case("_cond", (_LOW, T(2, 3), T(2, 3)), wrt=(), tag="outer", graph=_outer, is_train=False),
]
