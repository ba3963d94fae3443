"""GluonCV's networks of 8-bit integers in this library and in MXNet 1.9.1, whole and node by node.

    python -m tests.peers.int8 --source GLUON_CV --mxnet mxnet-env/bin/python --only mobilenet1.0_int8

GLUON_CV is dmlc/gluon-cv at v0.10.5, or a folder with `…_int8-symbol.json` files. Parameters are drawn, and images of
one colour each, with noise. The biases of a last dense layer take the mean of its results off, so that images differ in
their class. Ranges are calibrated by the first images, those without a negative number up to 2.2 times the greatest:
then data have few more than 116 levels, with which no sum of two products exceeds 16 bits, where oneDNN cuts them off
on processors without VNNI. `--signed` leaves the images' own range to each run, as the files have it: they become int8,
of which oneDNN halves the weights there. `--even` draws weights for convolutions of what was quantised from floats with
which that loses nothing: their levels are even, but for the greatest of each filter, whose channel of the data is 0.
`--seed` draws others.

Whole: how many images have MXNet's first class. Nodes: each with MXNet's inputs for the first images: how many integers
are one level apart, and how many more; how far floats are, of the largest, and in which node.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import symjax_nnvm as nn
from benchmarks.contenders import print_table, run
from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.attributes import TCalibrated
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import output_names
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.rules.quantized_form import PREFIX
from symjax_nnvm.quantization.calibration import MinMaxCollector, collect_outputs

SCRIPT = Path(__file__).with_name("in_mxnet.py")
WIDER = 2.2
BATCH, CALIBRATING = 32, 2
"""Images at once, and how many such batches calibrate."""
SIZES = {"ssd_300": 300, "ssd_512": 512, "inceptionv3": 299}


class Nodes(NamedTuple):
    """How far results are apart. integers: numbers compared; apart: how many by one level; far: by more; relative: the
    greatest difference of floats, of their largest; worst: the node that has it."""

    integers: int
    apart: int
    far: int
    relative: float
    worst: str


def drawn_images(count: int, size: int, seed: int) -> np.ndarray:
    """Images of one colour each, with noise, (count, 3, size, size), from 0 to 1."""
    random = np.random.RandomState(seed)
    colours = random.uniform(0, 0.8, (count, 3, 1, 1))
    return (colours + random.uniform(0, 0.2, (count, 3, size, size))).astype(np.float32)


def drawn_model(net: sym.Symbol, images: np.ndarray) -> nn.Model:
    """The network with parameters, its ranges those of the images."""
    random = np.random.RandomState(0)
    shapes, _, states = net.infer_shape(data=(BATCH, *images.shape[1:]))
    args: dict[str, np.ndarray] = {}
    for name, shape in zip(net.list_arguments(), shapes, strict=True):
        if len(shape) > 1:
            values = random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        else:
            values = random.uniform(0.7, 1.3, shape) if "gamma" in name else random.standard_normal(shape) * 0.1
        args[name] = values.astype(np.float32)
    aux = {
        name: (random.uniform(0.7, 1.3, shape) if "var" in name else random.standard_normal(shape) * 0.1).astype("f")
        for name, shape in zip(net.list_auxiliary_states(), states, strict=True)
    }
    del args["data"]
    return nn.Model(net, args, aux)


def with_even_levels(model: nn.Model) -> nn.Model:
    """The model whose convolutions of quantised floats lose nothing where oneDNN halves their weights."""
    random, args = np.random.RandomState(1), dict(model.args)
    for node in Graph(model.net.outputs).nodes():
        if node.op is None or node.op.name != "_sg_mkldnn_conv":
            continue
        source = node.inputs[0].node
        if source.op is None or source.op.name != "_contrib_quantize_v2":
            continue
        for entry in source.inputs[0].node.inputs:  # what scales the data
            if entry.node.name in args:
                args[entry.node.name] = args[entry.node.name].copy()
                args[entry.node.name][:, 0] = 0
        name = node.inputs[1].node.name
        levels = 2.0 * random.randint(-31, 32, args[name].shape)
        levels[:, 0] = 0
        levels[:, 0, 0, 0] = 127.5
        args[name] = (levels * np.sqrt(2 / levels[0].size) / 36).astype(np.float32)
    return nn.Model(model.net, args, model.aux)


def _sources(net: sym.Symbol) -> dict[str, str]:
    """Names of nodes that have a range → names of the float network's outputs that it is the range of."""
    sources: dict[str, str] = {}
    for node in Graph(net.outputs).nodes():
        if node.op in TCalibrated:
            sources[node.name] = output_names(node.inputs[:1])[0]
        elif "min_calib_range" in node.attrs.dict:
            body = node.attrs.subgraphs
            sources[node.name] = output_names(body[0].outputs if body else [NodeEntry(node)])[0].removeprefix(PREFIX)
    return sources


