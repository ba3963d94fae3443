"""Cases of the sums of products over named axes."""

from tests.cases import Case, T

_NO_HALF = "MXNet has no float16 kernel of it on a CPU"
_REPEATED = "MXNet's gradient of an axis that is repeated is wrong"
_SUBSCRIPTS = (
    *(("ij,jk", (2, 3), (3, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)), ("ij->ji", (2, 3)), ("ij->", (2, 3))),
    *(("ij,ij->i", (2, 3), (2, 3)), ("...i,...i->...", (2, 4, 3), (4, 3)), ("i,j,k->ijk", (2,), (3,), (4,))),
    *((",ij", (), (2, 3)), ("ij,kj,kl->il", (2, 3), (4, 3), (4, 2)), ("iij,j->ij", (2, 2, 3), (3,))),
    *(("ba", (2, 3)), ("i...->...", (2, 3, 4)), ("ij,jk->k", (2, 3), (3, 4))),
)


def _pair(*shapes: tuple[int, ...], dtype: str = "float32"):
    return tuple(T(*shape, dtype=dtype) for shape in shapes)


def _whole(*shapes: tuple[int, ...], dtype: str):
    return tuple(T(*shape, low=0, high=3, kind="integers", dtype=dtype) for shape in shapes)


CASES = [
    *[
        Case("_np_dot", _pair(*shapes))
        for shapes in (
            *(((), ()), ((), (2, 3)), ((2, 3), ()), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4))),
            *(((2, 4, 3), (3,)), ((2, 4, 3), (3, 2)), ((2, 4, 3), (2, 3, 2))),
        )
    ],
    *[
        Case("_npi_matmul", _pair(*shapes))
        for shapes in (
            *(((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 4, 3), (3,)), ((3,), (2, 3, 4))),
            *(((2, 4, 3), (3, 2)), ((5, 2, 3), (5, 3, 1))),
        )
    ],
    Case("_npi_matmul", _pair((2, 1, 2, 3), (4, 3, 2)), no_mxnet=_REPEATED),
    Case("_npi_matmul", _pair((2, 1, 2, 3), (4, 3, 2)), wrt=(1,), tag="right"),
    Case(
        "_npi_einsum",
        _pair((2, 1, 2, 3), (3, 3, 2)),
        {"num_args": 2, "subscripts": "b...ij,...jk->b...ik"},
        no_mxnet=_REPEATED,
    ),
    *[Case(op, _pair((2, 3), (3, 4), dtype="float64")) for op in ("_np_dot", "_npi_matmul")],
    *[Case(op, _pair((2, 0), (0, 3)), wrt=()) for op in ("_np_dot", "_npi_matmul")],
    *[Case(op, _pair((2, 3), (3, 4), dtype="float16"), no_mxnet=_NO_HALF) for op in ("_np_dot", "_npi_matmul")],
    *[
        Case("_npi_tensordot", _pair((2, 3, 4), (4, 3, 5)), {"a_axes_summed": a, "b_axes_summed": b})
        for a, b in (((1, 2), (1, 0)), ((-1,), (0,)))
    ],
    *[
        Case("_npi_tensordot_int_axes", _pair(a, b), {"axes": axes})
        for axes, a, b in ((0, (2,), (3, 2)), (1, (2, 3), (3, 2)), (2, (2, 3), (2, 3)), (2, (4, 2, 3), (2, 3, 2)))
    ],
    *[
        Case("_npi_einsum", _pair(*shapes), {"num_args": len(shapes), "subscripts": subscripts})
        for subscripts, *shapes in _SUBSCRIPTS
    ],
    *[
        Case("_npi_einsum", _whole((2, 3), (3, 4), dtype=dtype), {"num_args": 2, "subscripts": "ij,jk->ik"})
        for dtype in ("int32", "bool", "int8")
    ],
]
