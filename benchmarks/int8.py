"""Models of 8-bit integers beside the float ones they were made from: accuracy, size of the files, time of a batch.

    python benchmarks/int8.py [--only digits,resnet,resnet18] [--rounds 5] [--mxnet mxnet-env/bin/python]

digits: the CNN of examples/digits.py, trained for three epochs; its accuracy is that on digits it has not seen.
resnet: a ResNet of eight convolutions, trained on them for twenty.
resnet18: Gluon's, with random weights, on random images; "accuracy" is how often its first class is the float
network's, which says little of such weights. Times are medians of rounds in which all take turns, each with all cores;
onnxruntime runs what `to_onnx` writes, MXNet what its own `quantize_model_mkldnn` makes of the same files and data, and
the file of our fused model.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).parents[1]))

import onnxruntime

import datasets  # pyright: ignore[reportMissingImports]  # examples/datasets.py
import digits  # pyright: ignore[reportMissingImports]
import lowering
import symjax_nnvm as nn
from benchmarks.contenders import Contender, in_process, print_table, run, take_turns
from lowering import mx
from symjax_nnvm import symbol as sym

Row = tuple[nn.Model, list[np.ndarray], np.ndarray, np.ndarray | None]
"""(model, batches to calibrate with, images, labels)."""


def trained_digits() -> Row:
    """Train the CNN of the examples."""
    return _trained(digits.network(), 3)


def trained_resnet() -> Row:
    """Train a ResNet of eight convolutions."""
    net = _unit(sym.Variable("data"), "stem", 16)
    net = sym.Activation(net, act_type="relu", name="stem_relu")
    for i, (filters, stride) in enumerate(((16, 1), (32, 2), (32, 1))):
        left = sym.Activation(_unit(net, f"{i}_first", filters, stride), act_type="relu", name=f"{i}_relu")
        left = _unit(left, f"{i}_second", filters)
        right = _unit(net, f"{i}_short", filters, stride, 1) if stride > 1 else net
        net = sym.Activation(sym.elemwise_add(left, right, name=f"{i}_add"), act_type="relu", name=f"{i}_out")
    net = sym.Pooling(net, global_pool=True, pool_type="avg", kernel=(1, 1), name="pool")
    net = sym.FullyConnected(sym.Flatten(net, name="flatten"), num_hidden=10, name="fc")
    return _trained(sym.SoftmaxOutput(net, normalization="batch", name="softmax"), 20)


def _unit(x: sym.Symbol, name: str, filters: int, stride: int = 1, size: int = 3) -> sym.Symbol:
    window, steps, pad = (size, size), (stride, stride), (size // 2, size // 2)
    x = sym.Convolution(x, num_filter=filters, no_bias=True, name=f"{name}_conv", kernel=window, stride=steps, pad=pad)
    return sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")


def _trained(net: sym.Symbol, epochs: int) -> Row:
    """Train a network on the digits."""
    (images, labels), (test_images, test_labels) = datasets.digits()
    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    trainer.init(0, data=(digits.BATCH, 1, 8, 8), softmax_label=(digits.BATCH,))
    batches = lowering.Batches({"data": images, "softmax_label": labels}, digits.BATCH, shuffle=True)
    trainer.fit(batches, epochs, callbacks=None, progress=False)
    assert trainer.state is not None
    model = nn.Model(net, trainer.state.params, trainer.state.aux).inference()
    return model, [images[i : i + 64] for i in range(0, 512, 64)], test_images, test_labels


def resnet18() -> Row:
    """Make Gluon's network."""
    block = mx.gluon.model_zoo.vision.resnet18_v1()
    block.initialize(mx.init.Xavier())
    block.hybridize()
    images = np.random.RandomState(0).standard_normal((6, 3, 224, 224)).astype(np.float32)
    block(mx.nd.array(images[:1]))
    with tempfile.TemporaryDirectory() as folder:
        block.export(f"{folder}/net")
        return nn.Model.load(f"{folder}/net"), [images[:2]], images[2:], None


def measure(network: str, row: Row, rounds: int, mxnet: str | None) -> None:
    """Print a table of one network."""
    model, batches, images, labels = row
    start = time.perf_counter()
    made = nn.quantize(*model, calibration=batches, dtype="auto")
    seconds = time.perf_counter() - start
    naive = nn.quantize(*model, calibration=batches, dtype="auto", mode="naive")
    fused = nn.quantize(*model, calibration=batches, dtype="auto", mode="naive", fused=True)
    shape = ("batch", *images.shape[1:])
    runs: dict[str, Callable[[np.ndarray], Any]] = {
        "float": _predictions(model, images.shape),
        "int8, entropy": _predictions(made, images.shape),
        "int8, naive": _predictions(naive, images.shape),
        "int8, naive, fused": _predictions(fused, images.shape),
        "onnxruntime, float": _session(model, shape),
        "onnxruntime, fused": _session(fused, shape),
    }
    ways = {name: in_process(lambda run=run: run(images)) for name, run in runs.items()}
    first = {name: run(images).argmax(-1) for name, run in runs.items()}
    with ExitStack() as stack:
        if mxnet:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            model.save(f"{folder}/net")
            fused.save(f"{folder}/fused")
            np.save(f"{folder}/images.npy", images)
            np.save(f"{folder}/batches.npy", np.concatenate(batches))
            for name, kind in (("MXNet, float", "floats"), ("MXNet, naive", "made"), ("MXNet, our file", "fused")):
                child = stack.enter_context(Contender.worker("int8", mxnet))
                child.load(folder=folder, kind=kind)
                first[name], ways[name] = child.outputs()[0].argmax(-1), child.time
        times = take_turns(ways, rounds, seconds=0.3)
    wanted = first["float"] if labels is None else labels
    table = [[name, f"{np.mean(first[name] == wanted):.3f}", f"{statistics.median(times[name]):.1f}"] for name in times]
    print_table([network, "accuracy", f"ms for {len(images)} images"], table, ("mxnet", mxnet))
    with tempfile.TemporaryDirectory() as folder:
        sizes = [Path(each.save(f"{folder}/{i}")[1]).stat().st_size for i, each in enumerate((model, made, fused))]
    kinds = ("as floats", "as int8", "fused")
    told = ", ".join(f"{size:,} {kind}" for size, kind in zip(sizes, kinds, strict=True))
    print(f"calibrated in {seconds:.1f} s; bytes of parameters: {told}\n")


def _predictions(model: nn.Model, shape: tuple[int, ...]) -> Callable[[np.ndarray], Any]:
    predict = model.predictor().warm(data=shape)
    return lambda x: np.asarray(predict(data=x)[0])


def _session(model: nn.Model, shape: Any) -> Callable[[np.ndarray], Any]:
    session = onnxruntime.InferenceSession(model.to_onnx({"data": shape}).SerializeToString())
    return lambda x: session.run(None, {"data": x})[0]


def main(rounds: int = 5, only: str = "digits,resnet,resnet18", mxnet: str | None = None) -> None:
    """Measure each network."""
    rows = {"digits": trained_digits, "resnet": trained_resnet, "resnet18": resnet18}
    for name in only.split(","):
        measure(name, rows[name](), rounds, mxnet)


if __name__ == "__main__":
    run(__doc__, main)
