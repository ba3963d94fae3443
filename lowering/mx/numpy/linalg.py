"""`np.linalg`: norms, decompositions and systems of equations of arrays."""

from __future__ import annotations

from typing import Any as _Any

import numpy as _numpy

from lowering.mx.numpy import fallback_linalg as _fallback
from lowering.mx.numpy.decompositions import FUNCTIONS as _FUNCTIONS
from lowering.mx.numpy.fallback import LINALG as _LINALG
from lowering.mx.numpy.operators import EAGER as _EAGER
from lowering.mx.numpy.operators import bound as _bound
from lowering.mx.numpy.operators import missing as _missing

globals().update({name: _bound(function, _EAGER, name) for name, function in _FUNCTIONS.items()})
globals().update({name: getattr(_fallback, name) for name in _LINALG})

__all__ = [*_FUNCTIONS, *_LINALG]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    raise _missing(__name__, name, __all__, _numpy.linalg)
