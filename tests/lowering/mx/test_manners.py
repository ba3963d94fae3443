"""MXNet's manners: types of attributes, classes of errors, arguments that scripts give."""

import json
import math
import pickle
from collections import namedtuple
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering import mx
from lowering.mx.ndarray import storage_types as storage

optimizers: Any = mx.optimizer


def test_a_seed_reaches_executors_and_modules_that_are_bound():
    executor = mx.sym.Dropout(mx.sym.Variable("x")).bind(mx.cpu(), {"x": mx.nd.ones(64)})
    module = mx.mod.Module(mx.sym.Dropout(mx.sym.Variable("data")), label_names=None)
    module.bind([("data", (64,))], for_training=True)
    module.init_params()

    def draw() -> tuple[list[float], list[float]]:
        module.forward(mx.io.DataBatch([mx.nd.ones(64)]), is_train=True)
        return executor.forward(is_train=True)[0].asnumpy().tolist(), module.get_outputs()[0].asnumpy().tolist()

    mx.random.seed(128)
    first, second = draw(), draw()
    assert first[0] != second[0]
    assert first[1] != second[1]
    mx.random.seed(128)
    assert draw() == first


@pytest.mark.parametrize("name", ["flatten", "expand_dims", "squeeze"])
def test_in_place_results_are_views(name: str):
    array = mx.nd.zeros((2, 1, 3))
    arguments = {"expand_dims": {"axis": 0}}.get(name, {})
    view, copy = (getattr(array, name)(inplace=inplace, **arguments) for inplace in (True, False))
    view[:] = 1
    copy[:] = 2
    assert array.asnumpy().tolist() == [[[1] * 3], [[1] * 3]]


def test_symbols_given_to_bodies_and_unpickled_ones_are_symbols_of_mx():
    seen: list[Any] = []

    def body(item: Any, states: Any) -> Any:
        seen.extend([item, *states])
        return item * 2, [states[0] + item]

    outputs, _ = mx.sym.contrib.foreach(body, mx.sym.Variable("data"), [mx.sym.Variable("state")])
    copied = pickle.loads(pickle.dumps(mx.sym.Variable("x") * 2))
    assert all(isinstance(symbol, mx.sym.Symbol) for symbol in (*seen, outputs, copied))
    assert copied.eval(x=mx.nd.ones(2))[0].asnumpy().tolist() == [2, 2]


def test_initializers_fill_arrays_by_their_methods():
    array = mx.nd.zeros((1, 1, 4, 4))
    mx.init.Bilinear()._init_weight("up_weight", array)
    assert array.asnumpy().sum() == 4
    mx.init.create("xavier")(mx.init.InitDesc("w_weight"), array)
    assert isinstance(mx.init.create("xavier"), mx.init.Xavier)
    assert abs(array.asnumpy()).max() < 1

    class Twice(mx.init.Constant):
        def _init_weight(self, name: str, arr: Any) -> None:
            super()._init_weight(name, arr)
            arr[:] = arr * 2

    Twice(3)("w_weight", array)
    assert array.asnumpy().tolist() == np.full((1, 1, 4, 4), 6).tolist()

    class Ones(mx.init.Initializer):
        def _init_weight(self, name: str, arr: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self._init_one(name, arr)  # pyright: ignore[reportCallIssue]

    Ones()("w_weight", array)
    assert (array.asnumpy() == 1).all()


def test_numpys_functions_take_arrays():
    x = mx.nd.array([4, 9])
    assert isinstance(np.sqrt(x), mx.nd.NDArray)
    root: Any = np.sqrt(x)
    assert root.asnumpy().tolist() == [2, 3]
    assert np.all(x == x)
    assert not np.any(x != x)
    for product in (np.float32(2) * x, x * np.float32(2)):
        assert isinstance(product, mx.nd.NDArray)
        assert product.asnumpy().tolist() == [8, 18]
    with pytest.raises(TypeError, match=r"type <class 'numpy.ndarray'> not supported"):
        _ = np.ones(2) + x
    total = np.zeros(2)
    np.add(total, x, out=total)
    assert total.tolist() == [4, 9]
    assert np.concatenate([x, x]).shape == (4,)


def test_elements_are_written_by_arrays_of_one():
    array = mx.nd.zeros((2, 1))
    array[0] = np.array([47.5])
    array[1, 0] = mx.nd.array([4])
    assert array.asnumpy().tolist() == [[47.5], [4]]


def test_variables_say_one_size_numbers_and_initializers():
    assert mx.sym.var("w", shape=5).attr_dict()["w"]["__shape__"] == "5"
    attrs = mx.sym.var("w", attr={"__lr_mult__": 2.0, "__init__": mx.init.Constant(2)}).attr_dict()["w"]
    assert (attrs["__lr_mult__"], attrs["__init__"]) == ("2.0", '["constant", {"value": 2}]')
    assert mx.sym.var("w", shape=5).infer_shape()[0] == [(5,)]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    "metric",
    [mx.metric.Accuracy(), mx.metric.CustomMetric(lambda label, pred: (2.0, 3) if len(label) == 3 else (1.0, 1))],
)
def test_a_metric_counts_since_its_last_reset_and_since_the_local_one(metric: Any):
    label, pred = [mx.nd.array([0, 1, 1])], [mx.nd.array([[1, 0], [1, 0], [0, 1]])]
    assert math.isnan(metric.get_global()[1])
    metric.update(label, pred)
    assert metric.get()[1] == metric.get_global()[1] == 2 / 3
    metric.reset_local()
    assert math.isnan(metric.get()[1])
    assert metric.get_global()[1] == 2 / 3
    metric.reset()
    metric.update([mx.nd.array([0])], [mx.nd.array([[1, 0]])])
    assert metric.get()[1] == metric.get_global()[1] == 1.0


