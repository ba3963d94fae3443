"""`mx.gluon.model_zoo`: networks that were trained on ImageNet, as blocks."""

from __future__ import annotations

from lowering.mx.gluon.model_zoo import model_store as model_store
from lowering.mx.gluon.model_zoo import vision as vision
