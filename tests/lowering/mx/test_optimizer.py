"""`mx.optimizer`: arguments by position, attributes that may be written, copies, and the states of an updater."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from lowering import mx

optimizers: Any = mx.optimizer


def after(optimizer: Any, updates: int = 5, weight: Any = None) -> np.ndarray:
    """A weight of ones after some updates by the same gradient."""
    weight = mx.nd.ones((3,)) if weight is None else weight
    updater = optimizers.get_updater(optimizer)
    for _ in range(updates):
        updater(0, mx.nd.array([1.0, -2.0, 3.0], dtype=weight.dtype), weight)
    return weight.asnumpy()


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("name", "attribute", "keyword", "value"),
    [
        ("SGD", "momentum", "momentum", 0.9),
        ("NAG", "momentum", "momentum", 0.5),
        ("Signum", "wd_lh", "wd_lh", 0.1),
        ("Adam", "epsilon", "epsilon", 1.0),
        ("Adam", "beta1", "beta1", 0.5),
        ("RMSProp", "gamma1", "gamma1", 0.5),
        ("RMSProp", "centered", "centered", True),
        ("AdaGrad", "float_stable_eps", "eps", 1.0),
        ("Ftrl", "lamda1", "lamda1", 0.5),
        ("AdaDelta", "rho", "rho", 0.5),
        ("LARS", "eta", "eta", 0.1),
        ("SGD", "wd", "wd", 0.1),
        ("SGD", "clip_gradient", "clip_gradient", 1.5),
    ],
)
def test_an_attribute_that_is_written_is_the_argument(name: str, attribute: str, keyword: str, value: Any):
    optimizer, given = getattr(optimizers, name)(), getattr(optimizers, name)(**{keyword: value})
    setattr(optimizer, attribute, value)
    assert getattr(given, attribute) == value
    np.testing.assert_array_equal(after(optimizer), after(given))
    assert (after(given) != after(getattr(optimizers, name)())).any()


def test_an_attribute_that_is_written_between_updates_holds_from_then_on():
    optimizer, weight = optimizers.SGD(momentum=0.9, learning_rate=0.1), mx.nd.ones((3,))
    updater, gradient = optimizers.get_updater(optimizer), mx.nd.ones((3,))
    updater(0, gradient, weight)  # -0.1
    optimizer.momentum = 0.5
    updater(0, gradient, weight)  # 0.5 · -0.1 - 0.1
    optimizer.momentum = 0.0
    updater(0, gradient, weight)
    np.testing.assert_allclose(weight.asnumpy(), 1 - 0.1 - 0.15 - 0.1, rtol=1e-6)


def test_momentum_after_states_without_it_is_refused():
    optimizer, weight = optimizers.SGD(), mx.nd.ones((3,))
    updater = optimizers.get_updater(optimizer)
    updater(0, weight, weight)
    optimizer.momentum = 0.9
    with pytest.raises(mx.MXNetError, match="Set momentum before the first update"):
        updater(0, weight, weight)


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("SGD", (0.5,), {"momentum": 0.5}),
        ("Adam", (3, 0.8), {"learning_rate": 3, "beta1": 0.8}),
        ("Ftrl", (0.2, 0.3), {"lamda1": 0.2, "learning_rate": 0.3}),
        ("Signum", (0.3, 0.4), {"learning_rate": 0.3, "momentum": 0.4}),
        ("RMSProp", (0.1, 0.2, 0.3), {"learning_rate": 0.1, "gamma1": 0.2, "gamma2": 0.3}),
        ("LAMB", (0.1,), {"learning_rate": 0.1}),
    ],
)
def test_arguments_by_position_are_mxnets(name: str, arguments: tuple[Any, ...], named: dict[str, Any]):
    np.testing.assert_array_equal(
        after(getattr(optimizers, name)(*arguments)), after(getattr(optimizers, name)(**named))
    )


def test_an_argument_comes_once():
    with pytest.raises(TypeError, match="each once"):
        optimizers.SGD(0.5, momentum=0.3)
    with pytest.raises(TypeError, match="by position"):
        optimizers.SGD(0.5, True, 3)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    "name", [n for n, c in optimizers.Optimizer.opt_registry.items() if issubclass(c, optimizers.RuleOptimizer)]
)
def test_copies_go_on_alike(name: str):
    optimizer = optimizers.create(name, learning_rate=0.1, wd=0.01)
    weight = mx.nd.ones((3, 2))
    updater = optimizers.get_updater(optimizer)
    mx.random.seed(1)
    updater(0, weight * 2, weight)
    for made in (copy.deepcopy(updater), pickle.loads(pickle.dumps(updater))):
        ours, theirs = weight.copy(), weight.copy()
        mx.random.seed(2)
        copy.deepcopy(updater)(0, weight * 2, ours)
        mx.random.seed(2)
        made(0, weight * 2, theirs)
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())
        assert made.optimizer.num_update == 2


def test_a_schedule_goes_on_from_the_parameter_that_was_updated_most():
    updater, weight = optimizers.get_updater(optimizers.SGD(learning_rate=0.1)), mx.nd.ones((3,))
    for index in (0, 0, 0, 1):
        updater(index, weight, weight)
    other = optimizers.get_updater(
        optimizers.SGD(learning_rate=1, lr_scheduler=mx.lr_scheduler.FactorScheduler(step=2, factor=0.5))
    )
    other.set_states(updater.get_states(dump_optimizer=True))
    assert other.optimizer.num_update == 3
    assert other.optimizer.learning_rate == 0.5


@pytest.mark.parametrize("numbers", [{"t": 0}, {"t": -1}, {"lr": 0.0}])
def test_a_number_that_the_operator_refuses_is_refused_after_others_were_taken(numbers: dict[str, Any]):
    def update(lr: float = 0.1, t: int = 1) -> None:
        d, v, z, weight = (mx.nd.ones((3,)) for _ in range(4))
        mx.nd.ftml_update(weight, weight, d, v, z, lr=lr, t=t)

    for step in (1, 2, 3, 4):
        update(t=step)
    with pytest.raises(mx.MXNetError, match="out of range"):
        update(**numbers)


@pytest.mark.parametrize("with_optimizer", [False, True])
def test_states_as_bytes(with_optimizer: bool):
    updater, weight = optimizers.get_updater(optimizers.Adam(learning_rate=0.1)), mx.nd.ones((3,))
    updater(0, weight, weight)
    states, at = updater.get_states(dump_optimizer=with_optimizer), weight.copy()
    updater(0, weight, weight)
    other, again = optimizers.get_updater(optimizers.Adam(learning_rate=0.1)), at.copy()
    other.set_states(states)
    other(0, at, again)
    assert (other.optimizer.num_update == 2) is with_optimizer
    assert np.allclose(again.asnumpy(), weight.asnumpy()) is with_optimizer  # Adam reads the count
    with pytest.raises(ValueError, match="pickle"):
        other.set_states(pickle.dumps({0: None}))


OPTIMISERS = (
    "adadelta adagrad adam adamax adamw dcasgd ftml ftrl groupadagrad lamb lars lbsgd nadam nag rmsprop sgd signum"
)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", OPTIMISERS.split())
def test_states_of_every_optimiser_come_back(name: str):
    updater, weight = optimizers.get_updater(optimizers.create(name)), mx.nd.array([[1.0, -2.0]])
    updater(0, weight * 0.25, weight)
    other, again = optimizers.get_updater(optimizers.create(name)), weight.copy()
    other.set_states(updater.get_states(dump_optimizer=True))
    updater(0, weight * 0.25, weight)
    other(0, again * 0.25, again)
    np.testing.assert_array_equal(again.asnumpy(), weight.asnumpy())


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["adam", "sgd", "adagrad", "nag"])
def test_a_copy_in_a_plain_tuple_is_the_copy(name: str):
    kwargs = {"momentum": 0.9} if name in ("sgd", "nag") else {}

    class Own(type(optimizers.create(name))):
        def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
            return tuple(super().create_state_multi_precision(index, weight))

    def trained(optimizer: Any) -> np.ndarray:
        weights = [mx.nd.array([1, -2, 3], dtype="float16"), mx.nd.array([4, 5], dtype="float16")]
        updater = optimizers.get_updater(optimizer)
        for _ in range(3):
            updater([0, 1], [weight * 0.25 for weight in weights], weights)
            updater(0, weights[0] * 0.25, weights[0])
        for _ in range(2):
            updater.set_states(updater.get_states())
            optimizer.update_multi_precision(0, weights[0], weights[0] * 0.25, updater.states[0])
        return np.concatenate([weight.asnumpy() for weight in weights])

    plain = Own(multi_precision=True, learning_rate=0.125, **kwargs)
    np.testing.assert_array_equal(
        trained(plain), trained(optimizers.create(name, multi_precision=True, learning_rate=0.125, **kwargs))
    )


def test_methods_of_a_subclass_are_called():
    calls: list[str] = []

    class Halved(optimizers.Adam):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            calls.append(f"update {weight.dtype.__name__}")
            super().update(index, weight, grad * 0.5, state)

        def create_state(self, index: Any, weight: Any) -> Any:
            calls.append("create_state")
            return super().create_state(index, weight)

    class Told(optimizers.SGD):
        def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            calls.append("update_multi_precision")
            super().update_multi_precision(index, weight, grad, state)

    np.testing.assert_array_equal(after(Halved(), 2), after(optimizers.Adam(rescale_grad=0.5), 2))
    assert calls == ["create_state", "update float32", "update float32"]
    calls.clear()
    narrow = [mx.nd.ones((3,), dtype="float16") for _ in range(2)]
    ours, theirs = after(Halved(multi_precision=True), 3, narrow[0]), after(optimizers.Adam(), 3, narrow[1])
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)
    assert calls == ["create_state", *["update float32"] * 3]
    calls.clear()
    np.testing.assert_array_equal(after(Told(momentum=0.9)), after(optimizers.SGD(momentum=0.9)))
    assert calls == ["update_multi_precision"] * 5


def test_deviation_the_noise_of_sgld_is_no_next_draw():
    """MXNet 1.9.1 prints the same numbers twice: its noise is √η times what `normal` draws next."""
    mx.random.seed(5)
    weights = [mx.nd.zeros(3), mx.nd.zeros(3)]
    update = mx.optimizer.get_updater(mx.optimizer.create("sgld", learning_rate=0.04, param_idx2name={0: "a", 1: "b"}))
    update([0, 1], [mx.nd.zeros(3), mx.nd.zeros(3)], weights)
    mx.random.seed(5)
    drawn = mx.nd.random.normal(0, 0.2, (3,)).asnumpy()
    assert not any(np.allclose(weight.asnumpy(), drawn) for weight in weights)
    mx.random.seed(5)
    other = mx.nd.zeros(3)
    update = mx.optimizer.get_updater(mx.optimizer.create("sgld", learning_rate=0.04, param_idx2name={0: "b"}))
    update([0], [mx.nd.zeros(3)], [other])
    np.testing.assert_array_equal(other.asnumpy(), weights[1].asnumpy())


def test_deviation_adadelta_leaves_the_gradient_as_it_is():
    """MXNet's is multiplied by rescale_grad."""
    grad = mx.nd.ones(3)
    mx.optimizer.get_updater(mx.optimizer.create("adadelta", rescale_grad=0.5))(0, grad, mx.nd.ones(3))
    assert grad.asnumpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("size", [300.0, 1e-4])
