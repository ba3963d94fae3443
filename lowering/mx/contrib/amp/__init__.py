"""`mx.contrib.amp`: networks with casts to half precision around products, by the pass ReducePrecision.

MXNet decides by lists of operators; here the operators' cards do. Parameters, states and outputs stay float32: a
converted network is bound and trained as it was. Half precision is float16, or bfloat16, which needs no scaled losses.
After `init`, what is traced or bound is converted by itself.
"""

from __future__ import annotations

from lowering.messages.migration_hints import unknown_attribute
from lowering.mx.contrib.amp import amp as amp
from lowering.mx.contrib.amp import loss_scaler as loss_scaler
from lowering.mx.contrib.amp.amp import bfloat16 as bfloat16
from lowering.mx.contrib.amp.amp import convert_bucketing_module as convert_bucketing_module
from lowering.mx.contrib.amp.amp import convert_hybrid_block as convert_hybrid_block
from lowering.mx.contrib.amp.amp import convert_model as convert_model
from lowering.mx.contrib.amp.amp import convert_symbol as convert_symbol
from lowering.mx.contrib.amp.amp import init as init
from lowering.mx.contrib.amp.amp import init_trainer as init_trainer
from lowering.mx.contrib.amp.amp import list_conditional_fp32_ops as list_conditional_fp32_ops
from lowering.mx.contrib.amp.amp import list_fp32_ops as list_fp32_ops
from lowering.mx.contrib.amp.amp import list_loss_output_functions as list_loss_output_functions
from lowering.mx.contrib.amp.amp import list_lp16_fp32_ops as list_lp16_fp32_ops
from lowering.mx.contrib.amp.amp import list_lp16_ops as list_lp16_ops
from lowering.mx.contrib.amp.amp import list_lp16_use_fp32_params as list_lp16_use_fp32_params
from lowering.mx.contrib.amp.amp import list_widest_type_cast as list_widest_type_cast
from lowering.mx.contrib.amp.amp import scale_loss as scale_loss
from lowering.mx.contrib.amp.amp import unscale as unscale


def __getattr__(name: str) -> object:
    unknown_attribute("mx.contrib.amp", name, sorted(globals()))
