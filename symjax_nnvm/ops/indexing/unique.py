"""Operators whose length depends on values: the different elements of an array, the places of nonzeros."""

from __future__ import annotations

from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import NoParams, Shapes, Types, register_op
from symjax_nnvm.ir.rules.axes import normal_axis, replaced


class UniqueParams(Params):
    return_index: bool = param(False, doc="also the index at which each element occurs first")
    return_inverse: bool = param(False, doc="also which of the different elements each one is")
    return_counts: bool = param(False, doc="also how often each occurs")
    axis: Axis | None = param(None, doc="the axis whose slices are compared; None: all elements")

    @property
    def num_outputs(self) -> int:
        """Number of results."""
        return 1 + self.return_index + self.return_inverse + self.return_counts


def _unique_shapes(p: UniqueParams, ins: Shapes, outs: Shapes):
    """data (…, n, …) → (…, ?, …), and as asked for (?,), (n,), (?,). A number has an axis 0."""
    data = (1,) if ins[0] == () else ins[0]
    first = (None,) if p.axis is None else data and replaced(data, normal_axis(p.axis, len(data)), None)
    return ins, [first, *[(None,)] * (p.num_outputs - 1)]


register_op(
    "_npi_unique",
    params=UniqueParams,
    inputs=("data",),
    num_outputs=lambda p: p.num_outputs,
    infer_shape=_unique_shapes,
    infer_type=lambda p, ins, outs: (ins, [ins[0], *["int64"] * (p.num_outputs - 1)]),
    gradient=lambda node, ograds: [None],
    not_derivative="nothing flows through it, as in MXNet",
    TDataDependentShape=True,
    flops="how many elements differ depends on values",
    doc="The different elements of data, or slices of an axis, in order. How many there are depends on values: it runs "
    "where they are known, outside jax.jit.",
)


def _nonzero_types(p: NoParams, ins: Types, outs: Types):
    """Indices are int64."""
    return ins, ["int64"]


register_op(
    "_npx_nonzero",
    aliases=("_npi_nonzero",),
    inputs=("x",),
    infer_shape=lambda p, ins, outs: (ins, [(None, None if ins[0] is None else max(len(ins[0]), 1))]),
    infer_type=_nonzero_types,
    gradient=lambda node, ograds: [None],
    TDataDependentShape=True,
    flops="how many elements are not 0 depends on values",
    doc="The indices of the elements that are not 0, one in each row. How many there are depends on values: it runs "
    "where they are known, outside jax.jit.",
)