def test_deviation_steps_of_lamb_are_right_where_squares_leave_half_precision(size: float):
    """One step is 1 % of a weight that is its gradient; MXNet makes -inf of 300, and of 1e-4 a step of 9900 %."""
    weight = mx.nd.full((4,), size, dtype="float16")
    update = mx.optimizer.get_updater(mx.optimizer.create("lamb", multi_precision=True, learning_rate=0.01))
    update(0, weight.copy(), weight)
    np.testing.assert_allclose(weight.asnumpy() / size, 0.99, rtol=2e-3)


def test_deviation_a_subclass_of_sgd_updates_one_parameter_at_a_time():
    asked: list[Any] = []

    class Told(mx.optimizer.Optimizer.opt_registry["sgd"]):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            asked.append(index)

    mx.optimizer.get_updater(Told())([0, 1], [mx.nd.ones((2,))] * 2, [mx.nd.ones((2,))] * 2)
    assert asked == [0, 1]


@pytest.mark.parametrize(
    ("name", "rates", "base", "says"),
    [
        ("sgd", {}, 0.3, False),
        ("sgd", {"learning_rate": 0.3}, 0.3, False),
        ("sgd", {"learning_rate": 0.1}, 0.1, True),
        ("adam", {"learning_rate": 0.1}, 0.1, True),
        ("adam", {}, 0.3, False),  # a deviation: MXNet takes Adam's default, and says that this was given
    ],
)
def test_a_rate_that_is_given_overwrites_the_schedulers_and_says_so(
    name: str, rates: dict[str, float], base: float, says: bool, capsys: pytest.CaptureFixture[str]
):
    scheduler = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.3)
    assert mx.optimizer.create(name, lr_scheduler=scheduler, **rates).learning_rate == scheduler.base_lr == base
    line = "learning rate from ``lr_scheduler`` has been overwritten by ``learning_rate`` in optimizer.\n"
    assert capsys.readouterr().out == line * says


