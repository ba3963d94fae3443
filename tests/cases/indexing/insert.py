"""Cases of delete and insert."""

from tests.cases import Case, T, ids

_PLACES = ids(3, low=0, high=4, dtype="int64")

_NO_SHAPE = "MXNet's executor has no results of unknown shapes; tests/ops/indexing/test_insert.py has MXNet's"

CASES = [
    Case("_npi_delete", (T(2, 3),), {"int_ind": 1, "axis": 1}, no_mxnet=_NO_SHAPE),
    Case("_npi_delete", (T(2, 3),), {"int_ind": -1}, no_mxnet=_NO_SHAPE),
    Case("_npi_delete", (T(2, 5),), {"start": 1, "stop": 4, "step": 2, "axis": -1}, no_mxnet=_NO_SHAPE),
    Case("_npi_insert_scalar", (T(2, 3),), {"val": 2.5, "int_ind": -1}, wrt=()),
    Case("_npi_insert_scalar", (T(2, 3), T(2, 2)), {"int_ind": 1, "axis": 1}, wrt=()),
    Case("_npi_insert_scalar", (T(2, 3), T(2)), {"int_ind": 3}, wrt=()),
    Case("_npi_insert_slice", (T(2, 3), T(2, 2)), {"start": 0, "stop": 2, "step": 1, "axis": 1}, wrt=()),
    Case("_npi_insert_slice", (T(2, 3), T(2, 2)), {"start": 1, "stop": 2, "step": 1, "axis": 1}, wrt=()),
    Case("_npi_insert_tensor", (T(2, 4), T(3), _PLACES), {"axis": 1}, wrt=()),
    Case("_npi_insert_tensor", (T(4), _PLACES), {"val": 2.5}, wrt=(), no_mxnet="MXNet wants float64 there"),
    Case("_npi_insert_tensor", (T(2, 3), T(1, 3), ids(1, high=2, dtype="int64")), {"axis": 0}, wrt=()),
]
