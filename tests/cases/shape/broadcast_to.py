"""Cases of broadcasting to a shape, and of the sum that undoes it."""

from tests.cases import Case, T

OURS = "an operator of ours: the gradient of every broadcast"

CASES = [
    Case("broadcast_to", (T(1, 3),), {"shape": (2, 3)}),
    Case("broadcast_to", (T(1, 3, 1),), {"shape": (2, 0, 4)}),
    Case("broadcast_to", (T(2, 3),), {"shape": (2, 3)}),
    Case("broadcast_to", (T(1, 3, dtype="float16"),), {"shape": (2, 0)}),
    Case("broadcast_axis", (T(1, 3),), {"axis": 0, "size": 2}),
    Case("broadcast_axis", (T(1, 3, 1),), {"axis": (0, 2), "size": (2, 4)}),
    Case("broadcast_axis", (T(1, 3, 1),), {"axis": (2, 2), "size": (1, 4)}),
    Case("broadcast_axis", (T(1, 3, 1),), {"axis": 2, "size": 0}, wrt=()),
    Case("broadcast_axis", (T(1, 3, 1),), {"axis": -1, "size": 2}, no_mxnet="MXNet refuses negative axes"),
    Case("broadcast_like", (T(1, 3), T(2, 3))),
    Case("broadcast_like", (T(1, 3, 1), T(2, 3, 2))),
    Case("broadcast_like", (T(2, 1), T(4, 3, 5)), {"lhs_axes": (1,), "rhs_axes": (-1,)}),
    Case("broadcast_like", (T(1, 3, 1), T(4, 5)), {"lhs_axes": (0, 2), "rhs_axes": (1, 0)}),
    Case("broadcast_like", (T(1, 1), T(3)), {"lhs_axes": (-1, -1), "rhs_axes": (0, 0)}),
    Case("broadcast_like", (T(2, 1, 1), T(3, 2)), {"lhs_axes": (2, -2, 2), "rhs_axes": (-1, 1, 0)}),
    Case("broadcast_like", (T(3), T(2, 3)), no_mxnet="MXNet wants equal ranks"),
    Case("_sum_like", (T(2, 3), T(1, 3)), no_mxnet=OURS),
    Case("_sum_like", (T(2, 3), T(2, 3)), no_mxnet=OURS),
    Case("_sum_like", (T(2, 3, 4), T(3, 1)), no_mxnet=OURS),
    Case("_sum_like", (T(2, 3), T(1)), no_mxnet=OURS),
    Case("_npi_broadcast_to", (T(3),), {"shape": (2, 3)}),
    Case("_npi_broadcast_to", (T(2, 1),), {"shape": (4, -2, 3)}),
    Case("_npi_broadcast_to", (T(),), {"shape": (2, 2)}),
    Case("_npi_broadcast_to", (T(1, 3),), {"shape": (0, 3)}, wrt=()),
]
