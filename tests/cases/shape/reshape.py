"""Cases of the operators that put the same elements in another shape."""

from tests.cases import Case, T

CASES = [
    *(Case("Reshape", (T(2, 3, 4),), {"shape": shape}) for shape in ((4, 6), (0, -1), (-1, 0))),
    Case("Reshape", (T(10, 5, 4),), {"shape": (-1, 0), "reverse": True}),
    *(Case("Reshape", (T(2, 3, 4),), {"shape": shape}) for shape in ((-1,), (-2,), (2, -2), (-2, 1, 1), (-3, 4))),
    Case("Reshape", (T(2, 3, 2, 2),), {"shape": (-3, -3)}),
    *(Case("Reshape", (T(2, 3, 4),), {"shape": shape}) for shape in ((0, -3), (-3, -2), (-4, 1, 2, -2))),
    Case("Reshape", (T(2, 3, 4),), {"shape": (2, -4, -1, 3, -2)}),
    Case("Reshape", (T(4, 3),), {"shape": (-4, 2, -1, 0)}),
    Case("Reshape", (T(6, 3, 4),), {"shape": (0, 0, 2, 2, -4), "reverse": True}),
    Case("Reshape", (T(6, 3, 4),), {"shape": (2, -1, -4, 0, 0), "reverse": True}),
    *(Case("Reshape", (T(2, 3, 4),), {"shape": shape, "reverse": True}) for shape in ((-2, 4), (2, -3))),
    Case(
        "Reshape",
        (T(2, 3, 4),),
        {"shape": (-4, 1, 2, -1)},
        no_mxnet="MXNet writes the inferred dimension in the wrong place after -4, and beyond its memory",
    ),
    Case("Reshape", (T(2, 6),), {"target_shape": (3, 0)}),
    Case("Reshape", (T(2, 6),), {"target_shape": (9, 0, 3), "keep_highest": True}),
    Case("Reshape", (T(2, 3, dtype="int32", kind="integers", low=-9, high=9),), {"shape": (3, 2)}),
    *(Case("Flatten", (given,)) for given in (T(2, 3, 4), T(2, 3), T(3), T(2, 3, 1, 2, dtype="float16"))),
    Case("reshape_like", (T(2, 6), T(3, 4))),
    Case("reshape_like", (T(24), T(4, 2, 3))),
    Case("reshape_like", (T(2, 6), T(4, 2, 3)), {"lhs_begin": 1, "rhs_begin": 1}),
    Case("reshape_like", (T(30, 7), T(15, 2, 4)), {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2}),
    Case("reshape_like", (T(2, 6, 5), T(3, 2, 4)), {"lhs_begin": -2, "lhs_end": -1, "rhs_begin": 0, "rhs_end": -1}),
    Case("shape_array", (T(2, 3, 4),)),
    Case("size_array", (T(2, 3, 4),)),
    Case("_np_reshape", (T(2, 3),), {"newshape": (3, -1)}),
    Case("_np_reshape", (T(2, 3),), {"newshape": (6,), "order": "C"}),
    Case("_np_reshape", (T(1, 1),), {"newshape": ()}),
    Case("_np_reshape", (T(),), {"newshape": (1, -1)}),
    Case("_np_reshape", (T(2, 0),), {"newshape": (0, 5)}, wrt=()),
    Case("_np_reshape", (T(2, 0, dtype="int64", kind="integers", high=9),), {"newshape": (3, -1)}),
    *(Case("_npx_reshape", (T(2, 3, 4),), {"newshape": newshape}) for newshape in ((-2, -1), (-5, -4))),
    Case("_npx_reshape", (T(2, 6, 1, 4),), {"newshape": (-2, -6, 2, -1, -3, -4)}),
    Case("_npx_reshape", (T(2, 1, 3),), {"newshape": (-2, -3, -2)}),
    Case("_npx_reshape", (T(8, 3, 3, 3, 4, 4),), {"newshape": (-6, 2, -1, -4)}),
    Case("_npx_reshape", (T(8, 3, 4),), {"newshape": (-4, -1, 2, -6), "reverse": True}),
    Case("_npx_reshape", (T(2, 3, 4),), {"newshape": (-1, -2), "reverse": True}),
    Case("_npx_reshape", (T(0, 3),), {"newshape": (-2, 3)}, wrt=()),
    Case("_npx_reshape", (T(2, 3),), {"newshape": (3, 2)}),
    *[
        Case(f"_np_atleast_{ndim}d", inputs, no_mxnet="MXNet's gradient is zero")
        for ndim in (1, 2, 3)
        for inputs in ((T(), T(3)), (T(2, 3), T(2, 1, 2, 2)))
    ],
    *[Case(f"_np_atleast_{ndim}d", (T(), T(2), T(2, 3)), wrt=()) for ndim in (1, 2, 3)],
    Case("_np_copy", (T(2, 3),)),
    Case("_np_copy", (T(),)),
    Case("_npi_share_memory", (T(2, 3), T(2, 3)), wrt=()),
]
