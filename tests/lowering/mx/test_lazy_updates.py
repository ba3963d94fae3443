"""Lazy optimisers update the rows of a row_sparse gradient, whoever hands it to them; numbers of MXNet 1.9.1."""

from typing import Any

import numpy as np
import pytest

from lowering import mx

optimizers: Any = mx.optimizer
ROWS = ([[1, 2], [0, 0], [0, 0]], [[0, 0], [3, -1], [0, 0]], [[0, 0], [1, 1], [0, 0]])
"""Gradients of a matrix (3, 2), whose last row has none."""

pytestmark = pytest.mark.filterwarnings("ignore::lowering.mx.ndarray.storage_types.DenseWarning")


def first_column(array: Any) -> np.ndarray:
    return array.asnumpy()[:, 0].astype(np.float64)


def updated(optimizer: Any, stype: str = "default", dtype: str = "float32") -> tuple[Any, Any]:
    """A matrix of ones after updates by ROWS, and its state."""
    updater = optimizers.get_updater(optimizer)
    weight = mx.nd.ones((3, 2), dtype=dtype).tostype(stype)
    for rows in ROWS:
        updater(0, mx.nd.array(rows, dtype=dtype).tostype("row_sparse"), weight)
    return weight, updater.states[0]


@pytest.mark.parametrize(
    ("name", "params", "stype", "expected"),
    [
        ("sgd", {}, "default", [0.89, 0.5831, 1]),
        ("sgd", {"momentum": 0.9}, "default", [0.89, 0.3041, 1]),
        ("sgd", {"momentum": 0.9}, "row_sparse", [0.89, 0.3041, 1]),
        ("sgd", {"momentum": 0.9, "lazy_update": False}, "row_sparse", [0.6772, 0.2774, 0.9444]),
        ("nag", {}, "default", [0.89, 0.5831, 1]),
        ("signum", {}, "default", [0.7, 0.7, 0.7]),
        ("lars", {"momentum": 0.9, "eta": 1.0}, "default", [0.8914, 0.4466, 1]),
        ("lars", {"momentum": 0.9, "eta": 1.0, "lazy_update": False}, "default", [0.6838, 0.4308, 0.9476]),
        ("adam", {}, "default", [0.9, 0.8501, 1]),
        ("adam", {"lazy_update": False}, "default", [0.7662, 0.7465, 0.7016]),
        ("ftrl", {}, "default", [0.4473, -0.0985, 0]),
        ("ftrl", {}, "row_sparse", [0.4473, 0.6491, 1]),
        ("lbsgd", {"momentum": 0.9}, "default", [0.89, 0.3041, 1]),
        ("rmsprop", {}, "default", [0.642, 0.2616, 0.3692]),
    ],
)
def test_rows_without_a_gradient_stay_where_mxnet_is_lazy(name: str, params: Any, stype: str, expected: list[float]):
    weight, _ = updated(optimizers.create(name, learning_rate=0.1, wd=0.1, **params), stype)
    np.testing.assert_allclose(first_column(weight), expected, atol=6e-5)


def test_the_states_of_those_rows_stay_too():
    _, momentum = updated(optimizers.SGD(learning_rate=0.1, wd=0.1, momentum=0.9))
    np.testing.assert_allclose(first_column(momentum), [-0.11, -0.3859, 0], atol=6e-5)
    _, (mean, var) = updated(optimizers.Adam(learning_rate=0.1, wd=0.1))
    np.testing.assert_allclose(first_column(mean), [0.11, 0.3883, 0], atol=6e-5)
    np.testing.assert_allclose(first_column(var), [0.0012, 0.0108, 0], atol=6e-5)


@pytest.mark.parametrize(("name", "expected"), [("sgd", [0.872, 0.573, 0.97]), ("adam", [0.9, 0.85, 1])])
def test_a_weight_with_a_copy_is_lazy_where_mxnets_is(name: str, expected: list[float]):
    weight, _ = updated(optimizers.create(name, learning_rate=0.1, wd=0.1, multi_precision=True), dtype="float16")
    np.testing.assert_allclose(first_column(weight), expected, atol=2e-3)


def test_a_dense_gradient_updates_every_row_of_the_same_optimizer():
    """The program is another than that of a row_sparse gradient of equal shape."""
    updater = optimizers.get_updater(optimizers.SGD(learning_rate=0.1, wd=0.1))
    sparse, dense = mx.nd.ones((2, 2)), mx.nd.ones((2, 2))
    gradient = mx.nd.array([[1, 1], [0, 0]])
    updater(0, gradient.tostype("row_sparse"), sparse)
    updater(0, gradient, dense)
    np.testing.assert_allclose([*first_column(sparse), *first_column(dense)], [0.89, 1, 0.89, 0.99], rtol=1e-6)


