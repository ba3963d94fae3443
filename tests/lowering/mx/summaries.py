"""Tables of networks that MXNet and ours print: `TABLES`, name → (network, arguments of print_summary)."""

import contextlib
import io
from typing import Any


def _mlp(mx: Any) -> Any:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=128, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="relu1")
    net = mx.sym.FullyConnected(net, num_hidden=10, no_bias=True, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def _lenet(mx: Any) -> Any:
    net = mx.sym.Variable("data")
    for number, filters in ((1, 20), (2, 50)):
        net = mx.sym.Convolution(net, kernel=(5, 5), num_filter=filters, name=f"conv{number}")
        net = mx.sym.Activation(net, act_type="tanh", name=f"tanh{number}")
        net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{number}")
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flatten"), num_hidden=500, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh", name="tanh3"), num_hidden=10, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def _resnet(mx: Any) -> Any:
    net = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True, name="c0")
    for i in (1, 2):
        branch = mx.sym.BatchNorm(net, fix_gamma=i == 1, name=f"bn{i}")
        branch = mx.sym.Activation(branch, act_type="relu", name=f"relu{i}")
        branch = mx.sym.Convolution(branch, kernel=(3, 3), pad=(1, 1), num_filter=8, num_group=i, name=f"c{i}")
        net = mx.sym.elemwise_add(net, branch, name=f"plus{i}")
    net = mx.sym.Pooling(net, global_pool=True, kernel=(2, 2), pool_type="avg", name="pool")
    return mx.sym.FullyConnected(mx.sym.Flatten(net, name="flat"), num_hidden=10, name="fc")


def _inputs(mx: Any) -> Any:
    words = mx.sym.Embedding(mx.sym.Variable("words"), input_dim=100, output_dim=16, name="a_layer_with_a_long_name")
    words = mx.sym.FullyConnected(words, num_hidden=6, name="left")
    picture = mx.sym.FullyConnected(mx.sym.Variable("picture"), num_hidden=6, name="right")
    third = mx.sym.Variable("third")
    return mx.sym.LinearRegressionOutput(mx.sym.Concat(words, picture, third, dim=1, name="joined"), name="out")


def _parts(mx: Any) -> Any:
    halves = mx.sym.SliceChannel(mx.sym.Variable("data"), num_outputs=2, name="halves")
    return mx.sym.Group([halves[0] * 2, mx.sym.sum(halves[1], name="all")])


TABLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "mlp": (_mlp, {"shape": {"data": (32, 784)}}),
    "mlp without shapes": (_mlp, {}),
    "lenet": (_lenet, {"shape": {"data": (1, 1, 28, 28)}}),
    "lenet without shapes": (_lenet, {"shape": None}),
    "resnet": (_resnet, {"shape": {"data": (2, 3, 32, 32)}}),
    "resnet, narrow": (_resnet, {"shape": {"data": (2, 3, 8, 8)}, "line_length": 60}),
    "several inputs": (_inputs, {"shape": {"words": (4, 3), "picture": (4, 9), "third": (4, 2)}}),
    "several outputs": (_parts, {"shape": {"data": (4, 6)}}),
    "columns": (_mlp, {"shape": {"data": (1, 20)}, "positions": [30, 50, 60, 80], "line_length": 90}),
    "parts of a line": (_mlp, {"shape": {"data": (1, 20)}, "positions": [0.3, 0.5, 0.6, 1.0]}),
}


def table(mx: Any, name: str) -> str:
    """What is printed."""
    network, arguments = TABLES[name]
    printed = io.StringIO()
    with mx.name.NameManager(), contextlib.redirect_stdout(printed):
        assert mx.viz.print_summary(network(mx), **arguments) is None
    return printed.getvalue()
