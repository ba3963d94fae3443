"""`gluon.parameter`: parameters and dicts of them, under MXNet's name of their module."""

from lowering.mx.gluon.gluon_errors import DeferredInitializationError as DeferredInitializationError
from lowering.mx.gluon.parameter_dict import ParameterDict as ParameterDict
from lowering.mx.gluon.rnn.sequences import TENSORS
from lowering.mx.gluon.utils import shape_is_known as shape_is_known
from lowering.mx.gluon.weights import Constant as Constant
from lowering.mx.gluon.weights import Parameter as Parameter

tensor_types = TENSORS
