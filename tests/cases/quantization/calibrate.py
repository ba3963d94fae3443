"""Cases of _contrib_calibrate_entropy."""

from typing import Any

from tests.cases import Case, T


def _around_zero(sym: Any, hist: Any, edges: Any) -> Any:
    """The edges in their order."""
    return sym.contrib.calibrate_entropy(hist, sym.sort(edges), num_quantized_bins=15, name="op")


CASES = [
    Case(
        "_contrib_calibrate_entropy",
        (T(101, kind="integers", low=0, high=9), T(102, kind="spread")),
        wrt=(),
        is_train=False,
        rtol=1e-4,
        rtol_reason="a sum of a hundred logarithms, which MXNet adds up in float32 one after the other",
        tag="sorted",
        graph=_around_zero,
    )
]