@pytest.mark.parametrize(
    ("kvstore", "on_store", "contexts", "expected"),
    [
        (None, None, 1, [0.79, -0.368, 1, 0.79, 1]),
        ("local", True, 1, [0.79, -0.368, 1, 0.79, 1]),
        ("device", None, 2, [0.59, -1.6805, 1, 0.59, 1]),
    ],
)
def test_a_trainer_of_an_embedding_with_sparse_gradients_is_lazy(
    kvstore: Any, on_store: Any, contexts: int, expected: list[float]
):
    devices = [mx.cpu(0)] * contexts if contexts == 1 else [mx.cpu(0), mx.cpu(1)]
    table = mx.gluon.nn.Embedding(5, 2, sparse_grad=True)
    table.initialize(mx.init.One(), ctx=devices)
    params = {"momentum": 0.9, "wd": 0.1, "learning_rate": 0.1}
    trainer = mx.gluon.Trainer(table.collect_params(), "sgd", params, kvstore=kvstore, update_on_kvstore=on_store)
    for words in ([0, 1], [1, 3], [1, 1]):
        with mx.autograd.record():
            losses = [(table(mx.nd.array(words, ctx=device)) * 2).sum() for device in devices]
        mx.autograd.backward(losses)
        trainer.step(1)
    np.testing.assert_allclose(first_column(table.weight.data(devices[0])), expected, atol=1e-4)


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize(("lazy", "expected"), [(True, [0.8, -0.322, 1, 0.8, 1]), (False, [0.458, -0.322, 1, 0.62, 1])])
def test_a_module_of_an_embedding_with_sparse_gradients_is_lazy(lazy: bool, expected: list[float], contexts: int):
    table = mx.sym.Embedding(mx.sym.var("data"), mx.sym.var("w"), input_dim=5, output_dim=2, sparse_grad=True)
    context = [mx.cpu(i) for i in range(contexts)]
    module = mx.mod.Module(mx.sym.MakeLoss(table * 2), label_names=None, context=context)
    module.bind([("data", (2,))])
    module.init_params(arg_params={"w": mx.nd.ones((5, 2))})
    params = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1, "rescale_grad": 1.0, "lazy_update": lazy}
    module.init_optimizer(optimizer="sgd", optimizer_params=params)
    for words in ([0, 1], [1, 3], [1, 1]):
        module.forward_backward(mx.io.DataBatch([mx.nd.array(words)], []))
        module.update()
    np.testing.assert_allclose(first_column(module.get_params()[0]["w"]), expected, atol=1e-4)


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_a_store_with_an_optimizer_is_lazy(stype: str):
    store = mx.kv.create("local")
    store.init("w", mx.nd.ones((3, 2)).tostype(stype))
    store.set_optimizer(optimizers.SGD(learning_rate=0.1, momentum=0.9, wd=0.1))
    for rows in ROWS:
        store.push("w", mx.nd.array(rows).tostype("row_sparse"))
    out = mx.nd.zeros((3, 2))
    store.pull("w", out)
    np.testing.assert_allclose(first_column(out), [0.89, 0.3041, 1], atol=6e-5)


def test_lazy_updates_deviate_where_a_stored_row_is_zero():
    """MXNet's AdaGrad refuses the decay, and its SGD decays row 1, which is stored."""
    rows = mx.nd.sparse.row_sparse_array(([[0.0, 0.0]], [1]), shape=(2, 2))
    weight = mx.nd.ones((2, 2))
    optimizers.get_updater(optimizers.SGD(learning_rate=0.1, wd=0.1))(0, rows, weight)
    np.testing.assert_array_equal(first_column(weight), [1, 1])
    optimizers.get_updater(optimizers.AdaGrad(learning_rate=0.1, wd=0.1))(0, rows, weight)
    np.testing.assert_allclose(first_column(weight), [0.99, 0.99], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "stypes", "params", "expected"),
    [
        ("sgd_update", "d", {}, [[1, 0.89]]),
        ("sgd_update", "r", {"lazy_update": False}, [[0.99, 0.89]]),
        ("sgd_mom_update", "dd", {"momentum": 0.9}, [[1, 1.34], [0.5, 0.34]]),
        ("sgd_mom_update", "dr", {"momentum": 0.9}, [[1.44, 1.34], [0.44, 0.34]]),
        ("adam_update", "rrr", {}, [[1, 0.9209], [0.5, 0.56], [0.5, 0.5007]]),
        ("adam_update", "rdd", {}, [[0.9349, 0.9209], [0.46, 0.56], [0.4995, 0.5007]]),
        ("ftrl_update", "ddd", {}, [[-0.0285, 0.1641], [0.5, -3.6764], [0.5, 1.5]]),
        ("ftrl_update", "rrr", {}, [[1, 0.1641], [0.5, -3.6764], [0.5, 1.5]]),
        ("rmsprop_update", "rr", {}, [[0.9855, 0.8497], [0.4755, 0.5355]]),
    ],
)
def test_functions_are_lazy_where_mxnets_are(name: str, stypes: str, params: Any, expected: list[list[float]]):
    """stypes: of the weight and its states, "d" or "r" for row_sparse. Only row 1 has a gradient."""
    storage = [{"d": "default", "r": "row_sparse"}[stype] for stype in stypes]
    weight, *states = (mx.nd.full((2, 2), 1 if i == 0 else 0.5).tostype(stype) for i, stype in enumerate(storage))
    grad = mx.nd.array([[0, 0], [1, 1]]).tostype("row_sparse")
    getattr(mx.nd, name)(weight, grad, *states, lr=0.1, wd=0.1, out=weight, **params)
    np.testing.assert_allclose([first_column(array) for array in (weight, *states)], expected, atol=6e-5)
    named = mx.nd.sgd_update(grad=grad, weight=mx.nd.ones((2, 2)), lr=0.1, wd=0.1)
    np.testing.assert_allclose(first_column(named), [1, 0.89], rtol=1e-6)
