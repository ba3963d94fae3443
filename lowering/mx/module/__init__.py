"""`mx.mod`: networks with their arrays and optimiser, trained and run over batches."""

from __future__ import annotations

from lowering.mx.module.base_module import BaseModule as BaseModule
from lowering.mx.module.bucketing import BucketingModule as BucketingModule
from lowering.mx.module.module import Module as Module
from lowering.mx.module.python import PythonLossModule as PythonLossModule
from lowering.mx.module.python import PythonModule as PythonModule
from lowering.mx.module.sequential import SequentialModule as SequentialModule
from symjax_nnvm.errors import UnknownAttributeError, did_you_mean


def __getattr__(name: str) -> object:
    raise UnknownAttributeError(f"mx.mod has no {name!r}. {did_you_mean(name, globals())}".rstrip(), name=name)
