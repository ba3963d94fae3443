"""What is built of `mx.gluon`'s zoo, cells, layers and transforms, in MXNet and here: networks as text, and numbers."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

NETWORKS = (
    *("alexnet", "densenet121", "densenet161", "densenet169", "densenet201", "inceptionv3", "mobilenet0.25"),
    *("mobilenet0.5", "mobilenet0.75", "mobilenet1.0", "mobilenetv2_0.25", "mobilenetv2_0.5", "mobilenetv2_0.75"),
    *("mobilenetv2_1.0", "resnet101_v1", "resnet101_v2", "resnet152_v1", "resnet152_v2", "resnet18_v1", "resnet18_v2"),
    *("resnet34_v1", "resnet34_v2", "resnet50_v1", "resnet50_v2", "squeezenet1.0", "squeezenet1.1", "vgg11"),
    *("vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"),
)

N, T, C, H = 2, 3, 4, 5
"""Samples, steps, inputs and hidden units of cells."""


def digest(text: str) -> str:
    """A text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()


def network(mx: Any, name: str, **options: Any) -> dict[str, str]:
    """Digests of a network's symbol as JSON, and of its structural names with the parameters' names and shapes."""
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10, prefix="net_", **options)
    text = net(mx.sym.var("data")).tojson()
    names = [(key, p.name, tuple(p.shape)) for key, p in net._collect_params_with_prefix().items()]
    return {"json": digest(text), "names": digest(str(names)), "parameters": str(len(names))}


def fill(block: Any) -> None:
    """Give all parameters numbers that follow from their places and shapes."""
    for number, (name, parameter) in enumerate(sorted(block._collect_params_with_prefix().items())):
        least = 0.5 if name.endswith("running_var") else -1
        drawn = np.random.RandomState(number).uniform(least, 1, parameter.shape)
        parameter.set_data(drawn.astype(np.float32))


def numbers(*shape: int) -> np.ndarray:
    """Numbers that follow from a shape."""
    return np.random.RandomState(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def _stack(kind: Any, cells: list[Any]) -> Any:
    stack = kind(prefix="net_")
    for cell in cells:
        stack.add(cell)
    return stack


CELLS: dict[str, Callable[[Any], Any]] = {
    "rnn": lambda mx: mx.gluon.rnn.RNNCell(H, activation="relu", prefix="net_"),
    "lstm": lambda mx: mx.gluon.rnn.LSTMCell(H, prefix="net_"),
    "lstm_hard": lambda mx: mx.gluon.rnn.LSTMCell(H, activation="relu", recurrent_activation="tanh", prefix="net_"),
    "gru": lambda mx: mx.gluon.rnn.GRUCell(H, prefix="net_", i2h_bias_initializer="ones", input_size=C),
    "sequential": lambda mx: _stack(
        mx.gluon.rnn.SequentialRNNCell,
        [mx.gluon.rnn.LSTMCell(H, prefix="a_"), mx.gluon.rnn.DropoutCell(0.5), mx.gluon.rnn.GRUCell(H, prefix="b_")],
    ),
    "hybrid_sequential": lambda mx: _stack(
        mx.gluon.rnn.HybridSequentialRNNCell, [mx.gluon.rnn.RNNCell(C, prefix="a_"), residual(mx, "b_")]
    ),
    "residual": lambda mx: residual(mx, "net_"),
    "zoneout": lambda mx: mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.GRUCell(H, prefix="net_"), 0.2, 0.3),
    "bidirectional": lambda mx: mx.gluon.rnn.BidirectionalCell(
        mx.gluon.rnn.LSTMCell(H, prefix="l_"), mx.gluon.rnn.GRUCell(H, prefix="r_")
    ),
    "residual_bidirectional": lambda mx: mx.gluon.rnn.ResidualCell(
        mx.gluon.rnn.BidirectionalCell(mx.gluon.rnn.GRUCell(2, prefix="l_"), mx.gluon.rnn.GRUCell(2, prefix="r_"))
    ),
    "lstmp": lambda mx: mx.gluon.contrib.rnn.LSTMPCell(H, 3, prefix="net_"),
    "variational": lambda mx: mx.gluon.contrib.rnn.VariationalDropoutCell(
        mx.gluon.rnn.LSTMCell(H, prefix="net_"), 0.1, 0.2, 0.3
    ),
}
"""Name → a cell, which takes inputs (N, C)."""


