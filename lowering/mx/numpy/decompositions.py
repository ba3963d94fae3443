"""Functions of `np.linalg`: norms, decompositions and systems of equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowering.mx.accepted_types import AxisLike
from lowering.mx.numpy import axis_reductions
from lowering.mx.numpy.elementwise import apply_unary
from lowering.mx.numpy.operators import Operators, UnsupportedError, is_number
from symjax_nnvm.errors import SymbolTypeError


def norm(op: Operators, x: Any, ord: Any = None, axis: AxisLike = None, keepdims: bool = False) -> Any:
    """The norm of a vector, or of a matrix where axis has two numbers; with ord alone of the matrices of the last two
    axes. ord: a number, inf, -inf, "fro" or "nuc"."""
    if axis is not None and not isinstance(axis, int | tuple):
        raise SymbolTypeError("'axis' must be None, an integer or a tuple of integers.", got=repr(axis))
    if isinstance(axis, int):
        axis = (axis,)
    if axis is None and ord is not None and not op.symbolic and x.ndim >= 2:
        axis = (x.ndim - 2, x.ndim - 1)
    infinite: dict[Any, str] = {np.inf: "inf", -np.inf: "-inf"}
    ord = infinite.get(ord, ord) if not isinstance(ord, str) else ord
    if axis is None and ord is None:
        return op("_npi_norm", x, ord=2, axis=None, keepdims=keepdims, flag=-2)
    if axis is not None and len(axis) == 2 and ord in ("inf", "-inf", 1, -1):
        return _largest_sum(op, x, ord, axis, keepdims)
    if ord in ("inf", "-inf") and not (op.symbolic and axis is None):
        extreme = axis_reductions.max if ord == "inf" else axis_reductions.min
        return extreme(op, apply_unary(op, "abs", x), axis=axis, keepdims=keepdims)
    matrix = axis is not None and len(axis) == 2
    if ord in ("fro", "f", None):
        order, flag = 2, 1
    elif ord == "nuc":
        order, flag = 2, 2
    elif matrix and ord in (2, -2):
        order, flag = ord, 0
    else:
        order, flag = ord, -1
    return op("_npi_norm", x, ord=order, axis=axis, keepdims=keepdims, flag=flag)


def _largest_sum(op: Operators, x: Any, ord: Any, axis: tuple[int, int], keepdims: bool) -> Any:
    """Return the largest, or for a negative order the smallest, sum of a row or a column."""
    rows, columns = axis
    summed, kept_axis = (columns, rows) if ord in ("inf", "-inf") else (rows, columns)
    if not keepdims and kept_axis > summed:
        kept_axis -= 1
    sums = axis_reductions.sum(op, apply_unary(op, "abs", x), axis=summed, keepdims=keepdims)
    extreme = axis_reductions.max if ord in ("inf", 1) else axis_reductions.min
    return extreme(op, sums, axis=kept_axis, keepdims=keepdims)


def svd(op: Operators, a: Any) -> Any:
    """(u, s, v) with a = u · diag(s) · v."""
    return tuple(op("_npi_svd", a))


def _of_matrix(name: str, doc: str) -> Callable[..., Any]:

    def function(op: Operators, a: Any) -> Any:
        return op(f"_npi_{name}", a)

    function.__name__, function.__doc__ = name, doc
    return function


cholesky = _of_matrix("cholesky", "The lower triangular L with a = L · Lᵀ.")
inv = _of_matrix("inv", "The inverse.")
det = _of_matrix("det", "The determinant.")
slogdet = _of_matrix("slogdet", "(sign, logarithm of the absolute value) of the determinant.")


def pinv(op: Operators, a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    """The pseudo-inverse. rcond: singular values below it times the largest are taken as 0."""
    if hermitian:
        raise UnsupportedError("hermitian is not supported yet")
    if is_number(rcond):
        return op("_npi_pinv_scalar_rcond", a, rcond=rcond, hermitian=hermitian)
    return op("_npi_pinv", a, rcond, hermitian=hermitian)


def solve(op: Operators, a: Any, b: Any) -> Any:
    """x with a · x = b."""
    return op("_npi_solve", a, b)


def tensorinv(op: Operators, a: Any, ind: int = 2) -> Any:
    """The inverse of a tensor; ind: how many axes come first."""
    return op("_npi_tensorinv", a, ind=ind)


def tensorsolve(op: Operators, a: Any, b: Any, axes: AxisLike = None) -> Any:
    """x with tensordot(a, x, x.ndim) = b. axes: of a, moved to the end first."""
    return op("_npi_tensorsolve", a, b, a_axes=() if axes is None else axes)


def eigvals(op: Operators, a: Any) -> Any:
    """The eigenvalues of matrices whose eigenvalues are real."""
    return op("_npi_eigvals", a)


def eigvalsh(op: Operators, a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices, of which one triangle is read."""
    return op("_npi_eigvalsh", a, UPLO=UPLO)


def eig(op: Operators, a: Any) -> Any:
    """(eigenvalues, eigenvectors as columns) of matrices whose eigenvalues are real."""
    return tuple(op("_npi_eig", a))


def eigh(op: Operators, a: Any, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors as columns) of symmetric matrices."""
    return tuple(op("_npi_eigh", a, UPLO=UPLO))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(norm, svd, cholesky, inv, pinv, det, slogdet, solve, tensorinv, tensorsolve, eigvals, eigvalsh, eig, eigh),
    )
}
