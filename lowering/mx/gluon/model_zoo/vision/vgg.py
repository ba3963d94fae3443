"""VGG (Simonyan, Zisserman 2015)."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.gluon import nn
from lowering.mx.gluon.model_zoo.vision.shared_layers import Network, make_network, variant
from lowering.mx.init import Xavier
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import StrPath

__all__ = ["VGG", "get_vgg", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]

_FILTERS = [64, 128, 256, 512, 512]
vgg_spec = {
    11: ([1, 1, 2, 2, 2], _FILTERS),
    13: ([2, 2, 2, 2, 2], _FILTERS),
    16: ([2, 2, 3, 3, 3], _FILTERS),
    19: ([2, 2, 4, 4, 4], _FILTERS),
}
"""Layers → (convolutions of each stage, their channels)."""


@explained_by(Network)
class VGG(Network):
    """VGG: images (n, 3, 224, 224) → (n, classes).

    Args:
        layers: the number of convolutions of each stage.
        filters: the number of their channels.
        batch_norm: normalise after convolutions.
    """

    def __init__(
        self, layers: list[int], filters: list[int], classes: int = 1000, batch_norm: bool = False, **kwargs: Any
    ):
        super().__init__(**kwargs)
        assert len(layers) == len(filters)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for count, channels in zip(layers, filters, strict=True):
                for _ in range(count):
                    first = Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
                    self.features.add(nn.Conv2D(channels, 3, padding=1, weight_initializer=first))
                    if batch_norm:
                        self.features.add(nn.BatchNorm())
                    self.features.add(nn.Activation("relu"))
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", weight_initializer="normal"), nn.Dropout(0.5))
            self.output = nn.Dense(classes, weight_initializer="normal")


@explained_by(make_network)
def get_vgg(
    num_layers: int, pretrained: bool = False, ctx: ContextLike = None, root: StrPath | None = None, **kwargs: Any
) -> VGG:
    """Return a VGG.

    Raises what `model_store.get_model_file` raises.

    Args:
        num_layers: 11, 13, 16 or 19.
        kwargs: arguments of the class; `batch_norm=True` normalises after convolutions.
    """
    name = f"vgg{num_layers}{'_bn' if kwargs.get('batch_norm') else ''}"
    return make_network(VGG, vgg_spec[num_layers], name, pretrained, ctx, root, kwargs)


vgg11, vgg13, vgg16, vgg19 = (variant(f"vgg{layers}", get_vgg, layers) for layers in vgg_spec)
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = (
    variant(f"vgg{layers}_bn", get_vgg, layers, batch_norm=True) for layers in vgg_spec
)
