"""`mx.mod`, `mx.callback`, `mx.model`, `mx.kv`, `mx.mon`: what scripts build on, and what is told of mistakes."""

# Some calls are wrong on purpose; optimisers are made from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from symjax_nnvm import NameManager
from symjax_nnvm.recent import Recent

DATA = np.arange(24, dtype=np.float32).reshape(8, 3) / 24
LABEL = np.array([0, 1, 1, 0, 1, 0, 1, 0], np.float32)


def network() -> mx.sym.Symbol:
    """data (n, 3) → probabilities of two classes."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def batches(size: int = 4) -> mx.io.NDArrayIter:
    """The data in batches."""
    return mx.io.NDArrayIter(DATA, LABEL, size)


@pytest.fixture(scope="module")
def trained() -> mx.mod.Module:
    """A module after an epoch."""
    module = mx.mod.Module(network())
    module.fit(batches(), num_epoch=1, initializer=mx.init.One())
    return module


def test_what_a_module_says_of_itself(trained: mx.mod.Module):
    assert (trained.data_names, trained.label_names, trained.output_names) == (
        ["data"],
        ["softmax_label"],
        ["softmax_output"],
    )
    assert trained.data_shapes == [("data", (4, 3))]
    assert trained.label_shapes == [("softmax_label", (4,))]
    assert trained.output_shapes == [("softmax_output", (4, 2))]
    assert trained.symbol.list_arguments() == network().list_arguments()


def test_scoring_and_predicting(trained: mx.mod.Module):
    ((name, value),) = trained.score(batches(), "acc")
    assert name == "accuracy"
    assert 0 <= value <= 1
    whole = trained.predict(mx.io.NDArrayIter(DATA, batch_size=3))  # the last batch is filled up, and cut again
    assert whole.shape == (8, 2)
    np.testing.assert_allclose(whole.asnumpy(), trained.predict(mx.nd.array(DATA)).asnumpy(), rtol=1e-6)
    assert [len(outputs) for outputs in trained.predict(batches(), merge_batches=False)] == [1, 1]
    assert len(trained.predict(batches(), num_batch=1, always_output_list=True)[0]) == 4


def test_one_step_by_hand_is_the_one_of_fit(trained: mx.mod.Module):
    module = mx.mod.Module(network())
    it = batches()
    module.bind(it.provide_data, it.provide_label)
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer="sgd")
    for batch in it:
        module.forward(batch)
        module.backward()
        module.update()
    for name, value in module.get_params()[0].items():
        np.testing.assert_allclose(value.asnumpy(), trained.get_params()[0][name].asnumpy(), rtol=1e-6)


def test_gradients_of_the_data():
    module = mx.mod.Module(network())
    module.bind([("data", (2, 3))], [("softmax_label", (2,))], inputs_need_grad=True)
    module.init_params(mx.init.One())
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 3))], [mx.nd.zeros(2)]))
    assert module.get_input_grads()[0].shape == (2, 3)
    assert module.get_outputs(merge_multi_context=False)[0][0].shape == (2, 2)


@pytest.mark.parametrize("contexts", [1, 2])
def test_a_batch_that_the_parameters_do_not_fit_is_refused(contexts: int):
    module = mx.mod.Module(network(), context=[mx.cpu(i) for i in range(contexts)])
    module.bind(batches().provide_data, batches().provide_label)
    module.init_params(mx.init.One())
    for width in (2, 5):
        batch = mx.io.DataBatch([mx.nd.ones((4, width))], [mx.nd.zeros((4,))])
        with pytest.raises(mx.MXNetError, match=r"fc_weight changed, from \(2, 3\) to"):
            module.forward(batch)
        with pytest.raises(mx.MXNetError, match="does not fit the parameters"):
            module.reshape([("data", (4, width))], [("softmax_label", (4,))])
    assert module.data_shapes == [("data", (4, 3))]
    assert module.get_params()[0]["fc_weight"].shape == (2, 3)
    module.forward(next(batches(8)))
    assert module.get_outputs()[0].shape == (8, 2)


def test_a_batch_of_another_size_without_labels_is_run(trained: mx.mod.Module):
    trained.forward(mx.io.DataBatch([mx.nd.array(DATA[:3])]), is_train=False)
    assert trained.get_outputs()[0].shape == (3, 2)
    assert trained.label_shapes == [("softmax_label", (3,))]
    trained.forward(next(batches()), is_train=False)
    assert trained.label_shapes == [("softmax_label", (4,))]


def test_several_batches_are_one(trained: mx.mod.Module):
    first, second = batches()
    trained.forward([first, second], is_train=False)
    together = trained.get_outputs()[0].asnumpy()
    parts = []
    for batch in (first, second):
        trained.forward(batch, is_train=False)
        parts.append(trained.get_outputs()[0].asnumpy())
    np.testing.assert_allclose(together, np.concatenate(parts), rtol=1e-6)


def test_parameters_that_are_fixed_stay():
    module = mx.mod.Module(network(), fixed_param_names=["fc_bias"])
    module.fit(batches(), num_epoch=1, initializer=mx.init.One(), optimizer="adam")
    args, _ = module.get_params()
    assert not args["fc_bias"].asnumpy().any()
    assert (args["fc_weight"].asnumpy() != 1).all()


def test_checkpoints(trained: mx.mod.Module, tmp_path: Path):
    prefix = str(tmp_path / "net")
    trained.save_checkpoint(prefix, 3)
    symbol, args, aux = mx.model.load_checkpoint(prefix, 3)
    assert (type(symbol), aux) == (mx.sym.Symbol, {})
    assert sorted(args) == ["fc_bias", "fc_weight"]
    again = mx.mod.Module.load(prefix, 3)
    again.bind([("data", (8, 3))], for_training=False)
    assert (again.predict(mx.nd.array(DATA)).asnumpy() == trained.predict(mx.nd.array(DATA)).asnumpy()).all()
    trained.save_params(str(tmp_path / "p.params"))
    again.load_params(str(tmp_path / "p.params"))
    mx.callback.do_checkpoint(prefix, period=2)(1, symbol, args, aux)
    assert (tmp_path / "net-0002.params").exists()
    mx.callback.module_checkpoint(trained, prefix)(4)
    assert (tmp_path / "net-0005.params").exists()


def test_bucketing(tmp_path: Path):
    """Networks of several lengths share parameters and optimiser."""

    def generate(length: int) -> Any:
        net = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
        net = mx.sym.FullyConnected(net, num_hidden=2, name="fc")
        return mx.sym.SoftmaxOutput(net, name="softmax"), ("data",), ("softmax_label",)

    def batch(length: int) -> mx.io.DataBatch:
        shapes = {"provide_data": [("data", (2, length))], "provide_label": [("softmax_label", (2,))]}
        return mx.io.DataBatch([mx.nd.ones((2, length))], [mx.nd.array([0, 1])], bucket_key=length, **shapes)

    module = mx.mod.BucketingModule(generate, default_bucket_key=5)
    module.bind([("data", (2, 5))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    module.forward_backward(batch(3))
    module.update()
    module.forward(batch(5), is_train=False)
    np.testing.assert_allclose(module.get_params()[0]["fc_weight"].asnumpy(), [[1], [1]])
    assert module.get_outputs()[0].shape == (2, 2)
    module.save_checkpoint(str(tmp_path / "b"), 1)
    assert (tmp_path / "b-3-symbol.json").exists()
    with pytest.raises(TypeError, match="needs its bucket_key, provide_data"):
        module.forward(mx.io.DataBatch([mx.nd.ones((2, 3))]))


def test_the_speedometers_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    times = iter(range(10))
    monkeypatch.setattr("lowering.mx.callback.time", type("T", (), {"time": staticmethod(lambda: next(times))}))
    metric = mx.metric.create("acc")
    metric.update([mx.nd.array([0, 1])], [mx.nd.array([[1, 0], [1, 0]])])
    speedometer = mx.callback.Speedometer(batch_size=8, frequent=2)
    with caplog.at_level(logging.INFO):
        for nbatch in range(3):
            speedometer(mx.model.BatchEndParam(1, nbatch, metric, None))
        mx.callback.Speedometer(8, 2)._log(mx.model.BatchEndParam(1, 4, None, None), 5.0)
        mx.callback.ProgressBar(total=4, length=8)(mx.model.BatchEndParam(0, 2, None, None))
        mx.callback.log_train_metric(1)(mx.model.BatchEndParam(0, 2, mx.metric.create("acc"), None))
        mx.callback.LogValidationMetricsCallback()(mx.model.BatchEndParam(0, 2, mx.metric.create("acc"), None))
    assert caplog.messages == [
        "Epoch[1] Batch [0-2]\tSpeed: 16.00 samples/sec\taccuracy=0.500000",
        "Iter[1] Batch [4]\tSpeed: 5.00 samples/sec",
        "[====----] 50%\r",
        "Iter[0] Batch[2] Train-accuracy=nan",
        "Epoch[0] Validation-accuracy=nan",
    ]


@pytest.mark.slow("compiles")
def test_a_monitor_in_fit(caplog: pytest.LogCaptureFixture):
    module = mx.mod.Module(network())
    with caplog.at_level(logging.INFO):
        module.fit(batches(), num_epoch=1, monitor=mx.mon.Monitor(2, pattern="fc_(output|weight)", sort=True))
    assert [line.split()[:3] for line in caplog.messages if line.startswith("Batch")] == [
        ["Batch:", "1", "fc_output"],
        ["Batch:", "1", "fc_weight"],
    ]


def test_a_store_of_arrays():
    store = mx.kv.create("device")
    store.init(["a", "b"], [mx.nd.ones(2), mx.nd.zeros(2)])
    out = mx.nd.zeros(2)
    store.pushpull("b", [mx.nd.ones(2), mx.nd.ones(2)], out=out)
    assert out.asnumpy().tolist() == [2, 2]
    store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5))
    store.push("a", mx.nd.ones(2))
    store.pull("a", out)
    assert out.asnumpy().tolist() == [0.5, 0.5]
    store.set_updater(lambda key, pushed, held: held.__setitem__(slice(None), 7))
    store.push("a", out)
    store.pull("a", out)
    assert (out.asnumpy().tolist(), store.rank, store.num_workers, store.barrier()) == ([7, 7], 0, 1, None)


def test_a_table_in_a_file(tmp_path: Path):
    file = tmp_path / "table.csv"
    file.write_text("1,2\n3,4\n5,6\n")
    it = mx.io.CSVIter(data_csv=str(file), data_shape=(2,), batch_size=2)
    assert [(b.data[0].asnumpy().tolist(), b.label[0].asnumpy().tolist(), b.pad) for b in it] == [
        ([[1, 2], [3, 4]], [0, 0], 0),
        ([[5, 6], [1, 2]], [0, 0], 1),
    ]
    assert it.provide_data + it.provide_label == [("data", (2, 2)), ("softmax_label", (2,))]
    halves = mx.io.CSVIter(str(file), (2,), label_csv=str(file), label_shape=(2,), batch_size=2, round_batch=False)
    assert [(b.label[0].shape, b.pad) for b in halves] == [((2, 2), 0), ((2, 2), 1)]


def test_callbacks_find_the_variables_of_fit():
    found: list[dict[str, Any]] = []
    module = mx.mod.Module(mx.sym.SoftmaxOutput(mx.sym.Variable("data"), name="softmax"))
    data = mx.io.NDArrayIter(np.ones((4, 3), np.float32), np.zeros(4), 2)
    module.fit(data, data, num_epoch=1, batch_end_callback=lambda param: found.append(param.locals))
    names = {"self", "train_data", "eval_data", "tic", "num_epoch", "optimizer", "validation_metric", "data_batch"}
    assert names <= found[0].keys()


def test_errors_of_names_and_of_order_have_mxnets_classes():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2)
    with pytest.raises(ValueError, match="data_names"):
        mx.mod.Module(net, data_names=["dat"], label_names=None)
    with pytest.raises(ValueError, match=r"don't match names specified by data_names; expected \['data'\]"):
        mx.mod.Module(net, label_names=None).bind([("dat", (2, 3))])
    with pytest.raises(ValueError, match="seed_state must be int"):
        mx.random.seed("one")  # pyright: ignore[reportArgumentType]
    with pytest.raises(AssertionError, match="not ready"):
        mx.mod.Module(net, label_names=None).get_outputs()
    with pytest.raises(KeyError, match="There is no such type of device"):
        mx.Context("foo")
    with pytest.raises(TypeError, match="not a scalar"):
        int(mx.nd.ones(2))
    with pytest.raises(AssertionError, match="No metric is called 'nope'"):
        mx.metric.create("nope")


def test_a_module_for_inference_has_no_gradients():
    module = mx.mod.Module(network())
    module.bind(batches().provide_data, batches().provide_label, for_training=False)
    module.init_params()
    module.forward(next(batches()))
    with pytest.raises(AssertionError, match="for_training=True"):
        module.backward()
    with pytest.raises(AssertionError, match="inputs_need_grad=True"):
        module.get_input_grads()
    with pytest.raises(AssertionError, match="please specify number of epochs"):
        module.fit(batches())


def test_methods_of_a_subclass_are_called_in_fit():
    class Doubled(mx.mod.Module):
        def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
            super().forward(mx.io.DataBatch([data_batch.data[0] * 2], data_batch.label), is_train)

    class Clipped(mx.mod.Module):
        def backward(self, out_grads: Any = None) -> None:
            super().backward(out_grads)
            for arrays in self._exec_group.grad_arrays:
                for array in arrays:
                    array[:] = 0

    class Told(mx.mod.BucketingModule):
        backwards = 0

        def backward(self, out_grads: Any = None) -> None:
            self.backwards += 1
            super().backward(out_grads)

    def weight(module: Any, data: np.ndarray = DATA) -> np.ndarray:
        it = mx.io.NDArrayIter(data, LABEL, 4)
        module.fit(it, num_epoch=1, initializer=mx.init.One(), optimizer_params={"learning_rate": 0.5})
        return module.get_params()[0]["fc_weight"].asnumpy()

    np.testing.assert_allclose(weight(Doubled(network())), weight(mx.mod.Module(network()), DATA * 2), rtol=1e-5)
    np.testing.assert_array_equal(weight(Clipped(network())), np.ones((2, 3)))
    told = Told(lambda key: (network(), ["data"], ["softmax_label"]), default_bucket_key=3)
    data = mx.nd.array(DATA[:4])
    told.bind([("data", (4, 3))], [("softmax_label", (4,))])
    told.init_params()
    told.forward_backward(
        mx.io.DataBatch(
            [data],
            [mx.nd.array(LABEL[:4])],
            bucket_key=3,
            provide_data=[("data", (4, 3))],
            provide_label=[("softmax_label", (4,))],
        )
    )
    assert told.backwards == 1


def test_schedules_and_metrics_tell_what_they_were_made_with():
    factor, several = mx.lr_scheduler.FactorScheduler(5, 0.5), mx.lr_scheduler.MultiFactorScheduler([5, 7], 0.5)
    told = []
    for update in (5, 6, 11, 12):
        _ = factor(update), several(update)
        told.append((factor.count, several.cur_step_ind, several.count))
    assert told == [(0, 0, 0), (5, 1, 5), (10, 2, 7), (10, 2, 7)]
    metric = mx.metric.create('["topkaccuracy", {"top_k": 2}]')
    assert (metric.name, metric.top_k, mx.metric.Perplexity(None).ignore_label) == ("top_k_accuracy_2", 2, None)
    with pytest.raises(AttributeError, match="no attribute 'axes'"):
        _ = metric.axes


def test_what_the_trainer_takes_is_an_iterator_here():
    source = lowering.Batches({"data": DATA, "softmax_label": LABEL}, 3, shuffle=True, last="pad")
    it = mx.io.EpochsIter(source)
    assert (it.provide_data, it.provide_label) == ([("data", (3, 3))], [("softmax_label", (3,))])
    it.reset()  # nothing was taken yet
    for epoch in range(2):
        found = [(b.label[0].asnumpy().tolist(), b.pad) for b in it]
        assert [labels for labels, _ in found] == [b["softmax_label"].tolist() for b in source.epoch(epoch)]
        assert [pad for _, pad in found] == [0, 0, 1]
        it.reset()


def test_batches_larger_than_the_data_are_told_and_roll_over_without_loss():
    rows = np.arange(5, dtype=np.float32)
    with pytest.warns(
        UserWarning, match="more than the 5 samples of the data: with last_batch_handle='discard' no epoch has a batch"
    ):
        assert not list(mx.io.NDArrayIter(rows, None, 9, last_batch_handle="discard"))
    with pytest.warns(UserWarning, match="with last_batch_handle='roll_over' some epochs have no batch"):
        it = mx.io.NDArrayIter(rows, None, 9, last_batch_handle="roll_over")
    epochs = []
    for _ in range(4):
        epochs.append([(batch.data[0].asnumpy().tolist(), batch.pad) for batch in it])
        it.reset()
    assert epochs == [[], [([0, 1, 2, 3, 4, 0, 1, 2, 3], 5)], [], [([4, 0, 1, 2, 3, 4, 0, 1, 2], 6)]]


def test_files_are_read_by_the_data_sets_of_the_library(tmp_path: Path):
    records = Path(__file__).parents[2] / "goldens" / "records" / "images.rec"
    images = mx.io.ImageRecordIter(path_imgrec=str(records), data_shape=(3, 8, 8), batch_size=2, resize=10)
    batch = next(images)
    assert batch.data[0].shape == (2, 3, 8, 8)
    assert images.provide_label[0].name == "softmax_label"
    text = tmp_path / "rows.libsvm"
    text.write_text("1 0:0.5 2:2\n0 1:3\n")
    (batch,) = mx.io.LibSVMIter(data_libsvm=str(text), data_shape=(3,), batch_size=2)
    assert batch.data[0].asnumpy().tolist() == [[0.5, 0, 2], [0, 3, 0]]
    assert batch.label[0].asnumpy().ravel().tolist() == [1, 0]


def test_schedules_say_what_they_were_made_with():
    schedule = mx.lr_scheduler.MultiFactorScheduler([2, 4], 0.1)
    assert (schedule.step, schedule.factor, schedule.base_lr) == ([2, 4], 0.1, 0.01)
    assert mx.lr_scheduler.PolyScheduler(9, 0.4, 2, 0.0, 4).get_warmup_lr(1) == pytest.approx(0.1)


def test_an_optimiser_of_ones_own(tmp_path: Path):
    @mx.optimizer.register
    class Signs(mx.optimizer.Optimizer):
        def create_state(self, index: int, weight: mx.nd.NDArray) -> mx.nd.NDArray:
            return mx.nd.zeros(weight.shape)

        def update(self, index: int, weight: mx.nd.NDArray, grad: mx.nd.NDArray, state: mx.nd.NDArray) -> None:
            self._update_count(index)
            state += 1
            weight -= self._get_lr(index) * mx.nd.sign(grad)

    module = mx.mod.Module(network())
    module.fit(batches(), num_epoch=1, optimizer="signs", optimizer_params={"learning_rate": 0.25})
    module.save_optimizer_states(str(tmp_path / "s.states"))
    saved = nn.load_arrays(tmp_path / "s.states")
    assert sorted(saved) == ["state.fc_bias", "state.fc_weight"]
    assert (np.asarray(saved["state.fc_weight"]) == 2).all()  # pyright: ignore


@pytest.mark.parametrize("kvstore", ["local", "object"])
@pytest.mark.parametrize("contexts", [1, 2])
def test_deviation_parameters_that_are_set_hold_after_an_update(contexts: int, kvstore: str):
    module = mx.mod.Module(network(), context=[mx.cpu(i) for i in range(contexts)])
    data = batches()
    module.bind(data.provide_data, data.provide_label)
    module.init_params(mx.init.One())
    store = mx.kv.create("device") if kvstore == "object" else kvstore
    module.init_optimizer(kvstore=store, optimizer_params={"learning_rate": 0.5})
    module.set_params({"fc_weight": mx.nd.zeros((2, 3)), "fc_bias": mx.nd.ones((2,)) * 7}, {})
    module.forward_backward(data.next())
    module.update()
    params, _ = module.get_params()
    np.testing.assert_allclose(params["fc_weight"].asnumpy(), 0, atol=0.5)
    np.testing.assert_allclose(params["fc_bias"].asnumpy(), 7, atol=0.5)


@pytest.mark.slow("compiles")
def test_several_contexts_share_batches_of_any_size():
    module, alone = (mx.mod.Module(network(), context=given) for given in ([mx.cpu(0), mx.cpu(1)], mx.cpu()))
    monitor = mx.mon.Monitor(3, pattern="fc_output")
    for each in (module, alone):
        each.bind([("data", (4, 3))], [("softmax_label", (4,))])
        each.init_params(mx.init.One())
        each.init_optimizer(optimizer_params={"learning_rate": 0.1})
        each.install_monitor(monitor)
        monitor.tic()
        for rows in (4, 3, 4):
            each.forward_backward(mx.io.DataBatch([mx.nd.array(DATA[:rows])], [mx.nd.array(LABEL[:rows])]))
            each.update()
        assert len(monitor.toc()) == (6 if each is module else 3)
        monitor.step = 0
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), alone.get_outputs()[0].asnumpy(), rtol=1e-6)
    ours, theirs = module.get_params()[0], alone.get_params()[0]
    for name in theirs:
        np.testing.assert_allclose(ours[name].asnumpy(), theirs[name].asnumpy(), rtol=1e-6)
    assert [[part.shape for part in each] for each in module.get_outputs(False)] == [[(2, 2), (2, 2)]]
    assert module.output_shapes == alone.output_shapes
    with pytest.raises(nn.MXNetError, match="Too many slices. Some splits are empty; expected 2 rows or more; got 1"):
        module.forward(mx.io.DataBatch([mx.nd.array(DATA[:1])], [mx.nd.array(LABEL[:1])]))


def test_each_context_keeps_its_part_of_the_states_and_may_be_given_it() -> None:
    state = mx.sym.Variable("state", shape=(0, 3))
    module = mx.mod.Module(
        2 * state + mx.sym.Variable("data"),
        state_names=["state"],
        label_names=None,
        context=[mx.cpu(0), mx.cpu(1)],
        work_load_list=[1, 2],
    )
    module.bind([("data", (6, 3))], for_training=False)
    module.init_params()
    batch = mx.io.DataBatch([mx.nd.zeros((6, 3))])
    module.set_states(value=1)
    module.forward(batch)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), np.full((6, 3), 2))
    rows = np.arange(18, dtype=np.float32).reshape(6, 3)
    for given in (mx.nd.array(rows), [mx.nd.array(rows[:2]), mx.nd.array(rows[2:])]):
        module.set_states(value=0)
        module.set_states([given])
        module.forward(batch)
        np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), 2 * rows)
        np.testing.assert_array_equal(module.get_states()[0].asnumpy(), rows)
        assert [[part.shape for part in parts] for parts in module.get_states(False)] == [[(2, 3), (4, 3)]]
    module.set_states(module.get_outputs(merge_multi_context=False))
    module.forward(batch)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), 4 * rows)


MISTAKES: dict[str, tuple[Any, str]] = {
    "not bound": (lambda: mx.mod.Module(network()).forward(None), r"Call module.bind\(.*then module.init_params\(\)"),
    "data name": (lambda: mx.mod.Module(network(), data_names=["x"]), r"input with name 'x' is not found.*\['data'"),
    "no epochs": (lambda: mx.mod.Module(network()).fit(batches()), "please specify number of epochs"),
    "dist": (lambda: mx.kv.create("dist_sync"), "jax.distributed.initialize"),
    "servers": (lambda: mx.kv.create("dist_async"), "Use 'dist_sync'"),
    "loads": (
        lambda: mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)], work_load_list=[1]).bind([("data", (4, 3))]),
        "needs one number per context",
    ),
    "store": (lambda: mx.kv.create("locl"), "No kvstore is called"),
    "key": (lambda: mx.kv.create().pull("a", mx.nd.ones(1)), "key 'a' has not been inited"),
    "metric": (lambda: mx.metric.create("acuracy"), "Did you mean 'accuracy'"),
    "optimiser": (lambda: mx.optimizer.create("adma"), "Did you mean .*'adam'"),
    "its parameter": (lambda: mx.optimizer.SGD(momentun=1), "Did you mean 'momentum'"),
    "rate of a schedule": (
        lambda: mx.optimizer.SGD(lr_scheduler=mx.lr_scheduler.PolyScheduler(9)).set_learning_rate(1),
        "LRScheduler of the optimizer has already been defined",
    ),
    "iterator": (lambda: mx.io.NDArrayIter(DATA, LABEL[:3]), "different numbers of samples"),
    "batch": (lambda: mx.io.DataBatch(mx.nd.ones(1)), r"Data must be list of NDArrays.*DataBatch\(\[data\]"),
    "missing": (
        lambda: _bound().set_params({"fc_weight": mx.nd.ones((2, 3))}, {}),
        r"\['fc_bias'\] of the network is not presented in arg_params.*allow_missing",
    ),
    "surplus": (lambda: _bound().set_params(_params(fc_bia=1), {}, allow_missing=True), "Did you mean 'fc_bias'"),
    "shape": (
        lambda: _bound().set_params(_params() | {"fc_bias": mx.nd.ones(3)}, {}),
        r"value of fc_bias does not fit",
    ),
    "another module": (lambda: mx.mod.SequentalModule, "Did you mean 'SequentialModule'"),
    "an iterator that is not here": (lambda: mx.io.ImageDetRecordsIter, "Did you mean 'ImageDetRecordIter'"),
    "a cell that is not here": (lambda: mx.rnn.ConvLTSMCell, "Did you mean 'ConvLSTMCell'"),
    "a cell's input": (lambda: mx.rnn.RNNCell(2).unroll(3, [mx.sym.Variable("x")]), "one input for each step"),
    "predict": (lambda: _bound().predict([1]), "mx.io.NDArrayIter"),
}


def _params(**more: float) -> dict[str, Any]:
    given = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.ones(2)}
    return given | {name: mx.nd.array([value]) for name, value in more.items()}


def _bound() -> mx.mod.Module:
    module = mx.mod.Module(network())
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.init_params(mx.init.One())
    return module


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_the_way_out(name: str):
    mistake, message = MISTAKES[name]
    with pytest.raises((nn.NNVMError, AttributeError), match=message):
        mistake()


@pytest.mark.eight_devices
@pytest.mark.parametrize("first", [0, 1])
def test_contexts_of_several_devices_run_there(first: int, monkeypatch: pytest.MonkeyPatch):
    devices = jax.devices()
    places = {0: None, 1: devices[1]}  # as of GPUs: None is where JAX puts arrays by itself
    monkeypatch.setattr(mx.Context, "device", property(lambda self: places[self.device_id]))
    contexts = [mx.cpu(first), mx.cpu(1 - first)]
    module, alone = mx.mod.Module(network(), context=contexts), mx.mod.Module(network())
    for each in (module, alone):
        each.fit(batches(), num_epoch=1, initializer=mx.init.One(), optimizer_params={"learning_rate": 0.1})
    (parts,) = module.get_outputs(merge_multi_context=False)
    assert [part.value.devices() for part in parts] == [{devices[first]}, {devices[1 - first]}]
    for name, value in alone.get_params()[0].items():
        np.testing.assert_allclose(module.get_params()[0][name].asnumpy(), value.asnumpy(), rtol=1e-6)
    assert module.score(batches(), "acc") == alone.score(batches(), "acc")


@pytest.mark.parametrize(
    "optimizer", [lambda: "sgld", lambda: mx.optimizer.SGLD(rescale_grad=0.5)], ids=["name", "object"]
)
def test_a_script_that_runs_twice_repeats_itself(optimizer: Callable[[], Any]):
    """Layers have no names, and the second time their numbers are 9 and 10, whose order as texts is another."""

    def run(names: NameManager) -> list[np.ndarray]:
        mx.random.seed(5)
        with names:
            net = mx.sym.FullyConnected(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4), num_hidden=4)
            module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
        module.bind([("data", (2, 4))], [("softmax_label", (2,))])
        module.init_params()
        module.init_optimizer(optimizer=optimizer(), optimizer_params={"rescale_grad": 0.5})
        module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 4))], [mx.nd.zeros(2)]))
        module.update()
        values, _ = module.get_params()
        return [values[name].asnumpy() for name in net.list_arguments()[1:]]

    later = NameManager()
    later._counter["fullyconnected"] = 9
    for first, second in zip(run(NameManager()), run(later), strict=True):
        np.testing.assert_array_equal(first, second)


def test_what_is_odd_is_warned_of():
    with pytest.warns(UserWarning, match="name 'softmax_label' is not found"):
        mx.mod.Module(mx.sym.relu(mx.sym.Variable("data")))
    with pytest.warns(UserWarning, match="rescale_grad is not normalized"):
        _bound().init_optimizer(optimizer=mx.optimizer.SGD())
    with pytest.warns(UserWarning, match="Parameters already initialized"):
        _bound().init_params()


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("computes much")
@pytest.mark.parametrize("kept", [2, 128])
def test_what_was_bound_for_other_shapes_is_bounded(kept: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lowering.mx.module.module.KEPT", kept)
    module, seen = _bound(), mx.mon.Monitor(1)
    module.install_monitor(seen)
    for rows in (2, 3, 4, 5, 6, 2):
        module.forward(mx.io.DataBatch([mx.nd.ones((rows, 3))], [mx.nd.zeros(rows)]), is_train=False)
        np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), np.full((rows, 2), 0.5))
    gc.collect()
    assert len(module._executors) == min(kept, 5)
    assert len(seen.exes) == min(kept, 5)


@pytest.mark.slow("compiles")
def test_buckets_are_kept_that_were_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A bucket that went is made again, with the parameters and the optimiser of all."""
    generated: list[int] = []

    def generate(length: int) -> tuple[mx.sym.Symbol, list[str], list[str]]:
        generated.append(length)
        net = mx.sym.FullyConnected(mx.sym.mean(mx.sym.Variable("data"), axis=1), num_hidden=2, name="fc")
        return mx.sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]

    def trained(kept: int) -> np.ndarray:
        monkeypatch.setattr("lowering.mx.module.bucketing.KEPT", kept)
        module = mx.mod.BucketingModule(generate, default_bucket_key=9)
        module.bind([("data", (2, 9, 3))], [("softmax_label", (2,))])
        module.init_params(mx.init.One())
        module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
        for length in (2, 3, 4, 2, 9):
            data, label = mx.nd.arange(2 * length * 3).reshape((2, length, 3)), mx.nd.zeros(2)
            shapes = [("data", data.shape)], [("softmax_label", (2,))]
            batch = mx.io.DataBatch([data], [label], bucket_key=length, provide_data=shapes[0], provide_label=shapes[1])
            module.forward_backward(batch)
            module.update()
        assert len(module._buckets) == 1 + min(kept, 3)
        module.save_checkpoint(str(tmp_path / f"net{kept}"), 1)
        assert len([*tmp_path.glob(f"net{kept}-*-symbol.json")]) == 4
        return module.get_params()[0]["fc_weight"].asnumpy()

    every = trained(128)
    assert generated == [9, 2, 3, 4]
    np.testing.assert_array_equal(trained(2), every)
    assert generated[4:9] == [9, 2, 3, 4, 2]


