"""Cases of the operators that count along an array's axes."""

from tests.cases import Case, T

CASES = [
    Case("_contrib_arange_like", (T(2, 3),)),
    Case("_contrib_arange_like", (T(2, 3),), {"axis": 1, "start": 2, "step": -0.5}),
    Case("_contrib_arange_like", (T(2, 3, 2),), {"axis": -3, "start": 1.5}),
    Case("_contrib_arange_like", (T(2, 5),), {"repeat": 3}),
    Case("_contrib_arange_like", (T(2, 5, dtype="float64"),), {"repeat": 2, "axis": 1, "step": 0.1}),
    Case("_contrib_arange_like", (T(2, 5, dtype="float16"),), {"axis": 1, "step": -2.0, "start": 3}),
    Case(
        "_contrib_arange_like",
        (T(2, 5, dtype="float16"),),
        {"axis": 1, "start": 0.5, "step": 0.25},
        no_mxnet="MXNet truncates start and step of a float16 range",
    ),
    Case("_contrib_arange_like", (T(5, dtype="int32"),), {"start": 2.7, "step": -1.5}),
    Case("_contrib_arange_like", (T(5, low=0, dtype="uint8"),), {"step": -1.0}),
    Case("_contrib_index_array", (T(2, 3),)),
    Case("_contrib_index_array", (T(2, 3, dtype="float16"),), {"axes": (-1, 0)}),
    Case("_contrib_index_array", (T(2, 3, 2, dtype="int32"),), {"axes": (1, 1, 2)}),
    Case("_contrib_index_array", (T(3),)),
]
