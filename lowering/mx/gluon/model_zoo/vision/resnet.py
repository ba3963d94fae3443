"""ResNet (He et al. 2016): version 1 activates after the sum, version 2 before the convolutions."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.gluon import nn
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.model_zoo.vision.shared_layers import Network, make_network, sequence, variant
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.io.files import StrPath


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """Convolutions, each normalised, activated between; the input is added, and the sum activated.

    channels: the number of channels of the output. stride: the stride of the first convolution. downsample: whether the
        input needs a convolution to fit.
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        for convolution in self._convolutions(channels, stride, in_channels):
            if len(self.body):
                self.body.add(nn.Activation("relu"))
            self.body.add(convolution, nn.BatchNorm())
        self.downsample = None
        if downsample:
            fitting = nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)
            self.downsample = sequence(fitting, nn.BatchNorm())

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        raise NotImplementedError

    def _sum(self, residual: Any, x: Any) -> Any:
        return x + residual

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the output (n, channels, h / stride, w / stride)."""
        out = self.body(x)
        residual = self.downsample(x) if self.downsample else x
        return F.Activation(self._sum(residual, out), act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two convolutions 3x3, for ResNets of 18 and 34 layers.

    Args:
        channels: the number of channels of the output.
        stride: the stride of the block.
        downsample: add a convolution 1x1 on the shortcut.
        in_channels: the number of channels of the input; 0: the first call decides.
        kwargs: `prefix` and `params` of the block.
    """

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        yield _conv3x3(channels, stride, in_channels)
        yield _conv3x3(channels, 1, channels)

    def _sum(self, residual: Any, x: Any) -> Any:
        return residual + x  # the order of MXNet's files


@explained_by(BasicBlockV1)
class BottleneckV1(_BlockV1):
    """Convolutions 1x1, 3x3 and 1x1, with a fourth of the channels between, for ResNets of 50 layers and more."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        yield nn.Conv2D(channels // 4, 1, stride)
        yield _conv3x3(channels // 4, 1, channels // 4)
        yield nn.Conv2D(channels, 1, 1)


class _BlockV2(HybridBlock):
    """Runs convolutions, before each of which is normalised and activated; the input is added.

    channels, stride, downsample: as of version 1.
    """

    def __init__(self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        self._count = 0
        for i, make in enumerate(self._convolutions(channels, stride, in_channels), 1):
            setattr(self, f"bn{i}", nn.BatchNorm())
            setattr(self, f"conv{i}", make())
            self._count = i
        fitting = {"use_bias": False, "in_channels": in_channels}
        self.downsample = nn.Conv2D(channels, 1, stride, **fitting) if downsample else None

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the output (n, channels, h / stride, w / stride)."""
        residual = x
        for i in range(1, self._count + 1):
            x = F.Activation(getattr(self, f"bn{i}")(x), act_type="relu")
            if i == 1 and self.downsample:
                residual = self.downsample(x)
            x = getattr(self, f"conv{i}")(x)
        return x + residual


