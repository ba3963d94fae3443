"""Cases of operators that MXNet made for sparse storage; where they refuse dense arrays there, of `cast_storage`."""

from collections.abc import Callable
from typing import Any

from tests.cases import Case, T

INDICES = {"dtype": "int32", "kind": "integers", "low": 0, "high": 4}
_NO_BACKWARD = "MXNet has no backward for an executor's dense head gradient"


def _of_rows(name: str, sparse: int, **params: Any) -> Callable[..., Any]:
    """The operator on inputs of which number `sparse` is row_sparse in MXNet."""

    def graph(module: Any, *inputs: Any) -> Any:
        cast = [
            module.cast_storage(x, stype="row_sparse", name=f"cast{i}") if i == sparse else x
            for i, x in enumerate(inputs)
        ]
        for place in (module, getattr(module, "_internal", None), getattr(module, "contrib", None)):
            found = getattr(place, name, None) or getattr(place, name.removeprefix("_contrib_"), None)
            if found is not None:
                return found(*cast, name="op", **params)
        return module.sparse.retain(*cast, name="op", **params)

    return graph


CASES = [
    *(Case("cast_storage", (T(3, 4),), {"stype": stype}) for stype in ("default", "row_sparse", "csr")),
    Case("cast_storage", (T(2, 3, dtype="float16"),), {"stype": "default"}),
    Case("cast_storage", (T(4, dtype="int32", kind="integers", high=9),), {"stype": "default"}),
    Case("_scatter_plus_scalar", (T(3, 4),), {"scalar": 1.5}),
    Case("_scatter_plus_scalar", (T(2, 3, dtype="int32", kind="integers", high=9),), {"scalar": 2.0}),
    Case("_scatter_minus_scalar", (T(3, 4),), {"scalar": 1.5}),
    Case("_scatter_minus_scalar", (T(5, dtype="float16"),), {"scalar": 0.5}),
    Case("_scatter_elemwise_div", (T(3, 4), T(3, 4, low=0.5, high=2.0))),
    Case("_scatter_elemwise_div", (T(2, 3, 2), T(2, 3, 2, low=-2.0, high=-0.5))),
    Case("_sparse_retain", (T(4, 3), T(2, **INDICES)), graph=_of_rows("_sparse_retain", 0), is_train=False, wrt=()),
    Case("_sparse_retain", (T(4, 3), T(6, **INDICES | {"low": -3, "high": 9})), no_mxnet=_NO_BACKWARD),
    Case("_sparse_retain", (T(4, 2, 3), T(2, high=4, low=0)), wrt=(0,), no_mxnet=_NO_BACKWARD),
    *(
        Case("_square_sum", (T(4, 3),), tag=f"axis{axis}{'kept' if keepdims else ''}", graph=graph)
        for axis, keepdims in ((0, False), (0, True), (1, False), (1, True))
        for graph in [_of_rows("_square_sum", 0, axis=axis, keepdims=keepdims)]
    ),
    Case("_square_sum", (T(2, 3, 2),), {"axis": (0, 2)}, no_mxnet="MXNet sums matrices over one axis"),
    Case("_square_sum", (T(2, 3),), {"axis": 0, "exclude": True}, no_mxnet="MXNet's gradient reads foreign memory"),
    Case("_square_sum", (T(2, 3),), no_mxnet="MXNet needs an axis"),
    Case(
        "_contrib_SparseEmbedding",
        (T(2, 3, **INDICES), T(4, 5)),
        wrt=(1,),
        graph=_of_rows("_contrib_SparseEmbedding", 1, input_dim=4, output_dim=5),
    ),
    Case(
        "_contrib_SparseEmbedding",
        (T(3, **INDICES), T(4, 2)),
        {"input_dim": 4, "output_dim": 2},
        no_mxnet="MXNet has no backward for a dense weight",
    ),
]
