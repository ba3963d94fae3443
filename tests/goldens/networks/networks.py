"""Small networks of every kind, written with MXNet's own front ends: what people hold files of.

Each function returns a symbol and the values of its inputs. The symbols are MXNet 1.9.1's, so this module needs it.
"""

from collections.abc import Callable
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

Network = tuple[Any, dict[str, np.ndarray]]
sym = mx.sym


def images(rng: np.random.RandomState, *shape: int) -> np.ndarray:
    """Pixels."""
    return rng.uniform(-1, 1, shape).astype(np.float32)


def numbers(rng: np.random.RandomState, high: int, *shape: int) -> np.ndarray:
    """Words or classes, as MXNet feeds them."""
    return rng.randint(0, high, shape).astype(np.float32)


def _conv(data: Any, name: str, filters: int, kernel: int = 3, **params: Any) -> Any:
    pad = (kernel // 2,) * 2
    return sym.Convolution(data, name=name, num_filter=filters, kernel=(kernel,) * 2, pad=pad, **params)


def _conv_bn(data: Any, name: str, filters: int, kernel: int = 3, **params: Any) -> Any:
    data = _conv(data, name, filters, kernel, no_bias=True, **params)
    return sym.BatchNorm(data, name=f"{name}_bn", fix_gamma=False, eps=2e-5, momentum=0.9)


def cnn(rng: np.random.RandomState) -> Network:
    """AlexNet's kind: local response normalisation, overlapping maxima, dropout."""
    net = sym.Activation(_conv(sym.Variable("data"), "conv1", 6), act_type="relu", name="relu1")
    net = sym.LRN(net, alpha=0.0001, beta=0.75, knorm=2, nsize=5, name="norm1")
    net = sym.Pooling(net, kernel=(3, 3), stride=(2, 2), pool_type="max", name="pool1")
    net = sym.BatchNorm(_conv(net, "conv2", 4), name="bn2")
    net = sym.Pooling(sym.LeakyReLU(net, act_type="prelu", name="prelu2"), kernel=(2, 2), pool_type="avg", name="pool2")
    net = sym.Dropout(sym.FullyConnected(sym.Flatten(net), num_hidden=8, name="fc1"), p=0.5, name="drop")
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=3, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax"), {"data": images(rng, 2, 3, 12, 12), "softmax_label": np.zeros(2)}


def resnet(rng: np.random.RandomState) -> Network:
    """A residual block with a projection."""
    data = _conv_bn(sym.Variable("data"), "stem", 4)
    body = sym.Activation(_conv_bn(data, "unit1_conv1", 6, stride=(2, 2)), act_type="relu")
    body = _conv_bn(body, "unit1_conv2", 6)
    net = sym.Activation(body + _conv_bn(data, "unit1_sc", 6, 1, stride=(2, 2)), act_type="relu")
    net = sym.Pooling(net, global_pool=True, kernel=(7, 7), pool_type="avg", name="pool")
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=3, name="fc")
    inputs = {"data": images(rng, 2, 3, 8, 8), "softmax_label": numbers(rng, 3, 2)}
    return sym.SoftmaxOutput(net, name="softmax", normalization="batch", smooth_alpha=0.1), inputs


def mobilenet(rng: np.random.RandomState) -> Network:
    """An inverted residual: expand, filter every channel, project."""
    data = sym.Variable("data")
    net = sym.clip(_conv_bn(data, "expand", 8, 1), 0, 6, name="relu6_1")
    net = sym.clip(_conv_bn(net, "depthwise", 8, 3, num_group=8), 0, 6, name="relu6_2")
    net = sym.LeakyReLU(_conv_bn(net, "project", 4, 1) + data, act_type="elu", slope=1.0, name="elu")
    net = sym.mean(net, axis=(2, 3), name="pool")
    inputs = {"data": images(rng, 2, 4, 6, 6), "softmax_label": numbers(rng, 4, 2)}
    return sym.SoftmaxOutput(net, name="softmax"), inputs


