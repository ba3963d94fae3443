"""What is written into an ONNX file and onnxruntime 1.32 does not run on a CPU, each with its reason; and what has no
form with some parameters. `test_cases.py` holds the lists to it: what does run, or is written, may not stand here."""

import platform
from pathlib import Path

from lowering.core.rules import FLowering
from symjax_nnvm.ir.attributes import FDraws
from symjax_nnvm.ir.op import Op
from symjax_nnvm.onnx.writer import form_of
from tests.cases import Case
from tests.support import ladder

NO_FLOAT64 = frozenset(
    {
        *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cosh", "erf", "sinh", "tan"),
        *("Convolution", "Convolution_v1", "Deconvolution", "GroupNorm", "InstanceNorm", "LRN", "Pooling"),
        *(
            *("Pooling_v1", "UpSampling", "col2im", "im2col", "linalg_det", "linalg_slogdet", "_npi_det"),
            *("_npi_slogdet", "Correlation"),
        ),
        *("_contrib_BilinearResize2D", "ROIPooling", "BilinearSampler", "SpatialTransformer"),
    }
)
"""Operators of which onnxruntime has no kernel in float64: of Atan, Conv, AveragePool, …; each in all float64 cases but
those in `FLOAT64_AFTER_ALL`."""

FLOAT64_AFTER_ALL = frozenset({"Pooling:kernel=(2,2),pool_type=max,stride=(2,2):(1,2,4,4)float64"})
"""Cases that have a kernel all the same."""

_BFLOAT16 = "its results are bfloat16, which NumPy has not"
NOT_RUN: dict[str, str] = {
    "amp_cast:dtype=bfloat16:(2,3)": _BFLOAT16,
    "Cast:dtype=bfloat16:(4,)": _BFLOAT16,
    "RNN:mode=gru,state_size=2,num_layers=1,state_outputs=True:(3,2,3)float64x(42,)float64x(1,2,2)float64": (
        "no kernel of GRU in float64"
    ),
    "_npi_arctan2_scalar:scalar=1.5,is_int=False:(4,)int32": "no kernel of Atan in float64",
    "LeakyReLU:act_type=gelu:(2,3)float64": "no kernel of Erf in float64",
}
"""Case → why onnxruntime does not run it."""

OVERFLOW = {
    "_contrib_quantized_fully_connected:num_hidden=5,flatten=False:"
    "(2,3,600)uint8x(5,600)int8x(5,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval"
}
"""Cases of uint8 times int8 whose sums of two products overflow the 16 bits in which onnxruntime adds them on
processors of Intel's and AMD's without VNNI."""

CPUS = Path("/proc/cpuinfo")
SUMS_OVERFLOW = CPUS.exists() and "vnni" not in CPUS.read_text() and platform.machine() == "x86_64"
"""Whether this is such a processor, as far as Linux says."""

A_LEVEL_OFF = {
    "_sg_mkldnn_conv:added_int8:(2,3,5,5)uint8x(4,3,3,3)x(4,)x(4,)x(4,)x(4,)x(4,)x(2,4,5,5)int8"
    "x(1,)x(1,)x(1,)x(1,):eval": (
        "the greatest weight of a row is 127.5 levels, a tie that the last bit decides; MXNet rounds it with BatchNorm"
    )
}
"""Case → why results of 8-bit integers may differ by one."""

