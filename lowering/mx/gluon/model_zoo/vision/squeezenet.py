"""SqueezeNet (Iandola et al. 2016)."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.gluon import nn
from lowering.mx.gluon.contrib.nn import HybridConcurrent
from lowering.mx.gluon.model_zoo.vision.shared_layers import Network, make_network, sequence, variant
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import StrPath

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

_SPEC: dict[str, tuple[tuple[int, int], list[int | None]]] = {
    "1.0": ((96, 7), [None, 16, 16, 32, None, 32, 48, 48, 64, None, 64]),
    "1.1": ((64, 3), [None, 16, 16, None, 32, 32, None, 48, 48, 64, 64]),
}
"""Version → (channels and kernel of the first convolution, channels that each fire squeezes to; None is a pooling)."""


def _convolution(channels: int, kernel: int, padding: int = 0) -> nn.HybridSequential:
    return sequence(nn.Conv2D(channels, kernel, padding=padding), nn.Activation("relu"))


def _fire(squeezed: int) -> nn.HybridSequential:
    first, both = _convolution(squeezed, 1), HybridConcurrent(axis=1, prefix="")
    both.add(_convolution(4 * squeezed, 1), _convolution(4 * squeezed, 3, 1))
    return sequence(first, both)


@explained_by(Network)
class SqueezeNet(Network):
    """SqueezeNet: images (n, 3, 224, 224) → (n, classes).

    Args:
        version: "1.0" or "1.1".
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        assert version in _SPEC, f"Unsupported SqueezeNet version {version}:1.0 or 1.1 expected"
        (channels, kernel), parts = _SPEC[version]
        with self.name_scope():
            self.features = sequence(nn.Conv2D(channels, kernel, 2), nn.Activation("relu"))
            for squeezed in parts:
                pool = nn.MaxPool2D(3, 2, ceil_mode=True) if squeezed is None else None
                self.features.add(pool or _fire(squeezed or 0))
            self.features.add(nn.Dropout(0.5))
            self.output = sequence(nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten())


def get_squeezenet(
    version: str, pretrained: bool = False, ctx: ContextLike = None, root: StrPath | None = None, **kwargs: Any
) -> SqueezeNet:
    """SqueezeNet of a version. pretrained, ctx, root: as of `alexnet`."""
    return make_network(SqueezeNet, (version,), f"squeezenet{version}", pretrained, ctx, root, kwargs)


squeezenet1_0, squeezenet1_1 = (
    variant(f"squeezenet{version.replace('.', '_')}", get_squeezenet, version) for version in _SPEC
)