def calibrated(model: nn.Model, batches: Iterable[np.ndarray], is_signed: bool) -> nn.Model:
    """The model with the ranges of these images."""
    sources, collector = _sources(model.net), MinMaxCollector()
    if is_signed:
        sources = {name: source for name, source in sources.items() if source != "data"}
    collector.include_layers = set(sources.values())
    collect_outputs(model.dequantized(), collector.include_layers, batches, collector)
    ranges = collector.post_collect()
    text = json.loads(model.net.tojson())
    for node in text["nodes"]:
        if node["name"] in sources:
            low, high = ranges[sources[node["name"]]]
            low, high = (0.0, WIDER * high) if low >= 0 else (low, high)
            node["attrs"] |= {"min_calib_range": f"{low:.6f}", "max_calib_range": f"{high:.6f}"}
    return nn.Model(sym.load_json(json.dumps(text)), model.args, model.aux)


def centred(model: nn.Model, batches: Sequence[np.ndarray]) -> nn.Model:
    """The model whose last dense layer's results have the mean 0 in each class."""
    last = [node for node in Graph(model.net.outputs).nodes() if node.op and node.op.name == "FullyConnected"]
    if not last:
        return model
    predict = model.dequantized().predictor()
    mean = np.concatenate([np.asarray(predict(data=batch)[0]) for batch in batches]).mean(0)
    name = last[-1].inputs[2].node.name
    return nn.Model(model.net, {**model.args, name: model.args[name] - mean}, model.aux)


def compare_nodes(model: nn.Model, theirs: Mapping[str, np.ndarray], data: np.ndarray) -> Nodes:
    """Every node with MXNet's inputs."""
    feeds: dict[str, np.ndarray] = {"data": data}
    variables: dict[str, NodeEntry] = {}
    outputs: list[tuple[str, NodeEntry]] = []

    def taken(entry: NodeEntry) -> NodeEntry:
        name = output_names([entry])[0]
        if entry.node.is_variable:
            return entry
        if name not in variables:
            variables[name] = NodeEntry(create_variable_node(f"{name}_taken"))
            feeds[f"{name}_taken"] = theirs[name]
        return variables[name]

    for node in Graph(model.net.outputs).nodes():
        if not node.is_variable:
            copy = Node(node.attrs.copy(), [taken(entry) for entry in node.inputs])
            shown = [NodeEntry(node, i) for i in range(node.num_outputs())]
            names = output_names(shown)
            outputs += [(name, NodeEntry(copy, i)) for i, name in enumerate(names) if name in theirs]
    group = sym.Symbol([entry for _, entry in outputs])
    ours = nn.Model(group, model.args, model.aux).predictor()(
        **{name: array for name, array in feeds.items() if name in group.list_inputs()}
    )
    integers = apart = far = 0
    relative, worst = 0.0, ""
    for (name, _), array in zip(outputs, ours, strict=True):
        found, expected = np.asarray(array), theirs[name]
        assert found.dtype == expected.dtype, name
        assert found.shape == expected.shape, name
        difference = np.abs(found.astype(np.float64) - expected)
        if expected.dtype.kind in "iu":
            integers, apart = integers + expected.size, apart + int((difference == 1).sum())
            far += int((difference > 1).sum())
            if (difference > 1).any():
                worst = f"{name}: {int(difference.max())} levels"
        elif (share := float(difference.max() / max(np.abs(expected).max(), 1e-30))) > relative:
            relative, worst = share, worst or name
    return Nodes(integers, apart, far, relative, worst)


def compare(
    name: str, source: Path, mxnet: str, count: int, shown: int, is_signed: bool, is_even: bool, seed: int
) -> list[str]:
    """A row of the table."""
    size = next((size for start, size in SIZES.items() if name.startswith(start)), 224)
    images = drawn_images(count, size, seed)
    if is_even:
        images[:, 0] = 0
    batches = np.split(images, range(BATCH, count, BATCH))
    model = drawn_model(sym.load(str(source)), images)
    if is_even:
        model = with_even_levels(model)
    some = batches[:CALIBRATING]
    model = calibrated(centred(model, some), some, is_signed)
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"{folder}/net"
        model.save(prefix)
        np.save(f"{folder}/images.npy", images)
        command = [mxnet, str(SCRIPT), prefix, f"{folder}/images.npy", str(shown)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        theirs = np.load(f"{prefix}-first.npy").reshape(count, -1).argmax(1)
        nodes = compare_nodes(model, dict(np.load(f"{prefix}-nodes.npz")), images[:shown])
    predict = model.predictor()
    ours = np.concatenate([np.asarray(predict(data=batch)[0]) for batch in batches]).reshape(count, -1).argmax(1)
    same = f"{int((ours == theirs).sum())} of {count} ({len(set(theirs.tolist()))} classes)"
    return [
        name,
        same,
        f"{nodes.integers:,}",
        f"{nodes.apart:,}",
        f"{nodes.far:,}",
        f"{nodes.relative:.1e}",
        nodes.worst,
    ]


def main(
    *, source: str, mxnet: str, only: Any = (), images: int = 256, shown: int = 2, signed: bool = False,
    even: bool = False, seed: int = 1
) -> None:  # fmt: skip
    """Compare each network."""
    files = {path.name.removesuffix("-symbol.json"): path for path in sorted(Path(source).rglob("*_int8-symbol.json"))}
    rows = (
        compare(name, path, mxnet, images, shown, signed, even, seed)
        for name, path in files.items()
        if not only or name in only
    )
    columns = ["network", "first class is MXNet's", "integers", "one level", "more", "floats apart", "where"]
    print_table(columns, rows, ("mxnet", mxnet), left=7)


if __name__ == "__main__":
    run(__doc__, main)
