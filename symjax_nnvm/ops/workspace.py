"""What operators hold while they run beyond their inputs and outputs: the attribute `FWorkspace`, as one table.

The rules say how the lowering rules of this project work: windows are cut out of a padded copy, samples are gathered
before they are added up. They count elements, as the largest arrays of an operator do; XLA may need less, where it
fuses, or a copy more, where it turns axes. An operator that is not listed works on its inputs and outputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import GROUP_PLEVEL, Op
from symjax_nnvm.ops.nn.pooling import windows
from symjax_nnvm.ops.nn.rnn import GATES
from symjax_nnvm.ops.vision.resize import DENSE

Sizes = Sequence[tuple[int, ...]]
WorkspaceRule = Callable[[NodeAttrs, Sizes, Sizes], int]


def _extended(shape: tuple[int, ...], axes: Sequence[int], margins: Sequence[int]) -> int:
    """Elements of an array whose axes are longer by margins."""
    sizes = list(shape)
    for axis, margin in zip(axes, margins, strict=True):
        sizes[axis] += max(margin, 0)
    return prod(sizes)


def _padded_data(number: int) -> WorkspaceRule:
    """An operator with a window over spatial axes, whose data are the input of a number, negative for an output."""

    def rule(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
        p: Any = attrs.parsed
        shape = ins[number] if number >= 0 else outs[number]
        axes = getattr(p, "spatial_axes", range(2, len(shape)))
        return _extended(shape, axes, [2 * pad for *_, pad in p.steps])

    return rule


def _spread(number: int, whole: int) -> WorkspaceRule:
    """A window moving over values spread a stride apart (input of a number), as a convolution's data gradient does;
    `whole`: the output that they cover."""

    def rule(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
        p: Any = attrs.parsed
        margins = [2 * pad + 2 * (kernel - 1) for kernel, _, _, pad in p.steps]
        values = list(ins[number])
        for axis, (kernel, stride, _, _) in zip(p.spatial_axes, p.steps, strict=True):
            values[axis] = (values[axis] - 1) * stride + 1 + 2 * (kernel - 1)
        return max(prod(values), _extended(outs[whole], p.spatial_axes, margins))

    return rule


def _pooling(number: int) -> WorkspaceRule:
    """Data as far as windows reach."""

    def rule(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
        w = windows(attrs.parsed, ins[number])
        margins = [low + max(high, 0) for low, high in zip(w.pads, w.overhangs, strict=True)]
        return _extended(ins[number], w.axes, margins)

    return rule


def _pooling_v1(number: int) -> WorkspaceRule:
    """Data with all of their padding."""

    def rule(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
        pads = [] if attrs.parsed.global_pool else [2 * pad for pad in attrs.parsed.pad]
        return _extended(ins[number], range(2, 2 + len(pads)), pads)

    return rule


def _resizing(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """A matrix for each axis, and the data after the first; a sparse matrix's parts, and the terms that it adds up."""
    (n, c, *olds), news = ins[0], outs[0][2:]
    if 0 in (*ins[0], *outs[0]):
        return 0
    total = n * c * news[0] * olds[1]
    for old, new, other in zip(olds, news, (max(olds[1], news[1]), max(olds[0], news[0])), strict=True):
        dense = old * new <= DENSE
        total += old * new if dense else (old + new) * (6 + n * c * other)
    return total