def residual(mx: Any, prefix: str) -> Any:
    """A residual cell."""
    return mx.gluon.rnn.ResidualCell(mx.gluon.rnn.GRUCell(C, prefix=prefix))


def _conv(name: str, *shape: int, **options: Any) -> Callable[[Any], Any]:
    return lambda mx: getattr(mx.gluon.contrib.rnn, name)(shape, 2, prefix="net_", **options)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "Conv1DRNNCell": ((3, 6), _conv("Conv1DRNNCell", 3, 6, i2h_kernel=3, h2h_kernel=3)),
    "Conv1DLSTMCell": ((3, 6), _conv("Conv1DLSTMCell", 3, 6, i2h_kernel=(2,), h2h_kernel=(5,), i2h_pad=1)),
    "Conv1DGRUCell": ((3, 6), _conv("Conv1DGRUCell", 3, 6, i2h_kernel=3, h2h_kernel=1, i2h_dilate=2)),
    "Conv2DRNNCell": ((3, 6, 5), _conv("Conv2DRNNCell", 3, 6, 5, i2h_kernel=3, h2h_kernel=3, activation="relu")),
    "Conv2DLSTMCell": ((3, 6, 5), _conv("Conv2DLSTMCell", 3, 6, 5, i2h_kernel=3, h2h_kernel=(3, 1), h2h_dilate=2)),
    "Conv2DGRUCell": ((3, 6, 5), _conv("Conv2DGRUCell", 3, 6, 5, i2h_kernel=(3, 2), h2h_kernel=3, i2h_pad=(1, 0))),
    "Conv3DRNNCell": ((1, 4, 3, 3), _conv("Conv3DRNNCell", 1, 4, 3, 3, i2h_kernel=3, h2h_kernel=1)),
    "Conv3DLSTMCell": ((1, 4, 3, 3), _conv("Conv3DLSTMCell", 1, 4, 3, 3, i2h_kernel=2, h2h_kernel=3)),
    "Conv3DGRUCell": ((1, 4, 3, 3), _conv("Conv3DGRUCell", 1, 4, 3, 3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1)),
}
"""Name → (shape of a step, a cell)."""


def symbols(mx: Any) -> Iterator[tuple[str, Any]]:
    """Cells unrolled over a symbol, as JSON's digest, with the names of parameters, and what cells print."""
    data = mx.sym.var("data")
    for name, make in CELLS.items():
        for merge in (True, False):
            with mx.name.NameManager():
                cell = make(mx)
                outputs, states = cell.unroll(T, data, merge_outputs=merge)
                outputs = mx.sym.Group([*(outputs if isinstance(outputs, list) else [outputs]), *states])
                rows = [(key, p.name) for key, p in cell._collect_params_with_prefix().items()]
                yield f"{name} {merge}", [digest(outputs.tojson()), str(rows), list(cell.collect_params()), str(cell)]
    for name, (_, make) in CONVOLUTIONS.items():
        with mx.name.NameManager():
            cell = make(mx)
            inputs = [mx.sym.var(f"t{i}") for i in range(T)]
            outputs, states = cell.unroll(T, inputs, begin_state=cell.begin_state(func=mx.sym.var))
            text = mx.sym.Group([*outputs, *states]).tojson()
            shapes = [tuple(p.shape) for p in cell.collect_params().values()]
            yield name, [digest(text), str(cell), str(shapes), str(cell.state_info(7))]
    for name, (kind, options) in LAYERS.items():
        with mx.name.NameManager():
            layer = getattr(mx.gluon.rnn, kind)(H, prefix="net_", **options)
            arguments = [data, mx.sym.var("lengths")] if "use_sequence_length" in options else [data]
            text = (layer(arguments[0], None, *arguments[1:]) if len(arguments) > 1 else layer(data)).tojson()
            rows = [(key, p.name, tuple(p.shape)) for key, p in layer._collect_params_with_prefix().items()]
            yield name, [digest(text), str(rows), str(layer), str(layer.state_info(7))]
    for name, make in BLOCKS.items():
        with mx.name.NameManager():
            _, block = make(mx)
            rows = [(key, p.name, tuple(p.shape)) for key, p in block._collect_params_with_prefix().items()]
            said = "" if name == "modulated" else str(block)  # MXNet's says nothing of its sizes
            text = block(data).tojson().replace('"[', '"(').replace(']"', ')"')  # MXNet has a list for one shape
            yield name, [digest(text), str(rows), said]


LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "layer_rnn": ("RNN", {"num_layers": 2, "bidirectional": True, "input_size": C}),
    "layer_lstm": ("LSTM", {"num_layers": 2, "layout": "NTC"}),
    "layer_gru": ("GRU", {"bidirectional": True, "dropout": 0.3, "num_layers": 3}),
    "layer_lstm_lengths": ("LSTM", {"bidirectional": True, "use_sequence_length": True}),
    "layer_lstm_clipped": ("LSTM", {"state_clip_min": -0.2, "state_clip_max": 0.2}),
    "layer_lstm_projected": ("LSTM", {"projection_size": 3, "bidirectional": True, "num_layers": 2}),
}
"""Name → (class, options). MXNet has lengths, clipping and projections on GPUs alone."""

BLOCKS: dict[str, Callable[[Any], Any]] = {
    "shuffle1": lambda mx: ((2, 6, 5), mx.gluon.contrib.nn.PixelShuffle1D(3)),
    "shuffle2": lambda mx: ((2, 12, 3, 5), mx.gluon.contrib.nn.PixelShuffle2D((2, 3))),
    "shuffle3": lambda mx: ((2, 24, 3, 5, 2), mx.gluon.contrib.nn.PixelShuffle3D((2, 3, 2))),
    "identity": lambda mx: ((2, 3), mx.gluon.contrib.nn.Identity()),
    "concurrent": lambda mx: ((2, 3), concurrent(mx, "HybridConcurrent")),
    "synchronised": lambda mx: ((2, 3, 4, 4), mx.gluon.contrib.nn.SyncBatchNorm(num_devices=1, prefix="net_")),
    "deformable": lambda mx: (
        (1, 3, 6, 6),
        mx.gluon.contrib.cnn.DeformableConvolution(4, 3, padding=1, in_channels=3, prefix="net_", activation="relu"),
    ),
    "modulated": lambda mx: (
        (1, 4, 6, 6),
        mx.gluon.contrib.cnn.ModulatedDeformableConvolution(
            4, (3, 3), 2, 1, num_deformable_group=2, in_channels=4, use_bias=False, prefix="net_"
        ),
    ),
}
"""Name → (shape of the input, a hybrid block)."""

KINDS = "cells", "convolutions", "layers", "blocks", "transforms"


def concurrent(mx: Any, kind: str) -> Any:
    """Two layers and the input side by side."""
    both = getattr(mx.gluon.contrib.nn, kind)(axis=1, prefix="net_")
    with both.name_scope():
        both.add(mx.gluon.nn.Dense(2, in_units=3), mx.gluon.contrib.nn.Identity(), mx.gluon.nn.Dense(1, in_units=3))
    return both


def _gradients(mx: Any, block: Any, run: Callable[[], Any]) -> Iterator[tuple[str, np.ndarray]]:
    """The outputs of a computation, and the gradients of the sum of their squares."""
    with mx.autograd.record(train_mode=isinstance(block, mx.gluon.contrib.nn.SyncBatchNorm)):
        outputs = run()
        total: Any = sum((output * output).sum() for output in outputs)
    learns = bool(list(block.collect_params().keys())) and "Modulated" not in type(block).__name__
    if learns:  # MXNet has the other's gradient on GPUs alone
        total.backward()
    for i, output in enumerate(outputs):
        yield f"out{i}", output.asnumpy()
    for name, parameter in block._collect_params_with_prefix().items():
        if learns and parameter.grad_req != "null":
            yield f"grad {name}", parameter.grad().asnumpy()


def _of_cell(mx: Any, cell: Any, valid: Any) -> Iterator[tuple[str, np.ndarray]]:
    cell.initialize()
    data = mx.nd.array(numbers(N, T, C))
    cell.unroll(T, data, merge_outputs=True)
    fill(cell)

    def run() -> list[Any]:
        outputs, states = cell.unroll(T, data, merge_outputs=True, valid_length=valid)
        return [outputs, *states]

    return _gradients(mx, cell, run)


