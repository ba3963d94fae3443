"""Operators on bounding boxes: overlap, non-maximum suppression, bipartite matching, encoding and decoding.

A box is left, top, right, bottom ("corner"), or x and y of its centre, width, height ("center").
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import NoParams, Shapes, Types, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, Sizes, as_much_as
from symjax_nnvm.ir.rules.entry_gradients import STOPPED, no_gradient
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.named_dims import read_dims, shapes_of
from symjax_nnvm.ir.types import Shape, format_shape

Format = Literal["center", "corner"]


def _at_least_2d(name: str, shape: Shape | None) -> None:
    if shape is not None and len(shape) < 2:
        raise InferenceError("Too few axes", input=name, expected="at least 2 axes", got=format_shape(shape))


# -- box_iou ---------------------------------------------------------------------------------------------------------


class BoxIoUParams(Params):
    format: Format = param("corner", doc="how a box is written")


def _boxes(name: str, shape: Shape | None) -> Shape | None:
    """The shape of an array of boxes: its last axis has length 4."""
    _at_least_2d(name, shape)
    return None if shape is None else (*shape[:-1], 4)


def _iou_shapes(p: BoxIoUParams, ins: Shapes, outs: Shapes):
    """lhs (a…, 4), rhs (b…, 4) → (a…, b…)."""
    lhs, rhs, out = _boxes("lhs", ins[0]), _boxes("rhs", ins[1]), outs[0]
    if out is not None and lhs is not None and rhs is None:
        rhs = (*out[len(lhs) - 1 :], 4)
    elif out is not None and rhs is not None and lhs is None:
        lhs = (*out[: len(out) - len(rhs) + 1], 4)
    if lhs is None or rhs is None:
        return [lhs, rhs], outs
    return [lhs, rhs], [(*lhs[:-1], *rhs[:-1])]


def pair_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """Each of the first input's rows is compared with each of the second's: sixteen operations."""
    return Flops(0, 16 * prod(ins[0][:-1]) * prod(ins[1][:-1]))


def suppression_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """The cost at worst: each box of an image is compared with each, with sixteen operations for a pair."""
    *batch, boxes, _ = outs[0]
    return Flops(0, 16 * prod(batch) * boxes**2)


def _matching_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """The cost at worst: a round for each row, or column, of the scores."""
    return Flops(0, prod(ins[0]) * min(ins[0][-2:]))


register_op(
    "_contrib_box_iou",
    params=BoxIoUParams,
    inputs=("lhs", "rhs"),
    infer_shape=_iou_shapes,
    infer_type=float_type,
    gradient=no_gradient,
    flops=pair_flops,
    not_derivative=STOPPED,
    doc="Intersection over union of every box of lhs with every box of rhs. Its gradient is zero.",
)

# -- box_nms ---------------------------------------------------------------------------------------------------------


class BoxNMSParams(Params):
    overlap_thresh: float = param(0.5, doc="a box that overlaps a better one more (intersection over union) is removed")
    valid_thresh: float = param(0.0, doc="only boxes with a higher score take part")
    topk: int = param(-1, doc="how many boxes, the best ones, take part; negative: all; 0: the data, unchanged")
    coord_start: int = param(2, ge=0, doc="where in a row the four coordinates begin")
    score_index: int = param(1, ge=0, doc="where in a row the score is")
    id_index: int = param(-1, doc="where in a row the class is; negative: boxes have none")
    background_id: int = param(-1, doc="boxes of this class take no part, where rows have classes")
    force_suppress: bool = param(False, doc="a box may also be removed for one of another class")
    in_format: Format = param("corner", doc="how a box of data is written")
    out_format: Format = param("corner", doc="how a box of the output is written")

    def check(self) -> str | None:
        coordinates = range(self.coord_start, self.coord_start + 4)
        if self.score_index in coordinates:
            return f"Parameter score_index={self.score_index}: conflict with the coordinates {list(coordinates)}"
        if self.id_index in coordinates:
            return f"Parameter id_index={self.id_index}: conflict with the coordinates {list(coordinates)}"
        if self.id_index == self.score_index:
            return f"Parameter id_index={self.id_index}: conflict with score_index={self.score_index}"
        return None


def _nms_shapes(p: BoxNMSParams, ins: Shapes, outs: Shapes):
    """data (…, n, k) → (…, n, k), record (…, n, 1)."""
    shape = next((s for s in (ins[0], outs[0]) if s is not None), None)
    if shape is None:
        return ins, outs
    _at_least_2d("data", shape)
    needed = 1 + max(p.coord_start + 3, p.score_index, p.id_index)
    if shape[-1] is not None and shape[-1] < needed:
        problem = "Rows too short for coord_start, score_index and id_index"
        raise InferenceError(problem, input="data", expected=f"rows of at least {needed}", got=shape[-1])
    return [shape], [shape, (*shape[:-1], 1)]


def _nms_types(p: BoxNMSParams, ins: Types, outs: Types):
    """data and output of one floating-point dtype; record int32."""
    inputs, (out,) = float_type(p, ins, outs[:1])
    return inputs, [out, "int32"]


def _record_types(p: NoParams, ins: Types, outs: Types):
    """Boxes and result of one dtype, record int32."""
    dtype = next((t for t in (ins[0], outs[0]) if t is not None), None)
    return [dtype, "int32"], [dtype]


def _record_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """boxes (…, n, k), record (…, n, 1) → (…, n, k)."""
    shape = next((s for s in (ins[0], outs[0]) if s is not None), None)
    return ([shape, (*shape[:-1], 1)], [shape]) if shape else (ins, outs)


register_op(
    "_contrib_box_nms",
    aliases=("_contrib_box_non_maximum_suppression",),
    params=BoxNMSParams,
    num_outputs=2,
    visible_outputs=1,
    infer_shape=_nms_shapes,
    infer_type=_nms_types,
    gradient=lambda node, ograds: [apply("_backward_contrib_box_nms", ograds[0], NodeEntry(node, 1))],
    flops=suppression_flops,
    workspace=as_much_as("input", 2),
    deviation=Deviation(
        "boxes that begin left of 0 are converted to the other format, too; MXNet leaves them as they came",
        when=lambda p: p.in_format != p.out_format,
    ),
    not_derivative="the head gradient is copied to the row that was kept, in any format",
    doc="Non-maximum suppression: rows of data by descending score (ties in the order of data), without those that "
    "overlap a better one; the rest of the output is -1. A head gradient goes to the row that was kept, as it is: "
    "a conversion from one format to the other is disregarded, as in MXNet. Boxes that begin left of 0 are converted, "
    "too, where MXNet leaves them in the format they came in.",
)
register_op(
    "_backward_contrib_box_nms_take",
    inputs=("data", "record"),
    infer_shape=_record_shapes,
    infer_type=_record_types,
    doc="The transpose of `_backward_contrib_box_nms`: the rows that box_nms kept, in its order, then zeros.",
)
linear(
    "_backward_contrib_box_nms_take",
    of="data",
    adjoint="_backward_contrib_box_nms",
    inputs=("ograd", "record"),
    doc="Gradient of box_nms: each row of ograd at the place its box came from; 0 for removed boxes.",
)

# -- bipartite_matching ----------------------------------------------------------------------------------------------


class BipartiteMatchingParams(Params):
    is_ascend: bool = param(False, doc="lower scores are better")
    threshold: float = param(doc="a pair needs a better score than this")
    topk: int = param(-1, doc="how many pairs beside the first are made at most; 0 or less: no limit")


def _matching_shapes(p: BipartiteMatchingParams, ins: Shapes, outs: Shapes):
    """data (…, r, c) → (…, r), (…, c)."""
    data, (rows, columns) = ins[0], outs
    _at_least_2d("data", data)
    if data is None and rows and columns:
        data = (*rows, columns[-1])
    return ([data], [data[:-1], (*data[:-2], data[-1])]) if data is not None else (ins, outs)


register_op(
    "_contrib_bipartite_matching",
    params=BipartiteMatchingParams,
    num_outputs=2,
    infer_shape=_matching_shapes,
    infer_type=float_type,
    gradient=no_gradient,
    flops=_matching_flops,
    not_derivative=STOPPED,
    doc="Rows and columns of a matrix of scores, paired greedily, the best score first (ties in the matrix's order): "
    "each row's column and each column's row, -1 where there is none. topk lets one pair more pass than it says, as in "
    "MXNet. Its gradient is zero.",
)

# -- box_encode, box_decode ------------------------------------------------------------------------------------------


class BoxDecodeParams(Params):
    std0: float = param(1.0, doc="factor of the centre's x")
    std1: float = param(1.0, doc="factor of the centre's y")
    std2: float = param(1.0, doc="factor of the width's logarithm")
    std3: float = param(1.0, doc="factor of the height's logarithm")
    clip: float = param(-1.0, doc="upper bound of both logarithms; 0 or less: none")
    format: Format = param("center", doc="how an anchor is written")


def _encode_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """samples (b, n), matches (b, n), anchors (b, n, 4), refs (b, m, 4), means (4,), stds (4,) → two (b, n, 4)."""
    inputs, outputs = ["b n", "b n", "b n 4", "b m 4", "4", "4"], ["b n 4", "b n 4"]
    dims = read_dims(inputs + outputs, [*ins, *outs])
    return shapes_of(inputs, dims), shapes_of(outputs, dims)


def _decode_shapes(p: BoxDecodeParams, ins: Shapes, outs: Shapes):
    """data (b, n, 4), anchors (1, n, 4) → (b, n, 4)."""
    inputs, outputs = ["b n 4", "1 n 4"], ["b n 4"]
    dims = read_dims(inputs + outputs, [*ins, *outs])
    return shapes_of(inputs, dims), shapes_of(outputs, dims)


register_op(
    "_contrib_box_encode",
    inputs=("samples", "matches", "anchors", "refs", "means", "stds"),
    num_outputs=2,
    infer_shape=_encode_shapes,
    infer_type=float_type,
    gradient=no_gradient,
    flops="a few operations for each box, beside a network's",
    not_derivative=STOPPED,
    doc="Targets of box regression, and their mask. For samples above 0.5: the matched box's centre relative to the "
    "anchor's, in its widths and heights, and the logarithms of the ratios of widths and heights, normalised with "
    "means and stds; else 0. Boxes are corners. Its gradient is zero.",
)
register_op(
    "_contrib_box_decode",
    params=BoxDecodeParams,
    inputs=("data", "anchors"),
    infer_shape=_decode_shapes,
    infer_type=float_type,
    gradient=no_gradient,
    flops="a few operations for each box, beside a network's",
    not_derivative=STOPPED,
    doc="The boxes, as corners, that regression data describe relative to anchors: the inverse of box_encode. Its "
    "gradient is zero, as in MXNet.",
)
