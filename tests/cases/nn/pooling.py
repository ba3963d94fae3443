"""Cases of pooling: types, conventions, padding, ranks, layouts, global windows."""

from typing import Any

from tests.cases import Case, T

_ENDS = "oneDNN's backward kernel divides by the whole window where its forward kernel divides by the part inside"
_SAME = "MXNet's checks of `same` want three paddings and its kernels refuse them"
_RANGE = {"low": 0.2, "high": 1.2}


def _pool(shape: tuple[int, ...], pool_type: str, kernel: tuple[int, ...] | None = None, **given: Any) -> Case:
    """A case; data are distinct for maxima and away from zero for norms."""
    fields = {name: given.pop(name) for name in ("no_mxnet", "wrt", "tag") if name in given}
    dtype = given.pop("dtype", "float32")
    if pool_type == "max":
        data = T(*shape, kind="spread", dtype=dtype)
    else:
        data = T(*shape, dtype=dtype, **(_RANGE if pool_type == "lp" else {}))
    params = ({"kernel": kernel} if kernel else {}) | {"pool_type": pool_type} | given
    return Case("Pooling", (data,), params, **fields)


def _types(shape: tuple[int, ...], kernel: tuple[int, ...], **given: Any) -> list[Case]:
    """The same windows for every type; the norms are those of Euclid."""
    cases = [_pool(shape, pool_type, kernel, **given) for pool_type in ("max", "sum", "avg")]
    return [*cases, _pool(shape, "lp", kernel, p_value=2, **given)]


CASES = [
    # blocks: windows side by side
    *_types((2, 3, 4, 6), (2, 2), stride=(2, 2)),
    *_types((1, 2, 5, 7), (2, 3), stride=(2, 3)),
    *_types((2, 2, 6), (3,), stride=(3,)),
    *_types((1, 2, 4, 2, 4), (2, 1, 2), stride=(2, 1, 2)),
    *_types((1, 1, 10, 5), (5, 5), stride=(5, 5)),
    # windows that overlap
    *_types((2, 3, 5, 6), (3, 2)),
    *_types((2, 2, 7, 7), (3, 3), stride=(2, 2)),
    *_types((1, 2, 6, 8), (3, 3), stride=(2, 2), pad=(1, 1)),
    *_types((1, 2, 7, 9), (3, 4), stride=(1, 3), pad=(1, 2)),
    *_types((2, 3, 8), (4,), stride=(2,), pad=(1,)),
    *_types((1, 1, 4, 5, 4), (2, 3, 2), stride=(1, 2, 2), pad=(1, 1, 0)),
    # windows with gaps between them
    *_types((1, 2, 7, 8), (2, 1), stride=(3, 2)),
    # one window that sticks out
    *_types((1, 2, 6, 7), (3, 3), stride=(2, 2), pad=(1, 1), pooling_convention="full", count_include_pad=False),
    *[_pool((1, 2, 6, 7), kind, (3, 2), stride=(2, 2), pooling_convention="full") for kind in ("max", "sum")],
    _pool((1, 2, 6, 7), "lp", (3, 2), p_value=2, stride=(2, 2), pooling_convention="full"),
    _pool((1, 2, 6, 7), "avg", (3, 2), stride=(2, 2), pooling_convention="full", wrt=()),
    _pool((1, 2, 6, 7), "avg", (3, 2), stride=(2, 2), pooling_convention="full", tag="gradient", no_mxnet=_ENDS),
    _pool((1, 2, 6), "avg", (3,), stride=(2,), pad=(1,), pooling_convention="full", wrt=()),
    _pool((1, 2, 5, 5), "avg", (2, 2), stride=(2, 2), pooling_convention="full", count_include_pad=False),
    _pool((1, 2, 5, 6), "max", (2, 2), stride=(2, 2), pooling_convention="full"),
    _pool((1, 2, 6), "sum", (1,), stride=(3,), pooling_convention="full"),
    _pool((1, 2, 6), "avg", (1,), stride=(3,), pooling_convention="full"),
    # a window for every stride
    _pool((1, 2, 6), "sum", (3,), stride=(2,), pad=(0, 0, 0), pooling_convention="same"),
    _pool((1, 2, 7), "sum", (3,), stride=(3,), pad=(0, 0, 0), pooling_convention="same"),
    *[
        _pool((1, 2, 7), kind, (3,), stride=(2,), pooling_convention="same", no_mxnet=_SAME)
        for kind in ("max", "sum", "avg")
    ],
    _pool((1, 2, 7), "lp", (2,), p_value=2, stride=(3,), pooling_convention="same", no_mxnet=_SAME),
    _pool((1, 2, 7, 5), "avg", (2, 3), stride=(2, 1), pooling_convention="same", no_mxnet=_SAME),
    # which elements a mean counts
    *[
        _pool((2, 2, 5, 6), "avg", (3, 3), stride=(2, 1), pad=(1, 2), count_include_pad=include)
        for include in (True, False)
    ],
    _pool((2, 2, 5), "avg", (3,), pad=(1,), count_include_pad=False),
    # norms
    *[_pool((2, 2, 5, 6), "lp", (2, 3), p_value=p) for p in (1, 3)],
    *[_pool((2, 2, 6), "lp", (2,), p_value=p, stride=(2,)) for p in (1, 3)],
    _pool((1, 2, 3, 4), "lp", (2, 2), p_value=3, pad=(1, 1), stride=(2, 2)),
    # global windows
    *_types((2, 3, 4, 5), (2, 2), global_pool=True, stride=(9, 9), pad=(1, 1)),
    *[_pool((2, 3, 4, 5), kind, global_pool=True) for kind in ("max", "sum", "avg")],
    *[_pool((2, 3, 2), kind, global_pool=True) for kind in ("max", "avg")],
    *[_pool((1, 2, 2, 3, 2), kind, global_pool=True) for kind in ("max", "avg")],
    _pool((2, 3, 4), "lp", global_pool=True, p_value=3),
    # channels last
    *_types((2, 4, 6, 3), (2, 2), stride=(2, 2), layout="NHWC"),
    *_types((2, 6, 5, 2), (3, 3), stride=(2, 1), pad=(1, 1), layout="NHWC"),
    *_types((2, 7, 2), (3,), stride=(2,), layout="NWC"),
    *_types((1, 3, 4, 4, 2), (2, 2, 3), stride=(1, 2, 1), layout="NDHWC"),
    *[_pool((2, 3, 4, 2), kind, global_pool=True, layout="NHWC") for kind in ("max", "avg")],
    *[_pool((2, 3, 4), kind, (2,), layout="NCW", cudnn_off=True) for kind in ("max", "avg")],
    # other dtypes
    *_types((1, 2, 4, 4), (2, 2), stride=(2, 2), dtype="float64"),
    *[
        Case(
            "Pooling",
            (T(1, 2, 5, 6, kind="integers", low=-8, high=8, dtype="float16"),),
            {"kernel": (3, 2), "pool_type": kind},
            wrt=(),
        )
        for kind in ("max", "sum", "avg")
    ],
]
