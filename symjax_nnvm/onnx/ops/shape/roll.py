"""ONNX forms of the operators that shift, turn and surround arrays as NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.shape.arranged import arranged, arrangements
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import roll as ops

arrangements(
    {
        "_np_roll": lambda p, places: np.roll(places, p.shifts if p.axis else p.shifts[0], p.axis),
        "_npi_rot90": lambda p, places: np.rot90(places, p.k, p.axes),
    }
)


@onnx_form("_npi_pad")
def _pad(g: Builder, p: ops.NumpyPadParams, data: Tensor) -> Tensor:
    if p.mode in ("maximum", "minimum"):
        g.refuse(f"ONNX has no border of the {p.mode}", "Pad with another mode.")
    shape = g.static(data)
    mode: Any = p.mode
    places = np.pad(np.arange(1, int(np.prod(shape)) + 1).reshape(shape), p.widths(data.ndim), mode=mode)
    return arranged(g, g.reshape(data, -1), places, p.constant_value)


refuses("_pad_extremes", reason="it occurs only in second gradients", fix="Export the network without gradients.")
