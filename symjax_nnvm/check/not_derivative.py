"""Operators whose gradient is not the derivative of what they compute, and is meant not to be: one row each.

At kinks and ties there is no derivative, and any gradient is one of several: that is no matter for this table, nor are
loss heads (FLossEquivalent) and BlockGrad, which say in other ways what their gradients are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from symjax_nnvm.ir.op import Op, list_unique_ops
from symjax_nnvm.ops.random.distributions import DISTRIBUTIONS
from symjax_nnvm.ops.vision.bounding_box import no_gradient

__all__ = ["NOT_DERIVATIVE", "Row"]


class Row(NamedTuple):
    """Some operators' reason. when: parameters → whether they bring it about; None: all do."""

    ops: tuple[str, ...]
    why: str
    when: Callable[[Any], bool] | None = None


def _stopped() -> tuple[str, ...]:
    return tuple(op.name for op in list_unique_ops() if Op.get_attr("FGradient").get(op) is no_gradient)


NOT_DERIVATIVE = (
    Row(_stopped(), "the gradient stops here: it is zero, as in MXNet"),
    Row(("_contrib_round_ste", "_contrib_sign_ste"), "straight through: the gradient is that of the identity"),
    Row(("_contrib_gradientmultiplier",), "the gradient is scaled, the data are not"),
    Row(
        ("Cast", "amp_cast", "amp_multicast"),
        "rounded to fewer digits the function is a staircase; the gradient is that of the identity",
    ),
    Row(
        ("softmax", "log_softmax", "softmin"),
        "the result is rounded to the parameter's dtype; the gradient is that before rounding",
        lambda p: p.dtype is not None,
    ),
    Row(
        ("_np_cumsum",),
        "fractions are cut off before, but the gradient is passed on",
        lambda p: p.dtype is not None and "int" in p.dtype,
    ),
    Row(
        ("_mod", "_rmod_scalar", "broadcast_mod"),
        "x mod 0 = 0, with the gradient of x",
    ),
    Row(("_mod_scalar",), "x mod 0 = 0, with the gradient of x", lambda p: p.scalar == 0),
    Row(
        ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU", "LayerNorm", "GroupNorm"),
        "head gradients of the outputs that show statistics are ignored",
        lambda p: getattr(p, "output_mean_var", False),
    ),
    Row(
        ("_linalg_potrf", "_linalg_syevd"),
        "only a triangle is read, but the gradient is that of symmetric changes",
    ),
    Row(("_eigenvalue_gaps",), "defined for ascending numbers"),
    Row(
        ("scatter_nd", "_contrib_index_copy"),
        "where indices repeat the last one wins, yet each element receives the gradient",
    ),
    Row(("_contrib_box_nms",), "the head gradient is copied to the row that was kept, whatever the format"),
    Row(("IdentityAttachKLSparseReg",), "the gradient is that of the identity plus the penalty's"),
    Row(
        ("SoftmaxOutput",),
        "a head gradient for each element makes it the derivative of nothing",
        lambda p: p.out_grad,
    ),
    Row(("softmax_cross_entropy",), "probabilities are clipped at 1e-8, which the gradient disregards"),
    Row(
        tuple(f"_sample_{row.name}" for row in DISTRIBUTIONS),
        "nothing flows through a draw, as in MXNet",
    ),
    Row(
        tuple(f"_random_pdf_{name}" for name in ("poisson", "negative_binomial", "generalized_negative_binomial")),
        "nothing flows to a sample that consists of counts, as in MXNet",
    ),
)


def _register(row: Row) -> None:
    def reason(attrs: Any) -> str | None:
        return row.why if row.when is None or row.when(attrs.parsed) else None

    for name in row.ops:
        Op.get(name).set_attr("FNotDerivative", reason)


for _row in NOT_DERIVATIVE:
    _register(_row)