def test_compiled_updates_are_shared_and_bounded(monkeypatch: pytest.MonkeyPatch):
    kept = Recent(3)
    monkeypatch.setattr("lowering.mx.optimizer._updates", kept)
    weight = mx.nd.ones(2)
    for turn in (1, 1, 2, 2):
        optimizer = mx.optimizer.SGD(learning_rate=0.1 * turn, clip_gradient=turn)
        optimizer.update(0, weight, mx.nd.ones(2), ())
    assert len(kept) == 2
    for turn in range(3, 9):
        optimizer.clip_gradient = turn
        optimizer.update(0, weight, mx.nd.ones(2), ())
    assert len(kept) == 3


@pytest.mark.parametrize("contexts", [1, 2])
def test_gradients_are_clipped_through_the_executors(contexts: int):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(mx.sym.make_loss(net), label_names=None, context=[mx.cpu(i) for i in range(contexts)])
    module.bind([("data", (4, 3))])
    module.init_params(mx.init.Zero())
    module.init_optimizer(optimizer_params={"learning_rate": 1.0, "rescale_grad": 1.0})
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 3))]))
    group = module._exec_group
    assert (group.batch_size, group.param_names, len(group.execs)) == (4, ["fc_weight", "fc_bias"], contexts)
    for arrays in group.grad_arrays:
        for gradient in arrays:
            assert gradient is not None
            mx.nd.clip(gradient, -1, 1, out=gradient)
    module.update()
    assert group.param_arrays[group.param_names.index("fc_bias")][0].asnumpy().tolist() == [-contexts] * 2  # pyright: ignore


