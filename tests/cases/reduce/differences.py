"""Cases of the differences of neighbours."""

from tests.cases import Case, T

_BEGIN, _END = {"to_begin_arr_given": True}, {"to_end_arr_given": True}

CASES = [
    *[
        Case("_npi_diff", (T(*shape),), params)
        for shape, params in (((2, 4), {}), ((4, 2), {"n": 2, "axis": 0}), ((2, 4, 3), {"axis": 1}), ((3,), {"n": 0}))
    ],
    Case("_npi_diff", (T(2),), {"n": 3}, wrt=()),
    Case("_npi_diff", (T(5, low=-9, high=9, kind="integers", dtype="int32"),), {"n": 2}),
    *[
        Case("_npi_ediff1d", tuple(T(*shape) for shape in shapes), params)
        for shapes, params in (
            (((2, 3),), {}),
            (((3,), (2,), (1,)), {**_BEGIN, **_END}),
            (((3,), (2,)), _BEGIN),
            (((3,), (2,)), {**_END, "to_begin_scalar": 3.0}),
        )
    ],
    Case("_npi_ediff1d", (T(4),), {"to_begin_scalar": 9.5, "to_end_scalar": -1.0}),
    Case("_npi_ediff1d", (T(4, low=-9, high=9, kind="integers", dtype="int32"),), {"to_begin_scalar": 9.5}),
    Case("_npi_ediff1d", (T(0),), wrt=()),
]
