"""Cases of correlation: products and differences, patches, strides, padding."""

from typing import Any

from tests.cases import Case, T


def _correlation(shape: tuple[int, ...], dtype: str = "float32", **params: Any) -> Case:
    return Case("Correlation", (T(*shape, dtype=dtype), T(*shape, dtype=dtype)), params)


_WHOLE = T(1, 2, 4, 3, kind="integers", low=-4, high=5, dtype="float16")

CASES = [
    *[
        case
        for multiply in (True, False)
        for case in (
            _correlation((2, 3, 4, 5), is_multiply=multiply),
            _correlation(
                (1, 2, 7, 8), kernel_size=3, max_displacement=2, stride1=2, stride2=2, pad_size=2, is_multiply=multiply
            ),
        )
    ],
    _correlation((1, 2, 4, 5), max_displacement=3, stride2=2, pad_size=4),
    _correlation((1, 2, 3, 3), max_displacement=0, stride1=2),
    _correlation((1, 1, 4, 3), dtype="float64", pad_size=1),
    Case("Correlation", (_WHOLE, _WHOLE), {"pad_size": 1}, wrt=()),
]