@pytest.mark.parametrize("contexts", [1, 2])
def test_executors_under_mxnets_names(contexts: int):
    """What live MXNet answers for the same module."""
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc"), name="softmax")
    module = mx.mod.Module(net, context=[mx.cpu(i) for i in range(contexts)])
    module.bind([("data", (4, 5))], [("softmax_label", (4,))], inputs_need_grad=True)
    group = module._exec_group
    rows = 4 // contexts
    assert group.slices == [slice(i * rows, (i + 1) * rows) for i in range(contexts)]
    assert (group.workload, group.data_names, group.label_names) == ([1] * contexts, ["data"], ["softmax_label"])
    assert (group.num_outputs, group.output_names, group.state_arrays) == (1, ["softmax_output"], [])
    assert group.grad_req == {"data": "write", "fc_weight": "write", "fc_bias": "write", "softmax_label": "null"}
    assert [(part, array.shape) for part, array in group.data_arrays[0]] == [(s, (rows, 5)) for s in group.slices]
    assert [array.shape for _, array in group.label_arrays[0]] == [(rows,)] * contexts
    assert group.get_output_shapes() == [("softmax_output", (4, 3))]
    assert (group.for_training, group.inputs_need_grad, group.fixed_param_names) == (True, True, [])


def test_internal_functions_have_the_operators_names():
    x = mx.nd.array([1, 4])
    assert mx.nd._internal._plus_scalar(x, scalar=2).asnumpy().tolist() == [3, 6]
    symbol = mx.sym._internal._maximum(mx.sym.Variable("a"), mx.sym.Variable("b"))
    assert symbol.eval(a=x, b=mx.nd.array([2, 3]))[0].asnumpy().tolist() == [2, 4]


