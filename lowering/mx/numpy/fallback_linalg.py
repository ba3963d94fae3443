"""Functions of `np.linalg` that MXNet has NumPy compute."""

from __future__ import annotations

import numpy as _numpy

from lowering.mx.numpy.fallback import LINALG as _LINALG
from lowering.mx.numpy.fallback import function_of_numpy as _function_of_numpy

globals().update({name: _function_of_numpy(name, _numpy.linalg) for name in _LINALG})

__all__ = [*_LINALG]  # pyright: ignore[reportUnsupportedDunderAll]
