"""The one comparison helper that every operator test uses."""

from typing import Any

import numpy as np


def assert_close(ours: Any, theirs: Any, rtol: float, what: str) -> None:
    """Equal shapes, and differences within `rtol` of the largest finite magnitude of `theirs`; NaN and inf in the same
    places."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, expected {theirs.shape}"
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite], err_msg=f"{what}: non-finite values")
    scale = np.max(np.abs(theirs[finite]), initial=0.0)
    difference = np.max(np.abs(ours[finite] - theirs[finite]), initial=0.0)
    assert difference <= rtol * max(scale, 1e-30) or difference <= 1e-37, (
        f"{what}: largest difference {difference:.3e} is {difference / max(scale, 1e-300):.3e} of the scale "
        f"{scale:.3e}, allowed {rtol:g}"
    )