def test_metrics_by_their_configuration_and_before_an_update():
    metric = mx.metric.F1(average="micro")
    assert mx.metric.create(json.dumps(metric.get_config())).get_config() == metric.get_config()
    for metric in (mx.metric.F1(average="micro"), mx.metric.MCC(average="micro"), mx.metric.F1()):
        assert math.isnan(metric.get()[1])
        assert metric.num_inst == 0
    accuracy = mx.metric.Accuracy()
    accuracy.update([mx.nd.array([0, 1])], [mx.nd.array([[1, 0], [1, 0]])])
    assert (accuracy.num_inst, accuracy.sum_metric) == (2, 1)


def test_rates_are_pythons_numbers():
    schedule = mx.lr_scheduler.FactorScheduler(step=5, base_lr=0.1)
    assert schedule(0) == 0.1
    optimizer = optimizers.SGD(learning_rate=0.3, lr_scheduler=schedule)
    assert optimizer.learning_rate == 0.3
    with pytest.raises(UserWarning, match="has already been defined"):
        optimizer.set_learning_rate(1)


def test_optimizers_update_lists_and_arrange_states_as_mxnet():
    optimizer = optimizers.SGD(learning_rate=0.1, momentum=0.9)
    weights = [mx.nd.ones(2), mx.nd.ones(2)]
    states = [optimizer.create_state(i, weight) for i, weight in enumerate(weights)]
    optimizer.update([0, 1], weights, [mx.nd.ones(2)] * 2, states)
    np.testing.assert_allclose(weights[1].asnumpy(), 0.9)
    np.testing.assert_allclose(states[1].asnumpy(), -0.1)
    assert optimizer._index_update_count == {0: 1, 1: 1}
    half = mx.nd.ones(2, dtype="float16")
    momentum, wide = optimizers.SGD(momentum=0.9, multi_precision=True).create_state_multi_precision(0, half)
    assert (momentum.dtype, wide.asnumpy().tolist()) == (np.float32, [1, 1])
    wide, (mean, _) = optimizers.Adam(multi_precision=True).create_state_multi_precision(0, half)
    assert (wide.asnumpy().tolist(), mean.asnumpy().tolist()) == ([1, 1], [0, 0])
    assert optimizers.SGD().create_state(0, half) is None


def test_labels_of_more_samples_than_the_data_are_read_as_far_as_it_goes() -> None:
    with pytest.warns(UserWarning, match="different numbers of samples.*the first 3 of each"):
        it = mx.io.NDArrayIter(np.arange(3.0), {"a": np.arange(5.0), "b": np.arange(3.0)}, 2, shuffle=True)
    for batch in it:
        for label in batch.label:
            np.testing.assert_array_equal(label.asnumpy(), batch.data[0].asnumpy())


