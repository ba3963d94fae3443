"""`from lowering import mx`: MXNet's namespace over what this library has, for scripts that were written for MXNet.

Nothing is implemented a second time: arrays are jax.Arrays, operators are run by their rules, executors and optimisers
are the library's. What is not here says what to use instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from lowering.messages.mxnet_words import unknown_attribute as _unknown_attribute
from lowering.mx import autograd as autograd
from lowering.mx import callback as callback
from lowering.mx import image as image
from lowering.mx import init as init
from lowering.mx import io as io
from lowering.mx import kv as kv
from lowering.mx import lr_scheduler as lr_scheduler
from lowering.mx import metric as metric
from lowering.mx import model as model
from lowering.mx import module as module
from lowering.mx import monitor as monitor
from lowering.mx import name as name
from lowering.mx import ndarray as ndarray
from lowering.mx import operator as operator
from lowering.mx import optimizer as optimizer
from lowering.mx import random as random
from lowering.mx import recordio as recordio
from lowering.mx import rnn as rnn
from lowering.mx import symbol as symbol
from lowering.mx import test_utils as test_utils
from lowering.mx import viz as viz
from lowering.mx.context import Context as Context
from lowering.mx.context import cpu as cpu
from lowering.mx.context import cpu_pinned as cpu_pinned
from lowering.mx.context import current_context as current_context
from lowering.mx.context import gpu as gpu
from lowering.mx.context import num_gpus as num_gpus
from lowering.mx.monitor import Monitor as Monitor
from symjax_nnvm.errors import MXNetError as MXNetError
from symjax_nnvm.symbol.scope import AttrScope as AttrScope

nd = ndarray
mod = module
mon = monitor
img = image
kvstore = kv
sym = symbol
initializer = init
visualization = viz

__version__ = "1.9.1"
"""The MXNet whose namespace this is."""

if not _TYPE_CHECKING:  # so that checkers still know which names there are

    def __getattr__(name: str) -> object:
        _unknown_attribute("mx", name, sorted(globals()))
