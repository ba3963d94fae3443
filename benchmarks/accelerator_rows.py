"""The rows of `accelerator.py`: networks, batches and sizes. PyTorch's interpreter imports this file, too."""

from __future__ import annotations

from typing import NamedTuple

RATE = 1e-4


class Work(NamedTuple):
    """A row: a network, of one batch, in inference or in training."""

    network: str
    batch: int
    training: bool = False
    half: bool = False

    @property
    def label(self) -> str:
        """`resnet50-b128-train-bfloat16`."""
        kind = "-train" if self.training else ""
        return f"{self.network}-b{self.batch}{kind}-{'bfloat16' if self.half else 'float32'}"


WORKS = [
    *(Work("resnet50", 1), Work("resnet50", 64, half=True)),
    *(Work("mobilenet", 1), Work("bert", 1), Work("bert", 32, half=True)),
    *(Work("lstm", 32), Work("lstm", 32, training=True), Work("transformer4", 8, training=True)),
    *(Work("resnet50", 64, training=True), Work("resnet50", 128, training=True, half=True)),
]


class Sizes(NamedTuple):
    """The sizes of a network. shape: of a sample; width: of a MobileNet the percentage."""

    shape: tuple[int, ...]
    stages: tuple[int, ...] = ()
    width: int = 0
    layers: int = 0
    heads: int = 0


FULL = {
    "resnet50": Sizes((3, 224, 224), (3, 4, 6, 3), 64),
    "mobilenet": Sizes((3, 224, 224), width=100),
    "bert": Sizes((128, 768), width=768, layers=12, heads=12),
    "transformer4": Sizes((128, 256), width=256, layers=4, heads=4),
    "lstm": Sizes((64, 512), width=512, layers=2),
}
SMALL = {
    "resnet50": Sizes((3, 32, 32), (1, 1), 4),
    "mobilenet": Sizes((3, 32, 32), width=25),
    "bert": Sizes((6, 16), width=16, layers=1, heads=2),
    "transformer4": Sizes((6, 16), width=16, layers=1, heads=2),
    "lstm": Sizes((5, 8), width=8, layers=2),
}


def sizes_of(work: Work, is_small: bool) -> tuple[Sizes, tuple[int, ...]]:
    """The network's sizes, and the shape of its data: an LSTM's is (time, batch, features)."""
    sizes = (SMALL if is_small else FULL)[work.network]
    first, *others = sizes.shape
    batch = min(work.batch, 2) if is_small else work.batch
    return sizes, (first, batch, *others) if work.network == "lstm" else (batch, *sizes.shape)
