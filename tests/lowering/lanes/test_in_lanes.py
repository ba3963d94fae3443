"""Whatever trains runs in lanes: each core computes samples of its own, and the results are those of the whole."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false

import gc
import signal
import threading
import time
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering import Trainer, mx
from lowering.lanes.in_lanes import _count
from lowering.lanes.lanes import Lanes
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, OutOfMemoryError
from tests.lowering.training.networks import classifier, convolutional, images, points, values

pytestmark = pytest.mark.usefixtures("compiled_fully")


def branched() -> sym.Symbol:
    """Two heads over a batch norm with drawn zeros, one that counts the labels that are valid."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, pad=(1, 1), num_group=1, name="conv")
    net = sym.Dropout(sym.BatchNorm(net, fix_gamma=False, name="bn"), p=0.3, name="drop")
    net = sym.Pooling(sym.Activation(net, act_type="relu", name="relu"), kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = sym.FullyConnected(net, num_hidden=2, name="fc")
    head = sym.SoftmaxOutput(net, normalization="valid", use_ignore=True, ignore_label=1, name="softmax")
    return sym.Group([head, sym.MakeLoss(sym.sum(sym.square(net)), grad_scale=0.1, name="loss"), sym.BlockGrad(net)])


def branchless() -> sym.Symbol:
    """A network of drawn zeros that normalises nothing."""
    net = sym.Dropout(sym.Flatten(sym.Variable("data")), p=0.3, name="drop")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=2, name="fc"), name="softmax")


def trained(net: sym.Symbol, batch: dict[str, np.ndarray], lanes: Any, steps: int = 2) -> tuple[Trainer, Any]:
    trainer = Trainer(net, optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, lanes=lanes)
    trainer.init(0, data=batch["data"].shape)
    return trainer, [trainer.step(batch) for _ in range(steps)][-1]


@pytest.mark.slow("compiles networks for each lane")
def test_lanes_train_as_the_whole_does_and_repeat_every_bit():
    for net, batch, counts in (
        (branched(), images(), (2,)),
        (convolutional(), images(), (4,)),
        (classifier("batch"), points(6), (3,)),
    ):
        whole, expected = trained(net, batch, "off")
        for count in counts:
            ours, outputs = trained(net, batch, count)
            assert f"in {count} lanes" in ours.ways()[-1]
            for output, value in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(output, value, rtol=1e-4, atol=1e-5)
            states = [trainer.require_state() for trainer in (ours, whole)]
            for group in ("params", "aux"):
                for name, value in getattr(states[0], group).items():
                    np.testing.assert_allclose(
                        value, getattr(states[1], group)[name], rtol=1e-4, atol=1e-5, err_msg=name
                    )
            again = values(trained(net, batch, count)[0].require_state().params)
            for name, value in values(states[0].params).items():
                np.testing.assert_array_equal(value, again[name])


@pytest.mark.slow("compiles")
def test_what_cannot_be_split_runs_as_the_whole_and_says_why():
    trainer, _ = trained(convolutional(), images(5), 2, steps=1)
    assert "not in lanes: 5 samples cannot be divided by 2" in trainer.ways()[-1]
    mixed = sym.MakeLoss(sym.sort(sym.FullyConnected(sym.Variable("data"), num_hidden=2), axis=0, name="by_sample"))
    trainer, _ = trained(mixed, {"data": points(4)["data"]}, 2, steps=1)
    assert trainer.ways()[-1].endswith("by_sample: sort mixes samples")
    trainer, _ = trained(convolutional(), images(), "auto", steps=1)
    assert "not in lanes: no convolution" in trainer.ways()[-1]


def without_room(*_: Any) -> Any:
    raise MemoryError("Unable to allocate 1 GiB")


@pytest.mark.slow("compiles")
def test_a_lane_that_fails_or_an_interrupt_ends_the_others(monkeypatch: pytest.MonkeyPatch):
    trainer, _ = trained(convolutional(), images(), 2, steps=1)
    [lanes] = trainer._lanes._lanes.values()
    assert isinstance(lanes, Lanes)
    lanes._programs[0], first = lambda *_: 1 / 0, lanes._programs[0]
    with pytest.raises(ZeroDivisionError):
        trainer.step(images())
    before = values(trainer.require_state().params)

    def interrupted(*_: Any) -> Any:
        time.sleep(0.05)  # Python misses a signal that comes while a thread is just beginning to wait
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        deadline = time.monotonic() + 60
        while not lanes._meeting.is_ended:  # by the call that was interrupted
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise threading.BrokenBarrierError

    lanes._programs[0] = interrupted
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            trainer.step(images())
    finally:
        signal.signal(signal.SIGINT, handler)
    for name, value in values(trainer.require_state().params).items():
        np.testing.assert_array_equal(value, before[name])
    lanes._programs[0] = first
    with monkeypatch.context() as patched:
        patched.setattr("lowering.lanes.meeting.reduce", without_room)
        with pytest.raises(OutOfMemoryError, match=r"memory than there is: Unable to allocate 1 GiB\. Use"):
            trainer.step(images())
    assert np.isfinite(trainer.step(images())[0]).all()
    assert lanes._begun == []  # which would hold the gradients until the next step


@pytest.mark.slow("compiles")
def test_lanes_count_among_kept_programs_and_end_with_the_trainer():
    trainer, _ = trained(convolutional(), images(), 2, steps=1)
    [(key, kept)] = trainer._lanes._kept.items()
    assert kept.bytes > 2e6
    count = threading.active_count()
    kept.forget()
    assert key not in trainer._lanes._lanes
    trainer.step(images())
    assert "in 2 lanes" in trainer.ways()[-1]
    del trainer
    gc.collect()
    assert threading.active_count() <= count - 2


