"""Mistakes that MXNet 1.9.1 refuses are refused, in errors of the library; and those that are taken, on purpose."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowering import mx

nd, gluon, metric = mx.nd, mx.gluon, mx.metric
optimizers: Any = mx.optimizer

A = nd.array(np.arange(12).reshape(3, 4))
V = nd.array([1.0, 2, 3])
IMAGES = nd.ones((1, 2, 4, 4))
PAIR = nd.ones((2,))
Mistake = Callable[[], object]
DENSE = pytest.mark.filterwarnings("ignore::lowering.mx.ndarray.storage_types.DenseWarning")


def made(block: Any) -> Any:
    block.initialize()
    return block


def of(array: Any, dtype: str) -> Any:
    return array.astype(dtype)


MIXED: dict[str, Mistake] = {
    "add": lambda: A + of(A, "float16"),
    "compare": lambda: of(A, "int32") < A,
    "power": lambda: nd.power(A, of(A, "int32")),
    "logical_and": lambda: nd.broadcast_logical_and(A, of(A, "int32")),
    "stack": lambda: nd.stack(A, of(A, "int32")),
    "concat": lambda: nd.concat(A, of(A, "float16")),
    "dot": lambda: nd.dot(A, of(nd.ones((4, 2)), "int32")),
    "batch_dot": lambda: nd.batch_dot(nd.ones((1, 2, 3)), of(nd.ones((1, 3, 2)), "float16")),
    "gemm2": lambda: nd.linalg.gemm2(A, of(nd.ones((4, 2)), "float16")),
    "FullyConnected, whole data": lambda: nd.FullyConnected(
        of(A, "int32"), nd.ones((2, 4)), no_bias=True, num_hidden=2
    ),
    "FullyConnected, half data": lambda: nd.FullyConnected(
        of(A, "float16"), nd.ones((2, 4)), no_bias=True, num_hidden=2
    ),
    "FullyConnected, half bias": lambda: nd.FullyConnected(A, nd.ones((2, 4)), of(PAIR, "float16"), num_hidden=2),
    "Convolution": lambda: nd.Convolution(
        IMAGES, nd.ones((3, 2, 2, 2)), of(nd.ones((3,)), "float16"), kernel=(2, 2), num_filter=3
    ),
    "LayerNorm": lambda: nd.LayerNorm(of(A, "float16"), nd.ones((4,)), nd.ones((4,))),
    "BatchNorm": lambda: nd.BatchNorm(of(IMAGES, "int32"), PAIR, PAIR, PAIR, PAIR),
    "SoftmaxOutput": lambda: nd.SoftmaxOutput(A, of(V, "int32")),
    "LinearRegressionOutput": lambda: nd.LinearRegressionOutput(A, of(A, "int32")),
    "softmax_cross_entropy": lambda: nd.softmax_cross_entropy(A, of(V, "int32")),
    "sgd_update": lambda: nd.sgd_update(A.copy(), of(A, "float16"), lr=0.1),
    "adam_update": lambda: nd.adam_update(A.copy(), of(A, "float16"), A.copy(), A.copy(), lr=0.1),
    "Pooling of whole numbers": lambda: nd.Pooling(of(IMAGES, "int32"), kernel=(2, 2)),
    "Dropout of whole numbers": lambda: nd.Dropout(of(A, "int32")),
    "L2Normalization of whole numbers": lambda: nd.L2Normalization(of(A, "int32")),
    "UpSampling of whole numbers": lambda: nd.UpSampling(of(IMAGES, "int32"), scale=2, sample_type="nearest"),
    "Dense": lambda: made(gluon.nn.Dense(2))(of(A, "int32")),
    "gluon LayerNorm": lambda: made(gluon.nn.LayerNorm())(of(A, "float16")),
    "LSTM": lambda: made(gluon.rnn.LSTM(3))(of(nd.ones((3, 2, 4)), "int32")),
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("door", MIXED)
def test_dtypes_that_mxnet_does_not_mix_are_refused(door: str):
    with pytest.raises(mx.MXNetError, match="Incompatible attr|only support|dtype"):
        MIXED[door]()


FITTING: dict[str, Mistake] = {
    "Embedding of whole numbers": lambda: nd.Embedding(of(A, "int32"), nd.ones((12, 2)), input_dim=12, output_dim=2),
    "take": lambda: nd.take(A, of(V, "int32")),
    "pick": lambda: nd.pick(A, of(V, "int32")),
    "where": lambda: nd.where(of(A, "int32"), A, A),
    "BatchNorm of halves": lambda: nd.BatchNorm(of(IMAGES, "float16"), PAIR, PAIR, PAIR, PAIR),
    "SequenceMask": lambda: nd.SequenceMask(nd.ones((3, 2, 4)), of(PAIR, "int32"), use_sequence_length=True),
    "CTCLoss": lambda: nd.CTCLoss(nd.ones((4, 2, 5)), of(nd.ones((2, 3)), "int32")),
    "SoftmaxCELoss": lambda: gluon.loss.SoftmaxCELoss()(A, of(V, "int32")),
    "reshape_like": lambda: nd.reshape_like(A, of(nd.ones((4, 3)), "int32")),
    "mp_sgd_update": lambda: nd.mp_sgd_update(of(A, "float16"), of(A, "float16"), A.copy(), lr=0.1),
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("door", FITTING)
def test_dtypes_that_an_operator_takes_side_by_side_are_taken(door: str):
    FITTING[door]()


def test_a_hybridised_block_refuses_dtypes_recorded_and_not():
    block = made(gluon.nn.Dense(2))
    block.hybridize()
    assert block(A).shape == (3, 2)
    for array in (of(A, "int32"), of(A, "float16")):
        with pytest.raises(mx.MXNetError, match="Incompatible attr in node dense"):
            block(array)
        with mx.autograd.record(), pytest.raises(mx.MXNetError, match="Incompatible attr"):
            block(array)
    assert block(A).shape == (3, 2)


def test_a_refused_dtype_says_what_to_cast():
    block, pixels = made(gluon.nn.Dense(2)), of(A, "uint8")
    block.hybridize()
    with pytest.raises(mx.MXNetError, match=r'The network computes in float32: pass data.astype\("float32"\)'):
        block(pixels)


WORDS: dict[str, tuple[Mistake, str]] = {
    "add": (
        lambda: A + of(A, "int32"),
        r'variable .rhs.. All inputs have the dtype float32: pass rhs.astype\("float32',
    ),
    "Concat": (lambda: nd.concat(A, V, dim=0), "variable 'arg1'"),
    "twice the same": (lambda: nd.where(A, V, V), "variable 'x'"),
    "FullyConnected": (
        lambda: nd.FullyConnected(A, nd.ones((2, 3)), no_bias=True, num_hidden=2),
        r"variable 'weight'. With these parameters 'data' must have shape \(\?, 3\)",
    ),
    "Dense": (lambda: made(gluon.nn.Dense(2, in_units=3))(A), "variable 'weight'.*'data' must have"),
    "sum": (lambda: A.sum(axis=2), r"got 2; in operator 'sum', node 'sum0'; got input shapes \(3, 4\)\.$"),
}


@pytest.mark.parametrize("door", WORDS)
def test_an_eager_error_has_the_names_of_the_operators_inputs(door: str):
    mistake, words = WORDS[door]
    with pytest.raises(mx.MXNetError, match=words):
        mistake()


def test_an_array_stays_where_it_is():
    with pytest.raises(AttributeError):
        A.context = mx.cpu(1)  # pyright: ignore[reportAttributeAccessIssue]
    assert A.context == mx.cpu()


def test_a_seed_of_any_size_draws():
    try:
        mx.random.seed(2**70 + 5)
        assert nd.random.uniform(shape=(2,)).shape == (2,)
    finally:
        mx.random.seed(0)


def test_64_bits_that_are_off_mix_with_32_deviation():
    with pytest.warns(UserWarning, match="became float32"):
        wide = nd.ones((3, 4), dtype="float64")
    assert (A + wide).dtype == np.float32
    with pytest.warns(UserWarning, match="runs in 32 bits"):
        whole = nd.Cast(A, dtype="int64")
    assert (whole + of(A, "int32")).dtype == np.int32


def loss_of(name: str, label: float) -> float:
    computed = metric.create(name)
    computed.update([nd.array([label])], [nd.array([[0.1, 0.9]])])
    return computed.get()[1]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["ce", "nll_loss"])
def test_labels_that_are_no_class_are_told_at_get_deviation(name: str):
    for label in (2.0, 5.0, -3.0, np.nan):
        with pytest.raises(IndexError, match="1 labels are not classes") as raised:
            loss_of(name, label)
        assert isinstance(raised.value, mx.MXNetError)
    assert loss_of(name, -1.0) == loss_of(name, 1.0) == pytest.approx(-np.log(0.9))
    assert loss_of(name, -2.0) == loss_of(name, 0.0) == loss_of(name, 0.5) == pytest.approx(-np.log(0.1))


def test_a_metric_that_was_reset_forgets_a_wrong_label():
    computed = metric.create("ce")
    for label in (5.0, 1.0):
        computed.reset()
        computed.update([nd.array([label])], [nd.array([[0.1, 0.9]])])
    assert computed.get()[1] == pytest.approx(-np.log(0.9))


def test_perplexity_takes_the_nearest_class():
    def perplexity(label: float, ignored: float | None = None) -> float:
        computed = metric.Perplexity(ignored)  # pyright: ignore[reportArgumentType]
        computed.update([nd.array([label])], [nd.array([[0.1, 0.9]])])
        return computed.get()[1]

    assert perplexity(-1.0) == perplexity(-7.0) == pytest.approx(10.0)
    assert perplexity(5.0) == pytest.approx(1 / 0.9)
    assert np.isnan(perplexity(-1.0, -1.0)) or perplexity(-1.0, -1.0) == 1.0


PADDED: dict[str, Mistake] = {
    "max": lambda: nd.Pooling(IMAGES, kernel=(2, 2), pad=(2, 2)),
    "avg": lambda: nd.Pooling(IMAGES, kernel=(2, 2), pad=(3, 3), pool_type="avg"),
    "one axis": lambda: nd.Pooling(IMAGES, kernel=(2, 3), pad=(2, 2)),
    "full": lambda: nd.Pooling(IMAGES, kernel=(2, 2), pad=(2, 2), pooling_convention="full"),
    "symbol": lambda: mx.sym.Pooling(mx.sym.var("x"), kernel=(2, 2), pad=(2, 2)),
    "MaxPool2D": lambda: gluon.nn.MaxPool2D(2, padding=2)(IMAGES),
    "AvgPool1D": lambda: gluon.nn.AvgPool1D(2, padding=2)(nd.ones((1, 2, 4))),
}


@pytest.mark.parametrize("door", PADDED)
def test_padding_as_large_as_the_window_is_refused(door: str):
    with pytest.raises(mx.MXNetError, match="expected less than kernel"):
        PADDED[door]()


def test_sums_have_windows_of_padding_alone():
    x = nd.ones((1, 1, 4, 4))
    sums = nd.Pooling(x, kernel=(2, 2), pad=(2, 0), pool_type="sum")
    assert sums[0, 0, :, 0].asnumpy().tolist() == [0, 2, 4, 4, 4, 2, 0]
    norms = nd.Pooling(x, kernel=(2, 2), pad=(2, 0), pool_type="lp", p_value=2)
    np.testing.assert_allclose(norms[0, 0, :, 0].asnumpy(), [0, 2**0.5, 2, 2, 2, 2**0.5, 0], rtol=1e-6)


def test_labels_of_another_name_than_the_networks_are_refused():
    """Labels of zeros would be learnt. A network that reads none takes any."""
    layer = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
    data, labels = [("data", (4, 3))], [("lab", (4,))]
    batches = mx.io.NDArrayIter(np.ones((4, 3)), np.zeros(4), 4, label_name="lab")
    net = mx.sym.SoftmaxOutput(layer, name="softmax")
    for door in (
        lambda: mx.mod.Module(net).bind(data, labels),
        lambda: mx.mod.Module(net).fit(batches, num_epoch=1, eval_metric="loss"),
        lambda: mx.mod.BucketingModule(lambda _: (net, ["data"], ["softmax_label"]), 1).bind(data, labels),
    ):
        with pytest.raises(mx.MXNetError, match="label_names.*softmax_label.*lab.*label_name='softmax_label'"):
            door()
    mx.mod.Module(layer, label_names=None).bind(data, labels, for_training=False)


def test_a_head_gradient_has_the_dtype_of_its_head():
    x = nd.ones(2)
    x.attach_grad()
    with mx.autograd.record():
        y = x * 2
    with pytest.raises(mx.MXNetError, match="dtype of its head.*float32.*float16"):
        y.backward(nd.ones(2, dtype="float16"))


def test_bounds_of_clip_that_are_results_need_their_bits():
    x = nd.array([5], dtype="int32")
    assert nd.clip(x, -5, 2**31).asscalar() == 5
    with pytest.raises(mx.MXNetError, match="64-bit mode is off"):
        nd.clip(x, 2**31, 2**31 + 5)


def test_the_norm_of_one_array_is_clipped():
    x = nd.ones((2, 3))
    assert mx.gluon.utils.clip_global_norm(x, 1.0) == pytest.approx(6**0.5)  # pyright: ignore[reportArgumentType]
    assert nd.norm(x).asscalar() == pytest.approx(1.0)


def test_global_windows_and_the_first_pooling_take_any_padding():
    assert nd.Pooling(IMAGES, kernel=(2, 2), pad=(2, 2), global_pool=True).shape == (1, 2, 1, 1)
    assert nd.Pooling_v1(IMAGES, kernel=(2, 2), pad=(2, 2)).shape == (1, 2, 7, 7)


def module() -> mx.mod.Module:
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    bound = mx.mod.Module(net)
    bound.bind([("data", (2, 3))], [("softmax_label", (2,))])
    bound.init_params()
    return bound


def run(data: Any, label: Any = None) -> None:
    module().forward(SimpleNamespace(data=data, label=label))  # pyright: ignore[reportArgumentType]


DATA, LABEL = nd.ones((2, 3)), nd.zeros((2,))


def updated(gradient: Any, state: Any = PAIR, **params: Any) -> None:
    optimizers.SGD(**{"momentum": 0.5, **params}).update(0, nd.ones((2,)), gradient, state)


def pushed(value: Any) -> None:
    store = mx.kv.create()
    store.init(0, PAIR)
    store.push(0, value)


def differentiated(head_gradient: Any) -> None:
    x = nd.ones((2,))
    x.attach_grad()
    with mx.autograd.record():
        y = x * 2
    y.backward(head_gradient)


OTHERS: dict[str, tuple[Mistake, type[Exception]]] = {
    "a batch of no arrays": (lambda: run([], [LABEL]), ValueError),
    "a batch of too many arrays": (lambda: run([DATA, DATA], [LABEL]), ValueError),
    "a batch of too many labels": (lambda: run([DATA], [LABEL, LABEL]), ValueError),
    "a batch that is an array": (lambda: run(DATA, [LABEL]), TypeError),
    "a batch of a number": (lambda: run([5], [LABEL]), ValueError),
    "a batch without samples": (lambda: run([nd.zeros((0, 3))], [nd.zeros((0,))]), ValueError),
    "zeros(None)": (lambda: nd.zeros(None), TypeError),
    "zeros((2.5,))": (lambda: nd.zeros((2.5,)), TypeError),
    "zeros('ab')": (lambda: nd.zeros("ab"), TypeError),
    "zeros of 2⁶⁰": (lambda: nd.zeros((2**40, 2**20)), mx.MXNetError),
    "zeros of no dtype": (lambda: nd.zeros((2,), dtype="abc"), TypeError),
    "zeros of complex numbers": (lambda: nd.zeros((2,), dtype="complex64"), TypeError),
    "full of a word": (lambda: nd.full((2,), "a"), TypeError),
    "arange of step 0": (lambda: nd.arange(0, 10, 0), mx.MXNetError),
    "arange(None)": (lambda: nd.arange(None), mx.MXNetError),
    "eye(-1)": (lambda: nd.eye(-1), ValueError),
    "linspace of -2": (lambda: nd.linspace(0, 1, -2), ValueError),
    "gpu(-1)": (lambda: nd.ones((1,), ctx=mx.gpu(-1)), mx.MXNetError),
    "gpu('a')": (lambda: mx.gpu("a"), mx.MXNetError),  # pyright: ignore[reportArgumentType]
    "from_dlpack(5)": (lambda: nd.from_dlpack(5), AssertionError),
    "from_numpy of a list": (lambda: nd.from_numpy([1, 2]), AssertionError),  # pyright: ignore[reportArgumentType]
    "load(5)": (lambda: nd.load(5), TypeError),  # pyright: ignore[reportArgumentType]
    "save(5)": (lambda: nd.save(5, A), TypeError),  # pyright: ignore[reportArgumentType]
    "split_v2 in unequal parts": (lambda: nd.split_v2(A, 5), ValueError),
    "concatenate of an array": (lambda: nd.concatenate(A), AssertionError),  # pyright: ignore[reportArgumentType]
    "Conv2DLSTMCell of two sizes": (lambda: gluon.contrib.rnn.Conv2DLSTMCell((2, 4), 2, 3, 3), AssertionError),
    "mark_variables without gradients": (lambda: mx.autograd.mark_variables([A], []), mx.MXNetError),
    "mark_variables of a number": (lambda: mx.autograd.mark_variables(5, 5), AssertionError),
    "get_symbol(5)": (lambda: mx.autograd.get_symbol(5), AssertionError),  # pyright: ignore[reportArgumentType]
    "kv.init of too few values": (lambda: mx.kv.create().init([1, 2], [A]), mx.MXNetError),
    "kv.init(3, 5)": (lambda: mx.kv.create().init(3, 5), TypeError),
    "optimizer.create(5)": (lambda: mx.optimizer.create(5), mx.MXNetError),  # pyright: ignore[reportArgumentType]
    "a learning rate that is a word": (lambda: mx.optimizer.create("sgd", learning_rate="a"), mx.MXNetError),
    "a momentum that is a word": (lambda: mx.optimizer.create("sgd", momentum="a"), mx.MXNetError),
    "exponential numbers of mean 0": (lambda: nd.random.exponential(0, shape=(2,)), ValueError),
    "Dense('a')": (lambda: gluon.nn.Dense("a"), TypeError),  # pyright: ignore[reportArgumentType]
    "Xavier of a negative magnitude": (lambda: mx.init.Xavier(magnitude=-1), ValueError),
    "a crop outside of the image": (lambda: mx.image.fixed_crop(nd.ones((4, 4, 3)), 9, 9, 2, 2), mx.MXNetError),
    "Accuracy(axis=5)": (lambda: metric.Accuracy(axis=5).update([LABEL], [nd.ones((2, 2))]), mx.MXNetError),
    "Perplexity(axis=5)": (lambda: metric.Perplexity(None, axis=5).update([LABEL], [nd.ones((2, 2))]), mx.MXNetError),
    "Accuracy('vacc')": (lambda: metric.Accuracy("vacc"), mx.MXNetError),  # pyright: ignore[reportArgumentType]
    "Accuracy(axis=1.0)": (lambda: metric.Accuracy(axis=1.0), mx.MXNetError),  # pyright: ignore[reportArgumentType]
    "Accuracy(axis=[1])": (lambda: metric.Accuracy(axis=[1]), mx.MXNetError),  # pyright: ignore[reportArgumentType]
    "Accuracy of all axes": (lambda: metric.Accuracy(axis=None).update([LABEL], [nd.ones((2, 2))]), ValueError),
    "acc of an axis by its name": (lambda: metric.create("acc", axis="x"), mx.MXNetError),
    "Perplexity(axis='x')": (lambda: metric.Perplexity(None, axis="x"), mx.MXNetError),  # pyright: ignore[reportArgumentType]
    "Perplexity('x')": (lambda: metric.Perplexity("x"), TypeError),  # pyright: ignore[reportArgumentType]
    "CrossEntropy('x')": (lambda: metric.CrossEntropy("x"), TypeError),  # pyright: ignore[reportArgumentType]
    "nll_loss of eps None": (lambda: metric.create("nll_loss", eps=None), TypeError),
    "TopKAccuracy('2')": (lambda: metric.TopKAccuracy("2"), TypeError),  # pyright: ignore[reportArgumentType]
    "TopKAccuracy(2.5)": (lambda: metric.TopKAccuracy(2.5), TypeError),  # pyright: ignore[reportArgumentType]
    "CompositeEvalMetric('acc')": (lambda: metric.CompositeEvalMetric("acc"), AssertionError),
    "CompositeEvalMetric(3)": (lambda: metric.CompositeEvalMetric(3), mx.MXNetError),
    "a metric of a label that no batch has": (
        lambda: metric.Accuracy(label_names=["z"]).update_dict({"label": LABEL}, {"out": nd.ones((2, 2))}),
        KeyError,
    ),
    "Speedometer('x')": (lambda: mx.callback.Speedometer("x"), TypeError),  # pyright: ignore[reportArgumentType]
    "top_k of more than there are": (lambda: metric.TopKAccuracy(5).update([LABEL], [nd.ones((2, 2))]), ValueError),
    "top_k of too many labels": (lambda: metric.TopKAccuracy(2).update([V], [nd.ones((2, 2))]), ValueError),
    "mae of other shapes": (lambda: metric.MAE().update([PAIR], [V]), ValueError),
    "mse of other shapes": (lambda: metric.MSE().update([PAIR], [V]), ValueError),
    "pearsonr of other shapes": (lambda: metric.create("pearsonr").update([PAIR], [V]), ValueError),
    "a metric of None": (lambda: metric.Accuracy().update(None, None), TypeError),
    "CustomMetric(5)": (lambda: metric.CustomMetric(5), TypeError),  # pyright: ignore[reportArgumentType]
    "a metric of numbers": (lambda: metric.Accuracy().update([5], [5]), AssertionError),  # pyright: ignore
    "out= of another dtype": (lambda: nd.relu(A, out=of(A, "int32")), mx.MXNetError),
    "Cast into another dtype": (lambda: nd.Cast(A, dtype="int32", out=A.copy()), mx.MXNetError),
    "out= without arrays": (lambda: nd.relu(A, out=[]), mx.MXNetError),
    "out= of one array for two": (lambda: nd.split(A, num_outputs=2, out=A[:, :2].copy()), mx.MXNetError),
    "slice_assign of too few steps": (lambda: A.copy().slice_assign(A, (0, 0), (2, 2), (1,)), TypeError),
    "a label of another shape": (lambda: run([DATA], [nd.zeros((2, 2))]), ValueError),
    "a gradient of another dtype": (lambda: updated(of(PAIR, "float16")), mx.MXNetError),
    "a gradient of a number": (lambda: updated(5), AssertionError),
    "a state of another shape": (lambda: updated(PAIR, V), mx.MXNetError),
    "updates of too few states": (lambda: optimizers.SGD().update([0], [PAIR], [PAIR], []), TypeError),
    "rescale_grad=None": (lambda: optimizers.SGD(rescale_grad=None), mx.MXNetError),
    "a schedule of words": (lambda: updated(PAIR, None, lr_scheduler=lambda _: "a"), mx.MXNetError),
    "param_idx2name of a list": (lambda: optimizers.SGD(param_idx2name=["a"]), TypeError),
    "kv.init(None)": (lambda: mx.kv.create().init(None, A), TypeError),
    "kv.push of a number": (lambda: pushed(5), AssertionError),
    "kv.push of nothing": (lambda: pushed([]), mx.MXNetError),
    "row_sparse_pull without rows": (lambda: mx.kv.create().row_sparse_pull(0, A), AssertionError),
    "set_updater(5)": (lambda: mx.kv.create().set_updater(5), TypeError),  # pyright: ignore[reportArgumentType]
    "set_gradient_compression(5)": (lambda: mx.kv.create().set_gradient_compression(5), TypeError),
    "a csr matrix of another shape": (lambda: nd.sparse.csr_matrix(([1], [0]), shape=(2, 2)), TypeError),
    "seed of no device": (lambda: mx.random.seed(1, ctx="a"), mx.MXNetError),
    "samples of unlike parts": (lambda: list(gluon.data.DataLoader([(1, 2), (3,)], 2)), ValueError),
    "initial values of a negative scale": (lambda: mx.init.Uniform(-1), ValueError),
    "initial values of no scale": (lambda: mx.init.Normal(None), TypeError),  # pyright: ignore[reportArgumentType]
    "an orthogonal scale of a word": (lambda: mx.init.Orthogonal(scale="a"), TypeError),  # pyright: ignore
    "DropoutCell('a')": (lambda: mx.rnn.DropoutCell("a"), TypeError),  # pyright: ignore[reportArgumentType]
    "unroll without inputs": (lambda: mx.rnn.LSTMCell(2).unroll(2, None), mx.MXNetError),
    "unroll of an empty list": (lambda: made(gluon.rnn.LSTMCell(2)).unroll(2, []), ValueError),
    "a cell with a state too many": (lambda: made(gluon.rnn.LSTMCell(2))(DATA, [PAIR] * 3), ValueError),
    "a width that is not whole": (lambda: mx.image.imresize(nd.ones((4, 4, 3)), 1.5, 2), TypeError),  # pyright: ignore
    "a width that is a word": (lambda: mx.image.imresize(nd.ones((4, 4, 3)), "a", 2), TypeError),  # pyright: ignore
    "an image of 10¹⁸ pixels": (lambda: mx.image.imresize(nd.ones((4, 4, 3)), 10**9, 10**9), ValueError),
    "DataDesc of no shape": (lambda: mx.io.DataDesc("a", None), TypeError),  # pyright: ignore[reportArgumentType]
    "DataDesc of no dtype": (lambda: mx.io.DataDesc("a", (2,), "zz"), TypeError),
    "a layer in no dtype": (lambda: gluon.nn.Dense(2).cast("zz"), TypeError),
    "a BatchNorm in no dtype": (lambda: gluon.nn.BatchNorm().cast("zz"), TypeError),
    "a parameter of no dtype": (lambda: gluon.nn.Embedding(2, 2, dtype="zz"), TypeError),
    "an iterator of a number": (lambda: mx.io.NDArrayIter({"a": np.ones(())}), TypeError),
    "foreach of a number": (lambda: nd.contrib.foreach(lambda row, s: (row, s), 5, []), AssertionError),
    "a Function without forward": (lambda: mx.autograd.Function()(A), NotImplementedError),
    "gradients of a module's inputs in inference": (
        lambda: module().bind([("data", (2, 3))], None, False, True, force_rebind=True),
        AssertionError,
    ),
    "grad_req=5": (lambda: module().bind([("data", (2, 3))], force_rebind=True, grad_req=5), TypeError),
    "shared_module=5": (
        lambda: module().bind([("data", (2, 3))], force_rebind=True, shared_module=5),  # pyright: ignore
        TypeError,
    ),
    "a drawing of a number": (lambda: mx.viz.plot_network(5), TypeError),  # pyright: ignore[reportArgumentType]
    "a head gradient of another dtype": (lambda: differentiated(of(PAIR, "int32")), mx.MXNetError),
    "a head gradient of NumPy's": (lambda: differentiated(np.ones(2)), AssertionError),
}


@pytest.mark.filterwarnings("ignore:Arrays are dense here")
@pytest.mark.parametrize("mistake", OTHERS)
def test_a_mistake_is_told_by_the_library(mistake: str):
    make, kind = OTHERS[mistake]
    with pytest.raises(kind) as raised:
        make()
    assert isinstance(raised.value, mx.MXNetError)


@pytest.mark.slow("compiles")
def test_an_axis_of_a_metric_may_be_a_number_in_words_or_none_for_one_sample():
    predictions = nd.array([[0.1, 0.9]])
    for axis in ("1", None, np.int64(-1)):
        computed = metric.Accuracy(axis=axis)  # pyright: ignore[reportArgumentType]
        computed.update([nd.array([1])], [predictions])
        assert computed.get() == ("accuracy", 1.0)


def test_a_metric_with_a_wrong_axis_spoils_none_with_an_equal_one():
    with pytest.raises(mx.MXNetError, match="wrong axis; expected a whole number, such as axis=1; got axis=-2.0"):
        metric.Accuracy(axis=-2.0)  # pyright: ignore[reportArgumentType]
    computed = metric.Accuracy(axis=-2)
    computed.update([nd.array([1, 0])], [nd.array([[0, 1.0], [1, 0]])])
    assert computed.get()[1] == 1.0


def test_a_file_of_arrays_without_names_is_no_networks(tmp_path: Path):
    nd.save(str(tmp_path / "arrays"), [A])
    layer = gluon.nn.Dense(3, in_units=4)
    for load in (layer.load_parameters, layer.collect_params().load):
        with pytest.raises(mx.MXNetError, match="1 arrays without names; a network's have names"):
            load(str(tmp_path / "arrays"))


def test_a_nan_is_no_class_of_one_hot():
    hot = nd.one_hot(nd.array([np.nan, 1, 7, -1]), 3)
    assert hot.asnumpy().tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.slow("compiles")
def test_numbers_are_not_waited_for_to_find_mistakes_deviation():
    """MXNet stops while it computes: at singular matrices, at indices outside, at a third class."""
    assert not np.isfinite(nd.linalg.inverse(nd.zeros((2, 2))).asnumpy()).any()
    assert np.isnan(nd.linalg.potrf(-nd.array([[4.0, 1], [1, 3]])).asnumpy()).any()
    assert nd.take(A, nd.array([5]), mode="raise").asnumpy().tolist() == [[8, 9, 10, 11]]
    computed = metric.F1()
    computed.update([nd.array([0, 1, 2])], [nd.array([[0.1, 0.9], [0.3, 0.7], [0.3, 0.7]])])
    assert computed.get()[1] == pytest.approx(0.5)


def test_there_are_arrays_without_elements_deviation():
    for empty in (nd.zeros((0,)), nd.arange(0), nd.linspace(0, 1, 0), nd.slice(A, begin=(2,), end=(1,))):
        assert empty.size == 0


def test_products_of_whole_numbers_are_computed_deviation():
    whole = of(nd.ones((2, 2)), "int32")
    assert nd.dot(whole, whole).asnumpy().tolist() == [[2, 2], [2, 2]]
    assert nd.FullyConnected(whole, whole, no_bias=True, num_hidden=2).dtype == np.int32


def test_pad_takes_any_axes_deviation():
    assert nd.pad(A, mode="constant", pad_width=(0, 0, 1, 1)).shape == (3, 6)


def test_what_numpy_and_python_take_is_taken_deviation():
    for dtype in ("int16", "uint32", "bool"):
        assert nd.zeros((2,), dtype=dtype).dtype == np.dtype(dtype)
    assert nd.zeros((2,), ctx="cpu").context == mx.cpu()  # pyright: ignore[reportArgumentType]
    computed = metric.Accuracy()
    computed.update([np.array([1, 0])], [np.array([[0.1, 0.9], [0.8, 0.2]])])  # pyright: ignore[reportArgumentType]
    assert computed.get()[1] == 1.0
    gluon.Trainer({}, "sgd").step(1)
    assert mx.optimizer.create("adam", beta1=1.0).beta1 == 1.0  # pyright: ignore[reportAttributeAccessIssue]


def test_whole_numbers_are_computed_in_single_precision_and_a_half_start_stays_deviation():
    assert nd.arange(1.5, 4, dtype="float16").asnumpy().tolist() == [1.5, 2.5, 3.5]
    assert nd.exp(nd.array([1, 2], dtype="int32")).asnumpy().tolist() == [2, 7]


def test_a_bias_of_two_axes_is_refused_deviation():
    with pytest.raises(mx.MXNetError, match="Shape inconsistent"):
        nd.FullyConnected(nd.ones((1, 2)), nd.ones((3, 2)), nd.ones((3, 1)), num_hidden=3)


@DENSE
def test_parts_of_sparse_arrays_that_do_not_fit_are_refused_deviation():
    for make in (
        lambda: nd.sparse.csr_matrix(([1.0], [5], [0, 1]), shape=(1, 2)),
        lambda: nd.sparse.row_sparse_array(([[1.0]], [3]), shape=(2, 1)),
    ):
        with pytest.raises(mx.MXNetError, match="do not fit a sparse array"):
            make()


@DENSE
def test_a_row_sparse_parameter_is_read_whole_deviation():
    parameter = gluon.Parameter("p", shape=(2, 1), stype="row_sparse", init=mx.init.One())
    parameter.initialize()
    assert parameter.data().asnumpy().tolist() == [[1], [1]]
    assert parameter.row_sparse_data(nd.array([0])).asnumpy().tolist() == [[1], [1]]


@DENSE
def test_stores_and_iterators_take_sparse_arrays_as_dense_ones_deviation():
    store, out = mx.kv.create("local"), nd.sparse.zeros("row_sparse", (2, 1))
    store.init("w", nd.ones((2, 1)).tostype("row_sparse"))
    store.pull("w", out)
    assert out.asnumpy().tolist() == [[1], [1]]
    rows = nd.sparse.csr_matrix(np.eye(3, dtype=np.float32))
    assert [batch.pad for batch in mx.io.NDArrayIter(rows, batch_size=2, last_batch_handle="pad")] == [0, 1]


@DENSE
def test_outputs_of_hybridised_blocks_are_default_deviation():
    """MXNet infers their storage types, as here eager calls, executors and modules do."""
    x = mx.sym.var("x", stype="csr")
    square, sparse = mx.sym.square(x), nd.sparse.csr_matrix(np.eye(2, dtype=np.float32))
    assert square.bind(mx.cpu(), {"x": sparse}).forward()[0].stype == nd.square(sparse).stype == "csr"
    block = gluon.SymbolBlock(square, x)
    block.hybridize()
    assert block(sparse).stype == "default"
    module = mx.mod.Module(square, data_names=["x"], label_names=None)
    module.bind([("x", (2, 2))], for_training=False)
    module.init_params()
    module.forward(mx.io.DataBatch([sparse]), is_train=False)
    assert module.get_outputs()[0].stype == "csr"


def test_numbers_outside_of_their_range_and_vectors_are_taken_deviation():
    vector = nd.zeros((3,))
    mx.init.Orthogonal()("v_weight", vector)
    assert np.linalg.norm(vector.asnumpy()) > 0
    mx.mod.Module(mx.sym.var("data") * 1, label_names=None, work_load_list=[2]).bind([("data", (1,))])
    weight = nd.zeros((1,))
    optimizers.get_updater(optimizers.SGLD(learning_rate=-0.1))(0, nd.ones((1,)), weight)
    assert np.isnan(weight.asscalar())


def test_a_module_reads_its_parameters_from_the_executor_deviation():
    """After a forward pass without an update MXNet's gamma is the old copy."""
    net = mx.sym.BatchNorm(mx.sym.var("data"), name="bn", fix_gamma=True)
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (2, 3))])
    module.init_params()
    module.set_params({"bn_gamma": nd.full((3,), 5), "bn_beta": nd.zeros((3,))}, module.get_params()[1])
    module.forward(mx.io.DataBatch([nd.ones((2, 3))]))
    assert module.get_params()[0]["bn_gamma"].asnumpy().tolist() == [1, 1, 1]


