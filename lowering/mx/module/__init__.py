"""`mx.mod`: Module and BucketingModule."""

from __future__ import annotations

from lowering.mx.module.base import BaseModule as BaseModule
from lowering.mx.module.bucketing import BucketingModule as BucketingModule
from lowering.mx.module.module import Module as Module
from symjax_nnvm.errors import UnknownAttributeError

_ELSEWHERE = {
    "SequentialModule": "one Module of the networks composed: second(data=first)",
    "PythonModule": "a subclass of mx.mod.BaseModule",
    "PythonLossModule": "a loss head in the network, such as mx.sym.MakeLoss",
}


def __getattr__(name: str) -> object:
    way = f"Use {_ELSEWHERE[name]}." if name in _ELSEWHERE else "There are Module and BucketingModule."
    raise UnknownAttributeError(f"mx.mod has no {name!r}. {way}", name=name)
