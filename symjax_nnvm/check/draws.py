"""Which operators draw random numbers, and when (FDraws): JAX's generators give other numbers than MXNet's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from symjax_nnvm.ir.op import Op
from symjax_nnvm.ops.random.distributions import DISTRIBUTIONS

When = Literal["always", "training"] | None


def _always(p: Any) -> When:
    return "always"


def _dropout(p: Any) -> When:
    if p.p == 0:
        return None
    return "always" if p.mode == "always" else "training"


DRAWS: dict[str, Callable[[Any], When]] = {
    "Dropout": _dropout,
    "RNN": lambda p: "training" if p.has_mask else None,
    "LeakyReLU": lambda p: "training" if p.act_type == "rrelu" else None,
    **{
        form.format(row.name): _always
        for row in DISTRIBUTIONS
        for form in ("_random_{}", "_random_{}_like", "_sample_{}")
    },
    **dict.fromkeys(("_random_randint", "_sample_multinomial", "_sample_unique_zipfian", "_shuffle"), _always),
}
"""Operator → parameters → when it draws."""

for _name, _when in DRAWS.items():
    Op.get(_name).set_attr("FDraws", lambda attrs, when=_when: when(attrs.parsed))
