"""Layers, losses, networks and trainings of Gluon as functions of `mx`: MXNet and this library run the same lines."""

from collections.abc import Callable
from typing import Any

import numpy as np

IMAGE = ((2, 4, 7, 6),)

LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[tuple[int, ...], ...]]] = {
    "dense": (lambda nn: nn.Dense(3), ((2, 4),)),
    "dense_activation": (lambda nn: nn.Dense(3, activation="tanh", in_units=4), ((2, 4),)),
    "dense_unflattened": (lambda nn: nn.Dense(3, flatten=False, use_bias=False), ((2, 3, 4),)),
    "dropout": (lambda nn: nn.Dropout(0.0), ((2, 4),)),
    "embedding": (lambda nn: nn.Embedding(5, 3), ((2, 2),)),
    "flatten": (lambda nn: nn.Flatten(), ((2, 3, 2),)),
    "batch_norm": (lambda nn: nn.BatchNorm(), IMAGE),
    "batch_norm_fixed": (lambda nn: nn.BatchNorm(scale=False, center=False, axis=-1), IMAGE),
    "batch_norm_relu": (lambda nn: nn.BatchNormReLU(), IMAGE),
    "instance_norm": (lambda nn: nn.InstanceNorm(), IMAGE),
    "instance_norm_last": (lambda nn: nn.InstanceNorm(axis=2, scale=True), IMAGE),
    "layer_norm": (lambda nn: nn.LayerNorm(), ((2, 3, 4),)),
    "group_norm": (lambda nn: nn.GroupNorm(2), IMAGE),
    "activation": (lambda nn: nn.Activation("softsign"), ((2, 4),)),
    "leaky_relu": (lambda nn: nn.LeakyReLU(0.2), ((2, 4),)),
    "prelu": (lambda nn: nn.PReLU(), ((2, 4),)),
    "elu": (lambda nn: nn.ELU(0.5), ((2, 4),)),
    "selu": (lambda nn: nn.SELU(), ((2, 4),)),
    "gelu": (lambda nn: nn.GELU(), ((2, 4),)),
    "swish": (lambda nn: nn.Swish(1.5), ((2, 4),)),
    "lambda": (lambda nn: nn.HybridLambda("tanh"), ((2, 4),)),
    "lambda_function": (lambda nn: nn.HybridLambda(lambda F, x: F.relu(x) + 1), ((2, 4),)),
    "reflection_pad": (lambda nn: nn.ReflectionPad2D(2), IMAGE),
    "conv1d": (lambda nn: nn.Conv1D(4, 3, strides=2, padding=1, groups=2), ((2, 4, 7),)),
    "conv2d": (lambda nn: nn.Conv2D(4, (3, 2), activation="relu"), IMAGE),
    "conv2d_dilated": (lambda nn: nn.Conv2D(4, 3, padding=2, dilation=2, use_bias=False, groups=4), IMAGE),
    "conv3d": (lambda nn: nn.Conv3D(2, 2), ((1, 2, 3, 4, 3),)),
    "conv1d_transpose": (lambda nn: nn.Conv1DTranspose(2, 3, strides=2, output_padding=1), ((2, 4, 5),)),
    "conv2d_transpose": (lambda nn: nn.Conv2DTranspose(2, 3, strides=2, padding=1, in_channels=4), IMAGE),
    "conv3d_transpose": (lambda nn: nn.Conv3DTranspose(2, 2), ((1, 2, 3, 3, 2),)),
    "max_pool1d": (lambda nn: nn.MaxPool1D(), ((2, 3, 7),)),
    "max_pool2d": (lambda nn: nn.MaxPool2D(3, 2, 1, ceil_mode=True), IMAGE),
    "max_pool3d": (lambda nn: nn.MaxPool3D(2, 1), ((1, 2, 3, 4, 3),)),
    "avg_pool1d": (lambda nn: nn.AvgPool1D(3, padding=1), ((2, 3, 7),)),
    "avg_pool2d": (lambda nn: nn.AvgPool2D(3, 2, 1, count_include_pad=False), IMAGE),
    "avg_pool3d": (lambda nn: nn.AvgPool3D(), ((1, 2, 4, 4, 4),)),
    "global_max_pool1d": (lambda nn: nn.GlobalMaxPool1D(), ((2, 3, 5),)),
    "global_max_pool2d": (lambda nn: nn.GlobalMaxPool2D(), IMAGE),
    "global_max_pool3d": (lambda nn: nn.GlobalMaxPool3D(), ((1, 2, 2, 2, 3),)),
    "global_avg_pool1d": (lambda nn: nn.GlobalAvgPool1D(), ((2, 3, 5),)),
    "global_avg_pool2d": (lambda nn: nn.GlobalAvgPool2D(), IMAGE),
    "global_avg_pool3d": (lambda nn: nn.GlobalAvgPool3D(), ((1, 2, 2, 2, 3),)),
}
"""Name → (the layer of `nn`, shapes of its inputs)."""

