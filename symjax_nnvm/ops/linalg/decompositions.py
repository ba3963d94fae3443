"""Decompositions and equations of MXNet's NumPy dialect: svd, eig, solve, pinv, tensorinv, tensorsolve.

The gradient of svd is that of J. Townsend: "Differentiating the Singular Value Decomposition" (2016); that of pinv
follows G. Golub and V. Pereyra (1973).
"""

from __future__ import annotations

from math import prod
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation, Op
from symjax_nnvm.ir.params import Axes, Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, register_op
from symjax_nnvm.ir.rules.axes import completed, known, normal_axes, size_of
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import format_shape, is_float
from symjax_nnvm.ops.elementwise.binary import mul
from symjax_nnvm.ops.linalg.factorization import square_flops
from symjax_nnvm.ops.linalg.shapes import batch_of, of_one_rank, solver_type, square_shapes, transposed

_OF_TRIANGLE = "only a triangle is read, but the gradient is that of symmetric changes"


def _product(a: NodeEntry, b: NodeEntry) -> NodeEntry:
    return apply("_npi_matmul", a, b)


def _sub(a: NodeEntry, b: NodeEntry) -> NodeEntry:
    return apply("elemwise_sub", a, b)


def _add(a: NodeEntry, b: NodeEntry) -> NodeEntry:
    return apply("elemwise_add", a, b)


# -- singular values -------------------------------------------------------------------------------------------------


def _svd_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """A (b…, m, n) → U (b…, m, m), L (b…, m), V (b…, m, n); m ≤ n."""
    shapes = of_one_rank(ins[0], outs[0], outs[2])
    if shapes is None:
        return ins, outs
    a, u, v = shapes
    m, n = known(a[-2], v[-2], *u[-2:]), known(a[-1], v[-1])
    if m is not None and n is not None and not is_at_most(m, n):
        raise InferenceError("More rows than columns", input="A", expected="m ≤ n", got=format_shape(a))
    batch = batch_of(a, u, v)
    return [(*batch, m, n)], [(*batch, m, m), (*batch, m), (*batch, m, n)]


def _svd_gradient(node: Node, ograds: Entries):
    """dA = U (S ∘ (Uᵀ dU - dUᵀ U) L + L S ∘ (V dVᵀ - dV Vᵀ) + dL) V + U L⁻¹ dV (I - Vᵀ V), S_ij = 1 / (L_j² - L_i²)."""
    u, values, v = (NodeEntry(node, i, 0) for i in range(3))
    du, dvalues, dv = ograds
    below = apply("_eigenvalue_gaps", apply("negative", apply("square", values)))
    gaps = _sub(below, transposed(below))
    diagonal = apply("_linalg_makediag", values)
    inverse = apply("_linalg_makediag", apply("reciprocal", values))

    def turning(one: NodeEntry, other: NodeEntry) -> NodeEntry:
        product = _product(one, other)
        return mul(gaps, _sub(product, transposed(product)))

    middle = _add(_product(turning(transposed(u), du), diagonal), _product(diagonal, turning(v, transposed(dv))))
    middle = _add(middle, apply("_linalg_makediag", dvalues))
    outside = _sub(dv, _product(_product(dv, transposed(v)), v))
    return [_add(_product(_product(u, middle), v), _product(_product(u, inverse), outside))]


register_op(
    "_npi_svd",
    inputs=("A",),
    outputs=("U", "L", "V"),
    infer_shape=_svd_shapes,
    infer_type=solver_type,
    gradient=_svd_gradient,
    flops=square_flops(20),
    doc="U, L and V with A = U diag(L) V, for m ≤ n: orthonormal columns of U and rows of V, singular values "
    "descending. The component of largest magnitude of each row of V is positive.",
)

# -- eigenvectors ----------------------------------------------------------------------------------------------------


class EighParams(Params):
    UPLO: Literal["L", "U"] = param("L", doc="which triangle is read: the lower or the upper one")


def _values_shape(ins: Shapes):
    (a,), _ = square_shapes(None, ins, [])
    return a, None if a is None else a[:-1]


def _eigen_type(p: object, ins: Types, outs: Types):
    """A of float32, float64 or whole numbers → the same; of whole numbers float64."""
    a = ins[0]
    if a is not None and not is_float(a):
        return ins, ["float64"] * len(outs)
    return solver_type(p, ins, outs)


