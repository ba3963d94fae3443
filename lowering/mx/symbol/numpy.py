"""`mx.sym.np` and `mx.sym.npx`: the functions of `mx.np` and `mx.npx` on symbols, which make graphs."""

from __future__ import annotations

from collections.abc import Callable as _Callable
from collections.abc import Mapping as _Mapping
from types import SimpleNamespace as _SimpleNamespace
from typing import Any as _Any

from lowering.mx import numpy as _arrays
from lowering.mx.numpy.decompositions import FUNCTIONS as _LINALG
from lowering.mx.numpy.distributions import FUNCTIONS as _RANDOM
from lowering.mx.numpy.operators import bound as _bound
from lowering.mx.numpy.operators import internal as _internal_of
from lowering.mx.numpy.operators import missing as _missing
from lowering.mx.numpy_extension.functions import extension as _extension
from lowering.mx.symbol.dialect import FUNCTIONS as _WITHOUT_INPUTS
from lowering.mx.symbol.dialect import SYMBOLIC as _SYMBOLIC
from lowering.mx.symbol.dialect import _Symbol as _Symbol


def _of_symbols(functions: _Mapping[str, _Callable[..., _Any]]) -> dict[str, _Callable[..., _Any]]:
    return {name: _bound(function, _SYMBOLIC, name) for name, function in functions.items()}


linalg = _SimpleNamespace(**_of_symbols(_LINALG))
_internal = _internal_of("mx.sym.np", _SYMBOLIC)
random = _SimpleNamespace(**_of_symbols(_RANDOM))
npx = _extension("mx.sym.npx", _SYMBOLIC)
"""`mx.sym.npx`."""

_own = {**_of_symbols(_arrays.FUNCTIONS), **_WITHOUT_INPUTS}
globals().update(_own)


def __getattr__(name: str) -> _Any:
    fix = f"mx.np.{name} needs numbers, which a graph does not have: call it outside of the network."
    raise _missing(__name__, name, _own, fix=fix if name in _arrays.__all__ else "")