def test_averages_of_a_frozen_batch_norm_above_sign_stay_deviation():
    """MXNet moves them: the gradient that sign hands down is zeros, but it is one."""
    data, weight = mx.sym.var("data"), mx.sym.var("w", shape=(2, 3))
    normal = mx.sym.BatchNorm(mx.sym.sign(data * weight), name="bn")
    requests = {"data": "null", "w": "write", "bn_gamma": "null", "bn_beta": "null"}
    executor = normal.simple_bind(mx.cpu(), data=(2, 3), grad_req=requests)
    executor.arg_dict["data"][:] = executor.arg_dict["w"][:] = 1
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 3)))
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [0, 0, 0]


OPTIONS: dict[str, tuple[str, Mistake]] = {
    "group2ctxs, a number": ("group2ctxs", lambda: module_of(group2ctxs=5)),
    "group2ctxs, a list of numbers": ("group2ctxs", lambda: module_of(group2ctxs=[5])),
    "BucketingModule's group2ctxs": ("group2ctxs", lambda: bucketing_module(group2ctxs=5)),
    "simple_bind's group2ctx": ("group2ctx", lambda: NET.simple_bind(mx.cpu(), data=(1, 3), group2ctx=5)),
    "bind's group2ctx": ("group2ctx", lambda: NET.bind(mx.cpu(), {}, group2ctx=[5])),
    "type_dict": ("type_dict", lambda: NET.simple_bind(mx.cpu(), data=(1, 3), type_dict=5)),
    "data_names": ("data_names", lambda: module_of(data_names=5)),
    "label_names": ("label_names", lambda: module_of(label_names=5)),
    "fixed_param_names": ("fixed_param_names", lambda: module_of(fixed_param_names=5)),
    "state_names": ("state_names", lambda: module_of(state_names=5)),
    "work_load_list, a number": ("work_load_list", lambda: module_of(work_load_list=5)),
    "work_load_list, words": ("work_load_list", lambda: module_of(work_load_list=["x"])),
    "set_params": ("arg_params", lambda: module_of().set_params(5, {})),
    "endpoint": ("endpoint", lambda: nd.linspace(0, 1, 3, endpoint="x")),  # type: ignore[arg-type]
    "save_checkpoint of a number": ("'a'", lambda: mx.model.save_checkpoint("net", 1, NET, {"a": 5}, {})),
    "save_checkpoint of a list": ("'a'", lambda: mx.model.save_checkpoint("net", 1, NET, {}, {"a": [1.0]})),
    "save_checkpoint of no dict": ("arg_params", lambda: mx.model.save_checkpoint("net", 1, NET, [A], {})),  # type: ignore[arg-type]
}
FIVE: Any = 5
NET: Any = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")


