"""histogram: the number of elements in each bin."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, Types, register_op, same_type
from symjax_nnvm.ir.types import format_shape, is_float


class HistogramParams(Params):
    bin_cnt: int | None = param(None, ge=1, doc="number of bins of one width; None: the edges are an input")
    range: tuple[float, ...] | None = param(None, doc="(lowest, highest) value that is counted")

    def check(self) -> str | None:
        if (self.bin_cnt is None) != (self.range is None):
            return "bin_cnt and range should both or neither be specified"
        if self.range is not None and (len(self.range) != 2 or not self.range[0] <= self.range[1]):
            return "range should be two numbers, the lower one first"
        return None


_PART = 1 << 16
"""The number of edges of bins that are made at a time."""


def edges(number: int, low: float, high: float, dtype: np.dtype) -> np.ndarray:
    """The bins' edges (number + 1,), part by part: in float64 all at once would take several times their memory."""
    numbers = np.empty(number + 1, dtype)
    for first in range(0, number + 1, _PART):
        steps = np.arange(first, min(first + _PART, number + 1))
        numbers[first : first + _PART] = _held((high * steps + low * (number - steps)) / number, dtype)
    return numbers


def _held(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers in a dtype, of an integer one the nearest that it holds."""
    if not is_float(dtype.name):
        numbers = np.clip(numbers, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return numbers.astype(dtype)


def _histogram_shapes(p: HistogramParams, ins: Shapes, outs: Shapes):
    """data (…), bins (n + 1,) → counts (n,), edges (n + 1,)."""
    if p.bin_cnt is not None:
        return ins, [(p.bin_cnt,), (p.bin_cnt + 1,)]
    bins = ins[1] if ins[1] is not None else outs[1]
    if bins is None:
        return ins, outs
    if len(bins) != 1 or bins[0] == 1:
        expected = "a vector of at least 2 edges"
        raise InferenceError("bins must be edges", input="bins", expected=expected, got=format_shape(bins))
    return [ins[0], bins], [(None if bins[0] is None else bins[0] - 1,), bins]


def _histogram_types(p: HistogramParams, ins: Types, outs: Types):
    """Data and edges of one dtype; counts are int64."""
    inputs, (edges,) = same_type(p, ins, outs[1:])
    return inputs, ["int64", edges]


register_op(
    "_histogram",
    aliases=("_npi_histogram",),
    params=HistogramParams,
    inputs=("data", "bins"),
    inputs_used=lambda p: ("data", "bins") if p.bin_cnt is None else ("data",),
    num_outputs=2,
    infer_shape=_histogram_shapes,
    infer_type=_histogram_types,
    gradient=lambda node, ograds: [None, ograds[1]][: len(node.inputs)],
    flops="the work depends on the number of bins",
    doc="Number of elements in each bin, and the bins' edges. A bin has its lower edge, the last one both; elements "
    "outside are not counted. Given edges must ascend. The gradient of data is zero, where MXNet has an error.",
)
