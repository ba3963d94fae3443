"""Types of `Custom` that MXNet registers itself: functions of its NumPy dialect that it computes in Python, under which
files of its networks have them. They have no gradient there, and none here.
"""

from __future__ import annotations

from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Shapes, Types, same_shape
from symjax_nnvm.ops.creation.init import FillType
from symjax_nnvm.ops.custom import register_custom
from symjax_nnvm.ops.random.broadcast_distributions import broadcast_all


class EmptyLikeParams(Params):
    """Parameters of `np.empty_like`, of which MXNet takes only `subok=False` and `shape=None`."""

    dtype: FillType | None = param(None, doc="the dtype; None: that of the prototype")
    order: str = param("C", doc="accepted and ignored")
    subok: bool = param(False, doc="accepted and ignored")
    shape: Tuple | None = param(None, doc="accepted and ignored")


def _empty_types(p: EmptyLikeParams, ins: Types, outs: Types):
    return ins, [p.dtype or ins[0]]


register_custom(
    "empty_like_fallback",
    params=EmptyLikeParams,
    inputs=("prototype",),
    infer_shape=same_shape,
    infer_type=_empty_types,
    doc="Zeros in the shape of an array.",
)


class ResizeParams(Params):
    """Parameters of `np.resize`."""

    new_shape: Tuple = param(ge=0, doc="the shape of the result")


def _resized_shapes(p: ResizeParams, ins: Shapes, outs: Shapes):
    return ins, [p.new_shape]


register_custom(
    "resize_fallback",
    params=ResizeParams,
    inputs=("a",),
    infer_shape=_resized_shapes,
    doc="The elements in a shape, repeated as often as it needs them.",
)


class UnravelParams(Params):
    """Parameters of `np.unravel_index`."""

    shape: Tuple = param(gt=0, doc="the shape of the array that is indexed")


def _unravelled_shapes(p: UnravelParams, ins: Shapes, outs: Shapes):
    return ins, [None if ins[0] is None else (len(p.shape), *ins[0])]


register_custom(
    "unravel_index_fallback",
    params=UnravelParams,
    inputs=("indices",),
    infer_shape=_unravelled_shapes,
    doc="Indices of the flat array as indices along each axis, one row for each.",
)


class NormalVectorParams(Params):
    """Parameters of `np.random.multivariate_normal`."""

    size: Tuple | None = param(None, ge=0, doc="the shape of the draws; None: that of the parameters")


def _vector_shapes(p: NormalVectorParams, ins: Shapes, outs: Shapes):
    mean, cov = ins
    vectors = broadcast_all([mean, None if cov is None else cov[:-1]])
    return ins, [None if vectors is None else (*(p.size or ()), *vectors)]


register_custom(
    "mvn_fallback",
    params=NormalVectorParams,
    inputs=("mean", "cov"),
    infer_shape=_vector_shapes,
    draws="always",
    doc="Vectors of a normal distribution, with a mean and a covariance.",
)
