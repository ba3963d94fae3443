"""`npx.random`: further draws, and the seed of all."""

from __future__ import annotations

from typing import Any as _Any

from lowering.mx.keys import seed as _seed
from lowering.mx.numpy.operators import EAGER as _EAGER
from lowering.mx.numpy.operators import bound as _bound
from lowering.mx.numpy_extension.functions import RANDOM as _RANDOM


def seed(seed: int, ctx: _Any = "all") -> None:
    """Begin all draws anew; see `mx.random.seed`."""
    _seed(seed, ctx)


globals().update({name: _bound(function, _EAGER) for name, function in _RANDOM.items()})

__all__ = [*_RANDOM, "seed"]  # pyright: ignore[reportUnsupportedDunderAll]
