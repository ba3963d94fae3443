"""The range of a layer's numbers that loses least when they become 8-bit integers."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, Types, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ops.quantization.ranges import LAST, RANGE


class CalibrateEntropyParams(Params):
    num_quantized_bins: int = param(255, ge=2, le=65535, doc="number of bins that the histogram is quantised to")


def _calibrate_shapes(p: CalibrateEntropyParams, ins: Shapes, outs: Shapes):
    """hist (n,), hist_edges (n + 1,) → (1,), (1,)."""
    bins = known(
        ins[0][0] if ins[0] else None,
        ins[1][0] - 1 if ins[1] and ins[1][0] is not None else None,
    )
    if bins is not None and not is_at_most(p.num_quantized_bins, bins):
        raise InferenceError(
            "The histogram has fewer bins than it is quantised to",
            param="num_quantized_bins",
            expected=f"at most the {bins} of hist",
            got=p.num_quantized_bins,
        )
    return [(bins,), (None if bins is None else bins + 1,)], [RANGE, RANGE]


def _calibrate_types(p: CalibrateEntropyParams, ins: Types, outs: Types):
    return ["float32", "float32"], ["float32", "float32"]


register_op(
    "_contrib_calibrate_entropy",
    params=CalibrateEntropyParams,
    inputs=("hist", "hist_edges"),
    outputs=("threshold", "divergence"),
    infer_shape=_calibrate_shapes,
    infer_type=_calibrate_types,
    flops="as often as the histogram has bins on one side of zero",
    **LAST,
    doc="The threshold t, of the edges of a histogram around 0, for which the histogram clipped to (-t, t) and that "
    "quantised to num_quantized_bins differ least by their Kullback-Leibler divergence; and this divergence.",
)
