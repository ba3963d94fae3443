"""Cases of the functions of two broadcast arrays, and of where."""

from tests.cases import Case, T

_HALF = "float16 has 11 bits, and MXNet rounds its intermediate results differently"
_TIES = "elements tie, where there is no derivative"

_ARITHMETIC = (
    *("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_hypot", "broadcast_mod"),
    *("broadcast_maximum", "broadcast_minimum"),
)
_TRUTH = (
    *("broadcast_equal", "broadcast_not_equal", "broadcast_greater", "broadcast_greater_equal", "broadcast_lesser"),
    *("broadcast_lesser_equal", "broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor"),
)
_SHAPES = [((2, 3), (2, 3)), ((2, 3), (1, 3)), ((2, 1), (2, 3)), ((2, 1), (1, 3))]
_MORE_SHAPES = [
    *(((1,), (2, 3)), ((2, 3), (3,)), ((2, 3, 4), (3, 1)), ((1, 3, 1), (2, 1, 4)), ((1, 1), (1, 1))),
    *(((4,), (2, 1, 1)), ((2, 3, 2, 2), (1, 3, 1, 1)), ((1, 2, 1, 2, 1), (2, 1, 2, 1, 2))),
]


def _apart(left: tuple[int, ...], right: tuple[int, ...], dtype: str = "float32"):
    """Elements that differ: of both signs, the right smaller than the left."""
    return (
        T(*left, low=1.0, high=2.0, kind="signs", dtype=dtype),
        T(*right, low=0.3, high=0.9, kind="signs", dtype=dtype),
    )


def _powers(left: tuple[int, ...], right: tuple[int, ...], dtype: str = "float32"):
    return T(*left, low=0.3, high=2.0, dtype=dtype), T(*right, low=-2.0, high=2.0, dtype=dtype)


def _whole(left: tuple[int, ...], right: tuple[int, ...], dtype: str = "int32"):
    return (
        T(*left, low=-3, high=4, kind="integers", dtype=dtype),
        T(*right, low=-3, high=4, kind="integers", dtype=dtype),
    )


def _condition(*shape: int, dtype: str = "float32"):
    return T(*shape, low=0, high=2, kind="integers", dtype=dtype)


CASES = [
    *[Case(op, _apart(*shapes)) for op in _ARITHMETIC for shapes in _SHAPES],
    *[Case("broadcast_power", _powers(*shapes)) for shapes in _SHAPES],
    *[Case(op, _apart(*shapes)) for op in ("broadcast_add", "broadcast_mul") for shapes in _MORE_SHAPES],
    *[Case(op, _apart(*shapes)) for op in ("broadcast_div", "broadcast_maximum") for shapes in _MORE_SHAPES[:4]],
    *[Case("broadcast_power", _powers(*shapes)) for shapes in _MORE_SHAPES[:3]],
    *[Case(op, _apart((2, 1), (3,), dtype="float64")) for op in (*_ARITHMETIC, "broadcast_equal")],
    *[
        Case(op, _apart((2, 1), (1, 3), dtype="float16"), rtol=2e-3, rtol_reason=_HALF)
        for op in (*_ARITHMETIC, *_TRUTH)
        if op != "broadcast_mod"
    ],
    *[Case(op, _apart((2, 3), (1, 3))) for op in _TRUTH],
    # ties and zeros
    *[
        Case(op, _whole((4, 5), (1, 5), dtype="float32"), not_derivative=_TIES)
        for op in ("broadcast_maximum", "broadcast_minimum", *_TRUTH)
    ],
    # integers
    *[
        Case(op, _whole((4, 1), (1, 5), dtype=dtype))
        for op in ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_mod", "broadcast_maximum", *_TRUTH)
        for dtype in ("int32", "int8")
    ],
    Case(
        "broadcast_div",
        (T(5, 1, low=-9, high=9, kind="integers", dtype="int32"), T(4, low=1, high=4, kind="integers", dtype="int32")),
    ),
    # where
    *[
        Case("where", (_condition(3, 2, dtype=dtype), T(3, 2), T(3, 2)))
        for dtype in ("float32", "float64", "int32", "uint8")
    ],
    Case("where", (_condition(3), T(3, 2, 2), T(3, 2, 2))),
    Case("where", (_condition(4, dtype="int8"), T(4), T(4))),
    Case("where", (_condition(2, 1, 3), T(2, 1, 3, dtype="float16"), T(2, 1, 3, dtype="float16"))),
    Case("where", (_condition(5), *_whole((5, 2), (5, 2)))),
    # where as NumPy has it
    Case("_npi_where", (_condition(3, 1, dtype="int32"), T(3, 2), T(2))),
    Case("_npi_where", (_condition(3), T(), T(2, 1))),
    Case("_npi_where", (_condition(2, 0), T(1), T(2, 1)), wrt=(), no_mxnet="MXNet ends the process"),
    *[
        Case(op, (_condition(3, 1), T(3, 2)), {"scalar": 2.5}, no_mxnet="MXNet's gradient is that of the other branch")
        for op in ("_npi_where_lscalar", "_npi_where_rscalar")
    ],
    *[
        Case(op, (_condition(2, 3, dtype=kind), T(3, dtype=kind, kind="integers", high=9)), {"scalar": 2.5}, wrt=())
        for op in ("_npi_where_lscalar", "_npi_where_rscalar")
        for kind in ("float32", "int32")
    ],
    Case("_npi_where_scalar2", (_condition(2, 3),), {"x": 2.5, "y": -1.0}),
]
