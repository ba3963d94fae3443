"""Cases of the operators that order elements."""

from tests.cases import Case, T

OURS = "not an operator of MXNet"
NO_AXIS = "MXNet's gradient fails when no axis is given"
NO_HALF = "MXNet does not order float16"


def spread(*shape: int, dtype: str = "float32"):
    return T(*shape, kind="spread", dtype=dtype)


def ties(*shape: int, dtype: str = "float32"):
    return T(*shape, kind="integers", low=0, high=3, dtype=dtype)


def _topk():
    # Indices and masks have no gradient: one case of each says so.
    for ret_typ, wrt in (("value", None), ("mask", ()), ("indices", ())):
        yield Case("topk", (spread(2, 4),), {"ret_typ": ret_typ, "k": 2})
        yield Case("topk", (spread(2, 4, 2),), {"ret_typ": ret_typ, "k": 3, "axis": 1, "is_ascend": True}, wrt=wrt)
        yield Case("topk", (spread(2, 3),), {"ret_typ": ret_typ, "k": 4, "axis": None}, wrt=wrt)
        yield Case("topk", (spread(3, 2),), {"ret_typ": ret_typ, "k": 0, "axis": 0}, wrt=wrt)
    yield Case("topk", (spread(2, 4),), {"ret_typ": "both", "k": 2, "axis": 0, "is_ascend": True})
    yield Case("topk", (spread(2, 3),), {"ret_typ": "both", "k": 0, "axis": None})


CASES = [
    Case("sort", (spread(3, 4),), no_mxnet=NO_AXIS),
    Case("sort", (spread(3, 4),), wrt=(), is_train=False, tag="value"),
    Case("sort", (spread(3, 4),), {"axis": -1, "is_ascend": False}),
    Case("sort", (spread(2, 4, 2),), {"axis": 1}),
    Case("sort", (spread(2, 3),), {"axis": None, "is_ascend": False}),
    Case("sort", (spread(2, 4, dtype="float64"),), {"axis": 1}),
    Case("sort", (spread(2, 4, dtype="float16"),), {"axis": 1}, no_mxnet=NO_HALF),
    Case("sort", (ties(2, 6, dtype="uint8"),), {"is_ascend": False}),
    Case("sort", (T(2, 6, kind="integers", low=-128, high=128, dtype="int8"),), {"is_ascend": False}),
    Case("argsort", (spread(3, 4),)),
    Case("argsort", (spread(2, 3, 2),), {"axis": 1, "is_ascend": False, "dtype": "int32"}),
    Case("argsort", (spread(2, 3),), {"axis": None, "dtype": "float64"}),
    Case("argsort", (ties(2, 8),), {"axis": 1}, wrt=(), tag="ties"),
    Case("argsort", (ties(2, 8, dtype="int64"),), {"is_ascend": False, "dtype": "uint8"}, tag="ties"),
    *_topk(),
    Case("topk", (spread(2, 4),), wrt=()),
    Case("topk", (spread(2, 4),), {"k": 2, "ret_typ": "both", "dtype": "int32"}),
    Case("topk", (spread(2, 4, dtype="float64"),), {"k": 2, "ret_typ": "value", "axis": 0, "dtype": "uint8"}),
    Case("topk", (spread(2, 6, dtype="float16"),), {"k": 3, "ret_typ": "both", "dtype": "float16"}),
    Case("topk", (ties(2, 8),), {"k": 3}, wrt=(), tag="ties"),
    Case("topk", (ties(2, 8, dtype="uint8"),), {"k": 3, "ret_typ": "both", "is_ascend": True, "dtype": "int64"}),
    Case("_take_along_axis", (T(2, 4), T(2, 6, kind="integers", low=0, high=4)), {"axis": 1}, wrt=(0,), no_mxnet=OURS),
    Case(
        "_take_along_axis",
        (T(3, 2), T(5, 2, kind="integers", low=0, high=3, dtype="int32")),
        {"axis": 0},
        wrt=(0,),
        no_mxnet=OURS,
    ),
]
