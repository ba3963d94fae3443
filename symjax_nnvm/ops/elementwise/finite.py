"""Of MXNet's NumPy dialect: which numbers are finite, what stands for those that are not; not, and rounding."""

from __future__ import annotations

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, register_op, same_shape
from symjax_nnvm.ops.elementwise.binary import mul, number_type
from symjax_nnvm.ops.elementwise.promoted import truth_type, whole_type

for _name, _doc in (
    ("isnan", "Whether x is NaN."),
    ("isinf", "Whether x is infinite."),
    ("isfinite", "Whether |x| < ∞."),
    ("isposinf", "Whether x = ∞."),
    ("isneginf", "Whether x = -∞."),
    ("logical_not", "Whether x = 0."),
    ("bitwise_not", "The bits of x inverted; of booleans whether x is false."),
):
    register_op(
        f"_npi_{_name}",
        inputs=("x",),
        infer_shape=same_shape,
        infer_type=whole_type if _name == "bitwise_not" else truth_type,
        gradient=lambda node, ograds: [None],
        inplace=((0, 0),),
        flops=1,
        layout="agnostic",
        doc=_doc,
    )


class AroundParams(Params):
    decimals: int = param(0, ge=-400, le=400, doc="digits after the point; negative ones before it")


register_op(
    "_npi_around",
    params=AroundParams,
    inputs=("x",),
    infer_shape=same_shape,
    infer_type=number_type,
    gradient=lambda node, ograds: [None],
    inplace=((0, 0),),
    flops=3,
    layout="agnostic",
    doc="x rounded to that many decimals; ties go to the even digit. Whole numbers are cut off, towards 0.",
)


class NanToNumParams(Params):
    copy: bool = param(True, doc="changes nothing")
    nan: float = param(0.0, doc="for NaN")
    posinf: float | None = param(None, doc="for ∞; None: the largest number")
    neginf: float | None = param(None, doc="for -∞; None: the least number")


def _nan_to_num_gradient(node: Node, ograds: Entries) -> list[NodeEntry | None]:
    """dX = dY where X is finite."""
    data = node.inputs[0]
    return [mul(ograds[0], apply("_cast_like", apply("_npi_isfinite", data), data))]


register_op(
    "_npi_nan_to_num",
    params=NanToNumParams,
    infer_shape=same_shape,
    gradient=_nan_to_num_gradient,
    inputs=("data",),
    inplace=((0, 0),),
    flops=1,
    layout="agnostic",
    doc="The data, with numbers for NaN and the infinities. The gradient passes where the data are finite.",
)