_CELL = "ONNX' LSTM neither projects its output nor clips its cell state"
_NO_BORDER = "ONNX has no border of the maximum or minimum"
_SAME_CHANNELS = "ONNX' RoiAlign takes all bins from the same channels"
_SINGULAR = "ONNX has no factorisation of matrices"
_SUMS = "its int32 sums have a range that is known only at run time"
NO_FORM: dict[str, str] = {
    **dict.fromkeys(
        (
            *("_npi_norm:value:(2,3)", "_npi_norm:value:ord=-2.0,flag=0,axis=(0,1):(2,3)"),
            *("_npi_norm:(2,3)", "_npi_norm:ord=-2.0,flag=0,axis=(0,1):(2,3)", "_npi_norm:flag=2,axis=(0,1):(2,3)"),
            "_npi_norm:flag=2,axis=(0,2),keepdims=True:(2,3,2)",
        ),
        _SINGULAR,
    ),
    "RNN:mode=lstm,state_size=3,num_layers=2,projection_size=1,bidirectional=True,state_outputs=True:"
    "(3,2,3)x(276,)x(4,2,1)x(4,2,3):eval": _CELL,
    "RNN:mode=lstm,state_size=2,num_layers=1,projection_size=1,bidirectional=True,state_outputs=True:"
    "(3,2,3)x(100,)x(2,2,1)x(2,2,2)": _CELL,
    "RNN:mode=lstm,state_size=2,num_layers=1,state_outputs=True,lstm_state_clip_min=-0.2,lstm_state_clip_max=0.3:"
    "(3,2,3)x(56,)x(1,2,2)x(1,2,2)": _CELL,
    "RNN:mode=lstm,state_size=2,num_layers=1,projection_size=1,use_sequence_length=True:"
    "(2,16,1)x(34,)x(1,16,1)x(1,16,2)x(16,)int32": _CELL,
    "_contrib_ROIAlign:pooled_size=(2,3),spatial_scale=0.5,position_sensitive=True:(6,12,4,5)x(3,5)": _SAME_CHANNELS,
    "_contrib_ROIAlign:pooled_size=(2,2),spatial_scale=1.0,sample_ratio=1,position_sensitive=True:(6,8,4,5)x(3,5)": (
        _SAME_CHANNELS
    ),
    "_npi_pad:pad_width=((1,0),(0,2)),mode=maximum:(2,3)": _NO_BORDER,
    "_npi_pad:pad_width=((1,0),(0,2)),mode=minimum:(2,3)": _NO_BORDER,
    "_npi_pad:pad_width=((1,2),),mode=maximum:(2,3)": _NO_BORDER,
    "_npi_pad:pad_width=((0,3),(2,1)),mode=minimum:(3,2)": _NO_BORDER,
    "_sg_mkldnn_conv:sums:(2,3,5,5)uint8x(4,3,3,3)x(4,)x(1,)x(1,):eval": _SUMS,
    "_sg_mkldnn_fully_connected:sums:(3,12)uint8x(5,12)int8x(5,)int8x(1,)x(1,)x(1,)x(1,)x(1,)x(1,):eval": _SUMS,
    "_sg_mkldnn_selfatt_valatt:sums:(4,3,12)int8x(6,4,4)uint8x(1,)x(1,)x(1,)x(1,):eval": _SUMS,
}
"""Case → why an operator that has a form has none with its parameters."""


def is_empty(case: Case) -> bool:
    """Whether a case has an array without elements, of which ONNX files know nothing."""
    return any(0 in tensor.shape for tensor in case.inputs)


def has_no_file(case: Case) -> bool:
    """Whether no file holds a case: of empty arrays, or of training, for which its operator asks, or draws then."""
    if is_empty(case):
        return True
    op = Op.get(case.op)
    if "is_train" in FLowering[op].needs and case.is_train:
        return True
    if op not in FDraws:
        return False
    (node,) = [node for node in {entry.node for entry in ladder.build(case).outputs} if node.op is op] or [None]
    when = None if node is None else FDraws[op](node.attrs)
    return when == "always" or (when == "training" and case.is_train)


def has_form(case: Case) -> bool:
    """Whether the case's operator has a form."""
    return form_of(Op.get(case.op)).form is not None


def why_not_run(case: Case) -> str:
    """Why onnxruntime does not run a case; nothing where it does."""
    wide = any(tensor.dtype == "float64" for tensor in case.inputs)
    without = wide and case.op in NO_FLOAT64 and case.id not in FLOAT64_AFTER_ALL
    return NOT_RUN.get(case.id, "no kernel in float64" if without else "")
