"""Cases of attention over interleaved projections."""

from tests.cases import Case, T

_ONLY_FLOAT32 = "MXNet has only a float32 kernel for it on the CPU"

_INPUTS = {
    "selfatt_qk": ((4, 2, 12),),
    "selfatt_valatt": ((4, 2, 12), (4, 4, 4)),
    "encdec_qk": ((3, 2, 4), (5, 2, 8)),
    "encdec_valatt": ((5, 2, 8), (4, 3, 5)),
}

CASES = [
    *[
        Case(
            f"_contrib_interleaved_matmul_{name}",
            tuple(T(*shape, dtype=dtype) for shape in shapes),
            {"heads": 2},
            no_mxnet="" if dtype == "float32" else _ONLY_FLOAT32,
        )
        for name, shapes in _INPUTS.items()
        for dtype in ("float32", "float64", "float16")
    ],
    Case("_contrib_interleaved_matmul_selfatt_qk", (T(3, 1, 9),), {"heads": 1}),
    Case("_contrib_interleaved_matmul_encdec_valatt", (T(2, 3, 6), T(9, 4, 2)), {"heads": 3}),
]
