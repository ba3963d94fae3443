"""Modules and classes under `install()` say MXNet's names: `F.__name__` is "mxnet.symbol", and `print(type(p))` agrees.

Pickles name classes so, too: those made under `install()` load where `install()` was called, others load everywhere.
"""

from __future__ import annotations

import importlib
import sys

_OURS, _NAME = "lowering.mx", "mxnet"

_MODULES = {"init": "initializer", "kv": "kvstore", "viz": "visualization"}
"""Module of this namespace → MXNet's, where they differ."""

_CLASSES = {
    "lowering.initializer.base": "initializer",
    "lowering.mx.checkpoints": "model",
    "lowering.mx.feed_forward": "model",
    "lowering.mx.gluon.basic_block": "gluon.block",
    "lowering.mx.gluon.errors": "gluon.parameter",
    "lowering.mx.gluon.hybrid": "gluon.block",
    "lowering.mx.gluon.nn.normalization": "gluon.nn.basic_layers",
    "lowering.mx.gluon.nn.pooling": "gluon.nn.conv_layers",
    "lowering.mx.gluon.parameter_dict": "gluon.parameter",
    "lowering.mx.gluon.symbol_block": "gluon.block",
    "lowering.mx.gluon.weights": "gluon.parameter",
    "lowering.mx.image.augmenters": "image.image",
    "lowering.mx.image.iterator": "image.image",
    "lowering.mx.init": "initializer",
    "lowering.mx.io.arrays": "io.io",
    "lowering.mx.io.desc": "io.io",
    "lowering.mx.io.wrapped": "io.io",
    "lowering.mx.kv": "kvstore.kvstore",
    "lowering.mx.metric.base": "metric",
    "lowering.mx.metric.library": "metric",
    "lowering.mx.metric.numbers": "metric",
    "lowering.mx.module.base": "module.base_module",
    "lowering.mx.module.bucketing": "module.bucketing_module",
    "lowering.mx.module.python": "module.python_module",
    "lowering.mx.module.sequential": "module.sequential_module",
    "lowering.mx.module.svrg": "contrib.svrg_optimization.svrg_module",
    "lowering.mx.ndarray.array": "ndarray.ndarray",
    "lowering.mx.ndarray.sparse_arrays": "ndarray.sparse",
    "lowering.mx.optimizer": "optimizer.optimizer",
    "lowering.mx.optimizer.GroupAdaGrad": "optimizer.contrib",
    "lowering.mx.python_op": "operator",
    "lowering.mx.rnn.cells": "rnn.rnn_cell",
    "lowering.mx.rnn.composed": "rnn.rnn_cell",
    "lowering.mx.rnn.convolutional": "rnn.rnn_cell",
    "lowering.mx.rnn.fused": "rnn.rnn_cell",
    "lowering.mx.rnn.sentences": "rnn.io",
    "lowering.mx.store_base": "kvstore.base",
    "lowering.mx.symbol.bound": "symbol.symbol",
    "lowering.mx.testing.consistency": "test_utils",
    "symjax_nnvm.symbol.scope.AttrScope": "attribute",
    "symjax_nnvm.symbol.scope": "name",
}
"""Module, or class, → the module of MXNet that has its classes, where that is not the module's own name in MXNet."""


def take_mxnets_names() -> None:
    """Rename modules and classes. A class is renamed where MXNet's name leads to it, so that it can be pickled."""
    ours = {name: module for name, module in sys.modules.items() if name == _OURS or name.startswith(_OURS + ".")}
    modules = {**ours, **{name: sys.modules[name] for name in _CLASSES if name in sys.modules}}
    for name, module in modules.items():
        for item in list(vars(module).values()):
            if isinstance(item, type) and item.__module__ == name:
                here = f"{name}.{item.__name__}"
                there = f"{_NAME}.{_CLASSES.get(here) or _CLASSES.get(name) or name.removeprefix(_OURS + '.')}"
                if getattr(importlib.import_module(there), item.__qualname__, None) is item:
                    item.__module__ = there
    for name, module in ours.items():
        inner = name.removeprefix(_OURS).removeprefix(".")
        module.__name__ = f"{_NAME}.{_MODULES.get(inner, inner)}".removesuffix(".")