def test_a_gradient_of_another_shape_is_refused_by_name():
    optimizer = mx.optimizer.create("sgd", param_idx2name={0: "fc_weight"})
    with pytest.raises(mx.MXNetError, match=r"fc_weight.*shape"):
        optimizer.update(0, mx.nd.ones((2, 3)), mx.nd.ones((3,)), None)


def test_lists_of_aggregate_num_parameters_of_one_dtype():
    """MXNet 1.9.1's calls: five parameters, the fourth of another dtype."""
    calls: list[tuple[Any, ...]] = []

    class Lists(mx.optimizer.Optimizer):
        aggregate_num = 3

        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            calls.append(tuple(index))
            for array, gradient in zip(weight, grad, strict=True):
                array -= gradient

    update = mx.optimizer.get_updater(Lists())
    assert update.aggregate_updates
    weights = [mx.nd.zeros(2, dtype="float16" if i == 3 else "float32") for i in range(6)]
    update(list(range(6)), [mx.nd.ones(2, dtype=weight.dtype) for weight in weights], weights)
    assert calls == [(0, 1, 2), (4, 5), (3,)]
    assert all(weight.asnumpy().tolist() == [-1, -1] for weight in weights)
    assert not mx.optimizer.get_updater(mx.optimizer.create("adam")).aggregate_updates


@pytest.mark.parametrize(
    ("owner", "name", "way"),
    [
        (
            lambda: mx.optimizer.get_updater(mx.optimizer.create("sgd")),
            "states_synced",
            "States are made where the parameter is",
        ),
        (lambda: mx.optimizer.get_updater(mx.optimizer.create("sgd")), "set_state", "Did you mean 'set_states'"),
        (lambda: mx.libinfo, "find_lib_path", "There is no C library here"),
        (lambda: mx.init, "registry", "mx.init.register"),
        (lambda: mx.rnn, "rnn_unroll", "cell.unroll"),
        (lambda: mx, "executor_manager", "It was dropped: use mx.mod.Module"),
        (lambda: mx.contrib, "svrg_optimization", "SVRGModule was dropped: use mx.mod.Module"),
    ],
)
def test_what_is_not_here_says_what_to_use(owner: Any, name: str, way: str):
    with pytest.raises(AttributeError, match=way):
        getattr(owner(), name)
