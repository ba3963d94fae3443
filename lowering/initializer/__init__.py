"""Initialisers under MXNet's names, with explicit keys; `init_params` gives a whole symbol its first values."""

from lowering.initializer.composite import Load as Load
from lowering.initializer.composite import Mixed as Mixed
from lowering.initializer.drawn import MSRAPrelu as MSRAPrelu
from lowering.initializer.drawn import Normal as Normal
from lowering.initializer.drawn import Orthogonal as Orthogonal
from lowering.initializer.drawn import Uniform as Uniform
from lowering.initializer.drawn import Xavier as Xavier
from lowering.initializer.fixed import Bilinear as Bilinear
from lowering.initializer.fixed import Constant as Constant
from lowering.initializer.fixed import LSTMBias as LSTMBias
from lowering.initializer.fixed import One as One
from lowering.initializer.fixed import Zero as Zero
from lowering.initializer.fused_rnn import FusedRNN as FusedRNN
from lowering.initializer.initializer_base import InitDesc as InitDesc
from lowering.initializer.initializer_base import Initializer as Initializer
from lowering.initializer.initializer_base import alias as alias
from lowering.initializer.initializer_base import create as create
from lowering.initializer.initializer_base import register as register
from lowering.initializer.parameters import init_params as init_params

__all__ = [
    "Bilinear",
    "Constant",
    "FusedRNN",
    "InitDesc",
    "Initializer",
    "LSTMBias",
    "Load",
    "MSRAPrelu",
    "Mixed",
    "Normal",
    "One",
    "Orthogonal",
    "Uniform",
    "Xavier",
    "Zero",
    "alias",
    "create",
    "init_params",
    "register",
]
