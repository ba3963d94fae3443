"""Kin of BatchNorm: the first version of it, the one that synchronises devices, the one with a ReLU."""

from __future__ import annotations

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, register_op
from symjax_nnvm.ir.rules.layout_rules import along
from symjax_nnvm.ops.nn.batch_norm import (
    BatchNormParams,
    at_inference,
    batch_norm_gradients,
    batch_norm_shapes,
    batch_norm_types,
    fixed_gamma,
    initial_moving_statistics,
    statistics_ignored,
)


class BatchNormV1Params(Params):
    eps: float = param(0.00100000005, doc="added to the variance")
    momentum: float = param(0.899999976, doc="share of the old value in a moving statistic")
    fix_gamma: bool = param(True, doc="take 1 for gamma and give it no gradient")
    use_global_stats: bool = param(False, doc="normalise with the moving statistics in training, too")
    output_mean_var: bool = param(False, doc="show the outputs `mean` and `var`")

    @property
    def axis(self) -> int:
        """The axis of channels."""
        return 1


class SyncBatchNormParams(BatchNormV1Params):
    ndev: int = param(1, doc="number of devices; accepted and without effect")
    key: str = param(doc="name that the devices meet under; without effect")


def _gradient_from_variance(node: Node, ograds: Entries):
    """BatchNorm's gradient with r = 1 / √(σ² + ε). Head gradients of `mean` and `var` are ignored."""
    mean, variance = NodeEntry(node, 1, 0), NodeEntry(node, 2, 0)
    scale = apply("rsqrt", apply("_plus_scalar", variance, scalar=node.attrs.parsed.eps))
    return batch_norm_gradients(node, ograds[0], mean, scale)


def _gradient_through_relu(node: Node, ograds: Entries):
    """BatchNorm's, of the head gradient where the output is positive."""
    passed = apply("elemwise_mul", ograds[0], apply("_greater_scalar", NodeEntry(node, 0, 0), scalar=0.0))
    return batch_norm_gradients(node, passed, NodeEntry(node, 1, 0), NodeEntry(node, 2, 0))


def _relu_at_inference(node: Node) -> NodeEntry | None:
    plain = at_inference(node)
    return None if plain is None else apply("relu", plain, name=node.name)


for _name, _params, _gradient, _doc in (
    (
        "BatchNorm_v1",
        BatchNormV1Params,
        _gradient_from_variance,
        "(deprecated; use BatchNorm) Batch normalisation over axis 1. The output `var` is the variance. Takes data of "
        "every rank from 2 and every floating-point dtype; MXNet takes float32 matrices and images.",
    ),
    (
        "_contrib_SyncBatchNorm",
        SyncBatchNormParams,
        _gradient_from_variance,
        "Batch normalisation over axis 1 with the statistics of the whole batch, wherever its parts are: XLA computes "
        "them over all devices that the data are sharded over, so that `ndev` and `key` have nothing to do. The output "
        "`var` is the variance; where moving statistics are used, `mean` and `var` are those (in MXNet undefined).",
    ),
    (
        "_contrib_BatchNormWithReLU",
        BatchNormParams,
        _gradient_through_relu,
        "max(BatchNorm, 0). Takes data of every rank and floating-point dtype; MXNet takes float32 images.",
    ),
):
    register_op(
        _name,
        params=_params,
        inputs=("data", "gamma", "beta", "moving_mean", "moving_var"),
        outputs=("output", "mean", "var"),
        visible_outputs=lambda p: 3 if p.output_mean_var else 1,
        mutates=(3, 4),
        infer_shape=batch_norm_shapes,
        infer_type=batch_norm_types,
        gradient=_gradient,
        out_grads_read=1,
        FSetInputVarAttrOnCompose=initial_moving_statistics,
        FInference=_relu_at_inference if _gradient is _gradient_through_relu else at_inference,
        FFixedInputs=fixed_gamma,
        TFixesInInference=_gradient is _gradient_from_variance,
        flops=3 if _gradient is _gradient_through_relu else 2,
        precision=None if _params is SyncBatchNormParams else "either",
        not_derivative=statistics_ignored,
        layout=along("axis", inputs=1, outputs=1) if _params is BatchNormParams else None,
        drawing="normalization",
        doc=_doc,
    )

Op.get("_contrib_BatchNormWithReLU").set_attr("FNumFileOutputs", lambda attrs: 4)  # one is a workspace of oneDNN
