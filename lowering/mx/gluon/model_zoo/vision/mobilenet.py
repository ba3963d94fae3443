"""MobileNet (Howard et al. 2017) and MobileNet v2 (Sandler et al. 2018)."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.gluon import nn
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.model_zoo.vision.shared_layers import Network, make_network, variant
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import StrPath

_V1 = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
"""(channels, strides) of each depth-wise convolution and the one after it."""

_V2 = [
    *((16, 1, 1), (24, 6, 2), (24, 6, 1), (32, 6, 2), (32, 6, 1), (32, 6, 1), (64, 6, 2), *[(64, 6, 1)] * 3),
    *(*[(96, 6, 1)] * 3, (160, 6, 2), (160, 6, 1), (160, 6, 1), (320, 6, 1)),
]
"""(channels, expansion, strides) of each bottleneck."""


class RELU6(HybridBlock):
    """The activation min(max(x, 0), 6)."""

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return min(max(x, 0), 6)."""
        return F.clip(x, 0, 6, name="relu6")


def _convolution(channels: int, *place: int, groups: int = 1, activation: Any = None) -> list[Any]:
    """Return a convolution, normalisation and what activates. place: kernel, strides, padding."""
    parts = [nn.Conv2D(channels, *(place or (1,)), groups=groups, use_bias=False), nn.BatchNorm(scale=True)]
    return [*parts, activation()] if activation else parts


def _relu() -> nn.Activation:
    return nn.Activation("relu")


class LinearBottleneck(HybridBlock):
    """Channels, t times as many, filtered each by itself, then fewer again; the input is added where shapes allow."""

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        wide = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            self.out.add(*_convolution(wide, activation=RELU6))
            self.out.add(*_convolution(wide, 3, stride, 1, groups=wide, activation=RELU6))
            self.out.add(*_convolution(channels))

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the output (n, channels, h / stride, w / stride)."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


@explained_by(Network)
class MobileNet(Network):
    """MobileNet: images (n, 3, 224, 224) → (n, classes).

    Args:
        multiplier: the factor of all numbers of channels.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            before = int(32 * multiplier)
            self.features.add(*_convolution(before, 3, 2, 1, activation=_relu))
            for channels, stride in _V1:
                after = int(channels * multiplier)
                self.features.add(*_convolution(before, 3, stride, 1, groups=before, activation=_relu))
                self.features.add(*_convolution(after, activation=_relu))
                before = after
            self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


@explained_by(Network)
class MobileNetV2(Network):
    """MobileNet v2: images (n, 3, 224, 224) → (n, classes).

    Args:
        multiplier: the factor of numbers of channels; for the last one only where it is above 1.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                before = int(32 * multiplier)
                self.features.add(*_convolution(before, 3, 2, 1, activation=RELU6))
                for channels, t, stride in _V2:
                    after = int(channels * multiplier)
                    self.features.add(LinearBottleneck(before, after, t, stride))
                    before = after
                self.features.add(*_convolution(int(1280 * max(multiplier, 1.0)), activation=RELU6))
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


@explained_by(make_network)
def get_mobilenet(
    multiplier: float, pretrained: bool = False, ctx: ContextLike = None, root: StrPath | None = None, **kwargs: Any
) -> MobileNet:
    """Return a MobileNet.

    Raises what `model_store.get_model_file` raises.

    Args:
        multiplier: the factor of all numbers of channels.
    """
    return make_network(MobileNet, (multiplier,), f"mobilenet{float(multiplier)}", pretrained, ctx, root, kwargs)


@explained_by(make_network)
def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: ContextLike = None, root: StrPath | None = None, **kwargs: Any
) -> MobileNetV2:
    """Return a MobileNet v2.

    Raises what `model_store.get_model_file` raises.

    Args:
        multiplier: the factor of numbers of channels.
    """
    return make_network(MobileNetV2, (multiplier,), f"mobilenetv2_{float(multiplier)}", pretrained, ctx, root, kwargs)


_MULTIPLIERS = {"1_0": 1.0, "0_75": 0.75, "0_5": 0.5, "0_25": 0.25}
mobilenet1_0, mobilenet0_75, mobilenet0_5, mobilenet0_25 = (
    variant(f"mobilenet{name}", get_mobilenet, multiplier) for name, multiplier in _MULTIPLIERS.items()
)
mobilenet_v2_1_0, mobilenet_v2_0_75, mobilenet_v2_0_5, mobilenet_v2_0_25 = (
    variant(f"mobilenet_v2_{name}", get_mobilenet_v2, multiplier) for name, multiplier in _MULTIPLIERS.items()
)
