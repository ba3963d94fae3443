"""How much arithmetic an operator does: the attribute `FFlops`, and its value for the operators of most models.

Two numbers are kept apart. A *MAC* is one multiplication with the addition that follows it, as matrix products and
convolutions do them; other operations (bias, comparisons, square roots, each elementary function) count one each.
1 MAC = 2 FLOPs. What moves or makes data without arithmetic costs 0. An operator without `FFlops` is not counted, and
whoever reports a sum says so: the work of detection, sorting or loops depends on more than shapes.

These are values of low priority, so that an operator's author can set a better one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ir.op import GROUP_PLEVEL, Op, OpMap
from symjax_nnvm.ops.elementwise import binary as elemwise_binary
from symjax_nnvm.ops.elementwise import scalar
from symjax_nnvm.ops.elementwise import unary as elemwise_unary
from symjax_nnvm.ops.nn.rnn import GATES

__all__ = ["FFlops", "Flops", "FlopsRule"]

Sizes = tuple[int, ...]


class Flops(NamedTuple):
    """Arithmetic of one call: multiply-adds, and other floating-point operations."""

    macs: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """Floating-point operations: two for each MAC."""
        return 2 * self.macs + self.other


FlopsRule = Callable[[NodeAttrs, Sequence[Sizes], Sequence[Sizes]], Flops]

FFlops: OpMap[FlopsRule] = Op.get_attr("FFlops")
"""(attrs, input shapes, output shapes), all known → `Flops` of one call at inference."""


def _per_output(count: int) -> FlopsRule:
    """So many operations for each element of the first output."""
    return lambda attrs, ins, outs: Flops(0, count * prod(outs[0]))


def _per_input(count: int) -> FlopsRule:
    """So many operations for each element of the first input."""
    return lambda attrs, ins, outs: Flops(0, count * prod(ins[0]))


def _convolution(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Each output element sums over the window and over its group's input channels: the weight has them all."""
    p, out = attrs.parsed, prod(outs[0])
    return Flops(out * (prod(_weight(attrs, ins)) // p.num_filter), 0 if p.no_bias else out)


def _deconvolution(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Each input element is spread over the window and its group's output channels: the weight (c, f / groups, …k)."""
    p = attrs.parsed
    channels = ins[0][p.channel_axis]
    return Flops(prod(ins[0]) * (prod(ins[1]) // max(channels, 1)), 0 if p.no_bias else prod(outs[0]))


def _fully_connected(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    return Flops(prod(outs[0]) * ins[1][1], 0 if attrs.parsed.no_bias else prod(outs[0]))


def _dot(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """lhs and rhs share one axis, of which every other element of lhs sees all of rhs."""
    shared = ins[0][0 if attrs.parsed.transpose_a else -1]
    return Flops(prod(ins[0]) * prod(ins[1]) // max(shared, 1))


def _batch_dot(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    return Flops(prod(outs[0]) * ins[0][-2 if attrs.parsed.transpose_a else -1])


def _gemm(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """`_batch_dot`, where parameter axis says which axis the rows are; C is added where there is one."""
    p = attrs.parsed
    shared = ins[0][p.axis if p.transpose_a else -1]
    return Flops(prod(outs[0]) * shared, prod(outs[0]) if len(ins) == 3 else 0)


def _scores(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Queries (t, n, parts · heads · d) times keys → (n · heads, t, s), each element a product of length d."""
    rows, batch, width = ins[0]
    parts = 3 if len(ins) == 1 else 1
    depth = width // (parts * attrs.parsed.heads)
    return Flops(prod(outs[0]) * depth, rows * batch * width // parts)


def _mixture(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Weights (n · heads, t, s) times values → (t, n, heads · d), each element a product of length s."""
    return Flops(prod(outs[0]) * ins[1][-1])


def _rnn(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Every weight of the vector, biases excepted, meets every element of every sequence once."""
    p = attrs.parsed
    steps, batch, _ = ins[0]
    gates = GATES[p.mode]
    biases = 2 * p.num_layers * p.num_directions * gates * p.state_size
    cells = steps * batch * p.num_layers * p.num_directions * p.state_size
    return Flops(steps * batch * (ins[1][0] - biases), cells * (4 * gates if gates > 1 else 3))


def _pooling(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    p = attrs.parsed
    return Flops(0, prod(ins[0]) if p.global_pool else prod(outs[0]) * prod(p.kernel))


def _pooling_gradient(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Each window's head gradient meets each element of the window."""
    p = attrs.parsed
    return Flops(0, prod(ins[1]) if p.global_pool else prod(ins[0]) * prod(p.kernel))


def _convolution_gradient(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Each element of the head gradient meets the window and its group's input channels."""
    p = attrs.parsed
    weight = ins[1] if attrs.op is Op.get("_backward_Convolution_data") else outs[0]
    return Flops(prod(ins[0]) * (prod(weight) // p.num_filter))


def _correlation(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Each displacement compares patches of all channels."""
    return Flops(prod(outs[0]) * ins[0][1] * attrs.parsed.kernel_size**2)


def _correlation_gradient(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    return Flops(prod(ins[0]) * ins[1][1] * attrs.parsed.kernel_size**2)


def _sort(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """n log n comparisons; of a draw without inputs, of what it draws."""
    count = prod((ins or outs)[0])
    return Flops(0, count * max(count.bit_length(), 1))


def _suppression(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """At worst each box of an image meets each: sixteen operations for a pair."""
    *batch, boxes, _ = outs[0]
    return Flops(0, 16 * prod(batch) * boxes**2)


def _proposals(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    p, (images, double, h, w) = attrs.parsed, ins[0]
    boxes = double // 2 * h * w
    taken = min(p.rpn_pre_nms_top_n, boxes) if p.rpn_pre_nms_top_n > 0 else boxes
    return Flops(0, 16 * images * (boxes + taken * min(taken, p.rpn_post_nms_top_n)))


def _pairs(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Each of the first input's rows meets each of the second's: sixteen operations."""
    return Flops(0, 16 * prod(ins[0][:-1]) * prod(ins[1][:-1]))


def _matching(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """At worst a round for each row, or column, of the scores."""
    return Flops(0, prod(ins[0]) * min(ins[0][-2:]))


def _bins(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Four elements for each sample of a bin."""
    p: Any = attrs.parsed
    given = getattr(p, "sample_per_part", None) or getattr(p, "sample_ratio", 0) or getattr(p, "sampling_ratio", 0)
    return Flops(4 * prod(outs[0]) * max(given, 2) ** 2)


def _whole_map(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """A bin may be as large as the map."""
    return Flops(0, prod(outs[0]) * prod(ins[0][-2:]))


def _square_matrix(factor: int) -> FlopsRule:
    """So many times n³ for each matrix (…, n, n), or as m n² for (…, m, n)."""
    return lambda attrs, ins, outs: Flops(factor * prod(ins[0]) * ins[0][-1])


def _ctc(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Every step visits the labels with blanks between them, forwards and backwards."""
    steps, batch, classes = ins[0]
    return Flops(0, steps * batch * (5 * classes + 40 * (2 * ins[1][-1] + 1)))


def _fourier(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    return Flops(0, 5 * prod(outs[0]) * max(outs[0][-1].bit_length(), 1))


def _add_n(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    return Flops(0, prod(outs[0]) * (len(ins) - 1))


def _lrn(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Square, sum over the window, scale, shift, power, divide."""
    return Flops(0, prod(outs[0]) * (attrs.parsed.nsize + 4))


def _up_sampling(attrs: NodeAttrs, ins: Sequence[Sizes], outs: Sequence[Sizes]) -> Flops:
    """Nearest copies; bilinear is a deconvolution of each channel, whose window is twice the scale."""
    p = attrs.parsed
    return Flops(prod(ins[0]) * (2 * p.scale - p.scale % 2) ** 2 if p.sample_type == "bilinear" else 0)


def _weight(attrs: NodeAttrs, ins: Sequence[Sizes]) -> Sizes:
    """The weight among a convolution's inputs: the last, but for the bias."""
    return ins[-1 if attrs.parsed.no_bias else -2]


_MOVES_DATA = """
    _copy BlockGrad _identity_with_attr_like_rhs Cast _cast_like amp_cast amp_multicast Dropout
    Reshape Flatten reshape_like expand_dims squeeze transpose SwapAxis depth_to_space space_to_depth
    Concat _rnn_param_concat stack SliceChannel _split_v2 slice_axis slice slice_like reverse Pad Crop
    Embedding one_hot pick batch_take take gather_nd scatter_nd _slice_assign _slice_assign_scalar fill_element_0index
    broadcast_to broadcast_axis broadcast_like tile repeat diag im2col shape_array size_array where
    _zeros _ones _full zeros_like ones_like _arange _linspace _eye _contrib_arange_like _contrib_index_array
    SequenceMask SequenceReverse SequenceLast MakeLoss make_loss LinearRegressionOutput MAERegressionOutput SVMOutput
    _contrib_gradientmultiplier cast_storage _sparse_retain _contrib_SparseEmbedding
"""
"""Operators without arithmetic of their own, at inference."""

_RULES: dict[str, FlopsRule] = {
    **dict.fromkeys(("Convolution", "Convolution_v1"), _convolution),
    **dict.fromkeys(("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution"), _convolution),
    "Deconvolution": _deconvolution,
    "FullyConnected": _fully_connected,
    "dot": _dot,
    "batch_dot": _batch_dot,
    **dict.fromkeys(("_linalg_gemm", "_linalg_gemm2"), _gemm),
    **{f"_contrib_interleaved_matmul_{kind}_qk": _scores for kind in ("selfatt", "encdec")},
    **{f"_contrib_interleaved_matmul_{kind}_valatt": _mixture for kind in ("selfatt", "encdec")},
    "RNN": _rnn,
    **dict.fromkeys(("Pooling", "Pooling_v1"), _pooling),
    **{f"_backward_Pooling_{kind}": _pooling_gradient for kind in ("sum", "max", "pick")},
    **{f"_backward_Pooling_v1_{kind}": _pooling_gradient for kind in ("max", "pick")},
    **{f"_backward_Convolution_{kind}": _convolution_gradient for kind in ("data", "weight")},
    "_contrib_AdaptiveAvgPooling2D": _per_input(1),
    "Correlation": _correlation,
    **{f"_backward_Correlation_{kind}": _correlation_gradient for kind in ("data1", "data2")},
    **dict.fromkeys(("sort", "argsort", "topk", "_shuffle", "_sample_unique_zipfian"), _sort),
    **dict.fromkeys(("_contrib_box_nms", "_contrib_MultiBoxDetection"), _suppression),
    **dict.fromkeys(("_contrib_Proposal", "_contrib_MultiProposal"), _proposals),
    **dict.fromkeys(("_contrib_box_iou", "_contrib_MultiBoxTarget"), _pairs),
    "_contrib_bipartite_matching": _matching,
    **dict.fromkeys(("_contrib_ROIAlign", "_contrib_RROIAlign", "_contrib_DeformablePSROIPooling"), _bins),
    **dict.fromkeys(("ROIPooling", "_contrib_PSROIPooling"), _whole_map),
    **{f"_linalg_{name}": _square_matrix(1) for name in ("potrf", "potri", "syrk", "trmm", "trsm", "det", "slogdet")},
    **{f"_linalg_{name}": _square_matrix(4) for name in ("gelqf", "inverse")},
    "_linalg_syevd": _square_matrix(10),
    "CTCLoss": _ctc,
    **dict.fromkeys(("_contrib_fft", "_contrib_ifft"), _fourier),
    # Scale and shift: the statistics are constants at inference.
    **dict.fromkeys(("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm"), _per_output(2)),
    "_contrib_BatchNormWithReLU": _per_output(3),
    # Mean, centre, square, sum, divide, scale, shift.
    **dict.fromkeys(("LayerNorm", "GroupNorm", "InstanceNorm"), _per_output(7)),
    "L2Normalization": _per_output(3),
    "LRN": _lrn,
    # Maximum, subtract, exp, sum, divide.
    **dict.fromkeys(("softmax", "log_softmax", "softmin", "SoftmaxActivation", "SoftmaxOutput"), _per_output(5)),
    "softmax_cross_entropy": _per_input(5),
    "LogisticRegressionOutput": _per_output(1),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "nansum", "nanprod", "argmax", "argmin"), _per_input(1)),
    **dict.fromkeys(("norm", "_square_sum"), _per_input(2)),
    "moments": _per_input(4),
    "add_n": _add_n,
    "_np_cumsum": _per_output(1),
    "UpSampling": _up_sampling,
    "_contrib_BilinearResize2D": lambda attrs, ins, outs: Flops(4 * prod(outs[0])),
    "BilinearSampler": lambda attrs, ins, outs: Flops(4 * prod(outs[0])),
    **dict.fromkeys(("Activation", "LeakyReLU", "clip", "smooth_l1", "hard_sigmoid", "_polygamma"), _per_output(1)),
    **dict.fromkeys(("_contrib_div_sqrt_dim", "_contrib_round_ste", "_contrib_sign_ste"), _per_output(1)),
    "_contrib_quadratic": lambda attrs, ins, outs: Flops(2 * prod(outs[0])),
}
"""Operators whose arithmetic is more, or less, than one operation for each element."""

_ELEMENTWISE = (
    *(name for name, *_ in elemwise_unary.FUNCTIONS),
    *(function.op for function in elemwise_binary.FUNCTIONS),
    *(f"broadcast_{function.name}" for function in elemwise_binary.FUNCTIONS),
    *(name for name, *_ in scalar.FUNCTIONS),
    *("_scatter_plus_scalar", "_scatter_minus_scalar", "_scatter_elemwise_div"),
)

for _name, _rule in {
    **dict.fromkeys(_ELEMENTWISE, _per_output(1)),
    **dict.fromkeys(_MOVES_DATA.split(), lambda attrs, ins, outs: Flops()),
    **_RULES,
}.items():
    Op.get(_name).set_attr("FFlops", _rule, plevel=GROUP_PLEVEL)
