"""`mx.contrib`: contributed operators under short names, text, mixed precision, and what is built on modules."""

from __future__ import annotations

from lowering.messages.migration_hints import unknown_attribute
from lowering.mx.contrib import amp as amp
from lowering.mx.contrib import autograd as autograd
from lowering.mx.contrib import io as io
from lowering.mx.contrib import onnx as onnx
from lowering.mx.contrib import quantization as quantization
from lowering.mx.contrib import tensorboard as tensorboard
from lowering.mx.contrib import text as text
from lowering.mx.ndarray import contrib as ndarray
from lowering.mx.symbol import contrib as symbol

nd, sym, quant = ndarray, symbol, quantization


def __getattr__(name: str) -> object:
    unknown_attribute("mx.contrib", name, sorted(globals()))
