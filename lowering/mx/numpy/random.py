"""`np.random`: arrays of draws. Their stream is that of `mx.random.seed`; NumPy's seed changes nothing."""

from __future__ import annotations

from typing import Any as _Any

import numpy as _numpy

from lowering.mx.numpy.distributions import FUNCTIONS as _FUNCTIONS
from lowering.mx.numpy.operators import EAGER as _EAGER
from lowering.mx.numpy.operators import bound as _bound
from lowering.mx.numpy.operators import missing as _missing

globals().update({name: _bound(function, _EAGER, name) for name, function in _FUNCTIONS.items()})

__all__ = [*_FUNCTIONS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    fix = "mx.random.seed(n) sets the seed of all random numbers." if name == "seed" else ""
    raise _missing(__name__, name, __all__, _numpy.random, fix)
