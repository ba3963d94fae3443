"""Attributes that scripts read on MXNet's objects; each has MXNet's value and counts where it is written."""

# Attributes of modules are MXNet's private ones.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false
# pyright: reportOptionalSubscript=false

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from symjax_nnvm.errors import TrainingError


def rows(size: int = 4) -> Any:
    """Ten rows with labels."""
    return mx.io.NDArrayIter(np.arange(20.0, dtype="float32").reshape(10, 2), np.arange(10.0) % 2, size)


def network() -> Any:
    """data (n, 2) → probabilities of two classes."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def bound(module: Any, *, optimizer: bool = False) -> Any:
    """A module that is bound, and perhaps has an optimiser."""
    module.bind(rows().provide_data, rows().provide_label)
    if optimizer:
        module.init_params()
        module.init_optimizer()
    return module


# -- iterators ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["resized", "prefetched"])
def test_an_iterator_over_iterators_keeps_its_batch(kind: str):
    it = mx.io.ResizeIter(rows(), 2) if kind == "resized" else mx.io.PrefetchingIter(rows())
    assert it.current_batch == (None if kind == "resized" else [None])
    assert it.iter_next()
    assert it.getdata() is it.current_batch.data
    assert it.getlabel() is it.current_batch.label
    assert (it.getpad(), it.getindex()) == (0, None)
    assert it.next() is it.current_batch
    assert it.current_batch.data[0].asnumpy()[0].tolist() == [8, 9]
    while it.iter_next():
        pass
    with pytest.raises(StopIteration):
        it.next()


def test_a_prefetching_iterator_has_what_it_was_made_with():
    renamed = [{"data": "d"}], [{"softmax_label": "l"}]
    it = mx.io.PrefetchingIter(rows(), *renamed)
    assert (it.n_iter, it.started, it.rename_data, it.rename_label) == (1, True, *renamed)
    assert [desc.name for desc in it.provide_data + it.provide_label] == ["d", "l"]


# The numbers are of MXNet 1.9.1.
@pytest.mark.parametrize(
    ("round_batch", "epochs"),
    [
        (True, [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 0, 1], 2)], [([2, 3, 4], 0), ([5, 6, 0], 1)]]),
        (False, [[([0, 1, 2], 0), ([3, 4, 5], 0), ([6, 4, 5], 2)]] * 2),
    ],
)
def test_batches_of_a_table_know_their_samples(tmp_path: Path, round_batch: bool, epochs: Any):
    file = tmp_path / "table.csv"
    file.write_text("\n".join(f"{2 * row},1" for row in range(7)))
    it = mx.io.CSVIter(data_csv=str(file), data_shape=(2,), batch_size=3, round_batch=round_batch)
    for expected in epochs:
        batches = list(it)
        assert [(batch.index.tolist(), batch.pad) for batch in batches] == expected
        assert all(batch.index.dtype == np.uint64 for batch in batches)
        assert [(batch.data[0].asnumpy()[:, 0] / 2).tolist() for batch in batches] == [
            numbers for numbers, _ in expected
        ]
        it.reset()
    it.iter_next()
    it.reset()
    assert it.next().index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_sentences_have_their_arrays(layout: str):
    it = mx.rnn.BucketSentenceIter([[1, 2, 3], [4, 5, 6], [7, 8]], 3, [3], layout=layout)
    assert it.major_axis == layout.find("N")
    batch = it.next()
    data, label = (each[0].asnumpy() for each in (it.nddata, it.ndlabel))
    if layout == "TN":
        data, label = data.T, label.T
    np.testing.assert_array_equal(batch.data[0].asnumpy(), data)
    np.testing.assert_array_equal(batch.label[0].asnumpy(), label)


def test_a_context_knows_the_codes_of_devices():
    known = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}
    assert known.items() <= mx.Context.devstr2type.items()
    assert {code: name for name, code in known.items()}.items() <= mx.Context.devtype2str.items()
    assert mx.Context(mx.Context.devtype2str[2]) == mx.gpu()


# -- metrics, initialisers, augmenters ---------------------------------------------------------------------------------


def test_parameters_of_metrics_count_where_they_are_written():
    metric = mx.metric.Accuracy()
    assert metric.axis == 1
    metric.axis = 0
    metric.update([mx.nd.array([0, 1])], [mx.nd.array([[0.9, 0.3], [0.4, 0.8]])])
    metric.update([mx.nd.array([0, 0])], [mx.nd.array([[0.9, 0.8], [0.4, 0.3]])])
    assert metric.get() == ("accuracy", 1.0)
    made = mx.metric.TopKAccuracy(2), mx.metric.Perplexity(None), mx.metric.CrossEntropy(), mx.metric.F1()
    assert (made[0].top_k, made[1].ignore_label, made[1].axis) == (2, None, -1)
    assert (made[2].eps, made[3].average) == (1e-12, "macro")
    assert mx.metric.PearsonCorrelation().average == "macro"


@pytest.mark.slow("compiles")
def test_counts_of_two_classes():
    metric = mx.metric.F1(average="micro")
    outputs = mx.nd.array([[0.3, 0.7], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1]])
    labels = mx.nd.array([1, 1, 0, 0])
    metric.update([labels], [outputs])
    metric.reset_local()
    metric.update([labels], [outputs])
    metric.update([labels[:3]], [outputs[:3]])
    counts = metric.metrics  # the numbers are of MXNet 1.9.1
    names = ("true_positives", "false_positives", "false_negatives", "true_negatives", "total_examples")
    assert [getattr(counts, name) for name in names] == [2, 2, 2, 1, 7]
    assert [getattr(counts, f"global_{name}") for name in names] == [3, 3, 3, 2, 11]
    scores = [getattr(counts, name) for name in ("precision", "recall", "fscore")]
    assert scores + [getattr(counts, f"global_{name}") for name in ("precision", "recall", "fscore")] == [0.5] * 6
    assert [counts.matthewscc(), counts.matthewscc(True)] == pytest.approx([-1 / 6, -0.1])
    macro = mx.metric.F1()
    macro.update([labels], [outputs])
    assert (macro.metrics.total_examples, macro.metrics.fscore, macro.metrics.matthewscc()) == (0, 0.0, 0.0)


def test_the_confusion_matrix_of_pcc():
    metric = mx.metric.PCC()
    assert (metric.k, metric.lcm.tolist(), metric.gcm.tolist()) == (2, [[0, 0], [0, 0]], [[0, 0], [0, 0]])
    metric.update([mx.nd.array([2, 1])], [mx.nd.array([2, 2])])
    assert (metric.k, metric.lcm[2].tolist()) == (3, [0, 1, 1])
    metric.reset()
    assert (metric.k, metric.gcm.shape, metric.num_inst) == (3, (3, 3), 0.0)
    assert np.isnan([metric.sum_metric, metric.global_sum_metric]).all()


def test_pcc_refuses_another_number_of_labels_than_outputs():
    with pytest.raises(TrainingError, match=r"metric 'pcc'; expected 2 labels; got shape \(3,\)"):
        mx.metric.create("pcc").update([mx.nd.array([0, 1, 1])], [mx.nd.array([[0.3, 0.7], [0.6, 0.4]])])


def test_parameters_of_initialisers_count_where_they_are_written():
    xavier = mx.init.Xavier()
    assert (xavier.rnd_type, xavier.factor_type, xavier.magnitude) == ("uniform", "avg", 3.0)
    assert (mx.init.MSRAPrelu().rnd_type, mx.init.Orthogonal().rand_type) == ("gaussian", "uniform")
    xavier.factor_type = "in"
    assert xavier.scale((2, 12)) == 0.5
    xavier.rnd_type = "none"
    with pytest.raises(mx.base.MXNetError, match="not one of the choices"):
        xavier("a_weight", mx.nd.zeros((2, 3)))


def test_augmenters_have_their_matrices():
    assert mx.image.ContrastJitterAug(0.1).coef.shape == mx.image.SaturationJitterAug(0.1).coef.shape == (1, 1, 3)
    hue = mx.image.HueJitterAug(0.1)
    np.testing.assert_allclose(hue.ityiq @ hue.tyiq, np.eye(3), atol=0.02)
    grey = mx.image.RandomGrayAug(1)
    assert grey.mat.shape == (3, 3)
    grey.mat[:] = np.eye(3)
    image = mx.nd.array(np.arange(12).reshape(2, 2, 3), dtype="uint8")
    np.testing.assert_array_equal(grey(image).asnumpy(), image.asnumpy())


# -- modules -----------------------------------------------------------------------------------------------------------


def test_a_module_before_bind():
    module = mx.mod.Module(network())
    assert (module._exec_group, module._data_shapes, module._label_shapes, module._grad_req) == (None,) * 4
    assert (module._update_on_kvstore, module._preload_opt_states, module._params_dirty) == (None, None, False)
    assert (module._work_load_list, module._group2ctxs, module._compression_params) == ([1], None, None)


@pytest.mark.parametrize("contexts", [1, 2])
def test_who_updates(contexts: int):
    module = bound(mx.mod.Module(network(), context=[mx.cpu(i) for i in range(contexts)]), optimizer=True)
    assert module._update_on_kvstore is (contexts > 1)
    assert module._work_load_list == [1] * contexts
    other = mx.mod.Module(network(), context=[mx.cpu(i) for i in range(contexts)])
    other.bind(rows().provide_data, rows().provide_label, shared_module=module)
    assert (other._kvstore, other._update_on_kvstore) == (module._kvstore, module._update_on_kvstore)


@pytest.mark.parametrize("kind", ["Module", "BucketingModule"])
def test_a_bind_that_is_reset_leaves_the_parameters(kind: str):
    module = mx.mod.Module(network())
    if kind == "BucketingModule":
        module = mx.mod.BucketingModule(lambda key: (network(), ["data"], ["softmax_label"]), 3)
    bound(module).init_params(mx.init.One())
    module._reset_bind()
    assert not module.binded
    bound(module)
    assert module.get_params()[0]["fc_weight"].asnumpy().tolist() == [[1, 1], [1, 1]]


def test_the_executors_of_a_module_run():
    module = mx.mod.Module(network())
    module.bind(rows().provide_data, rows().provide_label, inputs_need_grad=True)
    module.init_params(mx.init.One())
    group = module._exec_group
    assert (group.data_layouts, group.label_layouts, group.output_layouts) == ([0], [0], [0])
    assert (group.group2ctxs, group.logger, group.workload) == ([None], module.logger, [1])
    group.forward(rows().next(), is_train=True)
    group.backward()
    assert group.get_outputs()[0].asnumpy().tolist() == [[0.5, 0.5]] * 4
    assert group.get_input_grads()[0].shape == (4, 2)
    metric = mx.metric.Accuracy()
    group.update_metric(metric, rows().next().label)
    assert metric.num_inst == 4
    args, states = module.get_params()
    group.set_params({name: value * 2 for name, value in args.items()}, states)
    group.get_params(args, states)
    assert args["fc_weight"].asnumpy().tolist() == [[2, 2], [2, 2]]
    module._params_dirty = True
    module._sync_params_from_devices()
    assert (module._params_dirty, module._arg_params["fc_weight"].asnumpy().tolist()) == (False, [[2, 2], [2, 2]])
    assert bound(mx.mod.Module(network()))._exec_group.input_grad_arrays is None


def test_a_bucketing_module_before_and_after_bind():
    given = {"context": [mx.cpu(0), mx.cpu(1)], "work_load_list": [1, 3], "compression_params": {"type": "2bit"}}
    module = mx.mod.BucketingModule(lambda key: (network(), ["data"], ["softmax_label"]), 3, **given)
    assert (module._buckets, module._curr_module, module._curr_bucket_key, module._grad_req) == ({}, None, None, None)
    assert (module._context, module._work_load_list) == (given["context"], [1, 3])
    assert (module._compression_params, module._group2ctxs) == ({"type": "2bit"}, None)
    assert (module._fixed_param_names, module._state_names, module._params_dirty) == ([], [], False)
    bound(module)
    assert (list(module._buckets), module._curr_bucket_key, module._grad_req) == ([3], 3, "write")
    assert module._curr_module._exec_group.slices == [slice(0, 1), slice(1, 4)]
    assert module._call_sym_gen(3)[1] == ["data"]


def test_modules_without_states():
    chain = mx.mod.SequentialModule().add(mx.mod.Module(network()), take_labels=True)
    bound(chain).init_params()
    assert chain.get_states(merge_multi_context=False) == []
    chain.set_states()
    with pytest.raises(AssertionError):
        chain.set_states(value=1)


def test_a_module_of_ones_own_says_what_is_missing():
    module = mx.mod.PythonModule(["data"], ["softmax_label"], ["out"])
    with pytest.raises(NotImplementedError, match="must define forward"):
        module.forward(rows().next())


def test_a_feed_forward_model_has_its_contexts():
    with pytest.warns(DeprecationWarning, match="FeedForward"):
        model = mx.model.FeedForward(network())
    assert (model.ctx, model.argument_checked) == ([mx.cpu(0)], True)


# -- operators in Python, arrays ---------------------------------------------------------------------------------------


def test_what_an_operator_in_python_says_of_its_arrays():
    prop = mx.operator.CustomOpProp()
    assert prop.declare_backward_dependency([1], [2, 3], [4]) == [1, 2, 3, 4]
    assert mx.operator.CustomOpProp(need_top_grad=False).declare_backward_dependency([1], [2], [3]) == [2, 3]
    assert prop.infer_storage_type(["default"]) == (["default"], ["default"], [])
    stypes = prop.infer_storage_type_backward(["default"], ["csr"], ["default"], ["undefined"], [])
    assert stypes == (["default"], ["default"], ["default"], ["default"], [])
    for asked in (
        lambda: prop.infer_storage_type(["csr"]),
        lambda: prop.infer_storage_type_backward(["default"], [], [], ["row_sparse"], []),
    ):
        with pytest.raises(AssertionError):
            asked()
    with pytest.warns(UserWarning, match="deprecated"):
        old = mx.operator.NDArrayOp(need_top_grad=False)
    assert old.declare_backward_dependency([1], [2], [3]) == [2, 3]


def test_parts_of_an_array_are_written():
    bounds = (0, 0, None), (1, 1, None), (None, None, None)
    x = mx.nd.ones((2, 2, 2))
    assert x.slice_assign_scalar(0, *bounds) is x
    assert x.asnumpy().tolist() == [[[0, 0], [1, 1]], [[1, 1], [1, 1]]]
    assert x.slice_assign(mx.nd.array([[[5, 6]]]), *bounds)[0, 0].asnumpy().tolist() == [5, 6]


def test_a_modules_parameters_are_those_that_a_subclass_gives_it() -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, no_bias=True, name="fc")
    module: Any = mx.mod.Module(mx.sym.BatchNorm(net, name="bn"), label_names=None)
    assert (module._arg_params, module._aux_params) == (None, None)
    args = {"fc_weight": mx.nd.ones((2, 3)), "bn_gamma": mx.nd.ones(2), "bn_beta": mx.nd.zeros(2)}
    module._arg_params, module._aux_params = args, {"bn_moving_mean": mx.nd.ones(2), "bn_moving_var": mx.nd.ones(2)}
    module.params_initialized = True  # as `load` of a subclass does
    assert sorted(module._arg_params) == sorted(args)
    module.bind([("data", (4, 3))], for_training=False)
    args, states = module.get_params()
    assert args["fc_weight"].asnumpy().tolist() == [[1, 1, 1]] * 2
    assert states["bn_moving_mean"].asnumpy().tolist() == [1, 1]
    module._arg_params = {name: value * 3 for name, value in args.items()}
    assert module.get_params()[0]["fc_weight"].asnumpy().tolist() == [[3, 3, 3]] * 2


def test_batches_are_rows_of_the_arrays_that_an_iterator_shows() -> None:
    given = mx.nd.array([[0.0], [1.0], [2.0], [3.0]])
    rows: Any = mx.io.NDArrayIter(given, np.zeros(4), batch_size=2)
    rows.data_list[1][:] = [5, 6, 7, 8]
    given[0] = 9
    batch = rows.next()
    assert (batch.data[0].asnumpy().tolist(), batch.label[0].asnumpy().tolist()) == ([[9], [1]], [5, 6])
    rows.data = [("data", mx.nd.array([[4.0], [5.0], [6.0], [7.0]]))]
    assert rows.next().data[0].asnumpy().tolist() == [[6], [7]]
    shuffled: Any = mx.io.NDArrayIter(given, np.zeros(4), batch_size=4, shuffle=True)
    shuffled.label[0][1][:] = shuffled.data[0][1][:, 0]
    batch = shuffled.next()
    assert batch.label[0].asnumpy().tolist() == batch.data[0].asnumpy()[:, 0].tolist()
    assert given.asnumpy()[:, 0].tolist() == [9, 1, 2, 3]


def test_a_subclass_of_the_sentences_gives_them_labels_of_its_own() -> None:
    class Backwards(mx.rnn.BucketSentenceIter):
        def reset(self) -> None:
            self.curr_idx = 0
            self.nddata, self.ndlabel = [], []
            for bucket in self.data:
                self.nddata.append(mx.nd.array(bucket, dtype=self.dtype))
                self.ndlabel.append(mx.nd.array(bucket[:, ::-1], dtype=self.dtype))

    for layout in ("NT", "TN"):
        batch = Backwards([[1, 2, 3], [4, 5, 6]], 2, buckets=[3], layout=layout).next()
        data, label = (each[0].asnumpy() for each in (batch.data, batch.label))
        assert data.shape == ((2, 3) if layout == "NT" else (3, 2))
        assert (np.flip(data, 1 if layout == "NT" else 0) == label).all()