def rnn_fused(rng: np.random.RandomState) -> Network:
    """A bidirectional LSTM of two layers, as one operator."""
    net = sym.Embedding(sym.Variable("data"), input_dim=11, output_dim=3, name="embed")
    state, cell = sym.Variable("lstm_state"), sym.Variable("lstm_state_cell")
    net = sym.RNN(
        sym.swapaxes(net, dim1=0, dim2=1),
        sym.Variable("lstm_parameters"),
        state,
        cell,
        state_size=4,
        num_layers=2,
        bidirectional=True,
        mode="lstm",
        state_outputs=True,
        name="lstm",
    )
    net = sym.FullyConnected(sym.SequenceLast(net[0], name="last"), num_hidden=1, name="score")
    zeros = np.zeros((4, 2, 4), np.float32)
    inputs = {"data": numbers(rng, 11, 2, 5), "score_label": images(rng, 2, 1)}
    inputs |= {"lstm_state": zeros, "lstm_state_cell": zeros}
    return sym.LinearRegressionOutput(net, sym.Variable("score_label"), name="regression"), inputs


def lstm_unrolled(rng: np.random.RandomState) -> Network:
    """mx.rnn's cells, unrolled: the language model of the examples."""
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.LSTMCell(num_hidden=4, prefix="lstm_l0_"))
    stack.add(mx.rnn.GRUCell(num_hidden=4, prefix="gru_l1_"))
    embed = sym.Embedding(sym.Variable("data"), input_dim=9, output_dim=3, name="embed")
    outputs, _ = stack.unroll(3, inputs=embed, merge_outputs=True)
    net = sym.FullyConnected(sym.Reshape(outputs, shape=(-1, 4)), num_hidden=9, name="pred")
    label = sym.Reshape(sym.Variable("softmax_label"), shape=(-1,))
    inputs = {"data": numbers(rng, 9, 2, 3), "softmax_label": numbers(rng, 9, 2, 3)}
    return sym.SoftmaxOutput(net, label, name="softmax", use_ignore=True, ignore_label=0), inputs


def ssd(rng: np.random.RandomState) -> Network:
    """A detector with two scales: prior boxes, targets, losses, detections."""
    features = sym.Activation(_conv(sym.Variable("data"), "conv1", 4, stride=(2, 2)), act_type="relu")
    scales = [features, sym.Pooling(features, kernel=(2, 2), stride=(2, 2), pool_type="max")]
    classes, places, priors = [], [], []
    for i, scale in enumerate(scales):
        for kind, filters, heads in (("cls", 3 * 3, classes), ("loc", 3 * 4, places)):
            head = sym.transpose(_conv(scale, f"{kind}{i}", filters), axes=(0, 2, 3, 1))
            heads.append(sym.Flatten(head))
        sizes = (0.2 + 0.3 * i, 0.3 + 0.3 * i)
        priors.append(sym.contrib.MultiBoxPrior(scale, sizes=sizes, ratios=(1, 2), clip=True, name=f"prior{i}"))
    anchors = sym.concat(*priors, dim=1, name="anchors")
    locations = sym.concat(*places, dim=1, name="locations")
    scores = sym.transpose(sym.Reshape(sym.concat(*classes, dim=1), shape=(0, -1, 3)), axes=(0, 2, 1))
    target = sym.contrib.MultiBoxTarget(
        anchors, sym.Variable("label"), scores, overlap_threshold=0.5, negative_mining_ratio=3, name="target"
    )
    probabilities = sym.SoftmaxOutput(
        scores, target[2], multi_output=True, use_ignore=True, ignore_label=-1, normalization="valid", name="cls_prob"
    )
    distance = sym.smooth_l1(target[1] * (locations - target[0]), scalar=1.0)
    loss = sym.MakeLoss(distance, normalization="valid", name="loc_loss")
    found = sym.contrib.MultiBoxDetection(probabilities, locations, anchors, nms_threshold=0.5, name="detection")
    label = np.array([[[0, 0.1, 0.1, 0.5, 0.6], [1, 0.4, 0.3, 0.9, 0.9]], [[1, 0.2, 0.2, 0.8, 0.7], [-1] * 5]])
    inputs = {"data": images(rng, 2, 3, 12, 12), "label": label.astype(np.float32)}
    return sym.Group([probabilities, loss, sym.BlockGrad(target[2]), sym.BlockGrad(found)]), inputs


