"""`mx.mod.SequentialModule`, `PythonModule`, `PythonLossModule`, and BucketingModule's files."""

import logging
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from lowering import mx
from symjax_nnvm.errors import TrainingError

RNG = np.random.default_rng(1)
X = RNG.standard_normal((8, 4)).astype(np.float32)
Y = np.arange(8, dtype=np.float32) % 3


def hidden() -> mx.sym.Symbol:
    """The first half."""
    return mx.sym.Activation(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=5, name="fc1"), act_type="tanh")


def head(data: Any = None) -> mx.sym.Symbol:
    """The second half."""
    scores = mx.sym.FullyConnected(data if data is not None else mx.sym.Variable("data"), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(scores, name="softmax")


def parameters() -> dict[str, Any]:
    """Of both halves."""
    shapes = {"fc1_weight": (5, 4), "fc1_bias": (5,), "fc2_weight": (3, 5), "fc2_bias": (3,)}
    rng = np.random.default_rng(2)
    return {name: mx.nd.array(rng.standard_normal(shape) / 3) for name, shape in shapes.items()}


def chain() -> mx.mod.SequentialModule:
    """Both halves, one after the other."""
    made = mx.mod.SequentialModule()
    first = mx.mod.Module(hidden(), label_names=None)
    return made.add(first).add(mx.mod.Module(head()), take_labels=True, auto_wiring=True)


@pytest.mark.slow("compiles")
def test_a_chain_trains_as_one_network():
    data = mx.io.NDArrayIter(X, Y, 4)
    options = {"num_epoch": 3, "optimizer_params": {"learning_rate": 0.5}, "arg_params": parameters(), "aux_params": {}}
    whole = mx.mod.Module(head(hidden()))
    whole.fit(data, **options)
    metrics: list[Any] = []
    made = chain()
    assert (made.data_names, made.output_names) == (["data"], ["softmax_output"])
    assert mx.mod.SequentialModule().data_names == mx.mod.SequentialModule().output_names == []
    made.bind(data.provide_data, data.provide_label)
    made.init_params(arg_params=parameters(), aux_params={})
    made.fit(data, num_epoch=3, optimizer_params={"learning_rate": 0.5}, batch_end_callback=metrics.append)
    assert len(metrics) == 6
    for name, value in whole.get_params()[0].items():
        np.testing.assert_allclose(made.get_params()[0][name].asnumpy(), value.asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(made.predict(data).asnumpy(), whole.predict(data).asnumpy(), rtol=1e-5)
    assert made.score(data, "acc") == whole.score(data, "acc")
    assert made.symbol is None
    assert [tuple(each) for each in made.data_shapes] == [("data", (4, 4))]
    assert made.label_shapes == data.provide_label
    assert [tuple(each) for each in made.output_shapes] == [("softmax_output", (4, 3))]


def test_gradients_of_inputs():
    made = chain()
    made.bind([("data", (8, 4))], [("softmax_label", (8,))], inputs_need_grad=True)
    made.init_params(mx.init.One())
    made.forward(mx.io.DataBatch([mx.nd.array(X)], [mx.nd.array(Y)]), is_train=True)
    made.backward()
    executor = head(hidden()).simple_bind(mx.cpu(), data=(8, 4))
    for name, array in executor.arg_dict.items():
        array[:] = {"data": X, "softmax_label": Y}.get(name, 1)
    executor.forward(is_train=True)
    executor.backward()
    gradient, expected = made.get_input_grads()[0], np.asarray(executor.grad_dict["data"])
    np.testing.assert_allclose(gradient.asnumpy(), expected, rtol=1e-5, atol=1e-6)
    names: list[str] = []

    class Names(mx.mon.Monitor):
        def install(self, exe: Any) -> None:
            names.append("installed")

    made.install_monitor(Names(1))
    assert names == ["installed"] * 2


def test_mistakes_with_chains(caplog: pytest.LogCaptureFixture):
    with pytest.raises(AssertionError, match='Unknown meta "takes_labels", a typo'):
        chain().add(mx.mod.Module(head()), takes_labels=True)
    with pytest.raises(AssertionError, match="an empty SequentialModule"):
        mx.mod.SequentialModule().bind([("data", (1,))])
    with pytest.raises(AssertionError, match="Shared module"):
        chain().bind([("data", (8, 4))], shared_module=chain())
    with pytest.raises(AssertionError, match="needs for_training"):
        chain().bind([("data", (8, 4))], for_training=False, inputs_need_grad=True)
    with pytest.raises(mx.MXNetError, match="The module is not ready"):
        chain().get_params()
    made = chain()
    shapes = [("data", (8, 4))], [("softmax_label", (8,))]
    made.bind(*shapes)
    made.bind(*shapes)
    made.init_params(mx.init.One())
    made.init_params(mx.init.Zero())
    assert made.get_params()[0]["fc1_weight"].asnumpy().min() == 1
    with pytest.raises(AssertionError, match="inputs_need_grad=True"):
        made.get_input_grads()
    made.init_optimizer()
    made.init_optimizer()
    assert [record.getMessage() for record in caplog.records] == [
        "Already bound, ignoring bind()",
        "optimizer already initialized, ignoring.",
    ]
    twice = mx.mod.SequentialModule().add(mx.mod.Module(hidden(), label_names=None))
    twice.add(mx.mod.Module(hidden(), label_names=None), auto_wiring=True)
    twice.bind([("data", (8, 4))])
    assert twice.label_shapes is None
    with pytest.raises(AssertionError, match='name "fc1_weight" of module 1 is used in module 0'):
        twice.init_params()


@pytest.mark.slow("compiles")
def test_a_loss_in_python():
    def gradient(scores: mx.nd.NDArray, labels: mx.nd.NDArray) -> Any:
        return (scores - mx.nd.one_hot(labels, depth=3)).asnumpy()

    scores = mx.sym.softmax(mx.sym.FullyConnected(hidden(), num_hidden=3, name="fc2"))
    first = mx.mod.Module(scores, label_names=None)
    loss = mx.mod.PythonLossModule(name="squares", grad_func=gradient)
    made = mx.mod.SequentialModule().add(first).add(loss, take_labels=True, auto_wiring=True)
    data = mx.io.NDArrayIter(X, Y, 4)
    made.fit(data, num_epoch=60, optimizer_params={"learning_rate": 4.0}, initializer=mx.init.Uniform(0.5))
    assert dict(made.score(data, "acc"))["accuracy"] > 0.8
    assert made.output_names == ["squares_output"]
    assert (loss.data_names, [tuple(each) for each in loss.output_shapes]) == (["data"], [("squares_output", (4, 3))])
    assert loss.get_params() == ({}, {})
    assert loss.label_shapes == data.provide_label
    with pytest.raises(AssertionError, match="out_grads should be None"):
        loss.backward([mx.nd.ones(3)])
    with pytest.raises(NotImplementedError, match="has no graph, so no monitor"):
        loss.install_monitor(None)


def test_a_module_in_python(caplog: pytest.LogCaptureFixture):
    class Doubled(mx.mod.PythonModule):
        def _compute_output_shapes(self) -> Any:
            return [("out", self._data_shapes[0][1])]

        def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
            self.out = data_batch.data[0] * 2

        def get_outputs(self, merge_multi_context: bool = True) -> Any:
            return [self.out]

    module = Doubled(("data",), ("label",), ["out"])
    data = mx.io.NDArrayIter(X, X * 2, 4, label_name="label")
    for wrong in ({"grad_req": "add"}, {"data_shapes": [("x", (4, 4))]}, {"label_shapes": [("y", (4,))]}):
        with pytest.raises(AssertionError):
            module.bind(**{"data_shapes": data.provide_data, "label_shapes": data.provide_label, **wrong})
    module.bind(data.provide_data, data.provide_label)
    module.bind(data.provide_data)
    assert caplog.records[0].getMessage() == "Already bound, ignoring bind()"
    module.init_params()
    module.init_optimizer()
    module.update()
    np.testing.assert_array_equal(module.predict(data).asnumpy(), X * 2)
    assert dict(module.score(data, "mse")) == {"mse": 0.0}
    with pytest.raises(RuntimeError, match="presliced"):
        module.update_metric(mx.metric.create("mse"), [], pre_sliced=True)
    silent = Doubled(["data"], None, ["out"])
    silent.bind(data.provide_data)
    silent.update_metric(None, None)
    with pytest.raises(NotImplementedError, match="_compute_output_shapes"):
        mx.mod.PythonModule(["data"], None, ["out"]).bind(data.provide_data)
    untaught = mx.mod.PythonLossModule()
    untaught.bind([("data", (4, 4))], [("softmax_label", (4,))])
    untaught.forward(mx.io.DataBatch([mx.nd.ones((4, 4))], [mx.nd.ones(4)]))
    with pytest.raises(NotImplementedError, match="needs a grad_func"):
        untaught.backward()


def of_length(key: int) -> Any:
    """A network for sentences of a length."""
    summed = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
    return head(mx.sym.broadcast_add(summed, mx.sym.Variable("bias", shape=(1, 5)))), ["data"], ["softmax_label"]


def test_bucketing_modules_in_files(tmp_path: Path):
    module = mx.mod.BucketingModule(of_length, 6)
    module.bind([("data", (2, 6))], [("softmax_label", (2,))])
    module.init_params(mx.init.Uniform(1))
    module.switch_bucket(4, [("data", (2, 4))], [("softmax_label", (2,))])
    assert list(module._buckets) == [6, 4]
    assert module._buckets[module._default_bucket_key].symbol.list_arguments() == of_length(6)[0].list_arguments()
    prefix = str(tmp_path / "net")
    module.save_checkpoint(prefix, 3)
    assert [np.asarray(each).tolist() for each in mx.nd.load(f"{prefix}.buckets")] == [[6, 4]]
    loaded = mx.mod.BucketingModule.load(prefix, 3, of_length, 6, logger=logging.getLogger())
    loaded.bind([("data", (2, 6))], [("softmax_label", (2,))])
    for key in (6, 4, 5):
        x = mx.nd.array(RNG.standard_normal((2, key)))
        shapes = {"provide_data": [("data", (2, key))], "provide_label": [("softmax_label", (2,))]}
        batch = mx.io.DataBatch([x], [mx.nd.zeros(2)], bucket_key=key, **shapes)
        outputs = []
        for each in (module, loaded):
            each.forward(batch, is_train=False)
            outputs.append(each.get_outputs()[0].asnumpy())
        np.testing.assert_array_equal(*outputs)
    for missing in ({"sym_gen": None, "default_bucket_key": 6}, {"sym_gen": of_length}):
        with pytest.raises(AssertionError, match="is required for loading BucketingModule"):
            mx.mod.BucketingModule.load(prefix, 3, **missing)
    complete = {"sym_dict": {}, "sym_gen": of_length, "default_bucket_key": 6, "arg_params": {}, "aux_params": {}}
    for name in complete:
        with pytest.raises(AssertionError, match=f"{name} is required"):
            mx.mod.BucketingModule.load_dict(**{**complete, name: None})


def slopes(*names: str) -> mx.sym.Symbol:
    """The sum of vectors, each as long as its name, times the data, one number: their gradient. "bb" learns faster."""
    data = mx.sym.Variable("data")
    parts = [mx.sym.Variable(name, shape=(len(name),), lr_mult=3 if name == "bb" else 1) for name in names]
    return mx.sym.MakeLoss(sum((mx.sym.sum(mx.sym.broadcast_mul(part, data)) for part in parts), start=data * 0))


def of_numbers(*numbers: float, optimizer: str, **params: Any) -> dict[str, float]:
    """Parameters of buckets after a step for each number, from 0: a negative one is of the bucket without "a"."""
    module = mx.mod.BucketingModule(lambda key: (slopes(*key), ["data"], None), ("a", "bb", "ccc"))
    module.bind([("data", (1,))])
    module.init_params(arg_params={name: mx.nd.zeros(len(name)) for name in ("a", "bb", "ccc")}, aux_params={})
    module.init_optimizer(optimizer=optimizer, optimizer_params={"rescale_grad": 1, **params})
    for number in numbers:
        key = ("a", "bb", "ccc") if number > 0 else ("ccc", "bb")
        shapes: dict[str, Any] = {"provide_data": [("data", (1,))], "provide_label": None}
        module.forward_backward(mx.io.DataBatch([mx.nd.array([number])], None, bucket_key=key, **shapes))
        module.update()
    params = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
    assert all((array == array[0]).all() for array in params.values())
    return {name: float(array[0]) for name, array in params.items()}


def test_buckets_share_momentum_counts_and_multipliers_by_name():
    """MXNet goes by a parameter's place in its bucket."""
    speed = dict.fromkeys(("a", "bb", "ccc"), 0.0)
    expected = dict(speed)
    for number in (1, -2, 1):
        for name in speed if number > 0 else ("bb", "ccc"):
            speed[name] = 0.5 * speed[name] - 0.1 * (3 if name == "bb" else 1) * number
            expected[name] += speed[name]
    got = of_numbers(1, -2, 1, optimizer="sgd", learning_rate=0.1, momentum=0.5)
    assert got == pytest.approx(expected, rel=1e-5)
    got = of_numbers(1, -1, 1, optimizer="adam", learning_rate=0.1, beta1=0.0, beta2=0.0)  # each step is the rate
    assert got == pytest.approx({"a": -0.2, "bb": -0.3, "ccc": -0.1}, rel=1e-5)


def test_modules_of_a_chain_that_share_an_optimiser_do_not_share_counts():
    by_name, shared = [], []
    for optimizer, params in (("adam", by_name), (mx.optimizer.create("adam", rescale_grad=1 / 8), shared)):
        made = chain()
        made.bind([("data", (8, 4))], [("softmax_label", (8,))])
        made.init_params(arg_params=parameters(), aux_params={})
        made.init_optimizer(optimizer=optimizer, optimizer_params={})
        for _ in range(2):
            made.forward(mx.io.DataBatch([mx.nd.array(X)], [mx.nd.array(Y)]), is_train=True)
            made.backward()
            made.update()
        params += [array.asnumpy() for array in made.get_params()[0].values()]
    for one, other in zip(by_name, shared, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_states_are_in_files_by_name_and_those_by_number_are_read(tmp_path: Path):
    def bound(net: mx.sym.Symbol, width: int) -> mx.mod.Module:
        module = mx.mod.Module(net)
        module.bind([("data", (8, width))], [("softmax_label", (8,))])
        module.init_params(mx.init.One())
        module.init_optimizer(optimizer_params={"momentum": 0.5})
        return module

    def states(module: mx.mod.Module) -> dict[str, float]:
        assert module._updater is not None
        return {module._param_names[i]: float(s.sum().asscalar()) for i, s in module._updater.states.items()}

    old, file = bound(head(), 5), tmp_path / "by_name.states"
    old.forward_backward(mx.io.DataBatch([mx.nd.ones((8, 5))], [mx.nd.array(Y)]))
    old.update()
    old.save_optimizer_states(str(file))
    deeper = bound(head(hidden()), 4)  # has other parameters before those
    deeper.load_optimizer_states(str(file))
    assert states(deeper) == pytest.approx({"fc1_weight": 0, "fc1_bias": 0, **states(old)})
    numbered = {f"state.{i}.0": mx.nd.array(np.full(s.shape, i)) for i, s in enumerate(old.get_params()[0].values())}
    mx.nd.save(str(file), numbered)
    old.load_optimizer_states(str(file))
    assert states(old) == {"fc2_weight": 0, "fc2_bias": 3}
    with pytest.raises(TrainingError, match=r"'state.0.0' in the file does not fit parameter 'fc1_weight'.*\(5, 4\)"):
        deeper.load_optimizer_states(str(file))


def test_set_params_is_of_every_module():
    module = chain()
    module.bind([("data", (8, 4))], [("softmax_label", (8,))])
    module.set_params(parameters(), {})
    assert module.get_params()[0]["fc1_bias"].shape == (5,)
    assert mx.mod.BaseModule.set_params is mx.mod.Module.set_params is mx.mod.BucketingModule.set_params


@pytest.mark.parametrize("kind", ["Module", "BucketingModule", "SequentialModule", "PythonLossModule"])
def test_shapes_and_names_come_from_iterators(kind: str):
    net = head(mx.sym.Variable("data"))
    label, names = ["softmax_label"], lambda *names: cast(Any, iter(names))
    made: dict[str, Any] = {
        "Module": lambda: mx.mod.Module(net, names("data"), names(*label)),
        "BucketingModule": lambda: mx.mod.BucketingModule(lambda key: (net, ["data"], label), 1),
        "SequentialModule": lambda: mx.mod.SequentialModule().add(
            mx.mod.Module(net, ["data"], label), take_labels=True
        ),
        "PythonLossModule": lambda: mx.mod.PythonLossModule(data_names=["data"], label_names=label),
    }
    module = made[kind]()
    module.bind(zip(["data"], [(4, 5)], strict=True), zip(label, [(4,)], strict=True))
    module.init_params(mx.init.One())
    described = {"provide_data": [("data", (4, 5))], "provide_label": [(label[0], (4,))]}
    module.forward(mx.io.DataBatch([mx.nd.ones((4, 5))], [mx.nd.zeros(4)], bucket_key=1, **described), is_train=True)
    assert module.get_outputs()[0].shape[0] == 4
    assert [name for name, _ in module.label_shapes] == label
