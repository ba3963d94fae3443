"""Cases of linear algebra."""

from dataclasses import dataclass

import numpy as np

from tests.cases import Case, T, Tensor, double


@dataclass(frozen=True)
class Matrices(Tensor):
    """Well-conditioned matrices: "definite" (symmetric, positive), "symmetric" (eigenvalues well apart), "regular"
    (diagonal away from 0, for determinants, inverses and triangular solves)."""

    def draw(self, rng: np.random.RandomState) -> np.ndarray:
        n = self.shape[-1]
        x = rng.uniform(-1, 1, self.shape)
        if self.kind == "definite":
            x = x @ np.swapaxes(x, -1, -2) + np.eye(n)
        elif self.kind == "symmetric":
            x = (x + np.swapaxes(x, -1, -2)) / 4 + np.diag(np.arange(n) * 1.5 - 1)
        else:
            x = x / 2 + np.diag(np.where(np.arange(n) % 2, -1.5, 1.5))
        return np.asarray(x, np.float32).astype(self.dtype)


def definite(*shape: int, dtype: str = "float32"):
    return Matrices(shape, kind="definite", dtype=dtype)


def symmetric(*shape: int, dtype: str = "float32"):
    return Matrices(shape, kind="symmetric", dtype=dtype)


def regular(*shape: int, dtype: str = "float32"):
    return Matrices(shape, kind="regular", dtype=dtype)


OURS = "not an operator of MXNet"
HALF = "MXNet has no float16 kernel for it"
SYMMETRIC = "only the lower triangle is read, but the gradient is that of symmetric changes; tests/ops proves it"

_SIDES = [(side, turned, lower) for side in (False, True) for turned in (False, True) for lower in (True, False)]


def _triangular():
    for op in ("linalg_trmm", "linalg_trsm"):
        for rightside, transpose, lower in _SIDES:
            b = T(2, 2, 3) if rightside else T(2, 3, 2)
            flags = {"rightside": rightside, "transpose": transpose, "lower": lower}
            yield Case(
                op, (regular(2, 3, 3), b), {name: value for name, value in flags.items() if value != (name == "lower")}
            )
        yield Case(op, (regular(2, 2), T(2, 1)), {"alpha": -1.5})
        yield Case(op, (regular(2, 2, dtype="float64"), double(2, 2)), {"alpha": 0.3, "transpose": True})


def _gemm():
    yield Case("linalg_gemm", (T(2, 3), T(3, 2), T(2, 2)))
    yield Case("linalg_gemm", (T(2, 3, 2), T(2, 3, 3), T(2, 2, 3)), {"transpose_a": True, "alpha": 2.0, "beta": -0.5})
    yield Case("linalg_gemm", (T(3, 2), T(4, 3), T(2, 4)), {"transpose_a": True, "transpose_b": True, "beta": 0.0})
    yield Case("linalg_gemm", (T(3, 2, 4), T(4, 2, 2), T(3, 2, 2)), {"axis": 0, "alpha": 0.5, "beta": 2.0})
    yield Case(
        "linalg_gemm",
        (T(1, 4, 2, 3), T(1, 2, 2, 4), T(1, 3, 2, 2)),
        {"axis": -3, "transpose_a": True, "transpose_b": True},
    )
    yield Case("linalg_gemm", (double(2, 2, 3), double(2, 3, 2), double(2, 2, 2)), {"alpha": 0.1})
    yield Case("linalg_gemm", tuple([T(2, 2, dtype="float16")] * 3), no_mxnet=HALF)


