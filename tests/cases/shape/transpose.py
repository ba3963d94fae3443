"""Cases of the operators that add, drop and permute axes."""

from tests.cases import Case, T

CASES = [
    Case("expand_dims", (T(2, 3),), {"axis": 0}),
    Case("expand_dims", (T(2, 3),), {"axis": 1}),
    Case("expand_dims", (T(2, 3),), {"axis": 2}),
    Case("expand_dims", (T(2, 3),), {"axis": -1}),
    Case("expand_dims", (T(2, 3),), {"axis": -2}),
    Case("expand_dims", (T(1),), {"axis": 0}),
    Case("squeeze", (T(1, 2, 1, 3),)),
    Case("squeeze", (T(1, 2, 1, 3),), {"axis": 0}),
    Case("squeeze", (T(1, 2, 1, 3),), {"axis": -2}),
    Case("squeeze", (T(1, 2, 1, 3),), {"axis": (2, 0)}),
    Case("squeeze", (T(1, 1),)),
    Case("transpose", (T(2, 3, 4),)),
    Case("transpose", (T(3),)),
    Case("transpose", (T(2, 3),), {"axes": (1, 0)}),
    Case("transpose", (T(2, 3, 4),), {"axes": (1, 2, 0)}),
    Case("transpose", (T(2, 3, 2, 2),), {"axes": (0, 2, 3, 1)}),
    Case("transpose", (T(2, 3, 4),), {"axes": (-1, 0, 1)}, no_mxnet="MXNet refuses negative axes"),
    Case("transpose", (T(2, 3, dtype="int8", kind="integers", low=-9, high=9),)),
    Case("SwapAxis", (T(2, 3, 4),), {"dim1": 0, "dim2": 2}),
    Case("SwapAxis", (T(2, 3, 4),), {"dim1": -1, "dim2": 1}),
    Case("SwapAxis", (T(2, 3),)),
    Case("depth_to_space", (T(2, 8, 1, 3),), {"block_size": 2}),
    Case("depth_to_space", (T(1, 9, 2, 1),), {"block_size": 3}),
    Case("space_to_depth", (T(2, 2, 4, 6),), {"block_size": 2}),
    Case("space_to_depth", (T(1, 2, 3, 3),), {"block_size": 3}),
]
