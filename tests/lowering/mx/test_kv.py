"""`mx.kv`: stores of arrays, and classes of one's own."""

from pathlib import Path

import numpy as np
import pytest

from lowering import mx

SHAPE = (4, 2)


def ones() -> mx.nd.NDArray:
    return mx.nd.ones(SHAPE)


def test_broadcast_holds_and_copies() -> None:
    store, out = mx.kv.create("device"), [mx.nd.zeros(SHAPE), mx.nd.zeros(SHAPE)]
    store.broadcast("w", ones(), out)
    store.push("w", [ones(), ones()])
    held = mx.nd.zeros(SHAPE)
    store.pull("w", held)
    assert [array.asnumpy().sum() for array in (*out, held)] == [8, 8, 16]


def test_rows_are_pulled_and_the_others_are_zeros() -> None:
    store = mx.kv.create()
    store.init(["a", "b"], [ones(), 2 * ones()])
    one, several = mx.nd.zeros(SHAPE), [mx.nd.zeros(SHAPE), mx.nd.zeros(SHAPE)]
    store.row_sparse_pull("a", out=one, row_ids=mx.nd.array([[1, 3], [3, 1]]))
    np.testing.assert_array_equal(one.asnumpy()[:, 0], [0, 1, 0, 1])
    store.row_sparse_pull("b", out=several, row_ids=mx.nd.array([0]))
    assert [array.asnumpy().sum() for array in several] == [4, 4]
    store.row_sparse_pull(["a", "b"], out=several, row_ids=[mx.nd.array([0]), mx.nd.array([0, 1])])
    assert [array.asnumpy().sum() for array in several] == [2, 8]


def test_keys_are_numbers_or_texts() -> None:
    store = mx.kv.create()
    store.init(3, ones())
    for call in (store.init, store.push, store.pull):
        with pytest.raises(mx.MXNetError, match="Mixed key types"):
            call("a", ones())


def test_states_of_the_optimiser_are_saved_and_loaded(tmp_path: Path) -> None:
    file = str(tmp_path / "states")

    def trained(load: bool) -> np.ndarray:
        store = mx.kv.create()
        store.init(0, ones())
        store.set_optimizer(mx.optimizer.create("sgd", momentum=0.9, learning_rate=1.0, wd=0.0))
        if load:
            store.load_optimizer_states(file)
        store.push(0, ones())
        if not load:
            store.save_optimizer_states(file)
        out = mx.nd.zeros(SHAPE)
        store.pull(0, out)
        return out.asnumpy()

    np.testing.assert_allclose(trained(load=False), 0.0, atol=1e-6)
    np.testing.assert_allclose(trained(load=True), -0.9, atol=1e-6)
    with pytest.raises(mx.MXNetError, match="no optimiser"):
        mx.kv.create().save_optimizer_states(file)


@pytest.mark.parametrize("counted", [False, True])
def test_states_with_the_optimiser_have_its_counts(tmp_path: Path, counted: bool) -> None:
    def store(rate: float) -> mx.kv.KVStore:
        made = mx.kv.create()
        made.init(0, ones())
        made.set_optimizer(mx.optimizer.create("adam", learning_rate=rate))
        return made

    def value(of: mx.kv.KVStore) -> float:
        out = mx.nd.zeros(SHAPE)
        of.pull(0, out)
        return out.asnumpy().mean()

    first, second = store(0.5), store(0.1)
    first.push(0, ones())
    first.save_optimizer_states(str(tmp_path / "states"), dump_optimizer=counted)
    before = value(first)
    first.push(0, ones())
    second.load_optimizer_states(str(tmp_path / "states"))
    second.push(0, ones())
    assert np.isclose(value(second) - 1, value(first) - before) == counted  # Adam reads the count and the rate


def test_a_store_has_a_name() -> None:
    with pytest.raises(TypeError, match="name must be a string; got int"):
        mx.kv.create(3)  # pyright: ignore[reportArgumentType]


def test_what_a_store_can_do() -> None:
    store = mx.kv.create()
    assert store.is_capable("optimizer")
    assert store.type == "local"
    with pytest.raises(ValueError, match="Unknown capability"):
        store.is_capable("sparsity")
    store.set_gradient_compression({"type": "none"})
    with pytest.raises(mx.MXNetError, match="not compressed"):
        store.set_gradient_compression({"type": "2bit", "threshold": 0.5})


def test_a_class_of_ones_own_sums_a_modules_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.kv.KVStoreBase, "kv_registry", dict(mx.kv.KVStoreBase.kv_registry))

    @mx.kv.KVStoreBase.register
    class Doubles(mx.kv.TestStore):
        def pushpull(self, key, value, out=None, priority=0):
            super().pushpull(key, value * 2, out, priority)

    assert isinstance(mx.kv.create("doubles"), Doubles)
    net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc"))
    weights = []
    for store in ("teststore", "doubles"):
        module = mx.mod.Module(net, label_names=[net.list_arguments()[-1]])
        module.bind([("data", (2, 3))], [(net.list_arguments()[-1], (2, 1))])
        module.init_params(mx.init.Zero())
        module.init_optimizer(store, "sgd", {"learning_rate": 1.0})
        module.forward_backward(mx.io.DataBatch([mx.nd.ones((2, 3))], [mx.nd.ones((2, 1))]))
        module.update()
        weights.append(module.get_params()[0]["fc_weight"].asnumpy())
    assert weights[0].any()
    np.testing.assert_allclose(weights[1], 2 * weights[0])
    with pytest.warns(UserWarning, match="overriding existing"):
        mx.kv.KVStoreBase.register(Doubles)
    for missing in ("set_optimizer", "load_optimizer_states"):
        with pytest.raises(NotImplementedError):
            getattr(mx.kv.create("teststore"), missing)("")


def test_several_keys_come_from_anything_that_gives_them() -> None:
    store, held = mx.kv.create(), {"a": ones(), "b": 2 * ones()}
    store.init(held.keys(), held.values())
    store.push((key for key in held), [ones(), 5 * ones()])
    out = [mx.nd.zeros(SHAPE), mx.nd.zeros(SHAPE)]
    store.pull(iter(held), out)
    assert [array.asnumpy()[0, 0] for array in out] == [1, 5]
    store.row_sparse_pull(held.keys(), out=out, row_ids=[mx.nd.array([0]), mx.nd.array([0, 1])])
    assert [array.asnumpy()[:, 0].tolist() for array in out] == [[1, 0, 0, 0], [5, 5, 0, 0]]
    numbered = mx.kv.create()
    numbered.init(range(2), [ones(), 3 * ones()])
    numbered.pull(1, out[0])
    assert out[0].asnumpy()[0, 0] == 3
