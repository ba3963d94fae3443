"""hawkesll: the log-likelihood of Hawkes processes, whose events excite further events."""

from __future__ import annotations

from functools import partial
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.register import Entries, NoParams, need_float, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.derivatives import DirectionParams, Operands, register_derivatives
from symjax_nnvm.ir.types import Shape, format_shape

INPUTS = ("lda", "alpha", "beta", "state", "lags", "marks", "valid_length", "max_time")
_SMOOTH = ("lda", "alpha", "beta", "state", "lags", "max_time")
_FIXED = ("marks", "valid_length", "memory")


class HawkesGradientParams(DirectionParams):
    """The number of directions."""


def _known_sizes(shapes: dict[str, Shape | None]) -> dict[str, int | None]:
    """Sizes by letter: n samples, k processes, t events."""
    sizes: dict[str, int | None] = {}
    for name, shape in shapes.items():
        letters = AXES[name]
        if shape is not None and len(shape) != len(letters):
            raise InferenceError(
                f"Input {name} has the wrong number of axes",
                input=name,
                expected=f"({', '.join(letters)})",
                got=format_shape(shape),
            )
        for letter, size in zip(letters, shape or [None] * len(letters), strict=True):
            sizes[letter] = known(sizes.get(letter), size)
    return sizes


AXES = {
    "lda": "nk",
    "alpha": "k",
    "beta": "k",
    "state": "nk",
    "lags": "nt",
    "marks": "nt",
    "valid_length": "n",
    "max_time": "n",
    "output": "n",
    "out_state": "nk",
    "memory": "tnk",
}
"""The axes of inputs and outputs: n samples, k processes, t events."""


def _operand_shapes(p: object, at: Operands) -> Operands:
    """lda, state (n, k), alpha, beta (k,), lags, marks (n, t), valid_length, max_time (n,) → (n,), (n, k)."""
    heads = ("output", "out_state")
    groups = ((heads, at.heads), (_SMOOTH, at.smooth), (_FIXED, at.fixed))
    shapes = {name: shape for names, known_ in groups for name, shape in zip(names, known_, strict=True)}
    sizes = _known_sizes(shapes)
    inferred = [[tuple(sizes[letter] for letter in AXES[name]) for name in names] for names, _ in groups]
    return Operands(inferred[0], inferred[1], inferred[2], [])


def _operand_types(p: object, at: Operands) -> Operands:
    """One floating-point dtype; marks are int32."""
    dtype = next((t for t in (*at.heads, *at.smooth, *at.fixed[1:]) if t is not None), None)
    need_float(dtype)
    return Operands([dtype] * 2, [dtype] * len(_SMOOTH), ["int32", dtype, dtype], [])


def _inferred(rule: Any, p: NoParams, ins: Any, outs: Any):
    """The operands' rule, in the order of inputs and outputs."""
    by_name = dict(zip(INPUTS, ins, strict=True)) | {"memory": outs[2]}
    inferred = rule(None, Operands(list(outs[:2]), [by_name[n] for n in _SMOOTH], [by_name[n] for n in _FIXED], []))
    named = dict(zip((*_SMOOTH, *_FIXED), (*inferred.smooth, *inferred.fixed), strict=True))
    return [named[name] for name in INPUTS], [*inferred.heads, named["memory"]]


DERIVATIVES = register_derivatives(
    "hawkesll",
    params=HawkesGradientParams,
    heads=lambda p: ("output", "out_state"),
    smooth=lambda p: _SMOOTH,
    fixed=lambda p: _FIXED,
    infer_shape=_operand_shapes,
    infer_type=_operand_types,
)


def _gradient(node: Node, ograds: Entries):
    """Back through the events; nothing flows into marks and valid_length."""
    inputs = dict(zip(INPUTS, node.inputs, strict=True))
    return DERIVATIVES.gradient(node, ograds, [inputs["marks"], inputs["valid_length"], NodeEntry(node, 2, 0)])


register_op(
    "_contrib_hawkesll",
    inputs=INPUTS,
    outputs=("output", "out_state", "memory"),
    visible_outputs=2,
    infer_shape=partial(_inferred, _operand_shapes),
    infer_type=partial(_inferred, _operand_types),
    gradient=_gradient,
    FNumFileOutputs=lambda attrs: 2,
    flops="the work depends on the lengths of the sequences",
    deviation=Deviation(
        "the gradient reaches state, lags and max_time and follows the second output; MXNet's does not", "training"
    ),
    doc="Log-likelihood (n,) of k univariate Hawkes processes with exponential decay (Bacry et al. 2015), observed "
    "together until max_time (n,): λₖ(t) = ldaₖ + αₖ βₖ sₖ(t), with sₖ(t) = Σ exp(-βₖ (t - tᵢ)) over the events i of "
    "process k before t. state (n, k) is s at time 0, the second output s at max_time. lags (n, t) are the times "
    "between events, marks (n, t) their processes; the first valid_length (n,) of them count. Unlike MXNet's, the "
    "gradient reaches state, lags and max_time, and follows the second output, too.",
)
