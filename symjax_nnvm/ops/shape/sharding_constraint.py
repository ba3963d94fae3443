"""How an array is split over a mesh of devices: PlaceSharding makes this operator of the attribute `__sharding__`."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, register_op, same_shape
from symjax_nnvm.ir.rules.costs import ARRANGES
from symjax_nnvm.ir.rules.layout_rules import ChannelsLast, Corrected
from symjax_nnvm.ir.rules.linear import self_adjoint
from symjax_nnvm.ir.sharding import MeshAxes, axes_text, mesh_axes


class ShardingConstraintParams(Params):
    spec: str = param(doc='for each axis the axis of the mesh that it is split over: "data, None"')

    @property
    def axes(self) -> MeshAxes:
        """The spec, read. Raises ParamError."""
        return mesh_axes(self.spec)


def _shapes(p: ShardingConstraintParams, ins: Shapes, outs: Shapes):
    """data → the same; the spec names no more axes than there are."""
    data, out = same_shape(p, ins, outs)
    if data[0] is not None and len(p.axes) > len(data[0]):
        raise InferenceError(
            "The attribute __sharding__ is about more axes than the array has",
            expected=f"at most {len(data[0])} words, one for each axis",
            got=repr(p.spec),
            fix="Put the attribute on the arrays that it is about; axes that it leaves out are not split.",
        )
    return data, out


def _channels_last(p: ShardingConstraintParams, order: ChannelsLast) -> Corrected:
    axes = (*p.axes, *(None,) * (order.ndim - len(p.axes)))
    return Corrected({"spec": axes_text(tuple(axes[axis] for axis in order.forth))})


register_op(
    "_sharding_constraint",
    params=ShardingConstraintParams,
    infer_shape=_shapes,
    gradient=self_adjoint,
    inplace=((0, 0),),
    FInplaceIdentity=lambda attrs: (True,),
    FScaledParts=lambda attrs, axis, shapes: [None],
    layout=_channels_last,
    samples="each",
    drawing="shape",
    **ARRANGES,
    doc="The data itself, split over a mesh of devices as `spec` says, where the lowering is given one; its gradient "
    "is split in the same way.",
)
