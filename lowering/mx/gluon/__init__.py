"""`mx.gluon`: networks as Python classes, on the symbols, the tape and the compiled programs of this library."""

from lowering.mx.gluon import block as block
from lowering.mx.gluon import contrib as contrib
from lowering.mx.gluon import data as data
from lowering.mx.gluon import loss as loss
from lowering.mx.gluon import model_zoo as model_zoo
from lowering.mx.gluon import nn as nn
from lowering.mx.gluon import parameter as parameter
from lowering.mx.gluon import rnn as rnn
from lowering.mx.gluon import trainer as trainer
from lowering.mx.gluon import utils as utils
from lowering.mx.gluon.basic_block import Block as Block
from lowering.mx.gluon.gluon_errors import DeferredInitializationError as DeferredInitializationError
from lowering.mx.gluon.hybrid import HybridBlock as HybridBlock
from lowering.mx.gluon.parameter_dict import ParameterDict as ParameterDict
from lowering.mx.gluon.rnn.sequences import TENSORS
from lowering.mx.gluon.symbol_block import SymbolBlock as SymbolBlock
from lowering.mx.gluon.trainer import Trainer as Trainer
from lowering.mx.gluon.weights import Constant as Constant
from lowering.mx.gluon.weights import Parameter as Parameter

tensor_types = TENSORS
