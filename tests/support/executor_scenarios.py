"""What executors are put through, here and in MXNet: graphs to print, and scenarios of forward and backward calls.

Read by the tests, and by `goldens/executor/make.py` in an environment that has MXNet and not JAX: plain NumPy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Build = Callable[[Any], Any]
"""The module `symbol`, of either library → a symbol."""


@dataclass(frozen=True)
class Printed:
    """A graph whose printed form is compared. shape: of every variable. grad_req: as in simple_bind."""

    build: Build
    shape: tuple[int, ...] = (2, 3)
    grad_req: Any = "write"


def _products(sym: Any, count: int) -> Any:
    """x times each of several variables, added up: x receives as many gradients."""
    x = sym.Variable("x")
    products = [sym.elemwise_mul(x, sym.Variable(f"y{i}"), name=f"m{i}") for i in range(count)]
    total = products[0]
    for i, product in enumerate(products[1:]):
        total = sym.elemwise_add(total, product, name=f"s{i}")
    return total


def _two(build: Callable[[Any, Any, Any], Any]) -> Build:
    return lambda sym: build(sym, sym.Variable("x"), sym.Variable("y"))


PRINTED: dict[str, Printed] = {
    "sum of two": Printed(_two(lambda sym, x, y: sym.elemwise_add(x, y, name="s"))),
    "product": Printed(_two(lambda sym, x, y: sym.elemwise_mul(x, y, name="m"))),
    "x three times": Printed(
        _two(
            lambda sym, x, y: sym.elemwise_add(
                sym.elemwise_mul(x, y, name="m"), sym.elemwise_add(x, x, name="d"), name="s"
            )
        )
    ),
    "two heads": Printed(
        _two(lambda sym, x, y: sym.Group([sym.elemwise_mul(x, y, name="m"), sym.elemwise_add(x, y, name="s")]))
    ),
    "one argument without gradient": Printed(
        _two(lambda sym, x, y: sym.elemwise_mul(x, y, name="m")), grad_req={"y": "write"}
    ),
    "a head that is a variable": Printed(_two(lambda sym, x, y: sym.Group([x, sym.elemwise_mul(x, y, name="m")]))),
    "seven gradients": Printed(lambda sym: _products(sym, 7)),
    "eight gradients": Printed(lambda sym: _products(sym, 8)),
    "no gradients": Printed(
        _two(lambda sym, x, y: sym.exp(sym.elemwise_mul(x, y, name="m"), name="e")), grad_req="null"
    ),
    "equal nodes": Printed(
        _two(
            lambda sym, x, y: sym.elemwise_mul(
                sym.exp(sym.elemwise_add(x, y, name="p1"), name="e1"),
                sym.elemwise_add(sym.exp(sym.elemwise_add(x, y, name="p2"), name="e2"), y, name="s"),
                name="m",
            )
        ),
        grad_req="null",
    ),
    "equal heads": Printed(
        _two(lambda sym, x, y: sym.Group([sym.exp(x, name="a"), sym.exp(x, name="b"), y])), grad_req="null"
    ),
    "equal but for a parameter": Printed(
        _two(lambda sym, x, y: sym.Group([sym.sum(x, axis=0, name="a"), sym.sum(x, axis=1, name="b"), y])),
        grad_req="null",
    ),
}


@dataclass(frozen=True)
class Scenario:
    """Calls on one executor. shapes, grad_req: as in simple_bind. steps: each a call, made by the functions below."""

    build: Build
    shapes: Mapping[str, tuple[int, ...]]
    steps: Sequence[tuple[Any, ...]]
    grad_req: Any = "write"
    initial: Mapping[str, Any] = field(default_factory=dict)


def forward(is_train: bool, **shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """A forward pass; new values for the arguments named."""
    return ("forward", is_train, shapes)


def backward(*head_shapes: tuple[int, ...], is_train: bool = True) -> tuple[Any, ...]:
    """A backward pass with head gradients of these shapes."""
    return ("backward", head_shapes, is_train)


def play(scenario: Scenario, executor: Any, array: Callable[[Any], Any], numpy: Callable[[Any], Any]) -> list[Any]:
    """Make the calls; after each, outputs, gradients and states, as name → array. array: NumPy → the library's."""
    random = np.random.RandomState(7)
    held = [*executor.arg_dict.items(), *executor.aux_dict.items()]
    shapes = {name: value.shape for name, value in held}
    values = {name: random.uniform(0.2, 1.2, shapes[name]).astype("float32") for name in sorted(shapes)}
    values.update({name: np.asarray(value, "float32") for name, value in scenario.initial.items()})
    executor.copy_params_from(
        {name: array(values[name]) for name in executor.arg_dict},
        {name: array(values[name]) for name in executor.aux_dict},
    )
    seen = []
    for step in scenario.steps:
        if step[0] == "forward":
            data = {name: array(random.uniform(-1, 1, shape).astype("float32")) for name, shape in step[2].items()}
            executor.forward(step[1], **data)
        else:
            heads = [array(random.uniform(-1, 1, shape).astype("float32")) for shape in step[1]]
            executor.backward(heads or None, is_train=step[2])
        record = {f"output {i}": numpy(out) for i, out in enumerate(executor.outputs)}
        record |= {f"gradient {n}": numpy(g) for n, g in executor.grad_dict.items() if g is not None}
        record |= {f"state {n}": numpy(a) for n, a in executor.aux_dict.items()}
        seen.append(record)
    return seen