def _of_convolutions(mx: Any, cell: Any, shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    cell.initialize()
    fill(cell)
    steps = [mx.nd.array(step) for step in numbers(T, N, *shape)]

    def run() -> list[Any]:
        outputs, states = cell.unroll(T, steps)
        return [*outputs, *states]

    return _gradients(mx, cell, run)


def _of_layer(mx: Any, layer: Any) -> Iterator[tuple[str, np.ndarray]]:
    layer.initialize()
    data = mx.nd.array(numbers(N, T, C) if layer._layout == "NTC" else numbers(T, N, C))
    layer(data)
    fill(layer)
    begin = [state + 0.3 for state in layer.begin_state(N)]

    def run() -> list[Any]:
        outputs, states = layer(data, begin)
        return [outputs, *states]

    return _gradients(mx, layer, run)


def _of_block(mx: Any, block: Any, shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    block.initialize()
    data = mx.nd.array(numbers(*shape))
    block(data)
    fill(block)
    return _gradients(mx, block, lambda: [block(data)])


def values(mx: Any, kind: str) -> Iterator[tuple[str, np.ndarray]]:
    """The outputs, last states and gradients of cells and layers, and the outputs of blocks and transforms, by kind."""
    groups: list[tuple[str, Iterator[tuple[str, np.ndarray]]]] = []
    if kind == "cells":
        groups = [(name, _of_cell(mx, make(mx), None)) for name, make in CELLS.items()]
        lengths = mx.nd.array([3, 2])
        for name in ("lstm", "bidirectional", "residual_bidirectional", "variational"):
            groups.append((f"{name}_lengths", _of_cell(mx, CELLS[name](mx), lengths)))
    elif kind == "convolutions":
        groups = [(name, _of_convolutions(mx, make(mx), shape)) for name, (shape, make) in CONVOLUTIONS.items()]
    elif kind == "layers":
        for name, (layer, options) in LAYERS.items():
            if name.rpartition("_")[2] not in ("lengths", "clipped", "projected"):
                groups.append((name, _of_layer(mx, getattr(mx.gluon.rnn, layer)(H, prefix="net_", **options))))
    elif kind == "blocks":
        groups = [(name, _of_block(mx, block, shape)) for name, (shape, block) in _built(mx)]
    else:
        yield from transforms(mx)
    for name, found in groups:
        yield from ((f"{kind}|{name}|{key}", value) for key, value in found)


def _built(mx: Any) -> Iterator[tuple[str, Any]]:
    return ((name, make(mx)) for name, make in BLOCKS.items())


def transforms(mx: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Transforms that draw nothing, of an image and of a batch."""
    kinds = mx.gluon.data.vision.transforms
    draw = np.random.RandomState(3)
    image = mx.nd.array(draw.randint(0, 256, (7, 9, 3)), dtype="uint8")
    batch = mx.nd.array(draw.randint(0, 256, (2, 7, 9, 3)), dtype="uint8")
    tensor = mx.nd.array(draw.uniform(size=(3, 7, 9)))
    for name, transform, given in (
        ("cast", kinds.Cast("float16"), (image, batch)),
        ("to_tensor", kinds.ToTensor(), (image, batch)),
        ("normalize", kinds.Normalize((0.1, 0.2, 0.3), (1, 2, 0.5)), (tensor,)),
        ("resize", kinds.Resize((5, 4)), (image, batch)),
        ("resize_ratio", kinds.Resize(5, True), (image, batch)),
        ("center", kinds.CenterCrop((5, 4)), (image,)),
        ("crop", kinds.CropResize(1, 2, 4, 3), (image, batch)),
        ("crop_resize", kinds.CropResize(1, 2, 4, 3, (2, 2), 1), (image, batch)),
        ("rotate", kinds.Rotate(30), (tensor,)),
        ("composed", kinds.Compose([kinds.Resize(6), kinds.CenterCrop(5), kinds.ToTensor()]), (image,)),
    ):
        for i, each in enumerate(given):
            yield f"transforms|{name}|{i}", transform(each).asnumpy()