LOSSES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "l2": (lambda loss: loss.L2Loss(), "numbers"),
    "l2_weighted": (lambda loss: loss.L2Loss(weight=0.3, batch_axis=1), "numbers"),
    "l1": (lambda loss: loss.L1Loss(weight=2.0), "numbers"),
    "sigmoid": (lambda loss: loss.SigmoidBCELoss(), "classes"),
    "sigmoid_probabilities": (lambda loss: loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True), "probabilities"),
    "softmax": (lambda loss: loss.SoftmaxCELoss(), "sparse"),
    "softmax_dense": (lambda loss: loss.SoftmaxCrossEntropyLoss(sparse_label=False, axis=0), "probabilities"),
    "softmax_logits": (lambda loss: loss.SoftmaxCELoss(from_logits=True), "sparse"),
    "divergence": (lambda loss: loss.KLDivLoss(), "probabilities"),
    "divergence_numbers": (lambda loss: loss.KLDivLoss(from_logits=False), "probabilities"),
    "huber": (lambda loss: loss.HuberLoss(rho=0.4), "numbers"),
    "hinge": (lambda loss: loss.HingeLoss(margin=0.5), "signs"),
    "squared_hinge": (lambda loss: loss.SquaredHingeLoss(), "signs"),
    "logistic": (lambda loss: loss.LogisticLoss(), "signs"),
    "logistic_binary": (lambda loss: loss.LogisticLoss(label_format="binary"), "classes"),
    "triplet": (lambda loss: loss.TripletLoss(margin=0.7), "triplet"),
    "poisson": (lambda loss: loss.PoissonNLLLoss(), "classes"),
    "poisson_rates": (lambda loss: loss.PoissonNLLLoss(from_logits=False), "probabilities"),
    "cosine": (lambda loss: loss.CosineEmbeddingLoss(margin=0.1), "cosine"),
    "metric": (lambda loss: loss.SDMLLoss(), "numbers"),
    "ctc": (lambda loss: loss.CTCLoss(), "sequences"),
    "ctc_by_time": (lambda loss: loss.CTCLoss(layout="TNC", label_layout="TN"), "sequences_by_time"),
}
"""Name → (the loss, the kind of its inputs)."""


def inputs_of(kind: str) -> list[np.ndarray]:
    """The inputs of losses of a kind."""
    rng = np.random.RandomState(3)
    pred = rng.uniform(-1, 1, (4, 3))
    positive = rng.uniform(0.1, 0.9, (4, 3))
    second = {
        "numbers": rng.uniform(-1, 1, (4, 3)),
        "classes": rng.randint(0, 2, (4, 3)),
        "probabilities": rng.uniform(0.1, 0.9, (4, 3)),
        "sparse": rng.randint(0, 3, (4,)),
        "signs": rng.randint(0, 2, (4, 3)) * 2 - 1,
    }
    if kind in second:
        return [positive if kind == "probabilities" else pred, second[kind]]
    if kind == "triplet":
        return [pred, second["numbers"], positive]
    if kind == "cosine":
        return [pred, second["numbers"], np.array([1, -1, 1, -1])]
    sequences, labels = rng.uniform(-1, 1, (2, 6, 4)), np.array([[1, 2], [2, -1]])
    return [sequences, labels] if kind == "sequences" else [sequences.swapaxes(0, 1), labels.T]


def fill(mx: Any, net: Any, dtype: str = "float32") -> None:
    """Give the parameters of a network the same values everywhere: by their order."""
    rng = np.random.RandomState(7)
    for name, param in net.collect_params().items():
        value = rng.uniform(0.5, 1.5, param.shape) if "var" in name or "gamma" in name else rng.randn(*param.shape) / 3
        param.set_data(mx.nd.array(value.astype(dtype), dtype=dtype))