def test_iterators_hold_arrays_and_any_object_with_data_is_a_batch():
    it = mx.io.NDArrayIter(np.arange(8.0).reshape(4, 2), np.arange(4.0), 2)
    assert [(name, type(value)) for name, value in (*it.data, *it.label)] == [
        ("data", mx.nd.NDArray),
        ("softmax_label", mx.nd.NDArray),
    ]
    module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2), label_names=None)
    module.bind([("data", (2, 3))], for_training=False, label_shapes=module._label_shapes)
    module.init_params()
    batch: Any = namedtuple("Batch", ["data"])([mx.nd.ones((2, 3))])
    module.forward(batch)
    assert module.get_outputs()[0].shape == (2, 2)


def test_sentences_come_from_iterators():
    lines = ("a b c", "b c")
    coded, _ = mx.rnn.encode_sentences((iter(line.split()) for line in lines), start_label=1, invalid_label=0)
    assert coded == [[1, 2, 3], [2, 3]]
    it = mx.rnn.BucketSentenceIter((iter(each) for each in coded), 1, buckets=[2, 3], invalid_label=0)
    assert sorted(batch.bucket_key for batch in it) == [2, 3]


def test_outputs_of_several_contexts_are_joined_along_the_batch():
    net = mx.sym.Activation(mx.sym.Variable("data"), act_type="relu", __layout__="TNC")
    module: Any = mx.mod.Module(net, label_names=None, context=[mx.cpu(0), mx.cpu(1)])
    module.bind([mx.io.DataDesc("data", (3, 8, 7), layout="TNC")], inputs_need_grad=True)
    module.init_params()
    data = mx.nd.array(np.arange(168).reshape(3, 8, 7))
    module.forward(mx.io.DataBatch([data]), is_train=True)
    assert (module.get_outputs()[0].asnumpy() == data.asnumpy()).all()
    heads = np.random.RandomState(0).rand(3, 8, 7).astype("float32")
    module.backward([mx.nd.array(heads)])
    np.testing.assert_array_equal(module.get_input_grads()[0].asnumpy(), heads * (data.asnumpy() > 0))


def test_wrong_shapes_are_value_errors():
    with pytest.raises(ValueError, match="Cannot reshape array of size 30"):
        mx.nd.arange(30).reshape((2, 3))


def test_sparse_arrays_are_dense_with_one_warning():
    storage.warn_once.cache_clear()
    with pytest.warns(storage.DenseWarning, match="Arrays are dense"):
        rows = mx.nd.sparse.row_sparse_array(([[1.0, 2], [3, 4]], [0, 2]), shape=(4, 2))
    assert rows.asnumpy().tolist() == [[1, 2], [0, 0], [3, 4], [0, 0]]
    csr = mx.nd.sparse.csr_matrix(([7.0, 8, 9], [1, 0, 2], [0, 1, 3]), shape=(2, 3))
    assert csr.asnumpy().tolist() == [[0, 7, 0], [8, 0, 9]]
    assert mx.nd.sparse.csr_matrix(([1.0, 1], ([0, 1], [1, 2]))).asnumpy().tolist() == [[0, 1, 0], [0, 0, 1]]
    assert mx.nd.sparse.zeros("csr", (2, 2)).tostype("row_sparse").shape == (2, 2)
    for call in (lambda: csr.tostype("dense"), lambda: mx.nd.sparse.zeros("dense", (2, 2))):
        with pytest.raises(ValueError, match="No such storage type"):
            call()
    with pytest.raises(mx.MXNetError, match="do not fit a sparse array"):
        mx.nd.sparse.csr_matrix(([1], [5], [0, 1]), shape=(1, 2))


def test_gradients_are_fresh_until_a_caller_says_otherwise():
    x = mx.nd.ones(2)
    x.attach_grad()
    assert not x._fresh_grad
    with mx.autograd.record():
        y = x * 2
    y.backward()
    assert x._fresh_grad
    x._fresh_grad = False
    assert not x._fresh_grad


