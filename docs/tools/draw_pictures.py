"""Draw the pictures of the pages: `python docs/tools/draw_pictures.py` writes docs/pictures by `plot_network`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import symjax_nnvm as nn  # noqa: E402
from benchmarks.networks import blocks  # noqa: E402
from symjax_nnvm import symbol as sym  # noqa: E402
from symjax_nnvm.viz.network_plot import NetworkPlot  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"


def quadratic() -> sym.Symbol:
    """The network of the first pages: a dense layer, squared and summed."""
    return sym.make_loss(sym.sum(sym.square(sym.FullyConnected(sym.Variable("x"), num_hidden=2, name="fc"))))


def symbol() -> NetworkPlot:
    """Three nodes: what a symbol is."""
    y = sym.broadcast_add(sym.dot(sym.Variable("x"), sym.Variable("w"), name="product"), sym.Variable("b"), name="sum")
    return nn.plot_network(y, {"x": (4, 3), "w": (3, 2), "b": (2,)}, params=())


def gradient() -> NetworkPlot:
    """Forward and backward as one graph."""
    return nn.plot_network(quadratic().gradient(["fc_weight"]), {"x": (4, 3)}, title="gradient")


def second_gradient() -> NetworkPlot:
    """A gradient of a gradient."""
    cube = sym.Variable("x") ** 3
    return nn.plot_network(cube.gradient(["x"]).gradient(["x"]), {"x": (2,)}, title="second gradient")


def digits() -> NetworkPlot:
    """LeNet, as examples/lenet.py has it."""
    net = sym.Variable("data")
    for i, filters in enumerate((8, 16)):
        net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=f"conv{i}").tanh()
        net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
    net = sym.FullyConnected(net.flatten(), num_hidden=64, name="fc0").tanh()
    net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=10, name="fc1"), name="softmax")
    return nn.plot_network(net, {"data": (1, 1, 8, 8)}, title="LeNet")


def residual() -> NetworkPlot:
    """Residual blocks, drawn once."""
    h = sym.Convolution(sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=16, name="stem")
    for i in range(8):
        part = sym.Activation(sym.BatchNorm(h, name=f"block{i}_norm"), act_type="relu", name=f"block{i}_relu")
        h = h + sym.Convolution(part, kernel=(3, 3), pad=(1, 1), num_filter=16, name=f"block{i}_conv")
    h = sym.Pooling(h, global_pool=True, pool_type="avg", kernel=(1, 1), name="pool")
    net = sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=10, name="fc"), name="softmax")
    return nn.plot_network(net, {"data": (1, 3, 32, 32)}, title="residual network")


def transformer() -> NetworkPlot:
    """Twelve blocks of a transformer, normalised on the branches, without shapes."""
    return nn.plot_network(blocks(sym, 12, 768, 12, pre_norm=True), title="encoder")


def character_lstm() -> NetworkPlot:
    """The fused operator RNN between an embedding and a classifier, with its parameters."""
    states = [sym.zeros((1, 32, 128)) for _ in range(2)]
    steps = sym.transpose(sym.Embedding(sym.Variable("data"), input_dim=64, output_dim=32, name="embedding"), (1, 0, 2))
    hidden = sym.RNN(
        steps, sym.Variable("rnn_parameters"), *states, state_size=128, num_layers=1, mode="lstm", name="rnn"
    )
    net = sym.FullyConnected(sym.reshape(hidden, shape=(-1, 128)), num_hidden=64, name="fc")
    return nn.plot_network(sym.SoftmaxOutput(net, name="softmax"), {"data": (32, 48)}, title="LSTM", hide_weights=False)


def loop() -> NetworkPlot:
    """Control flow: the loop's body is a graph of its own."""

    def step(x: sym.Symbol, state: list[sym.Symbol]) -> tuple[sym.Symbol, list[sym.Symbol]]:
        new = sym.tanh(x + sym.FullyConnected(state[0], num_hidden=8, name="recurrent"), name="new_state")
        return new, [new]

    outputs, _ = sym.contrib.foreach(step, sym.Variable("steps"), [sym.Variable("state")], name="loop")
    return nn.plot_network(outputs, title="a loop")


PICTURES: dict[str, Callable[[], NetworkPlot]] = {
    function.__name__: function
    for function in (symbol, gradient, second_gradient, digits, residual, transformer, character_lstm, loop)
}
"""Name of a picture → what draws it."""


def drawn(name: str) -> NetworkPlot:
    """A picture's drawing; automatic names begin anew."""
    with sym.NameManager():
        return PICTURES[name]()


def main() -> None:
    """Draw every picture, as `plot.save` does."""
    for name in PICTURES:
        path = drawn(name).save(FOLDER / f"{name}.svg")
        print(path.relative_to(ROOT), path.stat().st_size)


if __name__ == "__main__":
    main()