def test_a_frozen_backbone_keeps_its_moving_averages():
    normed = mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=False, momentum=0.5, name="norm")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(normed, num_hidden=2, name="head"), name="softmax")
    for fixed, moves in ((["norm_gamma", "norm_beta"], False), (["norm_gamma"], True)):
        module = mx.mod.Module(net, fixed_param_names=fixed)
        module.fit(batches(), num_epoch=1, initializer=mx.init.One())
        assert bool(module.get_params()[1]["norm_moving_mean"].asnumpy().any()) == moves


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("kind", ["BatchNorm", "BatchNorm_v1"])
def test_a_gamma_that_is_fixed_is_saved_as_mxnet_saves_it(kind: str):
    """It is 1 at each pass, and decays once after the last one. The numbers are MXNet 1.9.1's."""
    normed = getattr(mx.sym, kind)(mx.sym.Variable("data"), name="norm")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(normed, num_hidden=2, name="fc"), name="softmax")
    given = {"norm_gamma": mx.nd.array([0.2, 3, -1]), "norm_beta": mx.nd.zeros(3)}
    frozen = [0.2, 3, -1] if kind == "BatchNorm" else [1, 1, 1]
    for fixed, wd, expected in ((None, 0.01, [0.999] * 3), (None, 0.5, [0.82805] * 3), ([*given], 0.5, frozen)):
        module = mx.mod.Module(net, fixed_param_names=fixed)
        sgd = {"learning_rate": 0.1, "wd": wd, "momentum": 0.9 if wd == 0.5 else 0}
        module.fit(batches(), num_epoch=2, arg_params=given, allow_missing=True, optimizer_params=sgd)
        np.testing.assert_allclose(module.get_params()[0]["norm_gamma"].asnumpy(), expected, rtol=1e-5)
