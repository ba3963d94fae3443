"""Operators whose result is not MXNet 1.9.1's where MXNet has one (FDeviation): one row each.

Only what a working MXNet model can meet is listed: what MXNet leaves undefined for some values, or computes otherwise.
What works here and is an error there (more dtypes, layouts, axes, gradients) is in the operators' descriptions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from symjax_nnvm.ir.op import Deviation, Op

__all__ = ["DEVIATIONS", "Row"]


class Row(NamedTuple):
    """One operator's difference. when: parameters → whether they bring it about; None: all do."""

    op: str
    what: str
    when: Callable[[Any], bool] | None = None
    affects: Literal["outputs", "training"] = "outputs"


def _clips(p: Any) -> bool:
    return p.lstm_state_clip_min is not None or p.lstm_state_clip_max is not None


def _drops_between_layers(p: Any) -> bool:
    return p.p > 0 and p.num_layers > 1


def _has_fractional_half_step(p: Any) -> bool:
    return p.dtype == "float16" and p.step != int(p.step)


DEVIATIONS = (
    Row(
        "RNN",
        "sequence lengths work as in cuDNN, outputs past an end are 0; MXNet ignores or refuses them on a CPU",
        lambda p: p.use_sequence_length,
    ),
    Row(
        "RNN",
        "dropout between layers acts in training; MXNet's RNN on a CPU (oneDNN) leaves it out",
        _drops_between_layers,
        "training",
    ),
    Row("RNN", "LSTM states are clipped as in cuDNN; MXNet ignores or refuses clipping on a CPU", _clips),
    Row(
        "_contrib_box_nms",
        "boxes that begin left of 0 are converted to the other format, too; MXNet leaves them as they came",
        lambda p: p.in_format != p.out_format,
    ),
    Row("_while_loop", "stacked outputs are zero after the last step; MXNet leaves them undefined"),
    Row("_arange", "a float16 step keeps its fraction; MXNet cuts it off", _has_fractional_half_step),
    Row("_linalg_potrf", "of a matrix that is not positive definite the result is NaN; MXNet stops with an error"),
    Row("_linalg_inverse", "of a singular matrix the result is not finite; MXNet stops with an error"),
    Row("_sample_unique_zipfian", "draws the distribution that MXNet documents; MXNet draws another one"),
    Row(
        "amp_multicast",
        "arrays that are neither float32, float16 nor bfloat16 have no say in the dtype; in MXNet the first array may",
    ),
    *(
        Row(name, "every element is computed; MXNet computes those that a row_sparse or csr array stores")
        for name in ("_scatter_plus_scalar", "_scatter_minus_scalar", "_scatter_elemwise_div")
    ),
    Row(
        "tile",
        "repeats along four axes or more are computed; MXNet refuses them or returns what is in its memory",
        lambda p: sum(times > 1 for times in p.reps) > 3,
    ),
    Row("_unravel_index", "of data with more axes all places are converted; MXNet writes beyond its result"),
    Row(
        "gather_nd",
        "indices beyond an axis are clipped, where MXNet stops with an error; those that count from the end have "
        "gradients, which MXNet writes outside of its memory",
    ),
    Row("take", "indices out of range are clipped; MXNet stops with an error", lambda p: p.mode == "raise"),
    Row("multi_sum_sq", "float16 is summed in float32; MXNet sums it in float16"),
    Row("mp_lamb_update_phase2", "the float32 copy of the weight is updated; MXNet forgets it", None, "training"),
    Row(
        "_multi_adamw_update",
        "learning rates are float32 for weights of every dtype; MXNet misreads them for weights that are not float32",
        None,
        "training",
    ),
    Row(
        "SoftmaxOutput",
        "out_grad multiplies with the head gradient; MXNet 1.9 multiplies with the output",
        lambda p: p.out_grad,
        "training",
    ),
    Row(
        "LeakyReLU",
        "the gradient of selu is its derivative; MXNet multiplies with the scale twice below 0",
        lambda p: p.act_type == "selu",
        "training",
    ),
    Row(
        "LeakyReLU",
        "gamma's gradient is right wherever prelu stands; MXNet's can come out multiplied by gamma inside a network, "
        "as it reuses memory that it still reads",
        lambda p: p.act_type == "prelu",
        "training",
    ),
    Row(
        "SoftmaxActivation",
        "of data with more than two axes the gradient is that of the output; MXNet normalises the gradient along other "
        "axes than the output",
        lambda p: p.mode == "instance",
        "training",
    ),
    Row("Dropout", "p=1 gives zeros; MXNet's result and gradient are NaN", lambda p: p.p == 1, "training"),
    Row("batch_take", "has a gradient; MXNet refuses to differentiate it", None, "training"),
    Row(
        "Pooling",
        "the gradient divides by the part of a window inside the data, as the forward pass does; oneDNN, which "
        "MXNet uses on a CPU, by the whole window",
        lambda p: p.pool_type == "avg" and p.pooling_convention == "full" and not p.global_pool,
        "training",
    ),
    Row(
        "_cond",
        "inputs of the branch not taken have zero gradients; MXNet leaves them undefined",
        None,
        "training",
    ),
    Row(
        "CTCLoss",
        "a sequence that no alignment fits has gradient 0; MXNet leaves it undefined",
        None,
        "training",
    ),
    Row(
        "ROIPooling",
        "regions whose last corner comes before the first have a gradient; MXNet's is 0",
        None,
        "training",
    ),
    Row(
        "_contrib_hawkesll",
        "the gradient reaches state, lags and max_time and follows the second output; MXNet's does not",
        None,
        "training",
    ),
    Row(
        "IdentityAttachKLSparseReg",
        "the moving average follows in the forward pass of training; in MXNet in the backward pass",
        None,
        "training",
    ),
)


def _deviation(rows: tuple[Row, ...]) -> Callable[[Any], Deviation | None]:
    def deviation(attrs: Any) -> Deviation | None:
        found = [row for row in rows if row.when is None or row.when(attrs.parsed)]
        if not found:
            return None
        affects = "outputs" if any(row.affects == "outputs" for row in found) else "training"
        return Deviation("; ".join(row.what for row in found), affects)

    return deviation


for _name in dict.fromkeys(row.op for row in DEVIATIONS):
    Op.get(_name).set_attr("FDeviation", _deviation(tuple(row for row in DEVIATIONS if row.op == _name)))
