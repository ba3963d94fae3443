"""Layers, losses, parameters, data and files under `npx.set_np()`. The numbers are MXNet 1.9.1's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as onp
import pytest

from lowering import mx

np, npx, autograd, gluon, nn = mx.np, mx.npx, mx.autograd, mx.gluon, mx.gluon.nn


@pytest.fixture(autouse=True)
def numpy_dialect() -> Iterator[None]:
    npx.set_np()
    yield
    npx.reset_np()


class _HybridNet(nn.HybridBlock):
    """The book's kind of network, which computes by F.np and F.npx."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.hidden, self.output = nn.Dense(4, prefix="h_"), nn.Dense(2, prefix="o_")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(F.npx.relu(self.hidden(x))) + F.np.ones((1, 2)) * 2 - x[:, :2].sum(axis=1, keepdims=True)


def _net() -> _HybridNet:
    net = _HybridNet(prefix="n_")
    net.initialize(mx.init.Constant(0.5))
    return net


def test_a_constant_has_the_dialect_that_is_set_or_that_of_its_array():
    whole = onp.ones(2, dtype="int32")
    for value, dialect in (
        ([1, 2], np.ndarray),
        (whole, np.ndarray),
        (np.ones(2), np.ndarray),
        (mx.nd.ones(2), mx.nd.NDArray),
    ):
        constant = gluon.Constant("c", value)
        constant.initialize()
        assert (type(constant.value), type(constant.data())) == (dialect, np.ndarray)
        assert constant.data().dtype == ("int32" if value is whole else "float32")
        assert repr(constant).startswith("Constant c (shape=(2,), dtype=")


def test_deviation_losses_have_a_batch_axis():
    prediction, label = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), np.ones((2, 3))
    for loss in (gluon.loss.L1Loss(batch_axis=1), gluon.loss.L2Loss(weight=2.0, batch_axis=1)):
        eager = loss(prediction, label)
        loss.hybridize()
        assert eager.tolist() == loss(prediction, label).tolist()
        assert eager.shape == (3,)


def test_a_hybrid_network_gives_the_same_arrays_in_both_ways_and_from_its_files(tmp_path: Path):
    net, x = _net(), np.arange(6).reshape((2, 3))
    eager = net(x)
    net.hybridize()
    compiled = net(x)
    net.export(str(tmp_path / "net"))
    graph = json.loads((tmp_path / "net-symbol.json").read_text())
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))(
        x
    )
    for output in (eager, compiled, loaded):
        assert type(output) is np.ndarray
        assert output.tolist() == [[4.0, 4.0], [7.0, 7.0]]
    assert [node["op"] for node in graph["nodes"] if node["op"] != "null"] == [
        *("FullyConnected", "_npx_relu", "FullyConnected", "_npi_ones", "_npi_multiply_scalar", "_npi_add", "slice"),
        *("_npx_reshape", "_np_sum", "_npi_subtract"),
    ]
    by_name = {node["name"]: node.get("attrs") for node in graph["nodes"]}
    assert by_name["n_multiply_scalar0"] == {"is_int": "True", "scalar": "2.0"}
    assert by_name["n_slice0"] == {"begin": "[None, None]", "end": "[None, 2]", "step": "[None, None]"}
    assert by_name["n_sum0"] == {"axis": "1", "keepdims": "True"}
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    assert net.hidden.weight.grad().tolist() == [[3.0, 5.0, 7.0]] * 4


@pytest.mark.slow("compiles")
def test_training_by_hand_and_by_a_trainer_learns():
    mx.random.seed(1)
    true, data = np.array([2.0, -3.4]), np.random.normal(0, 1, (64, 2))
    labels = np.dot(data, true) + 4.2
    w, bias = np.random.normal(0, 0.01, (2, 1)), np.zeros(1)
    w.attach_grad()
    bias.attach_grad()
    loss = rows = data
    for _ in range(60):
        with autograd.record():
            loss = ((np.dot(data, w) + bias - labels.reshape((-1, 1))) ** 2 / 2).mean()
        loss.backward()
        for param in (w, bias):
            param[:] = param - 0.3 * param.grad
    assert float(loss) < 1e-3
    net, loss_of = nn.Sequential(), gluon.loss.L2Loss()
    net.add(nn.Dense(1))
    net.initialize(mx.init.Normal(0.01))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.3})
    for _ in range(4):
        samples = gluon.data.ArrayDataset(data, labels)
        for rows, targets in gluon.data.DataLoader(samples, 8, shuffle=True, num_workers=2):
            with autograd.record():
                loss = loss_of(net(rows), targets)
            loss.backward()
            trainer.step(8)
    assert abs(float(net[0].bias.data()[0]) - 4.2) < 0.1
    assert type(loss) is type(rows) is type(net[0].weight.grad()) is np.ndarray