@pytest.mark.slow("compiles")
def test_keys_are_drawn_by_python_that_a_program_calls():
    class Noise(mx.operator.CustomOp):
        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] + mx.nd.random.uniform(shape=(2,)) * 0)

    class NoiseProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return Noise()

    mx.operator.register("noise_of_test_manners")(NoiseProp)
    mx.random.seed(5)
    mx.nd.random.uniform(shape=(1,))  # a key of this seed was drawn outside before
    net = mx.sym.Custom(mx.sym.Variable("x"), op_type="noise_of_test_manners")
    run = jax.jit(lowering.to_jax(net))
    assert np.asarray(run({"x": np.ones(2, np.float32)})[0][0]).tolist() == [1, 1]


def test_executors_tell_the_graph_that_runs() -> None:
    x = mx.sym.Variable("x")
    bound = (mx.sym.exp(x, name="a") + mx.sym.exp(x, name="b")).simple_bind(mx.cpu(), x=(2, 2))
    merged = bound.get_optimized_symbol()
    assert isinstance(merged, mx.sym.Symbol)
    assert len(merged.get_internals()) == 3


def test_a_drawing_warns_of_names_that_repeat() -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), name="fc", num_hidden=2)
    net = mx.sym.FullyConnected(net, name="fc", num_hidden=2)
    with pytest.warns(RuntimeWarning, match="multiple variables with the same name.*fc"):
        mx.viz.plot_network(net)


def test_a_variables_multipliers_are_an_optimisers_and_an_operators_are_its_variables() -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc1", lr_mult=0)
    net = mx.sym.FullyConnected(net, num_hidden=2, name="fc2", wd_mult=0.5)
    optimizer = mx.optimizer.create("sgd", sym=net, param_idx2name=dict(enumerate(net.list_arguments())))
    assert optimizer.lr_mult == {"fc1_weight": 0.0, "fc1_bias": 0.0}
    assert (optimizer.wd_mult["fc2_weight"], optimizer.wd_mult["fc1_bias"]) == (0.5, 0.0)


def test_a_modules_arrays_are_had_by_mxnets_names(tmp_path: Path) -> None:
    net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc"), name="bn")
    module: Any = mx.mod.Module(net, label_names=None, context=[mx.cpu(0), mx.cpu(1)])
    assert module._arg_params is None
    module.bind([("data", (4, 3))])
    module.init_params()
    assert sorted(module._arg_params or ()) == ["bn_beta", "bn_gamma", "fc_bias", "fc_weight"]
    assert (sorted(module._aux_params or ()), module._aux_names) == (["bn_moving_mean", "bn_moving_var"],) * 2
    module.init_optimizer(optimizer_params={"momentum": 0.9})
    module.update()
    module.save_checkpoint(str(tmp_path / "net"), 0, save_optimizer_states=True)
    again: Any = mx.mod.Module.load(str(tmp_path / "net"), 0, load_optimizer_states=True, label_names=None)
    again.bind([("data", (4, 3))])
    again.init_optimizer(optimizer_params={"momentum": 0.9})
    assert again._updater.states.keys() == module._updater.states.keys()
    assert module._kvstore._updater is module._updater
    assert again._kvstore is None


def test_values_that_the_network_has_not_are_left_out() -> None:
    """As MXNet does, whose feature extraction gives a part of a network the parameters of all of it."""
    module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc"), label_names=None)
    module.bind([("data", (1, 3))])
    values = {"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.ones(2), "fc9_weight": mx.nd.ones(1)}
    module.set_params(values, {})
    module.init_params(None, values, {}, allow_missing=True, force_init=True)
    with pytest.raises(ValueError, match="fc9_weight"):
        module.set_params(values, {}, allow_missing=True)


def test_numpys_questions_are_answered_by_properties() -> None:
    array = mx.nd.ones((2, 3))
    assert (np.size(array), np.shape(array), np.ndim(array), np.size(array, 1)) == (6, (2, 3), 2, 3)


def test_requests_for_what_is_no_argument_are_left_out() -> None:
    x = mx.sym.Variable("x")
    executor = (x * x).bind(mx.cpu(), {"x": mx.nd.ones(2)}, {"x": mx.nd.zeros(2)}, {"x": "add", "bias": "null"})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones(2))
    assert executor.grad_dict["x"].asnumpy().tolist() == [2, 2]
    assert (x * x).simple_bind(mx.cpu(), {"bias": "write"}, x=(2,)).grad_dict == {"x": None}


