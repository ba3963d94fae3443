"""Cases of the scale and shift that BatchNorm is where it does not train."""

from tests.cases import Case, T

_OURS = "an operator of this library"


def _scale_shift(shape: tuple[int, ...], axis: int, dtype: str = "float32") -> Case:
    c, vectors = shape[axis], "float32" if dtype == "float16" else dtype
    inputs = (T(*shape, dtype=dtype), T(c, dtype=vectors), T(c, dtype=vectors))
    return Case("_scale_shift", inputs, {"axis": axis}, no_mxnet=_OURS)


CASES = [
    *[_scale_shift((2, 3, 4), axis) for axis in (0, 1, 2, -1)],
    _scale_shift((3, 2), 1),
    _scale_shift((4,), 0),
    _scale_shift((2, 3, 1, 2), 1, "float64"),
    _scale_shift((2, 3), 1, "float16"),
]
