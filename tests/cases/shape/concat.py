"""Cases of the operators that join and split arrays."""

from tests.cases import NO_EMPTY_HEADS, OTHER_INPUTS, Case, T

NO_AXES = "MXNet's head gradients have axes"


_WHOLE = T(2, dtype="int64", kind="integers", high=9)

CASES = [
    Case("Concat", (T(2, 3), T(2, 1))),
    Case("Concat", (T(2, 3), T(1, 3), T(3, 3)), {"dim": 0}),
    Case("Concat", (T(2, 3, 2), T(2, 3, 1)), {"dim": -1}),
    Case("Concat", (T(2, 3),)),
    Case("Concat", (T(2, 3, dtype="float16"), T(2, 2, dtype="float16"))),
    Case(
        "Concat",
        (T(2, dtype="int32", kind="integers", high=9), T(3, dtype="int32", kind="integers", high=9)),
        {"dim": 0},
    ),
    Case("_rnn_param_concat", (T(4), T(6), T(2)), {"dim": 0}),
    Case("stack", (T(2, 3), T(2, 3))),
    Case("stack", (T(2, 3), T(2, 3), T(2, 3)), {"axis": 1}),
    Case("stack", (T(2, 3), T(2, 3)), {"axis": -1}),
    Case("stack", (T(3),)),
    Case("SliceChannel", (T(2, 6),), {"num_outputs": 3}),
    Case("SliceChannel", (T(4, 2),), {"num_outputs": 2, "axis": 0}),
    Case("SliceChannel", (T(2, 3, 4),), {"num_outputs": 2, "axis": -1}),
    Case("SliceChannel", (T(2, 3, 4),), {"num_outputs": 3, "axis": 1, "squeeze_axis": True}),
    Case("SliceChannel", (T(2, 3),), {"num_outputs": 1}),
    # numbers without axes
    Case("SliceChannel", (T(3),), {"num_outputs": 3, "axis": 0, "squeeze_axis": True}, no_mxnet=NO_AXES),
    Case("SliceChannel", (T(1),), {"num_outputs": 1, "axis": 0, "squeeze_axis": True}, wrt=()),
    Case("_split_v2", (T(7, 2),), {"indices": (0, 2, 5), "axis": 0}),
    Case("_split_v2", (T(2, 6),), {"indices": (), "axis": 1, "sections": 3}),
    Case("_split_v2", (T(2, 8),), {"indices": (), "axis": 1, "sections": 3}),
    Case("_split_v2", (T(5),), {"indices": (), "axis": 0, "sections": 4}),
    # parts without elements
    Case("_split_v2", (T(2, 3),), {"indices": (), "axis": 0, "sections": 4}, wrt=()),
    Case("_split_v2", (T(4, 2),), {"indices": (0, 0, 4), "axis": 0}, wrt=()),
    Case("_split_v2", (T(4, 2),), {"indices": (0, 3, 3), "axis": 0}, no_mxnet=NO_EMPTY_HEADS),
    Case("_split_v2", (T(2, 3),), {"indices": (), "axis": -1, "sections": 3, "squeeze_axis": True}),
    Case("_split_v2", (T(2, 3),), {"indices": (0, 1, 2), "axis": 1, "squeeze_axis": True}),
    Case("_split_v2", (T(3),), {"indices": (0, 1, 2), "axis": 0, "squeeze_axis": True}, wrt=()),
    Case("_backward_Concat", (T(2, 5), T(2, 3), T(2, 2)), no_mxnet=OTHER_INPUTS),
    # as NumPy joins and splits
    Case("_npi_concatenate", (T(2, 3), T(1, 3)), {"axis": 0}),
    Case("_npi_concatenate", (T(2, 3), T(2, 0), T(2, 1)), {"axis": -1}, wrt=(0, 2)),
    Case("_npi_concatenate", (T(2, 3), T(4)), {"axis": None}),
    Case("_npi_concatenate", (_WHOLE, _WHOLE), {"axis": 0}),
    Case("_npi_stack", (T(2, 3), T(2, 3))),
    Case("_npi_stack", (T(2, 3), T(2, 3)), {"axis": -1}),
    Case("_npi_stack", (T(), T(), T())),
    *[
        Case(op, inputs)
        for op in ("_npi_hstack", "_npi_vstack", "_npi_dstack", "_npi_column_stack")
        for inputs in ((T(3), T(3)), (T(), T()), (T(2, 3), T(2, 3)), (T(2, 3, 2), T(2, 3, 2)))
    ],
    Case("_npi_column_stack", (T(2), T(2, 3))),
    Case("_npi_vstack", (T(3), T(2, 3))),
    Case("_npi_hsplit", (T(2, 6),), {"indices": (0, 2, 3), "axis": 1}),
    Case("_npi_hsplit", (T(6),), {"indices": (), "sections": 3}),
    Case("_npi_dsplit", (T(2, 2, 4),), {"indices": (), "axis": 2, "sections": 2}),
    Case("_npi_dsplit", (T(2, 2, 4),), {"indices": (0, 3), "axis": 2}),
]
