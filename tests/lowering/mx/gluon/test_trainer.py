"""Trainer: order, rates, stale gradients, several contexts, states in files."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from lowering import mx
from lowering.mx import gluon
from lowering.mx.gluon import nn

CONTEXTS = [mx.cpu(0), mx.cpu(1)]


def parameter(name: str = "x", ctx: Any = None, **options: Any) -> gluon.Parameter:
    param = gluon.Parameter(name, shape=(3,), **options)
    param.initialize("zeros", ctx=ctx)
    return param


def differentiate(*params: gluon.Parameter, factor: float = 1.0) -> None:
    """Gradients of factor for all arrays."""
    for param in params:
        for array in param.list_data():
            with mx.autograd.record():
                out = array * factor
            out.backward()


def trainer(*params: gluon.Parameter, optimizer: Any = "sgd", learning_rate: float = 1.0, **options: Any) -> Any:
    store = {name: options.pop(name) for name in ("kvstore", "update_on_kvstore") if name in options}
    return gluon.Trainer(list(params), optimizer, {"learning_rate": learning_rate, **options}, **store)


def value(param: gluon.Parameter, number: int = 0) -> float:
    (found,) = set(param.list_data()[number].asnumpy().tolist())
    return found


def test_parameters_of_a_dict_are_sorted_by_name():
    params = gluon.ParameterDict()
    for name in ("b", "a10", "a2"):
        params.get(name, shape=(1,))
    params.initialize()
    assert [param.name for param in gluon.Trainer(params, "sgd")._params] == ["a10", "a2", "b"]
    assert [param.name for param in gluon.Trainer(list(params.values()), "sgd")._params] == ["b", "a10", "a2"]
    for wrong, told in ((1, "<class 'int'>"), ([1], "list of <class 'int'>")):
        with pytest.raises(ValueError, match=f"First argument must be a list or dict of Parameters; got {told}"):
            gluon.Trainer(wrong, "sgd")


def test_gradients_are_divided_by_the_batch_size_of_each_step():
    x = parameter()
    train = trainer(x, rescale_grad=2.0)
    differentiate(x)
    train.step(4)
    assert value(x) == -0.5
    differentiate(x)
    train.step(1)
    assert value(x) == -2.5


def test_stale_gradients_raise_mxnets_warning():
    x, y = parameter("x"), parameter("y")
    train = trainer(x, y)
    differentiate(x)
    with pytest.raises(UserWarning, match="Gradient of Parameter `y` on context cpu"):
        train.step(1)
    train.step(1, ignore_stale_grad=True)
    assert (value(x), value(y)) == (-1, 0)
    assert not x.data()._fresh_grad
    with pytest.raises(UserWarning, match="has not been updated by backward since last `step`"):
        train.step(1)


def test_multipliers_are_read_at_each_step_and_nothing_is_spared_weight_decay():
    bias = parameter("net_bias")
    bias.set_data(mx.nd.ones((3,)))
    train = trainer(bias, wd=0.5)
    differentiate(bias, factor=0.0)
    train.step(1)
    assert value(bias) == 0.5  # 1 - (0 + 0.5 · 1)
    bias.wd_mult = 0.0
    bias.lr_mult = 0.25
    differentiate(bias)
    train.step(1)
    assert value(bias) == 0.25
    train.set_learning_rate(2.0)
    assert train.learning_rate == 2.0


def test_rates_are_no_part_of_the_program():
    x = parameter()
    train = trainer(x, optimizer="sgd", momentum=0.9, wd=0.1)
    for _ in range(4):  # a product with a number is compiled when it was called some times
        differentiate(x)
    train.step(1)
    with jax.log_compiles(), compilations() as compiled:
        for i in range(3):
            train.set_learning_rate(1.0 / (i + 2))
            x.lr_mult, x.wd_mult = 1.0 + i, 2.0 + i
            differentiate(x)
            train.step(2 + i)
    assert compiled == []


class compilations:
    """Counts what JAX says that it compiles."""

    def __enter__(self) -> list[str]:
        import logging

        self.told: list[str] = []
        self.handler = logging.Handler()
        self.handler.emit = lambda record: (
            self.told.append(record.getMessage()) if "Finished XLA compilation" in record.getMessage() else None
        )
        self.loggers = [logging.getLogger(name) for name in ("jax._src.dispatch", "jax._src.interpreters.pxla")]
        for logger in self.loggers:
            logger.addHandler(self.handler)
        return self.told

    def __exit__(self, *_: object) -> None:
        for logger in self.loggers:
            logger.removeHandler(self.handler)


@pytest.mark.parametrize(("update_on_kvstore", "expected"), [(None, True), (True, True), (False, False)])
def test_several_contexts_sum_their_gradients(update_on_kvstore: bool | None, expected: bool):
    x = parameter(ctx=CONTEXTS)
    train = trainer(x, momentum=0.5, update_on_kvstore=update_on_kvstore)
    differentiate(x)
    train.step(1)
    assert train._update_on_kvstore is expected
    assert [value(x, i) for i in range(2)] == [-2, -2]
    differentiate(x)
    train.step(1)
    assert [value(x, i) for i in range(2)] == [-5, -5]
    if expected:
        with pytest.raises(AssertionError, match="when parameters are updated on kvstore is not supported"):
            train.update(1)
        with pytest.raises(AssertionError, match="when parameters are updated on kvstore is not supported"):
            train.allreduce_grads()
    else:
        differentiate(x)
        train.allreduce_grads()
        assert x.list_grad()[0].asnumpy().tolist() == [2, 2, 2]
        train.update(1)
        assert value(x, 1) == -8.5


def test_one_context_has_no_store():
    x = parameter()
    train = trainer(x)
    differentiate(x)
    train.step(1)
    assert train._kvstore is None
    assert train._update_on_kvstore is None


def test_values_that_are_set_reach_a_store_that_updates():
    x = parameter(ctx=CONTEXTS)
    train = trainer(x)
    differentiate(x)
    train.step(1)
    x.set_data(mx.nd.ones((3,)) * 10)
    differentiate(x)
    train.step(1)
    assert value(x) == 8


def test_a_store_of_ones_own_takes_parameters_one_by_one():
    told: list[Any] = []

    class Store:
        type = "own"

        def is_capable(self, capability: str) -> bool:
            return False

        def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
            told.append(("broadcast", key))

        def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
            told.append(("pushpull", key, priority))

    x, y = parameter("x"), parameter("y")
    train = trainer(x, y, kvstore=Store())
    differentiate(x, y)
    train.step(1)
    assert told == [("broadcast", 0), ("broadcast", 1), ("pushpull", 0, 0), ("pushpull", 1, -1)]
    assert value(x) == -1
    with pytest.raises(ValueError, match="Please set update_on_kvstore=False"):
        trainer(x, kvstore=Store(), update_on_kvstore=True)._init_kvstore()


def test_parameters_are_on_equal_contexts():
    with pytest.raises(AssertionError, match="must be initialized on the same set of contexts"):
        trainer(parameter("x"), parameter("y", ctx=[mx.cpu(1)]))


def test_unknown_parameters_of_an_optimizer_are_a_type_error():
    with pytest.raises(TypeError, match="SGD has no parameter .*momentun.*Did you mean 'momentum'"):
        trainer(parameter(), momentun=0.9)


def test_an_optimizer_of_rows_refuses_biases():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "groupadagrad")
    with mx.autograd.record():
        loss = net(mx.nd.ones((1, 3))).sum()
    loss.backward()
    with pytest.raises(
        mx.MXNetError, match=r"'groupadagrad' can update only matrices; expected shape \(rows, columns\)"
    ):
        trainer.step(1)


def test_an_optimizer_that_is_an_object_takes_no_parameters():
    x = parameter()
    made = mx.optimizer.create("sgd", learning_rate=0.5, rescale_grad=3.0)
    with pytest.raises(AssertionError, match="optimizer_params must be None"):
        gluon.Trainer([x], made, {"learning_rate": 1.0})
    train = gluon.Trainer([x], made)
    differentiate(x)
    train.step(1)
    assert train.optimizer is made
    assert value(x) == -1.5


def test_values_are_not_set_behind_a_distributed_store_that_updates():
    x, store = parameter(), mx.kv.KVStore("dist_sync")
    train = trainer(x, kvstore=store)
    differentiate(x)
    train.step(1)
    with pytest.raises(RuntimeError, match="Cannot reset distributed KVStore.*update_on_kvstore=False"):
        x.set_data(mx.nd.ones(3))
    assert value(x) == -1


def test_values_are_set_where_a_distributed_store_does_not_update():
    x, store = parameter(), mx.kv.KVStore("dist_sync")
    train = trainer(x, kvstore=store, update_on_kvstore=False)
    differentiate(x)
    train.step(1)
    x.set_data(mx.nd.ones(3) * 5)
    differentiate(x)
    train.step(1)
    assert value(x) == 4


@pytest.mark.parametrize("options", [{}, {"update_on_kvstore": False}])
def test_schedules_count_the_updates_of_a_parameter(options: dict[str, Any]):
    x = parameter(ctx=CONTEXTS)
    schedule = mx.lr_scheduler.FactorScheduler(2, factor=0.5, base_lr=1.0)
    train = trainer(x, lr_scheduler=schedule, **options)
    rates = []
    for _ in range(5):
        differentiate(x)
        train.step(1)
        rates.append(train.learning_rate)
    assert rates == [1, 1, 0.5, 0.5, 0.25]
    with pytest.raises(UserWarning, match="LRScheduler of the optimizer has already been defined"):
        train.set_learning_rate(1.0)


@pytest.mark.parametrize(("ctx", "in_store"), [(None, None), (CONTEXTS, None), (CONTEXTS, False)])
def test_states_and_counts_go_through_a_file(tmp_path: Path, ctx: Any, in_store: bool | None):
    def step(train: Any, x: Any) -> None:
        differentiate(x)
        train.step(1)

    path = str(tmp_path / "x.states")
    x, y = parameter(ctx=ctx), parameter(ctx=ctx)
    options: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.1, "update_on_kvstore": in_store}
    first, second = (trainer(each, **options) for each in (x, y))
    for _ in range(3):
        step(first, x)
    first.save_states(path)
    y.set_data(x.list_data()[0])
    second.load_states(path)
    for _ in range(2):
        step(first, x)
        step(second, y)
    for ours, other in zip(y.list_data(), x.list_data(), strict=True):
        np.testing.assert_array_equal(ours.asnumpy(), other.asnumpy())


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_file_from_before_the_first_step_begins_anew(tmp_path: Path, scheduled: bool):
    path, x, y = str(tmp_path / "x.states"), parameter(), parameter()
    options: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.1}
    made: list[dict[str, Any]] = [{**options}, {**options}]
    for each in made if scheduled else ():
        each["lr_scheduler"] = mx.lr_scheduler.FactorScheduler(2, 0.5)
    first, second = (trainer(each, **more) for each, more in zip((x, y), made, strict=True))
    first.save_states(path)
    for _ in range(3):
        differentiate(x)
        first.step(1)
    first.load_states(path)
    x.set_data(mx.nd.zeros(3))
    if scheduled:
        first._optimizer.lr_scheduler.base_lr = 0.1  # as MXNet's, a schedule goes on from the rate that it has reached
    for _ in range(2):
        for train, each in ((first, x), (second, y)):
            differentiate(each)
            train.step(1)
        np.testing.assert_array_equal(x.data().asnumpy(), y.data().asnumpy())


def test_states_that_were_loaded_and_not_used_are_saved(tmp_path: Path):
    x = parameter()
    first = trainer(x, momentum=0.9)
    differentiate(x)
    first.step(1)
    first.save_states(str(tmp_path / "a"))
    second = trainer(parameter(), momentum=0.9)
    second.load_states(str(tmp_path / "a"))
    second.save_states(str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_the_rate_that_was_set_goes_through_a_file(tmp_path: Path):
    path = str(tmp_path / "x.states")
    x = parameter()
    first = trainer(x, learning_rate=0.5)
    differentiate(x)
    first.step(1)
    first.set_learning_rate(0.123456789)
    first.save_states(path)
    second = trainer(parameter(), learning_rate=0.5)
    second.load_states(path)
    assert second.learning_rate == 0.123456789
    scheduled = trainer(parameter(), learning_rate=0.5, lr_scheduler=mx.lr_scheduler.FactorScheduler(1, 0.5))
    scheduled.load_states(path)
    assert scheduled.learning_rate == 0.5


@pytest.mark.parametrize("updates", [3, 6, 9])
def test_a_schedule_that_has_ended_is_at_its_end_in_the_trainer_that_goes_on(tmp_path: Path, updates: int):
    path = str(tmp_path / "x.states")
    x = parameter()
    first, second = (
        trainer(each, learning_rate=0.5, lr_scheduler=mx.lr_scheduler.PolyScheduler(6, final_lr=0.125))
        for each in (x, parameter())
    )
    for _ in range(updates):
        differentiate(x)
        first.step(1)
    first.save_states(path)
    second.load_states(path)
    assert second.learning_rate == first.learning_rate


def test_deferred_parameters_have_a_trainer():
    net = nn.HybridSequential()
    net.add(nn.Dense(2), nn.Dense(1))
    net.initialize()
    train = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with mx.autograd.record():
        out = net(mx.nd.ones((2, 3)))
    out.backward()
    before = net[0].weight.data().asnumpy()
    train.step(2)
    assert np.abs(net[0].weight.data().asnumpy() - before).max() > 0


def test_sparse_parameters_are_updated_by_a_store_of_one_trainer():
    sparse = parameter(stype="row_sparse")
    first = trainer(sparse)
    differentiate(sparse)
    first.step(1)
    assert (first._kvstore.type, first._update_on_kvstore, value(sparse)) == ("device", True, -1)
    with pytest.raises(RuntimeError, match="of stype 'row_sparse' has a trainer already"):
        trainer(sparse)
    sparse._set_trainer(None)
    with pytest.raises(ValueError, match="Cannot set update_on_kvstore=False when sparse weights are present"):
        trainer(sparse, update_on_kvstore=False).step(1)
    gradients = parameter(grad_stype="row_sparse", ctx=CONTEXTS)
    second = trainer(gradients)
    differentiate(gradients)
    second.step(1)
    assert (second._update_on_kvstore, value(gradients, 1)) == (False, -2)
