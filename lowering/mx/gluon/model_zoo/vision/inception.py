"""Inception v3 (Szegedy et al. 2016)."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.gluon import nn
from lowering.mx.gluon.contrib.nn import HybridConcurrent
from lowering.mx.gluon.model_zoo.vision.shared_layers import Network, make_network, sequence
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import StrPath

__all__ = ["Inception3", "inception_v3"]

Part = Any
"""(channels, kernel, strides, padding) of a convolution; "avg" or "max", a pooling; or branches side by side."""

_TO_1X7 = (1, 7), 1, (0, 3)
_TO_7X1 = (7, 1), 1, (3, 0)
_SPLIT = ((384, (1, 3), 1, (0, 1)),), ((384, (3, 1), 1, (1, 0)),)


def _A(pooled: int) -> list[tuple[Part, ...]]:
    return [
        ((64, 1),),
        ((48, 1), (64, 5, 1, 2)),
        ((64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
        ("avg", (pooled, 1)),
    ]


def _C(channels: int) -> list[tuple[Part, ...]]:
    c = channels
    return [
        ((192, 1),),
        ((c, 1), (c, *_TO_1X7), (192, *_TO_7X1)),
        ((c, 1), (c, *_TO_7X1), (c, *_TO_1X7), (c, *_TO_7X1), (192, *_TO_1X7)),
        ("avg", (192, 1)),
    ]


_B: list[tuple[Part, ...]] = [((384, 3, 2),), ((64, 1), (96, 3, 1, 1), (96, 3, 2)), ("max",)]
_D: list[tuple[Part, ...]] = [
    ((192, 1), (320, 3, 2)),
    ((192, 1), (192, *_TO_1X7), (192, *_TO_7X1), (192, 3, 2)),
    ("max",),
]
_E: list[tuple[Part, ...]] = [
    ((320, 1),),
    (((384, 1),), _SPLIT),
    (((448, 1), (384, 3, 1, 1)), _SPLIT),
    ("avg", (192, 1)),
]
"""Branches, each of parts one after the other."""

_STAGES = {
    "A1_": _A(32), "A2_": _A(64), "A3_": _A(64), "B_": _B, "C1_": _C(128), "C2_": _C(160), "C3_": _C(160),
    "C4_": _C(192), "D_": _D, "E1_": _E, "E2_": _E,
}  # fmt: skip
"""Prefix → branches of a stage."""


def _convolution(channels: int, kernel: Any, strides: int = 1, padding: Any = 0) -> nn.HybridSequential:
    product = nn.Conv2D(channels, kernel, strides, padding, use_bias=False)
    return sequence(product, nn.BatchNorm(epsilon=0.001), nn.Activation("relu"))


def _branch(parts: tuple[Part, ...]) -> nn.HybridSequential:
    if isinstance(parts[-1], tuple) and isinstance(parts[-1][0], tuple):  # a branch that splits at its end
        before, split = _branch(parts[0]), HybridConcurrent(axis=1, prefix="")
        split.add(*map(_branch, parts[1]))
        return sequence(before, split)
    pools = {"avg": lambda: nn.AvgPool2D(3, 1, 1), "max": lambda: nn.MaxPool2D(3, 2)}
    return sequence(*(pools[part]() if isinstance(part, str) else _convolution(*part) for part in parts))


@explained_by(Network)
class Inception3(Network):
    """Inception v3: images (n, 3, 299, 299) → (n, classes)."""

    def __init__(self, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = sequence(
                _convolution(32, 3, 2),
                _convolution(32, 3),
                _convolution(64, 3, 1, 1),
                nn.MaxPool2D(3, 2),
                _convolution(80, 1),
                _convolution(192, 3),
                nn.MaxPool2D(3, 2),
            )
            for prefix, branches in _STAGES.items():
                stage = HybridConcurrent(axis=1, prefix=prefix)
                with stage.name_scope():
                    stage.add(*map(_branch, branches))
                self.features.add(stage)
            self.features.add(nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


@explained_by(make_network)
def inception_v3(
    pretrained: bool = False, ctx: ContextLike = None, root: StrPath | None = None, **kwargs: Any
) -> Inception3:
    """Return an Inception v3.

    Raises what `model_store.get_model_file` raises.
    """
    return make_network(Inception3, (), "inceptionv3", pretrained, ctx, root, kwargs)
