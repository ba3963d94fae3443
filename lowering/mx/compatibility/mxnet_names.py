"""Modules, classes and functions have MXNet's names after `install()`: `F.__name__` is "mxnet.symbol", and
`print(type(p))` agrees.

Pickles name classes so, too: those made under `install()` load where `install()` was called, others load everywhere.
"""

from __future__ import annotations

import importlib
import sys
from types import FunctionType

from lowering.mx.compatibility.array_functions import Internal, Wrapped, rename_group

_OURS, _NAME = "lowering.mx", "mxnet"

_MODULES = {"init": "initializer", "kv": "kvstore", "viz": "visualization"}
"""Module of this namespace → MXNet's, where they differ."""

_HOMES = {
    "lowering.initializer.initializer_base": "initializer",
    "lowering.mx.module.module_checkpoints": "model",
    "lowering.mx.context": "context",
    "lowering.mx.module.feed_forward": "model",
    "lowering.mx.gluon.basic_block": "gluon.block",
    "lowering.mx.gluon.gluon_errors": "gluon.parameter",
    "lowering.mx.gluon.hybrid": "gluon.block",
    "lowering.mx.gluon.nn.normalization": "gluon.nn.basic_layers",
    "lowering.mx.gluon.nn.pooling": "gluon.nn.conv_layers",
    "lowering.mx.gluon.parameter_dict": "gluon.parameter",
    "lowering.mx.gluon.symbol_block": "gluon.block",
    "lowering.mx.gluon.model_zoo.vision.shared_layers": "gluon.model_zoo.vision",
    "lowering.mx.gluon.weights": "gluon.parameter",
    "lowering.mx.image.augmenters": "image.image",
    "lowering.mx.image.crops": "image.image",
    "lowering.mx.image.iterator": "image.image",
    "lowering.mx.image.pixels": "image.image",
    "lowering.mx.image.rotation": "image.image",
    "lowering.mx.init": "initializer",
    "lowering.mx.io.array_iterators": "io.io",
    "lowering.mx.io.desc": "io.io",
    "lowering.mx.io.file_iterators": "io.io",
    "lowering.mx.io.resized_and_prefetched": "io.io",
    "lowering.mx.keys": "random",
    "lowering.mx.kv": "kvstore.kvstore",
    "lowering.mx.kv.create": "kvstore.base",
    "lowering.mx.metric.metric_base": "metric",
    "lowering.mx.metric.training_metrics": "metric",
    "lowering.mx.metric.numpy_metrics": "metric",
    "lowering.mx.module.base_module": "module.base_module",
    "lowering.mx.module.bucketing": "module.bucketing_module",
    "lowering.mx.module.python": "module.python_module",
    "lowering.mx.module.sequential": "module.sequential_module",
    "lowering.mx.ndarray.array": "ndarray.ndarray",
    "lowering.mx.ndarray.contributed": "ndarray.ndarray",
    "lowering.mx.ndarray.creation": "ndarray.ndarray",
    "lowering.mx.ndarray.decoding": "ndarray.ndarray",
    "lowering.mx.ndarray.exchange": "ndarray.ndarray",
    "lowering.mx.ndarray.saved_arrays": "ndarray.utils",
    "lowering.mx.numpy.multiarray": "numpy",
    "lowering.mx.onnx.mx2onnx": "onnx",
    "lowering.mx.ndarray.sparse_arrays": "ndarray.sparse",
    "lowering.mx.optimizer": "optimizer.optimizer",
    "lowering.mx.optimizer.GroupAdaGrad": "optimizer.contrib",
    "lowering.mx.compatibility.python_op": "operator",
    "lowering.mx.tape.recording": "autograd",
    "lowering.mx.rnn.symbol_cells": "rnn.rnn_cell",
    "lowering.mx.rnn.composed": "rnn.rnn_cell",
    "lowering.mx.rnn.convolutional": "rnn.rnn_cell",
    "lowering.mx.rnn.fused": "rnn.rnn_cell",
    "lowering.mx.rnn.sentences": "rnn.io",
    "lowering.mx.store_base": "kvstore.base",
    "lowering.mx.symbol.dialect": "symbol.numpy",
    "lowering.mx.symbol.runnable": "symbol.symbol",
    "lowering.mx.testing.random_arrays": "test_utils",
    "lowering.mx.testing.comparisons": "test_utils",
    "lowering.mx.testing.consistency": "test_utils",
    "lowering.mx.testing.example_files": "test_utils",
    "lowering.mx.testing.random_sparse": "test_utils",
    "lowering.mx.testing.distribution_tests": "test_utils",
    "lowering.mx.testing.environment": "test_utils",
    "symjax_nnvm.errors.NNVMError": "base",
    "symjax_nnvm.mxnet.record_format": "recordio",
    "symjax_nnvm.symbol.scope.AttrScope": "attribute",
    "symjax_nnvm.symbol.scope": "name",
    "symjax_nnvm.symbol.wrappers": "symbol.symbol",
}
"""Module, class or function → the module of MXNet that has its classes and functions, where that is not the module's
own name in MXNet."""

_RENAMED = {"symjax_nnvm.errors.NNVMError": "MXNetError"}
"""Class → its name in MXNet, where that is another."""


def take_mxnets_names() -> None:
    """Rename modules, the groups of functions in them, classes and functions. A class or a function is renamed where
    MXNet's name leads to it, so that it can be pickled."""
    ours = {name: module for name, module in sys.modules.items() if name == _OURS or name.startswith(_OURS + ".")}
    items = {id(item): item for module in ours.values() for item in vars(module).values()}
    for item in items.values():
        if isinstance(item, type | FunctionType):
            _rename(item)
    for name, module in ours.items():
        inner = name.removeprefix(_OURS).removeprefix(".")
        module.__name__ = f"{_NAME}.{_MODULES.get(inner, inner)}".removesuffix(".")
    for item in items.values():
        if isinstance(item, Wrapped | Internal):
            rename_group(item, item.__name__.replace(_OURS, _NAME, 1))


def _rename(item: type | FunctionType) -> None:
    here = f"{item.__module__}.{item.__name__}"
    home = _HOMES.get(here) or _HOMES.get(item.__module__)
    if home is None and not here.startswith(f"{_OURS}."):
        return
    own = item.__module__.removeprefix(_OURS).removeprefix(".")
    name, there = _RENAMED.get(here, item.__qualname__), f"{_NAME}.{home or own}".removesuffix(".")
    if vars(importlib.import_module(there)).get(name) is item:
        item.__module__ = there
        item.__name__ = item.__qualname__ = name