def run_layer(mx: Any, name: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Values and texts of a layer: its output, eager and hybridised, with gradients; its repr and its symbol."""
    make, shapes = LAYERS[name]
    with mx.name.NameManager():
        net = make(mx.gluon.nn)
    rng = np.random.RandomState(5)
    whole = name == "embedding"
    inputs = [mx.nd.array(rng.randint(0, 5, shape) if whole else rng.randn(*shape)) for shape in shapes]
    net.initialize()
    texts = {"before": repr(net)}
    net(*inputs)
    fill(mx, net)
    texts["after"] = repr(net)
    with mx.name.NameManager():
        texts["symbol"] = net(*(mx.sym.var("data") for _ in shapes)).tojson()
    values = differentiated(mx, net, inputs, "eager", not whole)
    net.hybridize()
    fill(mx, net)
    values.update(differentiated(mx, net, inputs, "hybrid", not whole))
    return values, texts


def differentiated(mx: Any, net: Any, inputs: list[Any], prefix: str, of_inputs: bool) -> dict[str, np.ndarray]:
    """The outputs in inference and in training, and all gradients. of_inputs: theirs, too."""
    values = {prefix + "|inference": net(*inputs).asnumpy()}
    for each in inputs if of_inputs else ():
        each.attach_grad()
    with mx.autograd.record():
        out = net(*inputs)
        head = (out * out).sum()
    head.backward()
    values[prefix + "|training"] = out.asnumpy()
    for i, each in enumerate(inputs if of_inputs else ()):
        values[f"{prefix}|input{i}"] = each.grad.asnumpy()
    for i, param in enumerate(net.collect_params().values()):
        value = param.data() if param.grad_req == "null" else param.grad()
        values[f"{prefix}|parameter{i}"] = value.asnumpy()
    return values


def run_loss(mx: Any, name: str) -> dict[str, np.ndarray]:
    """The values of a loss, eager and hybridised, and its gradient with respect to the first input."""
    make, kind = LOSSES[name]
    loss = make(mx.gluon.loss)
    given = [mx.nd.array(value.astype(np.float32)) for value in inputs_of(kind)]
    values = {}
    for word in ("eager", "hybrid")[: 1 if name == "metric" else 2]:
        given[0].attach_grad()
        with mx.autograd.record():
            out = loss(*given)
        out.backward()
        values[word], values[word + "|gradient"] = out.asnumpy(), given[0].grad.asnumpy()
        loss.hybridize()
    return values


# -- networks ----------------------------------------------------------------------------------------------------------


def lenet(mx: Any) -> Any:
    """LeNet."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="lenet_")
    with net.name_scope():
        net.add(nn.Conv2D(6, 5, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(8, 3, activation="tanh"))
        net.add(nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(16, activation="tanh"), nn.Dense(10))
    return net


def resnet(mx: Any) -> Any:
    """A small residual network."""
    nn = mx.gluon.nn

    class Residual(nn.HybridBlock):
        def __init__(self, channels: int, stride: int, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                self.body = nn.HybridSequential(prefix="")
                self.body.add(nn.Conv2D(channels, 3, stride, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
                self.body.add(nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm())
                self.short = nn.Conv2D(channels, 1, stride, use_bias=False) if stride > 1 else None

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            short = x if self.short is None else self.short(x)
            return F.Activation(self.body(x) + short, act_type="relu")

    net = nn.HybridSequential(prefix="resnet_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(Residual(8, 1), Residual(12, 2), nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def two_inputs(mx: Any) -> Any:
    """A block of two inputs and two outputs, with a constant, and a parameter of its own."""

    class Scaled(mx.gluon.HybridBlock):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                self.dense = mx.gluon.nn.Dense(3, flatten=False)
                self.norm = mx.gluon.nn.LayerNorm()
                self.scale = self.params.get("scale", shape=(1, 3), init=mx.init.Constant(2.0))
                self.shift = self.params.get_constant("shift", [[1.0, 2.0, 3.0]])

        def hybrid_forward(self, F: Any, x: Any, y: Any, scale: Any, shift: Any) -> Any:
            out = F.broadcast_add(F.broadcast_mul(self.dense(x), scale), shift)
            return self.norm(out), out * F.sigmoid(y)

    return Scaled(prefix="scaled_")


def shared(mx: Any) -> Any:
    """Two layers with the same parameters."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="shared_")
    with net.name_scope():
        first = nn.Dense(4, in_units=4, activation="tanh")
        net.add(first, nn.Dense(4, in_units=4, params=first.params), nn.PReLU(), nn.Swish())
    return net


def embedded(mx: Any) -> Any:
    """Words, convolved."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="text_")
    with net.name_scope():
        net.add(nn.Embedding(10, 6), nn.HybridLambda(lambda F, x: F.transpose(x, axes=(0, 2, 1))))
        net.add(nn.Conv1D(5, 3, activation="relu"), nn.GlobalMaxPool1D(), nn.Dropout(0.3), nn.Dense(2))
    return net


def generator(mx: Any) -> Any:
    """A generator of images."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="generator_")
    with net.name_scope():
        net.add(nn.Conv2DTranspose(6, 4, use_bias=False), nn.BatchNorm(scale=False), nn.LeakyReLU(0.1))
        net.add(nn.Conv2DTranspose(3, 4, 2, 1), nn.InstanceNorm(), nn.GroupNorm(3), nn.Activation("tanh"))
    return net


def controlled(mx: Any) -> Any:
    """A loop over a sequence, one with an end, and a branch, whose bodies have layers and outer parameters."""

    class Controlled(mx.gluon.HybridBlock):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            with self.name_scope():
                self.dense = mx.gluon.nn.Dense(3, in_units=3)
                self.scale = self.params.get("scale", shape=(3,), init="ones")

        def hybrid_forward(self, F: Any, x: Any, y: Any, scale: Any) -> Any:
            def step(item: Any, states: Any) -> Any:
                out = F.broadcast_mul(self.dense(item), scale) + states[0]
                return out, [out + y]

            def halve(count: Any, value: Any) -> Any:
                return value, (count + 1, F.broadcast_mul(value, scale) / 2)

            steps, _ = F.contrib.foreach(step, x, [F.zeros_like(y)])
            halves, _ = F.contrib.while_loop(
                lambda count, _: count < 3, halve, [F.zeros((1,)), F.sum(steps, axis=0)], max_iterations=3
            )
            return F.contrib.cond(F.sum(halves) > 0, lambda: F.broadcast_mul(y, scale), lambda: y * 2)

    return Controlled(prefix="controlled_")


NETWORKS: dict[str, tuple[Callable[[Any], Any], tuple[tuple[int, ...], ...]]] = {
    "lenet": (lenet, ((2, 1, 20, 20),)),
    "resnet": (resnet, ((2, 3, 8, 8),)),
    "two_inputs": (two_inputs, ((2, 4), (2, 3))),
    "shared": (shared, ((2, 4),)),
    "embedded": (embedded, ((2, 7),)),
    "generator": (generator, ((2, 5, 1, 1),)),
    "controlled": (controlled, ((4, 2, 3), (2, 3))),
}
"""Name → (network, shapes of its inputs)."""


def exported(mx: Any, name: str, path: str) -> list[np.ndarray]:
    """The outputs of a network, which is exported to a path."""
    make, shapes = NETWORKS[name]
    net = make(mx)
    rng = np.random.RandomState(11)
    inputs = [mx.nd.array(np.abs(rng.randn(*shape)).round(2)) for shape in shapes]
    net.initialize()
    net(*inputs)
    fill(mx, net)
    net.hybridize()
    with mx.name.NameManager():  # loops are numbered in it
        outputs = net(*inputs)
    net.export(path)
    return [each.asnumpy() for each in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]


TRAININGS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], str, dict[str, Any], str]] = {
    "lenet": (lenet, (8, 1, 20, 20), "adam", {"learning_rate": 0.01}, "float32"),
    "resnet": (resnet, (8, 3, 8, 8), "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}, "float64"),
}
"""Name → (network, shape of a batch, optimiser, its parameters, dtype)."""


def trained(mx: Any, name: str, hybridize: bool) -> dict[str, np.ndarray]:
    """The losses of ten steps, and the parameters after them."""
    make, shape, optimizer, options, dtype = TRAININGS[name]
    net = make(mx)
    net.initialize()
    if dtype != "float32":
        net.cast(dtype)
    rng = np.random.RandomState(13)
    x = mx.nd.array(rng.randn(*shape), dtype=dtype)
    y = mx.nd.array(rng.randint(0, 10, shape[:1]), dtype=dtype)
    net(x)
    fill(mx, net, dtype)
    if hybridize:
        net.hybridize(static_alloc=True, static_shape=True)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, options)
    losses = []
    for _ in range(10):
        with mx.autograd.record():
            out = loss(net(x), y)
        out.backward()
        trainer.step(shape[0])
        losses.append(out.asnumpy())
    values = {"losses": np.stack(losses)}
    for i, param in enumerate(net.collect_params().values()):
        values[f"parameter{i}"] = param.data().asnumpy()
    return values
