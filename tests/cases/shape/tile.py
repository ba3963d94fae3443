"""Cases of tile and repeat."""

from tests.cases import NO_EMPTY_HEADS, Case, T

CASES = [
    *(Case("tile", (T(2, 3),), {"reps": reps}) for reps in ((2, 2), 2)),
    Case("tile", (T(2, 1, 3),), {"reps": (3, 1)}),
    Case("tile", (T(3),), {"reps": (2, 1, 2)}),
    Case("tile", (T(2, 3),), {"reps": (1, 1)}),
    Case("tile", (T(2, 3),), {"reps": (2, 0)}, no_mxnet=NO_EMPTY_HEADS),
    Case("repeat", (T(2, 3),), {"repeats": 2}),
    Case("repeat", (T(2, 3),), {"repeats": 2, "axis": 0}),
    Case("repeat", (T(2, 3, 2),), {"repeats": 3, "axis": 1}),
    *(Case("repeat", (T(2, 3, 2),), {"repeats": 2, "axis": axis}) for axis in (-1, -3)),
    Case("repeat", (T(2, 3),), {"repeats": 0}, wrt=()),
    Case("repeat", (T(2, 3),), {"repeats": 0, "axis": 1}, wrt=()),
    Case("repeat", (T(2, 3),), {"repeats": 0, "axis": -1}, no_mxnet=NO_EMPTY_HEADS, tag="gradient"),
]
