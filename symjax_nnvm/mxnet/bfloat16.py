"""The bfloat16 dtype, which NumPy lacks; JAX brings it along."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.errors import MissingExtraError


def bfloat16() -> np.dtype:
    """Return `ml_dtypes.bfloat16` as a NumPy dtype. Raises MissingExtraError where ml_dtypes is not installed."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise MissingExtraError("bfloat16 arrays need ml_dtypes. Install it with: pip install ml_dtypes") from error
    return np.dtype(ml_dtypes.bfloat16)
