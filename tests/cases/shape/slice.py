"""Cases of the operators that cut, reverse and pad."""

from tests.cases import NO_EMPTY_HEADS, OTHER_INPUTS, Case, T

CASES = [
    Case("slice_axis", (T(4, 5),), {"axis": 0, "begin": 1, "end": 3}),
    Case("slice_axis", (T(4, 5),), {"axis": 1, "begin": 2, "end": None}),
    Case("slice_axis", (T(4, 5),), {"axis": -1, "begin": -3, "end": -1}),
    Case("slice_axis", (T(2, 4, 3),), {"axis": -2, "begin": 0, "end": 4}),
    Case("slice", (T(4, 5),), {"begin": (1,), "end": (3,)}),
    Case("slice", (T(4, 5),), {"begin": (1, 0), "end": (4, -1)}),
    Case("slice", (T(4, 5),), {"begin": (None, 1), "end": (None, 9)}),
    Case("slice", (T(4, 5),), {"begin": (0, 0), "end": (4, 5), "step": (2, 3)}),
    Case("slice", (T(4, 5),), {"begin": (None, -1), "end": (None, None), "step": (None, -2)}),
    Case("slice", (T(4, 5),), {"begin": (-1, 3), "end": (0, None), "step": (-1, -1)}),
    Case("slice", (T(6, 2, 3),), {"begin": (-3,), "end": (None,), "step": (1,)}),
    Case("slice", (T(4, 5, dtype="int64", kind="integers", low=0, high=99),), {"begin": (1,), "end": (3,)}),
    Case("slice_like", (T(4, 5), T(2, 3))),
    Case("slice_like", (T(4, 5), T(4, 5))),
    Case("slice_like", (T(4, 5), T(2, 7, 9)), {"axes": (0,)}),
    Case("slice_like", (T(4, 2, 5), T(3, 2, 2)), {"axes": (-1, 0)}),
    # negative axes are counted from the end of data, and are the same axis of shape_like from the front
    Case("slice_like", (T(5, 7, 4), T(2, 3)), {"axes": (-2,)}),
    Case("slice_like", (T(4, 5), T(1, 2, 3)), {"axes": (0, -1)}),
    Case("slice_like", (T(4, 4, 5), T(1, 3, 1)), {"axes": (-1, -1, 1)}),
    Case("slice_like", (T(3), T(2, 3, 1)), {"axes": (0, -1, 0)}),
    # nothing is kept
    Case("slice", (T(2, 4, 3),), {"begin": (None, -1, None), "end": (1, 1, -1)}, wrt=()),
    Case("slice", (T(4, 3),), {"begin": (1,), "end": (3,), "step": (-2,)}, wrt=()),
    Case("slice", (T(2, 4),), {"begin": (0, 2), "end": (2, 2)}, no_mxnet=NO_EMPTY_HEADS),
    Case("reverse", (T(3, 4),), {"axis": 0}),
    Case("reverse", (T(2, 3, 4),), {"axis": (0, 2)}),
    *(Case("reverse", (T(3, 4),), {"axis": axis}) for axis in ((0, 0), (1, 0, 1, 0, 1))),
    Case("reverse", (T(3, 4),), {"axis": -1}, no_mxnet="MXNet refuses negative axes"),
    Case("Pad", (T(1, 2, 3, 3),), {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 2, 0, 1)}),
    Case("Pad", (T(1, 2, 2, 2),), {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 1, 1, 1), "constant_value": 3.5}),
    Case("Pad", (T(1, 2, 3, 4),), {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}),
    Case("Pad", (T(1, 2, 3, 4),), {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}),
    Case("Pad", (T(1, 1, 2, 3, 3),), {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 1, 0, 2, 1, 0)}),
    Case("Pad", (T(1, 1, 2, 3, 3),), {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 1, 0, 2, 1, 0)}),
    Case("Pad", (T(1, 1, 2, 3, 3),), {"mode": "constant", "pad_width": (0, 0, 0, 0, 1, 1, 0, 2, 1, 0)}),
    Case(
        "Pad",
        (T(2, 3),),
        {"mode": "reflect", "pad_width": (1, 0, 2, 2)},
        no_mxnet="MXNet pads 4-D and 5-D data only, and not its first two axes",
    ),
    Case("_backward_slice_axis", (T(2, 5), T(4, 5)), {"axis": 0, "begin": 1, "end": 3}, no_mxnet=OTHER_INPUTS),
    Case(
        "_backward_slice", (T(2, 2), T(4, 5)), {"begin": (0, -1), "end": (4, 0), "step": (2, -2)}, no_mxnet=OTHER_INPUTS
    ),
    Case("_backward_slice", (T(2, 0), T(2, 5)), {"begin": (None, 3), "end": (None, 2)}, no_mxnet=OTHER_INPUTS),
    Case("_backward_slice_like", (T(2, 3), T(4, 5)), no_mxnet=OTHER_INPUTS),
    Case("_backward_Pad", (T(4, 7),), {"mode": "reflect", "pad_width": (1, 1, 0, 3)}, no_mxnet=OTHER_INPUTS),
    Case("_backward_Pad", (T(4, 7),), {"mode": "edge", "pad_width": (1, 1, 0, 3)}, no_mxnet=OTHER_INPUTS),
    Case("_backward_Pad", (T(4, 7),), {"mode": "constant", "pad_width": (1, 1, 0, 3)}, no_mxnet=OTHER_INPUTS),
    Case("_npi_flip", (T(2, 3, 4),), {"axis": (0, 2)}),
    *(Case("_npi_flip", (T(2, 3),), {"axis": axis}) for axis in ((1,), None)),
]