def _packed(op: str):
    matrix = op in ("linalg_extractdiag", "linalg_extracttrian")
    vector = {"linalg_makediag": 2, "linalg_maketrian": 3}.get(op, 0)
    for offset in (0, 1, -1):
        yield Case(op, (T(2, 3, 3) if matrix else T(2, vector),), {"offset": offset} if offset else {})
    yield Case(op, (T(3, 3) if matrix else T(vector),), {"offset": -2})
    yield Case(op, (double(1, 2, 3, 3) if matrix else double(1, 2, vector),), {"offset": 2})
    if op.endswith("trian"):
        yield Case(op, (T(2, 3, 3) if matrix else T(2, 6),), {"lower": False})
        yield Case(op, (T(4, 4) if matrix else T(6),), {"lower": False, "offset": 1 if matrix else -1})


CASES = [
    # products
    *_gemm(),
    Case("linalg_syrk", (T(2, 3),)),
    Case("linalg_syrk", (T(2, 3),), {"transpose": True, "alpha": -2.0}),
    Case("linalg_syrk", (T(2, 1, 2, 3),), {"alpha": 0.5}),
    Case("linalg_syrk", (double(2, 2, 3),), {"transpose": True}),
    *_triangular(),
    # diagonals and triangles
    *_packed("linalg_extractdiag"),
    *_packed("linalg_makediag"),
    *_packed("linalg_extracttrian"),
    *_packed("linalg_maketrian"),
    Case("_triangle", (T(2, 3, 4),), no_mxnet=OURS),
    Case("_triangle", (T(3, 3),), {"lower": False, "offset": -1}, no_mxnet=OURS),
    Case("_matrix_fill", (T(2), T(2, 3, 2)), wrt=(0,), no_mxnet=OURS),
    Case("_matrix_fill", (T(1), T(3, 2)), wrt=(0,), no_mxnet=OURS),
    Case("linalg_sumlogdiag", (T(3, 3, low=0.5, high=2.0),)),
    Case("linalg_sumlogdiag", (T(2, 1, 3, 3, low=0.5, high=2.0),)),
    Case("linalg_sumlogdiag", (T(2, 3, 3, low=0.5, high=2.0, dtype="float64"),)),
    # inverse and determinants
    *[
        Case(op, (regular(*shape, dtype=dtype),))
        for op in ("linalg_inverse", "linalg_det", "linalg_slogdet", "_npi_det", "_npi_slogdet")
        for shape, dtype in (((3, 3), "float32"), ((2, 1, 3, 3), "float32"), ((2, 4, 4), "float64"))
    ],
    # factorisations
    Case("linalg_potrf", (definite(3, 3),), not_derivative=SYMMETRIC),
    Case("linalg_potrf", (definite(2, 1, 3, 3, dtype="float64"),), not_derivative=SYMMETRIC),
    Case("linalg_potrf", (regular(1, 1),), not_derivative=SYMMETRIC),
    Case("linalg_potri", (regular(3, 3),)),
    Case("linalg_potri", (regular(2, 1, 3, 3),)),
    Case("linalg_potri", (regular(2, 3, 3, dtype="float64"),)),
    Case("linalg_potrf", (definite(3, 3),), {"lower": True}, not_derivative=SYMMETRIC),
    Case("linalg_potrf", (definite(2, 1, 3, 3, dtype="float64"),), {"lower": False}, not_derivative=SYMMETRIC),
    Case("linalg_potri", (regular(3, 3),), {"lower": False}),
    Case("linalg_potri", (regular(2, 1, 3, 3, dtype="float64"),), {"lower": False}),
    *(Case("linalg_gelqf", (given,)) for given in (T(2, 3), regular(3, 3), T(2, 1, 2, 4))),
    Case("linalg_gelqf", (regular(2, 3, 3, dtype="float64"),)),
    Case("_linalg_syevd", (symmetric(3, 3),), not_derivative=SYMMETRIC),
    Case("_linalg_syevd", (symmetric(2, 1, 3, 3, dtype="float64"),), not_derivative=SYMMETRIC),
    Case("_linalg_syevd", (symmetric(1, 1),), not_derivative=SYMMETRIC),
    Case("_eigenvalue_gaps", (T(2, 3, kind="spread"),), not_derivative="defined for ascending numbers", no_mxnet=OURS),
]