def _as_syevd(node: Node, dvalues: NodeEntry, dvectors: NodeEntry | None) -> list[NodeEntry | None]:
    """The gradient of syevd, of the triangle that is read."""
    a, is_lower = node.inputs[0], node.attrs.parsed.UPLO == "L"
    inner = apply("_linalg_syevd", a if is_lower else transposed(a)).node
    rows = NodeEntry(inner, 0, 0)
    dvectors = apply("zeros_like", rows) if dvectors is None else transposed(dvectors)
    return list(FGradient[Op.get("_linalg_syevd")](inner, [dvectors, dvalues]))


_HAS_GRADIENT = Deviation("it has its gradient, which is 0 in MXNet", "training")

for _name, _params, _is_symmetric in (("eig", NoParams, False), ("eigh", EighParams, True)):
    register_op(
        f"_npi_{_name}",
        params=_params,
        inputs=("A",),
        num_outputs=2,
        infer_shape=lambda p, ins, outs: (
            [_values_shape(ins)[0]],
            [_values_shape(ins)[1], _values_shape([completed(*ins, outs[1])])[0]],
        ),
        infer_type=_eigen_type,
        gradient=(lambda node, ograds: _as_syevd(node, ograds[0], ograds[1])) if _is_symmetric else lambda n, o: [None],
        flops=square_flops(10),
        deviation=_HAS_GRADIENT
        if _is_symmetric
        else Deviation("complex eigenvalues are NaN; MXNet stops with an error. It runs only on a CPU"),
        not_derivative=_OF_TRIANGLE if _is_symmetric else "MXNet gives no gradient of it",
        doc="Eigenvalues, ascending, and eigenvectors, in columns, of symmetric matrices: one triangle is read. "
        "It has a gradient, unlike in MXNet."
        if _is_symmetric
        else "Eigenvalues and eigenvectors, in columns; complex ones are NaN, where MXNet has an error.",
    )
    register_op(
        "_npi_eigvalsh" if _is_symmetric else "_npi_eigvals",
        params=_params,
        inputs=("A",),
        infer_shape=lambda p, ins, outs: ([_values_shape(ins)[0]], [_values_shape(ins)[1]]),
        infer_type=_eigen_type,
        gradient=(lambda node, ograds: _as_syevd(node, ograds[0], None)) if _is_symmetric else lambda n, o: [None],
        flops=square_flops(5),
        deviation=_HAS_GRADIENT
        if _is_symmetric
        else Deviation("complex eigenvalues are NaN; MXNet stops with an error. It runs only on a CPU"),
        not_derivative=_OF_TRIANGLE if _is_symmetric else "MXNet gives no gradient of it",
        doc="Eigenvalues, ascending, of symmetric matrices: one triangle is read. It has a gradient, unlike in MXNet."
        if _is_symmetric
        else "Eigenvalues; complex ones are NaN, where MXNet has an error.",
    )

# -- equations -------------------------------------------------------------------------------------------------------


