"""Cases of diag."""

from tests.cases import NO_EMPTY_HEADS, Case, T

CASES = [
    Case("diag", (T(3),)),
    Case("diag", (T(3),), {"k": 2}),
    Case("diag", (T(3),), {"k": -1, "axis1": 5}),
    Case("diag", (T(3, 4),)),
    Case("diag", (T(3, 4),), {"k": 4}, wrt=()),
    Case("diag", (T(2, 3, 4),), {"k": -2, "axis1": 0, "axis2": 1}, wrt=()),
    Case("diag", (T(3, 4),), {"k": -3}, no_mxnet=NO_EMPTY_HEADS),
    Case("diag", (T(3, 5, dtype="float64"),), {"k": 2}),
    Case("diag", (T(5, 3, dtype="float16"),), {"k": -1}),
    Case("diag", (T(2, 3, 4),), {"axis1": 2, "axis2": 0, "k": 1}),
    Case("diag", (T(2, 2, 3, 3),), {"axis1": -1, "axis2": 1}),
    Case("diag", (T(3, 3, kind="integers", high=9, dtype="int32"),), {"k": -2}),
    *[Case("_np_diag", (T(2, 3),), {"k": k}) for k in (0, 1, -1)],
    Case("_np_diag", (T(2, 3),), {"k": 5}, wrt=()),
    Case("_np_diag", (T(3),), {"k": -1}),
    *[Case("_np_diagonal", (T(2, 3, 4),), p) for p in ({}, {"offset": 1, "axis1": -1, "axis2": 0}, {"offset": -1})],
    *[Case("_np_diagflat", (T(2, 2),), {"k": k}) for k in (0, 2, -1)],
    *[Case("_npi_tril", (T(2, 3, 4),), {"k": k}) for k in (0, 1, -2)],
    Case("_npi_tril", (T(3),)),
    Case("_npi_diag_indices_from", (T(3, 3),), wrt=()),
]
