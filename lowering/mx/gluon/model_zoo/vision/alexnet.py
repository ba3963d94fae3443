"""AlexNet (Krizhevsky 2014), on one device."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.gluon import nn
from lowering.mx.gluon.model_zoo.vision.shared_layers import Network, make_network
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import StrPath

__all__ = ["AlexNet", "alexnet"]


@explained_by(Network)
class AlexNet(Network):
    """AlexNet: images (n, 3, 224, 224) → (n, classes)."""

    def __init__(self, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for channels, kernel, strides, padding, pooled in (
                (64, 11, 4, 2, True),
                (192, 5, 1, 2, True),
                (384, 3, 1, 1, False),
                (256, 3, 1, 1, False),
                (256, 3, 1, 1, True),
            ):
                self.features.add(nn.Conv2D(channels, kernel, strides, padding, activation="relu"))
                if pooled:
                    self.features.add(nn.MaxPool2D(pool_size=3, strides=2))
            self.features.add(nn.Flatten())
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


@explained_by(make_network)
def alexnet(pretrained: bool = False, ctx: ContextLike = None, root: StrPath | None = None, **kwargs: Any) -> AlexNet:
    """Return an AlexNet.

    Raises what `model_store.get_model_file` raises.
    """
    return make_network(AlexNet, (), "alexnet", pretrained, ctx, root, kwargs)
