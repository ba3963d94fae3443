"""Fourier transforms of real data, with complex numbers as pairs of real ones, and the count sketch."""

from __future__ import annotations

from math import prod

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes, as_much_as, per_input
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape, format_shape

# -- fft, ifft -------------------------------------------------------------------------------------------------------


class FFTParams(Params):
    compute_size: int = param(128, ge=1, doc="accepted for MXNet's sake: all rows are transformed at once")


def _doubled(shape: Shape | None) -> Shape | None:
    """(…, d) → (…, 2 d)."""
    return None if shape is None else (*shape[:-1], shape[-1] and 2 * shape[-1])


def _halved(shape: Shape | None) -> Shape | None:
    """(…, 2 d) → (…, d). Raises InferenceError when the last axis cannot hold pairs."""
    if shape is None:
        return None
    if not shape or (shape[-1] or 0) % 2:
        raise InferenceError(
            "The last axis does not hold pairs of real and imaginary parts",
            expected="(…, 2 d)",
            got=format_shape(shape),
        )
    return (*shape[:-1], shape[-1] and shape[-1] // 2)


def _with_last_axis(shape: Shape | None) -> Shape | None:
    if shape == ():
        raise InferenceError("There is no last axis to transform", expected="(…, d)", got="()")
    return shape


# Each is the other's transpose, so each is the other's gradient.
def _flops(p: FFTParams, ins: Sizes, outs: Sizes) -> Flops:
    return Flops(0, 5 * prod(outs[0]) * max(outs[0][-1].bit_length(), 1))


for _name, _other, _to, _back, _doc in (
    (
        "_contrib_fft",
        "_contrib_ifft",
        lambda shape: _doubled(_with_last_axis(shape)),
        _halved,
        "The discrete Fourier transform along the last axis: real data (…, d) → (…, 2 d), real and imaginary parts "
        "alternating.",
    ),
    (
        "_contrib_ifft",
        "_contrib_fft",
        _halved,
        lambda shape: _doubled(_with_last_axis(shape)),
        "The real part of the inverse transform along the last axis, not divided by d: (…, 2 d), real and imaginary "
        "parts alternating → (…, d).",
    ),
):
    register_op(
        _name,
        params=FFTParams,
        infer_shape=lambda p, ins, outs, to=_to, back=_back: ([back(outs[0])], [to(ins[0])]),
        infer_type=float_type,
        gradient=lambda node, ograds, other=_other: [apply(other, ograds[0], **vars(node.attrs.parsed))],
        flops=_flops,
        workspace=as_much_as("output", 2),
        doc=f"{_doc} MXNet has it on GPUs only, of two or four axes.",
    )

# -- count_sketch ----------------------------------------------------------------------------------------------------


class CountSketchParams(Params):
    out_dim: int = param(ge=1, doc="length of the sketch")
    processing_batch_size: int = param(32, ge=1, doc="accepted for MXNet's sake: all rows are sketched at once")


def _count_sketch_shapes(p: CountSketchParams, ins: Shapes, outs: Shapes):
    """data (…, d), h (1, d), s (1, d) → (…, out_dim)."""
    data, out = ins[0], outs[0]
    if data == ():
        raise InferenceError("There is no last axis to sketch", input="data", expected="(…, d)", got="()")
    length = known(*(shape[-1] for shape in ins if shape))
    batch = data[:-1] if data is not None else out[:-1] if out is not None else None
    row = (1, length)
    if batch is None:
        return [None, row, row], [None]
    return [(*batch, length), row, row], [(*batch, p.out_dim)]


register_op(
    "_contrib_count_sketch",
    params=CountSketchParams,
    inputs=("data", "h", "s"),
    infer_shape=_count_sketch_shapes,
    infer_type=float_type,
    flops=per_input(2),
    doc="The count sketch of the last axis (Charikar, Chen and Farach-Colton 2002): element j is multiplied by the "
    "sign s[j] and added to place h[j] of out_dim. Places outside are clipped. MXNet has it on GPUs only.",
)
linear(
    "_contrib_count_sketch",
    of="data",
    adjoint="_backward_count_sketch",
    inputs=("ograd", "h", "s"),
    doc="The gradient of a count sketch: every element's place of ograd, multiplied by its sign.",
)
