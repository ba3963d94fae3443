"""Cases of gather_nd and scatter_nd."""

from tests.cases import OTHER_INPUTS, Case, T, ids

NEGATIVE = "MXNet's gradient writes negative indices before its memory"


CASES = [
    Case("gather_nd", (T(3, 4), ids(2, 5, high=3)), wrt=(0,)),
    Case("gather_nd", (T(3, 4), ids(1, 2, high=3, dtype="int32")), wrt=(0,)),
    Case("gather_nd", (T(3, 3, 2), ids(2, 2, 2, high=3)), wrt=(0,)),
    Case("gather_nd", (T(3, 4), ids(2, 5, low=-3, high=3)), wrt=(), tag="negative"),
    Case("gather_nd", (T(3, 4), ids(2, 5, low=-3, high=3)), wrt=(0,), tag="negative, gradient", no_mxnet=NEGATIVE),
    Case(
        "scatter_nd",
        (T(3), ids(1, 3, high=1, dtype="int32")),
        {"shape": (3,)},
        wrt=(0,),
        not_derivative="indices that repeat: the last element wins, yet each receives the gradient",
    ),
    Case("scatter_nd", (T(1, 2), ids(1, 1, high=3)), {"shape": (3, 2)}, wrt=(0,)),
    Case("scatter_nd", (T(1), ids(2, 1, high=2, dtype="int32")), {"shape": (2, 3)}, wrt=(0,)),
    Case("_backward_gather_nd", (T(5), T(3, 4), ids(2, 5, high=3)), wrt=(0,), no_mxnet=OTHER_INPUTS),
]