def _correlation(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """The result once more, its axes in another order, and both maps padded."""
    pad = 2 * attrs.parsed.pad_size
    return prod(outs[0]) + 2 * _extended(ins[0], (2, 3), (pad, pad))


def _correlation_gradient(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """What each displacement's patches receive, and both maps padded."""
    p = attrs.parsed
    n, displacements, *counts = ins[0]
    extents = [(count - 1) * p.stride1 + 2 * p.kernel_size - 1 for count in counts]
    pad = 2 * p.pad_size
    return n * displacements * prod(extents) + 2 * _extended(ins[1], (2, 3), (pad, pad))


def _columns(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """The windows of data as columns."""
    n, channels = ins[0][:2]
    return n * channels * prod(attrs.parsed.kernel) * prod(outs[0][2:])


def _bins(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """Whether each sample of each bin lies in the map."""
    p = attrs.parsed
    classes = ins[2][1] // 2 if len(ins) > 2 and len(ins[2]) == 4 else 1
    regions = next(shape[0] for shape in ins if len(shape) == 2)
    return regions * classes * p.pooled_size**2 * p.sample_per_part**2


def _region_weights(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """The weight of each element of an axis in each bin, and the bins of one axis."""
    p = attrs.parsed
    data = next(shape for shape in (*ins, *outs) if len(shape) == 4)
    regions = next(shape[0] for shape in ins if len(shape) == 2)
    height, width = data[-2:]
    return regions * (p.pooled_size[0] * height + p.pooled_size[1] * width + data[1] * p.pooled_size[0] * width)


def _rotated_samples(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """Where the samples of every bin lie; a number that follows from the regions is found one sample at a time."""
    p = attrs.parsed
    regions = next(shape[0] for shape in ins if len(shape) == 2)
    return 4 * regions * prod(p.pooled_size) * max(p.sampling_ratio, 1) ** 2


def _region_maxima(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """Maxima of data over windows of every power of two in both axes."""
    *_, height, width = ins[0]
    return prod(ins[0]) * height.bit_length() * width.bit_length()


def _region_sums(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """The summed map that each bin reads."""
    *_, height, width = ins[0]
    return prod(outs[0]) * (height + 1) * (width + 1)


def _ctc(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """Every step's numbers for the labels with blanks between them, forwards and backwards."""
    steps, batch, _ = ins[0]
    return 2 * steps * batch * (2 * ins[1][-1] + 3)


def _multinomial(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """Each draw against the sum of each class."""
    return prod(outs[0]) * ins[0][-1]


def _rnn(attrs: NodeAttrs, ins: Sizes, outs: Sizes) -> int:
    """The gates of every step of one layer, and every layer's output."""
    p = attrs.parsed
    steps, batch, _ = ins[0]
    return steps * batch * p.state_size * p.num_directions * (GATES[p.mode] + p.num_layers)


def _as_much_as(which: str, count: int) -> WorkspaceRule:
    """So many arrays like the first input or output."""
    return lambda attrs, ins, outs: count * prod((ins if which == "input" else outs)[0])


_RULES: dict[str, WorkspaceRule] = {
    **dict.fromkeys(("Convolution", "Convolution_v1", "im2col"), _padded_data(0)),
    **dict.fromkeys(("_backward_Convolution_weight", "_backward_im2col"), _padded_data(1)),
    "_backward_Convolution_data": _spread(0, 0),
    "Deconvolution": _spread(0, 0),
    "_backward_Deconvolution_data": _padded_data(0),
    "_backward_Deconvolution_weight": _padded_data(0),
    "col2im": _padded_data(-1),
    "Pooling": _pooling(0),
    **{f"_backward_Pooling_{kind}": _pooling(1) for kind in ("sum", "max", "pick")},
    "Pooling_v1": _pooling_v1(0),
    **{f"_backward_Pooling_v1_{kind}": _pooling_v1(1) for kind in ("max", "pick")},
    "Correlation": _correlation,
    **dict.fromkeys(("_backward_Correlation_data1", "_backward_Correlation_data2"), _correlation_gradient),
    **dict.fromkeys(("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution"), _columns),
    "_contrib_DeformablePSROIPooling": _bins,
    **{f"_backward_DeformablePSROIPooling_{kind}": _bins for kind in ("slopes", "data")},
    **dict.fromkeys(("_contrib_ROIAlign", "_backward_ROIAlign"), _region_weights),
    **dict.fromkeys(("_contrib_RROIAlign", "_backward_RROIAlign"), _rotated_samples),
    "ROIPooling": _region_maxima,
    "_contrib_PSROIPooling": _region_sums,
    "CTCLoss": _ctc,
    "_sample_multinomial": _multinomial,
    "_sample_unique_zipfian": _as_much_as("output", 4),
    "RNN": _rnn,
    **dict.fromkeys(("sort", "argsort", "topk", "_shuffle", "_contrib_box_nms"), _as_much_as("input", 2)),
    **{
        f"{way}contrib_{op}2D": _resizing
        for way in ("_", "_backward_")
        for op in ("BilinearResize", "AdaptiveAvgPooling")
    },
    "_histogram": _as_much_as("output", 2),
    "BilinearSampler": _as_much_as("output", 4),
    **dict.fromkeys(("_contrib_fft", "_contrib_ifft"), _as_much_as("output", 2)),
}
"""Operator → its rule."""

for _name, _rule in _RULES.items():
    Op.get(_name).set_attr("FWorkspace", _rule, plevel=GROUP_PLEVEL)