def module_of(**options: Any) -> Any:
    module = mx.mod.Module(NET, **{"label_names": None, **options})
    module.bind([("data", (1, 3))])
    return module


def bucketing_module(**options: Any) -> None:
    mx.mod.BucketingModule(lambda key: (NET, ["data"], []), default_bucket_key=3, **options).bind([("data", (1, 3))])


@pytest.mark.parametrize("door", OPTIONS)
def test_an_option_of_another_kind_is_refused_by_its_name(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    name, mistake = OPTIONS[door]
    with pytest.raises(mx.MXNetError, match=name):
        mistake()
    assert not [*tmp_path.iterdir()]


def test_group2ctxs_may_hold_a_list_of_contexts_for_each_group():
    module_of(group2ctxs={"one": [mx.cpu(0), mx.cpu(1)]})
    module_of(group2ctxs=[{"one": mx.cpu(0)}, {"one": mx.cpu(1)}])


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda x: mx.mod.Module(FIVE), "mx.mod.Module takes a Symbol"),
        (lambda x: (mx.sym.var("x") + 1).bind(mx.cpu(), 5), "args"),
        (lambda x: (mx.sym.var("x") + 1).bind(mx.cpu(), {"x": x}, 5), "args_grad"),
        (lambda x: _bound().score(x, "acc"), "eval_data must be a DataIter; got NDArray"),
        (lambda x: list(_bound().iter_predict(x)), "eval_data must be a DataIter; got NDArray"),
        (lambda x: _bound().init_optimizer(optimizer_params=FIVE), "optimizer_params"),
        (lambda x: _bound().init_optimizer(optimizer_params="lr"), "optimizer_params"),
        (lambda x: mx.gluon.Trainer(_dense().collect_params(), "sgd", FIVE), "optimizer_params"),
    ],
)
def test_what_is_of_another_kind_is_told_in_words_of_the_door(mistake: Callable[[mx.nd.NDArray], Any], says: str):
    with pytest.raises(mx.MXNetError, match=says):
        mistake(mx.nd.ones((2, 3)))


def _bound() -> mx.mod.Module:
    module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1), label_names=None)
    module.bind([("data", (2, 3))])
    module.init_params()
    return module


def _dense() -> mx.gluon.nn.Dense:
    dense = mx.gluon.nn.Dense(1, in_units=2)
    dense.initialize()
    return dense
