"""`from lowering import mx`: MXNet's namespace over what this library has, for scripts that were written for MXNet.

Nothing is implemented a second time: arrays are jax.Arrays, operators are run by their rules, executors and optimisers
are the library's. A name that is missing raises an error that names the replacement.
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lowering.messages.migration_hints import unknown_attribute as _unknown_attribute
from lowering.mx import attribute as attribute
from lowering.mx import autograd as autograd
from lowering.mx import base as base
from lowering.mx import callback as callback
from lowering.mx import contrib as contrib
from lowering.mx import engine as engine
from lowering.mx import error as error
from lowering.mx import gluon as gluon
from lowering.mx import image as image
from lowering.mx import init as init
from lowering.mx import io as io
from lowering.mx import kv as kv
from lowering.mx import libinfo as libinfo
from lowering.mx import log as log
from lowering.mx import lr_scheduler as lr_scheduler
from lowering.mx import metric as metric
from lowering.mx import model as model
from lowering.mx import module as module
from lowering.mx import monitor as monitor
from lowering.mx import name as name
from lowering.mx import ndarray as ndarray
from lowering.mx import notebook as notebook
from lowering.mx import numpy as numpy
from lowering.mx import numpy_extension as numpy_extension
from lowering.mx import onnx as onnx
from lowering.mx import operator as operator
from lowering.mx import optimizer as optimizer
from lowering.mx import profiler as profiler
from lowering.mx import random as random
from lowering.mx import recordio as recordio
from lowering.mx import registry as registry
from lowering.mx import rnn as rnn
from lowering.mx import runtime as runtime
from lowering.mx import symbol as symbol
from lowering.mx import test_utils as test_utils
from lowering.mx import util as util
from lowering.mx import viz as viz
from lowering.mx.compatibility.as_mxnet import install as install
from lowering.mx.compatibility.as_mxnet import name_submodules as _name_submodules
from lowering.mx.context import Context as Context
from lowering.mx.context import cpu as cpu
from lowering.mx.context import cpu_pinned as cpu_pinned
from lowering.mx.context import current_context as current_context
from lowering.mx.context import gpu as gpu
from lowering.mx.context import num_gpus as num_gpus
from lowering.mx.libinfo import __version__ as __version__
from lowering.mx.monitor import Monitor as Monitor
from lowering.mx.ndarray.array import NDArray as NDArray
from lowering.mx.symbol import numpy as _sym_np
from lowering.mx.util import is_np_array as is_np_array
from lowering.mx.util import is_np_shape as is_np_shape
from lowering.mx.util import np_array as np_array
from lowering.mx.util import np_shape as np_shape
from lowering.mx.util import set_np_shape as set_np_shape
from lowering.mx.util import use_np as use_np
from lowering.mx.util import use_np_array as use_np_array
from lowering.mx.util import use_np_shape as use_np_shape
from symjax_nnvm.errors import MXNetError as MXNetError
from symjax_nnvm.symbol.scope import AttrScope as AttrScope

nd = ndarray
np = numpy
npx = numpy_extension
# F.np and F.npx of a hybrid block, whose F is mx.nd or mx.sym.
ndarray.np = ndarray.numpy = numpy  # pyright: ignore[reportAttributeAccessIssue]
ndarray.npx = ndarray.numpy_extension = numpy_extension  # pyright: ignore[reportAttributeAccessIssue]
symbol.np, symbol.npx = _sym_np, _sym_np.npx  # pyright: ignore[reportAttributeAccessIssue]
symbol.numpy_extension = _sym_np.npx  # pyright: ignore[reportAttributeAccessIssue]
mod = module
mon = monitor
img = image
kvstore = kv
sym = symbol
initializer = init
visualization = viz
rnd = random
_name_submodules()
# Scripts have mx of `from mxnet.test_utils import *`.
test_utils.mx = _sys.modules[__name__]  # pyright: ignore[reportAttributeAccessIssue]

if not _TYPE_CHECKING:  # so that type checkers still see the names

    def __getattr__(name: str) -> object:
        _unknown_attribute("mx", name, sorted(globals()))
