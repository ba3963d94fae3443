"""Cases of matrix products."""

from tests.cases import NO_HALF, Case, T, double, half

_NO_GRADIENT = "MXNet has no gradient of it"

_FLAGS = [(False, False), (True, False), (False, True), (True, True)]


def _transposes(a: bool, b: bool) -> dict[str, bool]:
    return {name: True for name, given in (("transpose_a", a), ("transpose_b", b)) if given}


CASES = [
    *(Case("dot", inputs) for inputs in ((T(4), T(4)), (T(3), T(3, 4)), (T(3, 4), T(4)), (T(1, 3), T(3)))),
    *[Case("dot", (T(4), T(*((3, 4) if b else (4, 3)))), _transposes(a, b)) for a, b in _FLAGS[1:]],
    *[Case("dot", (T(*((4, 3) if a else (3, 4))), T(4)), _transposes(a, b)) for a, b in _FLAGS[1:]],
    *[
        Case("dot", (T(*((4, 3) if a else (3, 4))), T(*((5, 4) if b else (4, 5)))), _transposes(a, b))
        for a, b in _FLAGS
    ],
    *[
        Case("dot", (T(*((4, 2, 3) if a else (2, 3, 4))), T(*((5, 2, 4) if b else (4, 5, 2)))), _transposes(a, b))
        for a, b in _FLAGS
    ],
    Case("dot", (T(2, 1, 3, 4), T(4, 5))),
    Case("dot", (T(4), T(4, 2, 3))),
    Case("dot", (T(2, 3, 4), T(4)), {"transpose_b": True}),
    Case("dot", (T(3, 4), T(4, 5)), {"forward_stype": "default"}),
    Case("dot", (double(3, 4), double(4, 5))),
    Case("dot", (half(3, 4), half(4, 5)), no_mxnet=NO_HALF),
    *[
        Case("batch_dot", (T(2, *((4, 3) if a else (3, 4))), T(2, *((5, 4) if b else (4, 5)))), _transposes(a, b))
        for a, b in _FLAGS
    ],
    *[
        Case("batch_dot", (T(2, 1, *((4, 3) if a else (3, 4))), T(2, 1, *((2, 4) if b else (4, 2)))), _transposes(a, b))
        for a, b in _FLAGS
    ],
    Case("batch_dot", (T(1, 1, 1), T(1, 1, 1))),
    Case("batch_dot", (double(2, 3, 4), double(2, 4, 5))),
    Case("batch_dot", (half(2, 3, 4), half(2, 4, 5)), no_mxnet=NO_HALF),
    *[
        Case("linalg_gemm2", (T(2, *((4, 3) if a else (3, 4))), T(2, *((5, 4) if b else (4, 5)))), _transposes(a, b))
        for a, b in _FLAGS
    ],
    Case("linalg_gemm2", (T(3, 4), T(4, 5)), {"alpha": -2.5}),
    Case("linalg_gemm2", (T(3, 2, 4), T(4, 2, 5)), {"axis": 0, "alpha": 0.5}),
    Case("linalg_gemm2", (T(4, 2, 2, 3), T(5, 2, 2, 4)), {"axis": -4, "transpose_a": True, "transpose_b": True}),
    Case("linalg_gemm2", (double(2, 3, 4), double(2, 4, 5)), {"alpha": 0.1}),
    Case("khatri_rao", (T(2, 3), T(4, 3)), {"num_args": 2}, wrt=()),
    Case("khatri_rao", (T(2, 3), T(1, 3), T(3, 3)), {"num_args": 3}, wrt=()),
    Case("khatri_rao", (T(2, 3),), {"num_args": 1}, wrt=()),
    *[
        Case("khatri_rao", tuple(T(r, 3) for r in rows), {"num_args": len(rows)}, tag="gradient", no_mxnet=_NO_GRADIENT)
        for rows in [(2, 4), (2, 1, 3), (2,)]
    ],
]
