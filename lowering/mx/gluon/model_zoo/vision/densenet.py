"""DenseNet (Huang et al. 2017): layers take the outputs of all layers before them."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.gluon import nn
from lowering.mx.gluon.contrib.nn import HybridConcurrent, Identity
from lowering.mx.gluon.model_zoo.vision.shared_layers import Network, make_network, sequence, variant
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import StrPath

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

densenet_spec = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}
"""Layers → (first channels, channels that a layer adds, layers of each stage)."""


def _activated(*convolution: Any, **options: Any) -> list[Any]:
    """Return normalisation, activation and a convolution, in this order."""
    return [nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(*convolution, use_bias=False, **options)]


def _dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridConcurrent:
    new = sequence(*_activated(bn_size * growth_rate, 1), *_activated(growth_rate, 3, padding=1))
    if dropout:
        new.add(nn.Dropout(dropout))
    both = HybridConcurrent(axis=1, prefix="")
    both.add(Identity(), new)
    return both


@explained_by(Network)
class DenseNet(Network):
    """DenseNet: images (n, 3, 224, 224) → (n, classes).

    Args:
        num_init_features: the number of channels of the first convolution.
        growth_rate: the number of channels that each layer adds.
        block_config: the numbers of layers of the blocks.
        bn_size: the channels before a layer's 3x3 convolution, as a multiple of `growth_rate`.
        dropout: the probability of dropping an element after each layer.
    """

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: list[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        with self.name_scope():
            first = nn.Conv2D(num_init_features, 7, 2, 3, use_bias=False)
            self.features = sequence(first, nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
            channels = num_init_features
            for i, layers in enumerate(block_config, 1):
                stage = nn.HybridSequential(prefix=f"stage{i}_")
                with stage.name_scope():
                    stage.add(*(_dense_layer(growth_rate, bn_size, dropout) for _ in range(layers)))
                self.features.add(stage)
                channels += layers * growth_rate
                if i < len(block_config):
                    channels //= 2
                    self.features.add(sequence(*_activated(channels, 1), nn.AvgPool2D(2, 2)))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)


def get_densenet(
    num_layers: int, pretrained: bool = False, ctx: ContextLike = None, root: StrPath | None = None, **kwargs: Any
) -> DenseNet:
    """DenseNet of 121, 161, 169 or 201 layers. pretrained, ctx, root: as of `alexnet`."""
    return make_network(DenseNet, densenet_spec[num_layers], f"densenet{num_layers}", pretrained, ctx, root, kwargs)


densenet121, densenet161, densenet169, densenet201 = (
    variant(f"densenet{layers}", get_densenet, layers) for layers in densenet_spec
)
