"""PyTorch's side of `accelerator.py`: the same networks and steps, run eagerly or as one CUDA graph.

PyTorch's interpreter imports this file and what NumPy alone suffices for; it needs no other package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch  # type: ignore[import-not-found]
from torch import nn  # type: ignore[import-not-found]

from benchmarks.accelerator_rows import RATE, Work, sizes_of
from benchmarks.contenders import Loaded, measured
from benchmarks.networks import MOMENTUM, resnet_units


def _unit(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, active: bool = True) -> Any:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([nn.ReLU(True)] if active else []))


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int, projected: bool):
        super().__init__()
        units = (_unit(inputs, width, 1, stride), _unit(width, width, 3), _unit(width, 4 * width, 1, active=False))
        self.body = nn.Sequential(*units)
        self.short = _unit(inputs, 4 * width, 1, stride, active=False) if projected else nn.Identity()

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.short(x))


def _resnet(stages: Sequence[int], width: int) -> Any:
    layers, inputs = [_unit(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)], width
    for _, factor, stride, projected in resnet_units(stages):
        layers.append(_Bottleneck(inputs, width * factor, stride, projected))
        inputs = 4 * width * factor
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def _mobilenet(percent: int) -> Any:
    widths = [width * percent // 100 for width in (32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)]
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    layers = [_unit(3, widths[0], 3, 2)]
    for inputs, outputs, stride in zip(widths, widths[1:], strides):  # noqa: B905  # Python 3.9 lacks strict
        layers += [_unit(inputs, inputs, 3, stride, inputs), _unit(inputs, outputs, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 1000))


class _LSTM(nn.LSTM):
    def forward(self, x: Any) -> Any:  # type: ignore[override]
        return super().forward(x)[0]


def _network(work: Work, sizes: Any) -> Any:
    if work.network == "resnet50":
        return _resnet(sizes.stages, sizes.width)
    if work.network == "mobilenet":
        return _mobilenet(sizes.width)
    if work.network == "lstm":
        return _LSTM(sizes.width, sizes.width, sizes.layers)
    how = {"dropout": 0.0, "activation": "gelu", "batch_first": True}
    width, heads = sizes.width, sizes.heads
    return nn.Sequential(*(nn.TransformerEncoderLayer(width, heads, 4 * width, **how) for _ in range(sizes.layers)))


def _calls(work: Work, is_small: bool, on: str, as_graph: bool) -> Callable[[], Any]:
    """A function that begins a prediction or a step."""
    sizes, shape = sizes_of(work, is_small)
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True  # as XLA's default
    net, data = _network(work, sizes).to(on), torch.randn(*shape, device=on)
    if len(shape) == 4:
        net, data = net.to(memory_format=torch.channels_last), data.contiguous(memory_format=torch.channels_last)
    net.train(work.training)
    labels = torch.zeros(shape[0], dtype=torch.long, device=on)
    optimizer = torch.optim.SGD(net.parameters(), RATE, momentum=MOMENTUM, fused=on == "cuda")
    if work.half and not work.training:
        net, data = net.bfloat16(), data.bfloat16()

    def predict() -> Any:
        with torch.inference_mode():
            return net(data)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(on, torch.bfloat16, enabled=work.half):
            outputs = net(data)
            is_classes = work.network == "resnet50"
            loss = nn.functional.cross_entropy(outputs, labels) if is_classes else outputs.square().sum()
        loss.backward()
        optimizer.step()

    call = step if work.training else predict
    return _as_graph(call) if as_graph else call


def _as_graph(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call recorded as one CUDA graph, after three calls beside, as PyTorch's documentation asks."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def loaded(side: str, work: Sequence[Any], is_small: bool) -> Loaded:
    """A side of a row, measured once: what `worker.py` serves."""
    on = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_grad_enabled(True)

    def wait(_: Any) -> None:
        if on == "cuda":
            torch.cuda.synchronize()

    return measured(lambda: _calls(Work(*work), is_small, on, side.endswith("graph")), wait, 0.0 if is_small else 0.7)
