"""CTCLoss: connectionist temporal classification."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, need_float, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.derivatives import DirectionParams, Operands, register_derivatives
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import Shape, format_shape


class CTCLossParams(Params):
    use_data_lengths: bool = param(False, doc="take the number of steps of each sequence")
    use_label_lengths: bool = param(False, doc="take the number of labels of each sequence; else they end at padding")
    blank_label: Literal["first", "last"] = param(
        "first", doc="the blank's class: 0, and labels are padded with 0; or the last, and they are padded with -1"
    )


class CTCLossGradientParams(CTCLossParams, DirectionParams):
    """The parameters of CTCLoss, and the number of directions."""


def _labelling(p: CTCLossParams) -> list[str]:
    """The inputs besides data."""
    return ["label", *["data_lengths"] * p.use_data_lengths, *["label_lengths"] * p.use_label_lengths]


def _ranked(shape: Shape | None, rank: int, name: str, meaning: str) -> Shape:
    if shape is None:
        return (None,) * rank
    if len(shape) != rank:
        problem = f"The number of dimensions of {name} must be {rank}"
        raise InferenceError(problem, input=name, expected=meaning, got=format_shape(shape))
    return shape


def _operand_shapes(p: CTCLossParams, at: Operands) -> Operands:
    """data (t, n, c), label (n, l), data_lengths (n,), label_lengths (n,) → loss (n,), its gradient (t, n, c)."""
    steps, batch, classes = _ranked(at.smooth[0], 3, "data", "(sequence length, batch size, classes)")
    rows, count = _ranked(at.fixed[0], 2, "label", "(batch size, label length)")
    names = _labelling(p)[1:]
    lengths = [_ranked(shape, 1, name, "(batch size,)")[0] for name, shape in zip(names, at.fixed[1:-1], strict=True)]
    batch = known(batch, rows, *lengths, at.heads[0][0] if at.heads[0] else None)
    if steps is not None and count is not None and not is_at_most(count, steps):
        raise InferenceError(
            "The max number of labels cannot exceed the maximum sequence length of the data",
            input="label",
            expected=f"at most {steps} labels",
            got=count,
        )
    data = (steps, batch, classes)
    return Operands([(batch,)], [data], [(batch, count), *[(batch,)] * len(lengths), data], [])


def _operand_types(p: CTCLossParams, at: Operands) -> Operands:
    """Data, loss and gradient of one floating-point dtype; labels and lengths of any."""
    dtype = next((t for t in (*at.smooth, *at.heads, at.fixed[-1]) if t is not None), None)
    need_float(dtype)
    return Operands([dtype], [dtype], [*(label or dtype for label in at.fixed[:-1]), dtype], [])


def _inferred(rule: Any, p: CTCLossParams, ins: Any, outs: Any):
    """The operands' rule, in the order of inputs and outputs."""
    inferred = rule(p, Operands([outs[0]], [ins[0]], [*ins[1:], outs[1]], []))
    return [*inferred.smooth, *inferred.fixed[:-1]], [*inferred.heads, inferred.fixed[-1]]


DERIVATIVES = register_derivatives(
    "CTCLoss",
    params=CTCLossGradientParams,
    heads=lambda p: ["loss"],
    smooth=lambda p: ["data"],
    fixed=lambda p: [*_labelling(p), "gradient"],
    infer_shape=_operand_shapes,
    infer_type=_operand_types,
)


def _gradient(node: Node, ograds: Entries):
    """The head gradient of each sequence times its hidden gradient; nothing flows into labels and lengths."""
    return DERIVATIVES.gradient(node, ograds, [*node.inputs[1:], NodeEntry(node, 1, 0)])


def _ctc_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """Every step visits the labels with blanks between them, forwards and backwards."""
    steps, batch, classes = ins[0]
    return Flops(0, steps * batch * (5 * classes + 40 * (2 * ins[1][-1] + 1)))


def _ctc_workspace(p: Any, ins: Sizes, outs: Sizes) -> int:
    """The elements of the forward and backward variables: for every step, all labels with blanks between them."""
    steps, batch, _ = ins[0]
    return 2 * steps * batch * (2 * ins[1][-1] + 3)


register_op(
    "CTCLoss",
    aliases=("_contrib_CTCLoss", "_contrib_ctc_loss", "ctc_loss"),
    params=CTCLossParams,
    inputs=("data", "label", "data_lengths", "label_lengths"),
    inputs_used=lambda p: ["data", *_labelling(p)],
    num_outputs=2,
    visible_outputs=1,
    infer_shape=partial(_inferred, _operand_shapes),
    infer_type=partial(_inferred, _operand_types),
    gradient=_gradient,
    flops=_ctc_flops,
    workspace=_ctc_workspace,
    deviation=Deviation("a sequence that no alignment fits has gradient 0; MXNet leaves it undefined", "training"),
    doc="-log of the probability of each sequence's labels under connectionist temporal classification (Graves et al. "
    "2006): summed over all alignments with the steps, blanks between them. data (t, n, c) are activations, of which "
    "a softmax is taken; label (n, l); the loss is (n,). As in MXNet a sequence that no alignment fits has loss 0; it "
    "has gradient 0, too, where MXNet leaves the gradient's memory as it was. Works in every floating-point dtype. The "
    "hidden output is the gradient of data.",
)
