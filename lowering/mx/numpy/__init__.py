"""`mx.np`: arrays that behave as NumPy's do, with contexts and gradients."""

from __future__ import annotations

import math as _math
from typing import Any as _Any

import numpy as _numpy

from lowering.mx.numpy import axis_reductions as _axis_reductions
from lowering.mx.numpy import elementwise as _elementwise
from lowering.mx.numpy import fallback as fallback
from lowering.mx.numpy import fallback_linalg as fallback_linalg
from lowering.mx.numpy import linalg as linalg
from lowering.mx.numpy import new_arrays as _new_arrays
from lowering.mx.numpy import random as random
from lowering.mx.numpy import rearranging as _rearranging
from lowering.mx.numpy.multiarray import DISPATCHED as _DISPATCHED
from lowering.mx.numpy.multiarray import leave_out as _leave_out
from lowering.mx.numpy.multiarray import ndarray as ndarray
from lowering.mx.numpy.operators import EAGER as _EAGER
from lowering.mx.numpy.operators import bound as _bound
from lowering.mx.numpy.operators import internal as _internal_of
from lowering.mx.numpy.operators import missing as _missing

FUNCTIONS = {**_elementwise.FUNCTIONS, **_axis_reductions.FUNCTIONS, **_rearranging.FUNCTIONS}
"""The functions that call operators, which `mx.sym.np` has, too."""

_BY_NUMPY = [*fallback.NAMES, *fallback.MORE]
_own = {
    **{name: fallback.function_of_numpy(name) for name in _BY_NUMPY},
    **_new_arrays.FUNCTIONS,
    **{name: _bound(function, _EAGER, name) for name, function in FUNCTIONS.items()},
}
globals().update(_own)
_DISPATCHED.update(_own)
_DISPATCHED.update({f"linalg.{name}": getattr(linalg, name) for name in linalg.__all__})
for _name in ("histogram", "linalg.svd", "linspace", "logspace"):  # which are others than NumPy's
    del _DISPATCHED[_name]
_leave_out(_own)
_internal = _internal_of("mx.np", _EAGER)

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None
PZERO, NZERO, PINF, NINF, NAN, NaN = 0.0, -0.0, _math.inf, -_math.inf, _math.nan, _math.nan
float16, float32, float64 = _numpy.float16, _numpy.float32, _numpy.float64
int8, int32, int64, uint8 = _numpy.int8, _numpy.int32, _numpy.int64, _numpy.uint8
bool, bool_ = bool, _numpy.bool_
finfo = _numpy.finfo

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *_own, "NAN", "NINF", "NZERO", "NaN", "PINF", "PZERO", "bool", "bool_", "e", "fallback", "fallback_linalg", "finfo",
    "float16", "float32", "float64", "inf", "int32", "int64", "int8", "linalg", "nan", "ndarray", "newaxis", "pi",
    "random", "uint8",
]  # fmt: skip

_ELSEWHERE = {
    "asarray": "np.array(x) makes a copy; x.as_np_ndarray() makes a view of an array of mx.nd.",
    "load": "npx.load reads files of arrays.",
    "save": "npx.save writes files of arrays.",
    "savez": "npx.save writes files of arrays, also of a dict of them.",
}
"""Name of NumPy → what replaces it here."""


def __getattr__(name: str) -> _Any:
    raise _missing(__name__, name, __all__, _numpy, _ELSEWHERE.get(name, ""))
