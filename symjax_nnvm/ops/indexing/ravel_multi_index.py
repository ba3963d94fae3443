"""ravel_multi_index and unravel_index: indices as places in memory, and back."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Shapes, register_op
from symjax_nnvm.ir.rules.axes import size_of
from symjax_nnvm.ir.types import format_shape


class RavelParams(Params):
    shape: Tuple | None = param(None, doc="shape of the array that is indexed; its first dimension may be -1, unknown")

    def check(self) -> str | None:
        if not self.shape:
            return "Empty shape parameter: shape must have at least one dimension"
        if any(dim < 1 for dim in self.shape[1:]) or (self.shape[0] < 1 and self.shape[0] != -1):
            return f"shape must have positive dimensions, of which the first may be -1, not {self.shape}"
        return None

    @property
    def dims(self) -> Tuple:
        """The shape, which `check` has seen."""
        return self.shape or ()


def _ravel_shapes(p: RavelParams, ins: Shapes, outs: Shapes):
    """data (axes, n) ↔ (n,)."""
    data, out = ins[0], outs[0]
    if data is not None and len(data) != 2:
        raise InferenceError(
            "Each column of indices must be one index", expected=f"({len(p.dims)}, n)", got=format_shape(data)
        )
    n = data[1] if data is not None else None
    if n is None and out:
        n = out[0]
    return [(len(p.dims), n)], [(n,)]


def _unravel_shapes(p: RavelParams, ins: Shapes, outs: Shapes):
    """data (n,), or (a, b, …) of n elements → (axes, n)."""
    data, out = ins[0], outs[0]
    if data is None:
        return ins, [(len(p.dims), out[1] if out is not None and len(out) == 2 else None)]
    return ins, [(len(p.dims), size_of(data))]


for _name, _shapes, _deviation, _doc in (
    (
        "ravel_multi_index",
        _ravel_shapes,
        (),
        "The place in memory of elements whose indices are given, one in each column. Nothing is checked against the "
        "shape; fractions are cut off.",
    ),
    (
        "unravel_index",
        _unravel_shapes,
        "of data (a, b, …) the result is (axes, a·b·…); MXNet's is (axes, a), and it writes beyond it",
        "The indices, one in each column, of the elements at given places in memory. The places are an array of any "
        "shape, read in order. Places beyond the shape continue along its first axis; fractions are cut off. "
        "Of places (a, b, …) the result is (axes, a·b·…); MXNet's is (axes, a), does not hold them, and is overrun.",
    ),
):
    register_op(
        f"_{_name}",
        aliases=(_name,),
        params=RavelParams,
        inputs=("data",),
        infer_shape=_shapes,
        gradient=lambda node, ograds: [None],
        flops="a product and a sum of integers for each axis",
        deviation=_deviation,
        doc=_doc,
    )
