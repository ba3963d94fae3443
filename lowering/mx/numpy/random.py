"""`np.random`: arrays of draws. Their stream is that of `mx.random.seed`; NumPy's seed changes nothing."""

from __future__ import annotations

from lowering.mx.numpy.distributions import FUNCTIONS as _FUNCTIONS
from lowering.mx.numpy.operators import EAGER as _EAGER
from lowering.mx.numpy.operators import bound as _bound

globals().update({name: _bound(function, _EAGER, name) for name, function in _FUNCTIONS.items()})

__all__ = [*_FUNCTIONS]  # pyright: ignore[reportUnsupportedDunderAll]