def _solve_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n), B (b…, n) or (b…, n, k) → as B."""
    (a,), _ = square_shapes(p, ins[:1], [])
    b = completed(ins[1], *outs)
    if a is not None and b is not None and len(b) not in (len(a) - 1, len(a)):
        expected = f"{len(a) - 1} or {len(a)} axes"
        raise InferenceError("B has another number of axes than A", input="B", expected=expected, got=format_shape(b))
    if a is not None and b is not None:
        rows = (*a[:-2], a[-1])
        if any(None not in pair and pair[0] != pair[1] for pair in zip(rows, b, strict=False)):
            expected = f"first axes {format_shape(rows)}"
            raise InferenceError(
                "A and B have different numbers of rows", input="B", expected=expected, got=format_shape(b)
            )
    return [a, b], [b]


def _equations_type(p: object, ins: Types, outs: Types):
    """A and B of float32 or of float64 → the same; of two dtypes, or of whole numbers, float64."""
    if None in ins or ins[0] == ins[1]:
        return _eigen_type(p, ins, outs)
    for dtype in ins:
        if is_float(dtype) or dtype == "bool":
            solver_type(p, [dtype], [])
    return ins, ["float64"]


def _solve_gradient(node: Node, ograds: Entries) -> Entries:
    """dB = A⁻ᵀ dX, dA = -dB Xᵀ."""
    (a, b), x = node.inputs, NodeEntry(node, 0, 0)
    db = apply("_npi_solve", transposed(a), ograds[0])
    da = apply("_backward_npi_matmul", apply("negative", db), a, x, number=0)
    return [apply("_cast_like", da, a), apply("_cast_like", db, b)]


register_op(
    "_npi_solve",
    inputs=("A", "B"),
    infer_shape=_solve_shapes,
    infer_type=_equations_type,
    gradient=_solve_gradient,
    flops=square_flops(1),
    deviation="of a singular matrix the result is not finite; MXNet stops with an error",
    doc="The X with A X = B; of two dtypes, or of whole numbers, in float64. Of a singular matrix not finite, where "
    "MXNet has an error.",
)


class PinvParams(Params):
    hermitian: bool = param(False, doc="whether A is symmetric; changes nothing")


class PinvScalarParams(Params):
    rcond: float = param(1e-15, doc="singular values that are smaller, relative to the largest, count as 0")
    hermitian: bool = param(False, doc="whether A is symmetric; changes nothing")


def _pinv_shapes(p: Params, ins: Shapes, outs: Shapes):
    """A (b…, m, n), rcond (b…) or () → (b…, n, m)."""
    shapes = of_one_rank(ins[0], *outs)
    if shapes is None:
        return ins, outs
    a, b = shapes
    m, n = known(a[-2], b[-1]), known(a[-1], b[-2])
    rcond, batch = (ins[1] or ()) if ins[1:] else (), batch_of(a, b)
    pairs = zip(rcond[::-1], batch[::-1], strict=False)
    if len(rcond) > len(batch) or any(None not in pair and pair[0] not in (1, pair[1]) for pair in pairs):
        problem = "rcond has to be one number for each matrix, or for some of them"
        raise InferenceError(problem, input="rcond", expected=format_shape(batch), got=format_shape(rcond))
    return [(*batch_of(a, b), m, n), *ins[1:]], [(*batch_of(a, b), n, m)]


def _pinv_gradient(node: Node, ograds: Entries) -> list[NodeEntry | None]:
    """dA = -Bᵀ dB Bᵀ + (I - A B) dBᵀ B Bᵀ + Bᵀ B dBᵀ (I - B A), for B = A⁺."""
    a, b, db = node.inputs[0], NodeEntry(node, 0, 0), ograds[0]
    bt, dbt = transposed(b), transposed(db)
    right = _product(dbt, _product(b, bt))
    left = _product(_product(bt, b), dbt)
    others = _add(_sub(right, _product(a, _product(b, right))), _sub(left, _product(_product(left, b), a)))
    return [_sub(others, _product(_product(bt, db), bt)), *[None] * (len(node.inputs) - 1)]


for _name, _params, _inputs in (
    ("_npi_pinv", PinvParams, ("A", "rcond")),
    ("_npi_pinv_scalar_rcond", PinvScalarParams, ("A",)),
):
    register_op(
        _name,
        params=_params,
        inputs=_inputs,
        infer_shape=_pinv_shapes,
        infer_type=solver_type,
        gradient=_pinv_gradient,
        flops=square_flops(20),
        deviation=_HAS_GRADIENT,
        doc="The pseudo-inverse of each matrix (Moore-Penrose). It has a gradient, unlike in MXNet.",
    )

# -- tensors as matrices ---------------------------------------------------------------------------------------------


class TensorinvParams(Params):
    ind: int = param(2, ge=1, doc="how many first axes are the rows of the matrix that is inverted")


class TensorsolveParams(Params):
    a_axes: Axes = param((), doc="axes of a that come last before it is a matrix")


def _tensorinv_shapes(p: TensorinvParams, ins: Shapes, outs: Shapes):
    """a (rows…, columns…) → (columns…, rows…)."""
    a = ins[0]
    if a is None:
        return ins, outs
    rows, columns = size_of(a[: p.ind]), size_of(a[p.ind :])
    if None not in (rows, columns) and rows != columns:
        problem = "The first axes and the others have different numbers of elements"
        raise InferenceError(problem, input="a", expected=f"{rows} elements", got=f"{columns}, of {format_shape(a)}")
    return ins, [(*a[p.ind :], *a[: p.ind])]


def _tensorinv_gradient(node: Node, ograds: Entries) -> Entries:
    """dM = -Bᵀ dB Bᵀ of the matrices."""
    a, b = node.inputs[0], NodeEntry(node, 0, 0)
    matrix = apply("_tensor_matrix", a, rows=node.attrs.parsed.ind)
    inverse, ograd = (transposed(apply("reshape_like", x, matrix)) for x in (b, ograds[0]))
    return [apply("reshape_like", apply("negative", _product(_product(inverse, transposed(ograd)), inverse)), a)]


register_op(
    "_npi_tensorinv",
    params=TensorinvParams,
    inputs=("a",),
    infer_shape=_tensorinv_shapes,
    infer_type=solver_type,
    gradient=_tensorinv_gradient,
    flops="the work depends on the size of the matrix",
    doc="The inverse of a, whose first axes are the rows of a matrix and whose others its columns.",
)


def moved_last(p: TensorsolveParams, ndim: int) -> tuple[int, ...]:
    """The axes of a in the order in which it is a matrix."""
    last = normal_axes(p.a_axes, ndim, "a_axes")
    return (*(i for i in range(ndim) if i not in last), *last)


def _tensorsolve_shapes(p: TensorsolveParams, ins: Shapes, outs: Shapes):
    """a (b…, x…), b (…) → (x…)."""
    a, b = ins
    if a is None or b is None:
        return ins, outs
    order = moved_last(p, len(a))
    x = tuple(a[i] for i in order[len(b) - len(a) :])  # as NumPy cuts it
    if None not in (size_of(a), size_of(b)) and size_of(a) != (size_of(b) or 0) ** 2:
        expected = f"as many elements as b has, {size_of(b)}, squared"
        raise InferenceError("The first axes of a do not have the shape of b", expected=expected, got=format_shape(a))
    if None not in (size_of(x), size_of(b)) and size_of(x) != size_of(b):
        expected = f"as many elements as b has, {size_of(b)}"
        raise InferenceError("The numbers of unknowns and equations differ", expected=expected, got=format_shape(x))
    return ins, [x]


def _tensorsolve_gradient(node: Node, ograds: Entries) -> Entries:
    """dB = M⁻ᵀ dX, dM = -dB Xᵀ of the matrix and the vectors."""
    a, b = node.inputs
    matrix = apply("_tensor_matrix", a, a_axes=node.attrs.parsed.a_axes)
    flat = [apply("reshape", x, shape=(-1, 1)) for x in (ograds[0], NodeEntry(node, 0, 0))]
    db = apply("_npi_solve", transposed(matrix), flat[0])
    dmatrix = apply("negative", _product(db, transposed(flat[1])))
    of_a = apply("_backward_tensor_matrix", dmatrix, a, a_axes=node.attrs.parsed.a_axes)
    return [apply("_cast_like", of_a, a), apply("_cast_like", apply("reshape_like", db, b), b)]


register_op(
    "_npi_tensorsolve",
    params=TensorsolveParams,
    inputs=("a", "b"),
    infer_shape=_tensorsolve_shapes,
    infer_type=_equations_type,
    gradient=_tensorsolve_gradient,
    flops="the work depends on the size of the matrix",
    doc="The x with Σ a[i…, j…] · x[j…] = b[i…]; of two dtypes, or of whole numbers, in float64.",
)


class TensorMatrixParams(TensorsolveParams):
    rows: int | None = param(None, ge=1, doc="how many first axes are the rows; None: as many as make a square")


def _matrix_shapes(p: TensorMatrixParams, ins: Shapes, outs: Shapes):
    """data (rows…, columns…) → (n, n)."""
    data = ins[0]
    if data is None or None in data:
        return ins, outs
    total = prod(size or 0 for size in data)
    side = round(total**0.5)
    return ins, [(side, side)]


register_op(
    "_tensor_matrix",
    params=TensorMatrixParams,
    inputs=("data",),
    infer_shape=_matrix_shapes,
    flops=0,
    own=True,
    doc="The square matrix that tensorinv and tensorsolve see in an array: what their gradients are written with.",
)
linear("_tensor_matrix", of="data", adjoint="_backward_tensor_matrix")
