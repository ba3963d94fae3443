"""Cases of the decompositions and equations of the NumPy dialect."""

from tests.cases import Case, T
from tests.cases.linalg.linalg import SYMMETRIC, definite, regular, symmetric

_NONE = "MXNet gives no gradient"
_OURS = "not an operator of MXNet"
_PINV = "_npi_pinv_scalar_rcond"
_DIGITS = "factors of ill-conditioned matrices"

CASES = [
    Case("_npi_cholesky", (definite(3, 3),), not_derivative=SYMMETRIC),
    Case("_npi_cholesky", (definite(2, 2, 2, dtype="float64"),), not_derivative=SYMMETRIC),
    *[Case("_npi_svd", (T(*shape),), rtol=1e-4, rtol_reason=_DIGITS) for shape in ((2, 3), (2, 2, 4))],
    Case("_npi_svd", (regular(3, 3, dtype="float64"),)),
    *[
        Case(f"_npi_{name}", (symmetric(*shape),), params, wrt=(), tag=name)
        for name in ("eigh", "eigvalsh")
        for shape, params in (((3, 3), {}), ((2, 3, 3), {"UPLO": "U"}))
    ],
    *[
        Case(f"_npi_{name}", (symmetric(3, 3),), {"UPLO": side}, no_mxnet=_NONE, not_derivative=SYMMETRIC)
        for name in ("eigh", "eigvalsh")
        for side in ("L", "U")
    ],
    *[
        Case(f"_npi_{name}", (symmetric(3, 3, dtype=dtype),), wrt=(), rtol=1e-4, rtol_reason=_DIGITS)
        for name in ("eig", "eigvals")
        for dtype in ("float32", "float64")
    ],
    Case("_npi_solve", (regular(3, 3), T(3)), no_mxnet="MXNet's gradient of it fails"),
    *[Case("_npi_solve", (regular(*a), T(*b))) for a, b in (((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 2)))],
    Case(_PINV, (T(2, 3),), wrt=(), rtol=1e-4, rtol_reason=_DIGITS),
    Case("_npi_pinv", (T(2, 2, 3), T(2, low=1e-6, high=2e-6)), wrt=(), rtol=1e-4, rtol_reason=_DIGITS),
    Case(_PINV, (T(3, 2),), no_mxnet=_NONE),
    Case("_npi_pinv", (T(2, 3), T(low=1e-6, high=2e-6)), wrt=(0,), no_mxnet=_NONE),
    *[
        Case("_npi_tensorinv", (T(*shape),), {"ind": ind}, rtol=1e-3, rtol_reason=_DIGITS)
        for shape, ind in (((2, 2, 4), 2), ((4, 2, 2), 1))
    ],
    Case("_npi_tensorsolve", (T(2, 2, 4), T(2, 2)), rtol=1e-3, rtol_reason=_DIGITS),
    Case("_npi_tensorsolve", (T(4, 2, 2), T(2, 2)), {"a_axes": (0,)}, rtol=1e-3, rtol_reason=_DIGITS),
    Case("_tensor_matrix", (T(2, 2, 4),), {"a_axes": (0,)}, no_mxnet=_OURS),
]
