"""Cases of _contrib_calibrate_entropy."""

from typing import Any

from tests.cases import T
from tests.cases.quantization import case


def _around_zero(sym: Any, hist: Any, edges: Any) -> Any:
    """The edges in their order."""
    return sym.contrib.calibrate_entropy(hist, sym.sort(edges), num_quantized_bins=15)


CASES = [
    case(
        "_contrib_calibrate_entropy",
        T(101, kind="integers", low=0, high=9),
        T(102, kind="spread"),
        tag="sorted",
        graph=_around_zero,
    )
]
