"""Cases of the operators that put new values into a copy of an array."""

from tests.cases import Case, T, ids

IN_PLACE = "MXNet's works in place only: its executor refuses it"
IMPERATIVE = "an imperative function in MXNet: its executor has no kernel for it"
NO_GRADIENT = "MXNet's has no gradient"
REPEATED = "indices that repeat: the last row wins, yet each receives the gradient"
STRIDED = {"begin": (0,), "end": (None,), "step": (2,), "scalar": 5.7}


def assign(begin, end, step, lhs, rhs, dtype="float32"):
    """The value, which MXNet has, and the gradient, which it has not."""
    params = {"begin": begin, "end": end} | ({"step": step} if step else {})
    inputs = (T(*lhs, dtype=dtype), T(*rhs, dtype=dtype))
    return [
        Case("_slice_assign", inputs, params, wrt=(), is_train=False),
        Case("_slice_assign", inputs, params, no_mxnet=NO_GRADIENT),
    ]


CASES = [
    # The draws of these places are distinct, but for the last, which tests/ops/indexing/test_slice_assign.py checks.
    Case("_contrib_index_copy", (T(9, 3), ids(2, high=9), T(2, 3)), wrt=(0, 2)),
    Case("_contrib_index_copy", (T(9), ids(2, high=9, dtype="int32"), T(2)), wrt=(0, 2)),
    Case("_contrib_index_copy", (T(9, dtype="float16"), ids(3, high=9), T(3, dtype="float16")), wrt=(0, 2)),
    Case("_contrib_index_copy", (T(5, 2), ids(4, high=2), T(4, 2)), wrt=(0, 2), not_derivative=REPEATED),
    Case("_scatter_set_nd", (T(5, 5), T(2), ids(2, 2, high=5)), {"shape": (5, 5)}, wrt=(0, 1), no_mxnet=IN_PLACE),
    Case(
        "_scatter_set_nd",
        (T(9, 2), T(2, 2), ids(1, 2, low=-9, high=9, dtype="int32")),
        {"shape": (9, 2)},
        wrt=(0, 1),
        no_mxnet=IN_PLACE,
    ),
    *assign((0, 1), (2, 3), (), (3, 4), (2, 2)),
    *assign((-2,), (None,), (), (3, 2, 2), (2, 2, 2)),
    *assign((None, 3), (None, None), (1, -2), (3, 4), (3, 2)),
    *assign((None, 4), (None, 1), (None, -1), (2, 6), (2, 3), "float64"),
    Case("_slice_assign_scalar", (T(3, 4),), {"begin": (0, 1), "end": (2, 3), "scalar": 0.5}, wrt=(), is_train=False),
    Case("_slice_assign_scalar", (T(3, 4),), {"begin": (0, 1), "end": (2, 3), "scalar": 0.5}, no_mxnet=NO_GRADIENT),
    Case("_slice_assign_scalar", (T(3, 4),), {"begin": (2,), "end": (1,), "scalar": 0.5}, wrt=(), is_train=False),
    Case("_slice_assign_scalar", (T(3, 4),), {"begin": (2,), "end": (1,), "scalar": 0.5}, no_mxnet=NO_GRADIENT),
    Case("_slice_assign_scalar", (T(5, 2, dtype="float16"),), STRIDED, wrt=(), is_train=False),
    Case("_slice_assign_scalar", (T(5, 2),), STRIDED, no_mxnet=NO_GRADIENT),
    Case("_slice_assign_scalar", (ids(5, high=9, dtype="int32"),), STRIDED, is_train=False),
    Case("fill_element_0index", (T(3, 4), T(3), ids(3, high=4)), wrt=(0, 1), no_mxnet=IMPERATIVE),
    Case(
        "fill_element_0index",
        (T(4, 3, dtype="float64"), T(4, dtype="float64"), ids(4, low=-2, high=5, dtype="int32")),
        wrt=(0, 1),
        no_mxnet=IMPERATIVE,
    ),
]
