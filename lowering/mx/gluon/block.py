"""`gluon.block`: the kinds of blocks, under MXNet's name of their module."""

from lowering.mx.gluon.basic_block import Block as Block
from lowering.mx.gluon.basic_block import _BlockScope as _BlockScope
from lowering.mx.gluon.hybrid import HybridBlock as HybridBlock
from lowering.mx.gluon.structure import _flatten as _flatten
from lowering.mx.gluon.structure import _regroup as _regroup
from lowering.mx.gluon.symbol_block import SymbolBlock as SymbolBlock