@pytest.mark.slow("computes much")
def test_what_gluon_gives_are_arrays_of_the_dialect():
    class Mine(mx.init.Initializer):
        """Fills a weight in the dialect."""

        def _init_weight(self, name: str, arr: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            arr[:] = np.arange(arr.size).reshape(arr.shape)
            arr *= np.abs(arr) >= 2

    dense = nn.Dense(2, weight_initializer=Mine())
    assert repr(dense.weight).endswith("weight (shape=(2, -1), dtype=float32)")
    dense.initialize()
    assert dense(np.ones((1, 2))).tolist() == [[0.0, 5.0]]
    losses = [gluon.loss.L2Loss(), gluon.loss.L1Loss(), gluon.loss.HuberLoss()]
    assert [loss(np.array([1.0, 2, 3]), np.array([0, 1.0, 1])).tolist() for loss in losses] == [
        [0.5, 0.5, 2.0], [1.0, 1.0, 2.0], [0.5, 0.5, 1.5],
    ]  # fmt: skip
    lstm, cell = gluon.rnn.LSTM(4, num_layers=2), gluon.rnn.GRUCell(3)
    lstm.initialize()
    cell.initialize()
    output, states = lstm(np.ones((3, 2, 5)), lstm.begin_state(batch_size=2))
    unrolled, _ = cell.unroll(2, np.ones((1, 2, 4)), merge_outputs=True)
    image = np.ones((8, 8, 3), dtype="uint8")
    transforms = gluon.data.vision.transforms
    tensor = transforms.Compose([transforms.Resize(4), transforms.ToTensor()])(image)
    parts = gluon.utils.split_and_load(onp.arange(4), [mx.cpu(0), mx.cpu(0)])
    constant = gluon.Constant("c", np.array([1.0, 2]))
    constant.initialize()
    for array in (output, *states, unrolled, tensor, *parts, constant.data(), mx.image.imresize(image, 4, 4)):
        assert type(array) is np.ndarray
    assert (output.shape, unrolled.shape, tensor.shape, states[0].shape) == ((3, 2, 4), (1, 2, 3), (3, 4, 4), (2, 2, 4))
    accuracy = mx.metric.Accuracy()
    accuracy.update([np.array([0, 1])], [np.array([[0.9, 0.1], [0.2, 0.8]])])
    assert accuracy.get() == ("accuracy", 1.0)


def test_files_and_both_dialects_share_arrays(tmp_path: Path):
    x = np.array([[1.0, 2.0]])
    with pytest.raises(ValueError, match="data needs to either be a ndarray, dict"):
        npx.save(str(tmp_path / "f.npy"), cast("Any", 3))
    npx.save(str(tmp_path / "f.npy"), {"x": x, "s": np.array(3)})  # MXNet's file under every name
    loaded = npx.load(str(tmp_path / "f.npy"))
    assert {name: (type(each), each.shape) for name, each in loaded.items()} == {
        "x": (np.ndarray, (1, 2)),
        "s": (np.ndarray, ()),
    }
    classic = x.as_nd_ndarray()
    classic[:] = 5
    assert x.tolist() == [[5.0, 5.0]]
    assert isinstance(x, mx.nd.NDArray)
    assert not isinstance(classic, np.ndarray)
    with pytest.raises(TypeError, match="This is a legacy operator which can only accept legacy ndarrays"):
        mx.nd.exp(x)
    with pytest.raises(TypeError, match="This is a numpy operator which can only accept MXNet numpy ndarrays"):
        np.exp(mx.nd.ones((2,)))
    with pytest.raises(ValueError, match="as_np_ndarray"):
        np.array(mx.nd.ones((2,)))
    x.attach_grad()
    with autograd.record():
        y = (x * x).sum()
    assert autograd.grad(y, x)[0].tolist() == [[10.0, 10.0]]
    assert not hasattr(x, "exp")


def test_a_class_under_use_np_inherits_methods_and_keeps_parameters_that_are_under_it():
    @npx.use_np
    class Product(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=(3, 2), allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, w: Any) -> Any:
            return F.np.dot(x, w)

    npx.reset_np()
    net = Product()
    net.initialize()
    for active in (False, True):
        net.hybridize(active)
        with autograd.record():
            loss = net(mx.nd.ones((2, 3)).as_np_ndarray())
        loss.backward()
        gluon.Trainer(net.collect_params(), "adam").step(1)
        assert type(loss) is type(net.w.data()) is type(net.w.list_grad()[0]) is np.ndarray
    classic = nn.Dense(2, in_units=3)
    classic.initialize()
    assert type(classic.weight.data()) is mx.nd.NDArray
    npx.set_np()
    assert type(classic.weight.data()) is np.ndarray


def test_a_block_does_not_return_arrays_of_both_dialects():
    class Both(mx.gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x.as_nd_ndarray(), F.np.exp(x)

    for active in (False, True):
        net = Both()
        net.hybridize(active)
        with pytest.raises(TypeError, match="both|mix"):
            net(np.ones((2,)))


def test_symbols_are_parts_of_their_outputs():
    x, sym_np = mx.sym.var("x").as_np_ndarray(), cast("Any", mx.sym.np)
    assert [part.infer_shape(x=(2, 3))[1] for part in sym_np.split(x, 1)] == [[(2, 3)]]
    assert sym_np.resize(x, (3, 3)).infer_shape(x=(2, 2))[1] == [(3, 3)]
    assert sym_np._internal.norm(x, ord=1.0, axis=None).infer_shape(x=(2, 3))[1] == [()]
    assert sym_np.full((2, 3), x).infer_shape(x=(3,))[1] == [(2, 3)]


def test_subclasses_of_layers_and_losses_call_theirs_in_the_dialect():
    class Positive(nn.Dense):
        def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
            return super().hybrid_forward(F, F.np.tanh(x) * 0 + 1, F.np.abs(weight), bias) * 2

    class Squares(gluon.loss.Loss):
        def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
            of_all = F.np.square(pred - gluon.loss._reshape_like(F, label, pred))
            return gluon.loss._apply_weighting(F, of_all, self._weight, sample_weight).mean(axis=1)

    made: dict[str, Any] = {"HybridBlock": gluon.HybridBlock}  # without __name__, which gives a class its module
    exec("class Negative(HybridBlock):\n    def hybrid_forward(self, F, x):\n        return F.np.negative(x)", made)
    labels, weights = np.array([1.0, 2, 3, 4]), np.array([[1.0], [0.5]])
    for active in (False, True):
        dense, squares, negative = Positive(2, in_units=3), Squares(0.5, 0), made["Negative"]()
        dense.initialize(mx.init.Constant(-0.5))
        for block in (dense, squares, negative):
            block.hybridize(active)
        assert dense(np.ones((1, 3))).tolist() == [[3.0, 3.0]]
        assert squares(np.zeros((2, 2)), labels, weights).tolist() == [1.25, 3.125]
        assert negative(np.ones((2,))).tolist() == [-1.0, -1.0]


def test_a_function_of_the_dialect_gets_gradients_of_the_dialect():
    class Scaled(autograd.Function):
        def forward(self, x: Any, y: Any) -> Any:
            self.save_for_backward(x, y)
            return x * y, (x * y).sum()

        def backward(self, head: Any, head_of_sum: Any) -> Any:
            x, y = self.saved_tensors
            return head * y + head_of_sum * y, head * x + head_of_sum * x

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        product, total = Scaled()(x, y)
        loss = product.sum() + total * 2
    loss.backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([9.0, 12.0], [3.0, 6.0])


@pytest.mark.slow("computes twenty blocks in both dialects")
def test_deviation_losses_and_layers_that_mxnet_refuses_give_what_the_classic_dialect_gives():
    draw = onp.random.RandomState(0).uniform
    first, second = draw(0.1, 0.9, (4, 3)).astype("f"), draw(0.1, 0.9, (4, 3)).astype("f")
    signs, image = onp.array([1, -1, 1, -1], "f"), draw(-1, 1, (1, 4, 3, 3)).astype("f")
    losses, contributed = gluon.loss, gluon.contrib.nn
    rows: list[tuple[Any, tuple[onp.ndarray, ...]]] = [
        (losses.KLDivLoss(from_logits=False), (first, second)),
        (losses.CTCLoss(), (draw(-1, 1, (2, 5, 4)).astype("f"), onp.array([[1, 2], [2, 0]], "f"))),
        *((loss(), (first, onp.sign(second - 0.5))) for loss in (losses.HingeLoss, losses.SquaredHingeLoss)),
        (losses.LogisticLoss(), (first, onp.sign(second - 0.5))),
        (losses.HuberLoss(), (first, second)),
        (losses.TripletLoss(), (first, second, first * 2)),
        (losses.PoissonNLLLoss(compute_full=True), (first, second * 3)),
        (losses.CosineEmbeddingLoss(), (first, second, signs)),
        (losses.SDMLLoss(), (first, second)),
        *((layer, (image,)) for layer in (nn.InstanceNorm(), nn.GroupNorm(2), nn.ReflectionPad2D(1))),
        (contributed.PixelShuffle2D(2), (image,)),
        (gluon.data.vision.transforms.CropResize(0, 0, 2, 2), (image[0, :3].transpose(1, 2, 0),)),
    ]
    for block, inputs in rows:
        npx.reset_np()
        block.initialize()
        classic = block(*map(mx.nd.array, inputs))
        npx.set_np()
        own = block(*map(np.array, inputs))
        assert type(own) is np.ndarray
        onp.testing.assert_array_equal(own.asnumpy(), classic.asnumpy())
    arrays = [np.array([3.0, 4.0]), np.array([[0.0, 12.0]])]
    assert gluon.utils.clip_global_norm(arrays, 1.0) == pytest.approx(13.0)
    assert float((arrays[0] ** 2).sum() + (arrays[1] ** 2).sum()) == pytest.approx(1.0, rel=1e-5)
