"""`gluon.block`: the kinds of blocks, under MXNet's name of their module."""

from lowering.mx.gluon.basic_block import Block as Block
from lowering.mx.gluon.basic_block import _BlockScope as _BlockScope
from lowering.mx.gluon.gluon_errors import DeferredInitializationError as DeferredInitializationError
from lowering.mx.gluon.hybrid import HybridBlock as HybridBlock
from lowering.mx.gluon.parameter_dict import ParameterDict as ParameterDict
from lowering.mx.gluon.structure import _flatten as _flatten
from lowering.mx.gluon.structure import _regroup as _regroup
from lowering.mx.gluon.symbol_block import SymbolBlock as SymbolBlock
from lowering.mx.gluon.utils import HookHandle as HookHandle
from lowering.mx.gluon.weights import Parameter as Parameter