def transformer(rng: np.random.RandomState) -> Network:
    """A pre-norm block: attention with a mask of padding, and a feed-forward part."""
    data, lengths = sym.Variable("data"), sym.Variable("valid_length")
    norm = sym.LayerNorm(data, name="ln1")
    query, key, value = (
        sym.Reshape(
            sym.transpose(
                sym.Reshape(
                    sym.FullyConnected(norm, num_hidden=6, flatten=False, name=name),
                    shape=(0, 0, 2, -1),
                    name=f"{name}_h",
                ),
                axes=(0, 2, 1, 3),
            ),
            shape=(-3, 0, 0),
        )
        for name in ("query", "key", "value")
    )
    scores = sym.batch_dot(query, key, transpose_b=True) / float(np.sqrt(3))
    scores = sym.Reshape(scores, shape=(-4, -1, 2, 0, 0))
    steps = sym.contrib.arange_like(scores, axis=3)
    mask = sym.broadcast_lesser(sym.Reshape(steps, shape=(1, 1, 1, -1)), sym.Reshape(lengths, shape=(-1, 1, 1, 1)))
    scores = sym.broadcast_add(sym.broadcast_mul(scores, mask), (1 - mask) * -1e9)
    weights = sym.Reshape(sym.softmax(scores, axis=-1), shape=(-3, 0, 0))
    mixed = sym.Reshape(sym.batch_dot(weights, value), shape=(-4, -1, 2, 0, 0))
    mixed = sym.Reshape(sym.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
    net = data + sym.FullyConnected(mixed, num_hidden=6, flatten=False, name="proj")
    inner = sym.FullyConnected(sym.LayerNorm(net, name="ln2"), num_hidden=10, flatten=False, name="ffn1")
    inner = sym.LeakyReLU(inner, act_type="gelu")
    net = net + sym.FullyConnected(inner, num_hidden=6, flatten=False, name="ffn2")
    return net, {"data": images(rng, 2, 4, 6), "valid_length": np.array([4, 2], np.float32)}


def foreach(rng: np.random.RandomState) -> Network:
    """A recurrent cell in a loop over time."""
    weight = sym.Variable("weight", shape=(3, 3))

    def step(data: Any, state: Any) -> tuple[Any, Any]:
        new = sym.tanh(sym.FullyConnected(data, num_hidden=3, name="i2h") + sym.dot(state, weight))
        return new * 2, new

    outputs, state = sym.contrib.foreach(step, sym.Variable("data"), sym.Variable("init"), name="loop")
    return sym.Group([outputs, state]), {"data": images(rng, 4, 2, 5), "init": images(rng, 2, 3)}


def while_loop(rng: np.random.RandomState) -> Network:
    """A matrix, multiplied until a count is reached or the entries are large."""
    factor = sym.Variable("factor_weight", shape=(3, 3))
    outputs, states = sym.contrib.while_loop(
        cond=lambda i, x: (sym.sum(x) < 50) * (i < 6),
        func=lambda i, x: ([x], [i + 1, sym.dot(x, factor)]),
        loop_vars=[sym.Variable("i"), sym.Variable("x")],
        max_iterations=6,  # all of them run: MXNet computes garbage from steps that do not
        name="loop",
    )
    return sym.Group([*outputs, *states]), {"i": np.zeros(1), "x": rng.uniform(1, 2, (3, 3)).astype(np.float32)}


def cond(rng: np.random.RandomState) -> Network:
    """One of two layers, as the data say."""
    data = sym.Variable("data")

    def dense(name: str, x: Any) -> Any:
        weight, bias = sym.Variable(f"{name}_weight", shape=(4, 3)), sym.Variable(f"{name}_bias", shape=(4,))
        return sym.FullyConnected(x, weight, bias, num_hidden=4, name=name)

    positive, negative = lambda: dense("positive", data), lambda: dense("negative", sym.relu(data))
    net = sym.contrib.cond(sym.sum(data) > 0, positive, negative, name="choice")
    return net, {"data": images(rng, 2, 3)}


def multi_output(rng: np.random.RandomState) -> Network:
    """Features of two depths and a score, as SymbolBlock takes them."""
    trunk = sym.Activation(_conv_bn(sym.Variable("data"), "conv1", 4), act_type="relu", name="relu1")
    deep = sym.Pooling(_conv(trunk, "conv2", 5), kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool2")
    parts = sym.SliceChannel(deep, num_outputs=5, axis=1, name="parts")
    score = sym.sigmoid(sym.FullyConnected(deep, num_hidden=2, name="score"), name="score_sigmoid")
    return sym.Group([trunk, parts[1], parts[3], score]), {"data": images(rng, 2, 3, 6, 6)}


def autoencoder(rng: np.random.RandomState) -> Network:
    """Down by strides, up by transposed convolutions and by interpolation."""
    data = sym.Variable("data")
    net = sym.Activation(_conv(data, "encode", 4, stride=(2, 2)), act_type="softrelu")
    net = sym.Deconvolution(net, num_filter=3, kernel=(4, 4), stride=(2, 2), pad=(1, 1), no_bias=False, name="decode")
    side = sym.UpSampling(_conv(data, "side", 2, stride=(2, 2)), scale=2, sample_type="nearest", name="up")
    net = sym.Crop(_conv(sym.Concat(net, side, dim=1, name="both"), "paint", 1), data, num_args=2, name="crop")
    inputs = {"data": rng.uniform(0, 1, (2, 1, 8, 8)).astype(np.float32)}
    return sym.LogisticRegressionOutput(net, data, name="reconstruction"), inputs


def text_cnn(rng: np.random.RandomState) -> Network:
    """Words, filters of three widths over them, the maximum of each."""
    embed = sym.Embedding(sym.Variable("data"), input_dim=12, output_dim=4, name="vocab_embed")
    embed = sym.Reshape(embed, shape=(-1, 1, 7, 4))
    pooled = []
    for width in (2, 3, 4):
        net = sym.Convolution(embed, kernel=(width, 4), num_filter=3, name=f"conv{width}")
        net = sym.Activation(net, act_type="relu")
        pooled.append(sym.Pooling(net, pool_type="max", kernel=(7 - width + 1, 1), stride=(1, 1)))
    net = sym.Reshape(sym.Concat(*pooled, dim=1), shape=(-1, 9))
    net = sym.SVMOutput(sym.FullyConnected(net, num_hidden=2, name="cls"), name="svm", margin=1.0)
    return net, {"data": numbers(rng, 12, 3, 7), "svm_label": numbers(rng, 2, 3)}


def matrix_factorisation(rng: np.random.RandomState) -> Network:
    """Users times items, with biases."""
    user, item = sym.Variable("user"), sym.Variable("item")
    users = sym.Embedding(user, input_dim=6, output_dim=4, name="user_embed")
    items = sym.Embedding(item, input_dim=5, output_dim=4, name="item_embed")
    users = sym.FullyConnected(sym.Activation(users, act_type="relu"), num_hidden=4, name="fc_user")
    score = sym.Flatten(sym.sum_axis(users * items, axis=1)) + sym.Embedding(
        user, input_dim=6, output_dim=1, name="bias"
    )
    inputs = {"user": numbers(rng, 6, 3), "item": numbers(rng, 5, 3), "score_label": images(rng, 3, 1)}
    return sym.MAERegressionOutput(score, sym.Variable("score_label"), name="score"), inputs


NETWORKS: tuple[Callable[[np.random.RandomState], Network], ...] = (
    cnn,
    resnet,
    mobilenet,
    rnn_fused,
    lstm_unrolled,
    ssd,
    transformer,
    foreach,
    while_loop,
    cond,
    multi_output,
    autoencoder,
    text_cnn,
    matrix_factorisation,
)

NO_GRADIENT = {
    "cnn": "dropout draws other numbers in MXNet",
    "while_loop": "MXNet's gradient of what all steps read is not the sum over the steps",
}
"""Networks whose gradient is not taken, and why."""