@explained_by(BasicBlockV1)
class BasicBlockV2(_BlockV2):
    """Two convolutions 3x3, for ResNets of 18 and 34 layers."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        yield lambda: _conv3x3(channels, stride, in_channels)
        yield lambda: _conv3x3(channels, 1, channels)


@explained_by(BasicBlockV1)
class BottleneckV2(_BlockV2):
    """Convolutions 1x1, 3x3 and 1x1, with a fourth of the channels between, for ResNets of 50 layers and more."""

    def _convolutions(self, channels: int, stride: int, in_channels: int) -> Any:
        yield lambda: nn.Conv2D(channels // 4, 1, 1, use_bias=False)
        yield lambda: _conv3x3(channels // 4, stride, channels // 4)
        yield lambda: nn.Conv2D(channels, 1, 1, use_bias=False)


class _ResNet(Network):
    """Maps images (n, 3, 224, 224) → (n, classes).

    block: the class of blocks. layers: blocks of each stage. channels: the number of channels of the first convolution,
    then of each stage. thumbnail: for images of 32 pixels: one convolution 3x3 begins.
    """

    def __init__(
        self,
        block: Any,
        layers: list[int],
        channels: list[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1
        with self.name_scope():
            self.features = sequence(*self._before())
            if thumbnail:
                self.features.add(_conv3x3(channels[0], 1, 0))
            else:
                self.features.add(nn.Conv2D(channels[0], 7, 2, 3, use_bias=False), nn.BatchNorm())
                self.features.add(nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
            for i, count in enumerate(layers, 1):
                stage = nn.HybridSequential(prefix=f"stage{i}_")
                before, after = channels[i - 1], channels[i]
                with stage.name_scope():
                    stage.add(block(after, 1 if i == 1 else 2, after != before, in_channels=before, prefix=""))
                    stage.add(*(block(after, 1, False, in_channels=after, prefix="") for _ in range(count - 1)))
                self.features.add(stage)
            self.features.add(*self._after())
            self.output = nn.Dense(classes, in_units=channels[-1])

    def _before(self) -> list[Any]:
        return []

    def _after(self) -> list[Any]:
        return [nn.GlobalAvgPool2D()]


@explained_by(Network)
class ResNetV1(_ResNet):
    """ResNet of version 1: images (n, 3, 224, 224) → (n, classes).

    Args:
        block: the class of the blocks.
        layers: the number of blocks of each stage.
        channels: the number of channels of the first convolution, then of each stage.
        thumbnail: begin with one convolution 3x3, for images of 32 pixels.
    """


@explained_by(ResNetV1)
class ResNetV2(_ResNet):
    """ResNet of version 2, which normalises its input: images (n, 3, 224, 224) → (n, classes)."""

    def _before(self) -> list[Any]:
        return [nn.BatchNorm(scale=False, center=False)]

    def _after(self) -> list[Any]:
        return [nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten()]


_BASIC, _BOTTLENECK = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]
resnet_spec = {
    18: ("basic_block", [2, 2, 2, 2], _BASIC),
    34: ("basic_block", [3, 4, 6, 3], _BASIC),
    50: ("bottle_neck", [3, 4, 6, 3], _BOTTLENECK),
    101: ("bottle_neck", [3, 4, 23, 3], _BOTTLENECK),
    152: ("bottle_neck", [3, 8, 36, 3], _BOTTLENECK),
}
"""Layers → (kind of blocks, blocks of each stage, channels)."""

resnet_net_versions = [ResNetV1, ResNetV2]
resnet_block_versions = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


@explained_by(make_network)
def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: ContextLike = None,
    root: StrPath | None = None,
    **kwargs: Any,
) -> Any:
    """Return a ResNet.

    Raises what `model_store.get_model_file` raises.

    Args:
        version: 1 or 2.
        num_layers: 18, 34, 50, 101 or 152.
    """
    assert num_layers in resnet_spec, f"Invalid number of layers: {num_layers}. Options are {resnet_spec.keys()}"
    assert 1 <= version <= 2, f"Invalid resnet version: {version}. Options are 1 and 2."
    kind, layers, channels = resnet_spec[num_layers]
    args = resnet_block_versions[version - 1][kind], layers, channels
    name = f"resnet{num_layers}_v{version}"
    return make_network(resnet_net_versions[version - 1], args, name, pretrained, ctx, root, kwargs)


resnet18_v1, resnet34_v1, resnet50_v1, resnet101_v1, resnet152_v1 = (
    variant(f"resnet{layers}_v1", get_resnet, 1, layers) for layers in resnet_spec
)
resnet18_v2, resnet34_v2, resnet50_v2, resnet101_v2, resnet152_v2 = (
    variant(f"resnet{layers}_v2", get_resnet, 2, layers) for layers in resnet_spec
)