def test_a_wrong_number_of_lanes_is_told():
    for wrong in (0, -1, 1.5, True, "on"):
        with pytest.raises(CallError, match="Wrong lanes"):
            Trainer(classifier(), lanes=wrong)
    with pytest.raises(CallError, match="Wrong lanes"), lowering.in_lanes(None):
        pass


@pytest.mark.slow("compiles networks for each lane")
def test_in_64_bits_the_whole_computes():
    net = classifier("batch")
    batch = {name: value.astype("d") for name, value in points(6).items()}
    shapes, _, states = net.infer_shape(**{name: value.shape for name, value in batch.items()})
    args = {
        name: np.sin(np.arange(np.prod(shape), dtype="d")).reshape(shape)
        for name, shape in zip(net.list_arguments(), shapes, strict=True)
    }
    aux = {name: np.ones(shape) for name, shape in zip(net.list_auxiliary_states(), states, strict=True)}
    grads = [lowering.grad_fn(net, lanes=lanes) for lanes in (2, "off")]
    for wide in (False, True, False):
        with jax.enable_x64(wide):
            ours, expected = (jax.tree.leaves(grad(args | batch, aux, jax.random.key(0))) for grad in grads)
        for one, other in zip(ours, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    first, wide_one = lowering.explain(grads[0]).ways
    assert "in 2 lanes" in first
    assert "64-bit mode" in wide_one


def by_module(net: sym.Symbol) -> tuple[dict[str, Any], list[str]]:
    """A parameter's way through two steps of `Module`, gradients and update."""
    batch = images()
    shapes = {name: value.shape for name, value in batch.items()}
    module = mx.mod.Module(net)
    module.bind([("data", shapes["data"])], [("softmax_label", shapes["softmax_label"])])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1})
    for _ in range(2):
        module.forward_backward(mx.io.DataBatch([batch["data"]], [batch["softmax_label"]]))
        module.update()
    args, aux = module.get_params()
    return {**args, **aux}, [*lowering.explain(module).ways[1:]]


def by_executor(net: sym.Symbol) -> tuple[dict[str, Any], list[str]]:
    """Gradients of one pass forward and two backward, which are added up, and of the data."""
    batch = images()
    executor = lowering.simple_bind(net, grad_req="add", **{name: value.shape for name, value in batch.items()})
    for name, array in executor.arg_dict.items():
        executor.arg_dict[name] = batch.get(name, np.sin(np.arange(array.size, dtype="f")).reshape(array.shape))
    [outputs] = executor.forward(True)
    executor.backward()
    executor.backward()
    grads = {f"{name} grad": array for name, array in executor.grad_dict.items() if array is not None}
    return {**grads, **executor.aux_dict, "outputs": outputs}, [*lowering.explain(executor).ways[1:]]


def by_block(norm: bool) -> tuple[dict[str, Any], list[str]]:
    """Parameters after two steps of a hybridised block: as one program, or with a batch norm as one forward and one
    backward."""
    block = mx.gluon.nn.HybridSequential(prefix="net_")
    with block.name_scope():
        block.add(mx.gluon.nn.Conv2D(4, 3, use_bias=False))
        if norm:
            block.add(mx.gluon.nn.BatchNorm())
        block.add(mx.gluon.nn.Activation("relu"), mx.gluon.nn.Dense(2))
    block.initialize(mx.init.Xavier())
    block.hybridize()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize()
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
    data, label = (mx.nd.array(value) for value in images().values())
    for _ in range(2):
        with mx.autograd.record():
            outputs = loss(block(data), label)
        outputs.backward()
        trainer.step(8)
    arrays = {name: parameter.data() for name, parameter in block.collect_params().items()}
    return arrays, [*lowering.explain(block).ways]


def by_grad_fn(compiled: bool) -> tuple[dict[str, Any], list[str]]:
    """Gradients of a network that draws, by the function, or by a program that calls it."""
    net = branchless()
    lanes = _count.get() or "auto"
    grad = lowering.grad_fn(net, lanes=lanes)
    args = {**images(), "fc_weight": np.ones((2, 36), "f"), "fc_bias": np.zeros(2, "f")}
    call = jax.jit(lambda *a: jax.tree.map(lambda x: 2 * x, grad(*a))) if compiled else grad
    outputs, grads, _ = call(args, {}, jax.random.key(3))
    del grads["softmax_label"]
    return {**grads, "outputs": outputs[0]}, [*lowering.explain(grad).ways]


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles networks for each lane")
@pytest.mark.parametrize(
    ("door", "count", "meets"),
    [
        (lambda: by_module(convolutional()), 4, [2]),
        (lambda: by_module(branchless()), 2, [0]),
        (lambda: by_executor(convolutional()), 2, [1, 1]),
        (lambda: by_block(True), 2, [1, 1]),
        (lambda: by_block(False), 2, [0]),
        (lambda: by_grad_fn(False), 2, [0]),
        (lambda: by_grad_fn(True), 4, [0]),
    ],
    ids=["module", "module, dropout", "executor", "block", "block without states", "grad_fn", "grad_fn in a program"],
)
def test_every_door_trains_in_lanes_as_the_whole_does(door: Any, count: int, meets: list[int]):
    def trained_in(lanes: Any) -> tuple[dict[str, np.ndarray], list[str]]:
        with lowering.in_lanes(lanes):
            mx.random.seed(0)
            arrays, ways = door()
        return {name: np.asarray(getattr(array, "value", array)) for name, array in arrays.items()}, ways

    expected, none = trained_in("off")
    ours, ways = trained_in(count)
    assert none == []
    assert [way.split(": ")[1] for way in ways] == [f"in {count} lanes, which meet {times} times" for times in meets]
    for name, value in expected.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=2e-5, err_msg=name)