def _mlp(sym: Any) -> Any:
    hidden = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc1")
    hidden = sym.Activation(hidden, act_type="tanh", name="act")
    return sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


def _batch_norm(**params: Any) -> Build:
    return lambda sym: sym.BatchNorm(sym.Variable("x"), name="bn", **params)


def _conv_net(sym: Any) -> Any:
    x = sym.Convolution(sym.Variable("data"), num_filter=2, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv")
    x = sym.Activation(sym.BatchNorm(x, fix_gamma=False, name="bn"), act_type="relu", name="act")
    x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool") * 2
    return sym.LinearRegressionOutput(sym.sum(x, axis=(1, 2, 3)), sym.Variable("label"), name="out")


def _loss_and_plain(sym: Any) -> Any:
    fc = sym.FullyConnected(sym.Variable("x"), num_hidden=3, name="fc")
    return sym.Group([sym.SoftmaxOutput(fc, name="softmax"), sym.identity(fc, name="plain")])


def _tied(sym: Any) -> Any:
    x, w = sym.Variable("x"), sym.Variable("w")
    for i in range(9):
        x = sym.Activation(sym.FullyConnected(x, w, num_hidden=3, no_bias=True, name=f"fc{i}"), act_type="tanh")
    return x


_SHAPE = (4, 3)

SCENARIOS: dict[str, Scenario] = {
    "a classifier": Scenario(
        _mlp,
        {"data": (5, 6)},
        [forward(True, data=(5, 6)), backward(), forward(False), forward(True, data=(5, 6)), backward()],
        initial={"softmax_label": [0, 1, 2, 1, 0]},
    ),
    "write, add and null": Scenario(
        lambda sym: sym.FullyConnected(sym.Variable("x"), num_hidden=2, name="fc"),
        {"x": _SHAPE},
        [forward(True), backward((4, 2)), backward((4, 2)), forward(True, x=_SHAPE), backward((4, 2))],
        grad_req={"x": "add", "fc_weight": "write", "fc_bias": "null"},
    ),
    "product of two, added": Scenario(
        lambda sym: sym.elemwise_mul(sym.Variable("x"), sym.Variable("y")),
        {"x": _SHAPE},
        [forward(True), backward(_SHAPE), backward(_SHAPE)],
        grad_req="add",
    ),
    "states move with backward": Scenario(
        _batch_norm(),
        {"x": _SHAPE},
        [forward(True), forward(True, x=_SHAPE), backward(_SHAPE), backward(_SHAPE), forward(False), forward(True)],
    ),
    "states stay without gradients": Scenario(_batch_norm(), {"x": _SHAPE}, [forward(True)], grad_req="null"),
    "backward in inference": Scenario(
        _batch_norm(fix_gamma=False), {"x": _SHAPE}, [forward(False), backward(_SHAPE, is_train=False)]
    ),
    "backward in training after a pass in inference": Scenario(
        _batch_norm(fix_gamma=False), {"x": _SHAPE}, [forward(False), backward(_SHAPE)]
    ),
    "global statistics": Scenario(
        _batch_norm(fix_gamma=False, use_global_stats=True), {"x": _SHAPE}, [forward(True), backward(_SHAPE)]
    ),
    "a convolutional net": Scenario(
        _conv_net, {"data": (2, 2, 4, 4), "label": (2,)}, [forward(True), backward(), forward(True), backward()]
    ),
    "a loss head and a plain one": Scenario(
        _loss_and_plain, {"x": _SHAPE}, [forward(True), backward((1,), (4, 3))], initial={"softmax_label": [0, 2, 1, 1]}
    ),
    "blocked, written": Scenario(
        lambda sym: sym.elemwise_add(sym.BlockGrad(sym.Variable("x")), sym.Variable("y")),
        {"x": _SHAPE},
        [forward(True), backward(_SHAPE)],
    ),
    "blocked, added": Scenario(
        lambda sym: sym.elemwise_add(sym.BlockGrad(sym.Variable("x")), sym.Variable("y")),
        {"x": _SHAPE},
        [forward(True), backward(_SHAPE), backward(_SHAPE)],
        grad_req="add",
    ),
    "nothing but blocked": Scenario(
        lambda sym: sym.BlockGrad(sym.exp(sym.Variable("x"))), {"x": _SHAPE}, [forward(True), backward()]
    ),
    "make_loss": Scenario(
        lambda sym: sym.make_loss(sym.square(sym.Variable("x"))), {"x": _SHAPE}, [forward(True), backward()]
    ),
    "MakeLoss": Scenario(
        lambda sym: sym.MakeLoss(sym.square(sym.Variable("x")), grad_scale=0.5),
        {"x": _SHAPE},
        [forward(True), backward()],
    ),
    "a variable as a head": Scenario(
        lambda sym: sym.Group([sym.Variable("x"), sym.square(sym.Variable("y"))]),
        {"x": _SHAPE, "y": _SHAPE},
        [forward(True), backward(_SHAPE, _SHAPE)],
    ),
    "one weight nine times": Scenario(_tied, {"x": (2, 3)}, [forward(True), backward((2, 3))]),
    "sparse regularisation": Scenario(
        lambda sym: sym.IdentityAttachKLSparseReg(sym.sigmoid(sym.Variable("x")), name="kl"),
        {"x": _SHAPE},
        [forward(True), backward(_SHAPE), forward(True), backward(_SHAPE)],
    ),
}