@pytest.mark.parametrize("unused", [AssertionError, ValueError, mx.MXNetError])
def test_a_loop_that_does_not_use_its_state_is_refused_as_mxnet_does(unused: type[Exception]) -> None:
    x, state = mx.sym.Variable("x"), mx.sym.Variable("s")
    with pytest.raises(unused, match="must be used in the body"):
        mx.sym.contrib.foreach(lambda data, states: (data * 2, [data]), x, [state])


def test_submodules_are_attributes_without_an_import():
    names: Any = mx
    assert names.mod.base_module.BaseModule is mx.mod.BaseModule
    assert names.rnn.rnn_cell.LSTMCell is mx.rnn.LSTMCell
    assert names.io.io.DataIter is mx.io.DataIter
    assert names.nd.ndarray.NDArray is mx.nd.NDArray


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_state_of_dcasgd_is_a_momentum_and_the_weight_before(momentum: float):
    optimizer = mx.optimizer.create("dcasgd", learning_rate=0.1, momentum=momentum)
    weight = mx.nd.array([1, 2])
    kept, before = optimizer.create_state(0, weight)
    assert (kept is None) == (momentum == 0)
    np.testing.assert_array_equal(before.asnumpy(), [1, 2])
    optimizer.update(0, weight, mx.nd.ones(2), (kept, before))
    np.testing.assert_array_equal(before.asnumpy(), [1, 2])
    np.testing.assert_allclose(weight.asnumpy(), [0.9, 1.9], rtol=1e-6)
    if kept is not None:
        np.testing.assert_allclose(kept.asnumpy(), [-0.1, -0.1], rtol=1e-6)


def test_an_initializer_is_made_of_a_name_and_its_parameters():
    array: Any = mx.nd.zeros(2)
    mx.init.create("constant", 2)(mx.init.InitDesc("w_weight"), array)
    assert array.asnumpy().tolist() == [2, 2]


def test_descriptions_are_named_tuples_that_keep_their_dtype():
    desc = mx.io.DataDesc("data", (2, 3), "int32", "TN")
    changed = desc._replace(shape=(4, 3))
    assert desc._fields == ("name", "shape")
    assert desc._asdict() == {"name": "data", "shape": (2, 3)}
    assert (changed, changed.dtype, changed.layout) == (("data", (4, 3)), "int32", "TN")
    same = pickle.loads(pickle.dumps(changed))
    assert (same, same.dtype, same.layout) == (changed, "int32", "TN")


def test_a_matrix_of_scipy_is_an_array():
    sparse = pytest.importorskip("scipy.sparse")
    storage.warn_once.cache_clear()
    with pytest.warns(storage.DenseWarning, match="Arrays are dense"):
        array = mx.nd.array(sparse.csr_matrix(np.eye(3, dtype=np.float32)))
    np.testing.assert_array_equal(array.asnumpy(), np.eye(3))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            lambda: vars(mx.nd)["ones"](2).indices,
            "'NDArray' object has no attribute 'indices'. Convert the array: x.tostype(\"csr\") has this attribute.",
        ),
        (lambda: mx.nd.contrib.nothing, "mx.nd.contrib has no function 'nothing'"),
        (lambda: mx.sym.linalg.gemm3, "mx.sym.linalg has no function 'gemm3'. Did you mean mx.sym.linalg.gemm"),
    ],
)
def test_errors_have_the_names_that_a_script_has(asked: Any, said: str):
    with pytest.raises((AttributeError, NotImplementedError, mx.MXNetError)) as told:
        asked()
    assert str(told.value).startswith(said)


@pytest.mark.parametrize("make", [mx.nd.zeros, mx.nd.ones])
def test_unknown_arguments_of_arrays_are_refused(make: Any):
    with pytest.raises(mx.base.MXNetError, match="Cannot find argument 'bogus'"):
        make((2,), bogus=1)
    out = mx.nd.empty((2,))
    make((2,), out=out)
    assert len(set(out.asnumpy().tolist())) == 1


def test_the_switch_of_np_shape_takes_no_word():
    before = mx.util.is_np_shape()
    with pytest.raises(TypeError, match="an integer is required"):
        mx.util.set_np_shape("on")  # pyright: ignore[reportArgumentType]
    assert mx.util.is_np_shape() == before
