"""MXNet's optimisers, multipliers and schedules: numbers of MXNet 1.9.1, and what they refuse."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowering.optim import schedules
from lowering.optim.optimizers import MXNetOptimizer, make_optimizer
from lowering.training import list_optimizers
from symjax_nnvm import ParamError
from symjax_nnvm import symbol as sym
from tests.lowering.training import cases

HERE = Path(__file__).parents[2] / "goldens" / "training"
NUMBERS = json.loads((HERE / "numbers.json").read_text())


def network(names: Sequence[str] = tuple(cases.SHAPES)) -> sym.Symbol:
    attributes: dict[str, Any] = {name: cases.MULTIPLIERS.get(name, {}) for name in names}
    return sym.Group([sym.Variable(name, **attributes[name]) for name in names])


def make(name: str, params: dict[str, Any], names: Sequence[str] = tuple(cases.SHAPES)) -> MXNetOptimizer:
    options = dict(params)
    if "lr_scheduler" in options:
        scheduler, arguments = options["lr_scheduler"]
        options["lr_scheduler"] = getattr(schedules, scheduler)(**arguments)
    made = make_optimizer(name, options, network(names), names)
    assert isinstance(made, MXNetOptimizer)
    return made


def run(made: MXNetOptimizer, names: list[str], steps: int = cases.STEPS) -> list[dict[str, jax.Array]]:
    """The parameters after each step, in one compiled function: the step's number is traced."""
    rescale = 1.0 if made.rescale_grad is None else made.rescale_grad
    update = jax.jit(lambda p, g, s, i: made.update(p, g, s, i, jax.random.key(0), rescale))
    params = {name: jnp.asarray(value) for name, value in cases.weights().items() if name in names}
    state = made.init(params)
    rows = []
    for step in range(steps):
        grads = {name: jnp.asarray(value) for name, value in cases.gradients(step).items() if name in names}
        params, state = update(params, grads, state, jnp.int32(step))
        rows.append(params)
    assert update._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]
    return rows


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("case", cases.OPTIMIZERS)
def test_five_steps_equal_mxnet(case: str):
    name, params = cases.OPTIMIZERS[case]
    names = cases.names_of(case)
    rows = run(make(name, params, names), names)
    ours = np.stack([np.concatenate([np.ravel(row[n]) for n in names]) for row in rows])
    with np.load(HERE / "optimizers.npz") as goldens:
        np.testing.assert_allclose(ours, goldens[case], rtol=2e-5, atol=2e-6)


def test_every_optimizer_is_compared_with_mxnet_but_those_tested_here():
    compared = {name.lower() for name, _ in cases.OPTIMIZERS.values()}
    assert set(list_optimizers()) - compared == {"adamw", "sgld"}


def test_adamw_is_adam_with_decoupled_decay():
    names = ["fc_weight"]
    (row,) = run(make("adamw", {"learning_rate": 0.1, "wd": 0.5}, names), names, steps=1)
    weight, grad = cases.weights()["fc_weight"], cases.gradients(0)["fc_weight"]
    expected = weight - 0.1 * (np.sign(grad) + 0.5 * weight)  # after one step m̂ / √v̂ is the sign
    np.testing.assert_allclose(row["fc_weight"], expected, rtol=1e-5)


@pytest.mark.slow("computes much")
def test_sgld_adds_noise_of_variance_lr():
    big = {"a_weight": jnp.ones(40000)}
    made = make_optimizer("sgld", {"learning_rate": 0.04}, sym.Variable("a_weight"), ["a_weight"])
    state = made.init(big)
    new, _ = made.update(big, {"a_weight": jnp.full(40000, 3.0)}, state, jnp.int32(0), jax.random.key(1), 1.0)
    moved = np.asarray(new["a_weight"]) - (1 - 0.02 * 3)
    assert abs(moved.mean()) < 4 * 0.2 / 200
    assert moved.std() == pytest.approx(0.2, rel=0.02)


@pytest.mark.slow("compiles")
def test_deviation_the_noise_of_sgld_is_the_parameters_own():
    # MXNet draws the next normal numbers for each parameter in turn.
    def moved(names: list[str]) -> dict[str, jax.Array]:
        made = make("sgld", {"learning_rate": 0.04}, names)
        params = dict.fromkeys(names, jnp.zeros(4))
        return made.update(params, params, made.init(params), jnp.int32(0), jax.random.key(1), 1.0)[0]

    alone, (first, second) = (
        moved(["fc_weight"]),
        (moved(names) for names in (["fc_bias", "fc_weight"], ["fc_weight", "fc_bias"])),
    )
    for together in (first, second):
        np.testing.assert_array_equal(together["fc_weight"], alone["fc_weight"])
        assert not np.any(np.asarray(together["fc_bias"]) == np.asarray(alone["fc_weight"]))
    np.testing.assert_array_equal(first["fc_bias"], second["fc_bias"])


def test_deviation_nag_decays_the_momentum_by_the_weight_before_the_update():
    # MXNet updates the weight in place, and then decays the momentum by the new one.
    made = make("nag", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.5}, ["fc_weight"])
    params = {"fc_weight": jnp.ones((1, 1))}
    _, state = made.update(params, params, made.init(params), jnp.int32(0), jax.random.key(0), 1.0)
    np.testing.assert_allclose(state["slots"]["fc_weight"][0], -0.1 * (1 + 0.5), rtol=1e-6)


@pytest.mark.slow("computes much")
def test_deviation_adamax_leaves_weights_alone_that_never_had_a_gradient():
    made = make("adamax", {}, ["fc_bias"])
    params = {"fc_bias": jnp.ones(3)}
    grads = {"fc_bias": jnp.array([0.0, 1.0, 0.0])}
    new, _ = made.update(params, grads, made.init(params), jnp.int32(0), jax.random.key(0), 1.0)
    np.testing.assert_allclose(new["fc_bias"], [1, 1 - 0.002, 1])


@pytest.mark.slow("compiles")
def test_deviation_nadam_keeps_a_momentum_schedule_for_each_parameter():
    names = list(cases.SHAPES)
    together = run(make("nadam", {"schedule_decay": 0.1}), names)
    alone = run(make("nadam", {"schedule_decay": 0.1}, ["fc_bias"]), ["fc_bias"])
    np.testing.assert_array_equal(together[-1]["fc_bias"], alone[-1]["fc_bias"])


@pytest.mark.slow("computes much")
def test_deviation_lars_corrects_the_momentum_of_every_parameter():
    # MXNet corrects that of the first four, which it updates together.
    names = [f"w{i}_weight" for i in range(6)]
    results = []
    for corrected in (True, False):
        schedule = schedules.FactorScheduler(step=1, factor=0.5, base_lr=0.1)
        options = {"momentum": 0.9, "lr_scheduler": schedule, "momentum_correction": corrected}
        made = make_optimizer("lars", options, sym.Group([sym.Variable(name) for name in names]), names)
        params = {name: jnp.ones(3) for name in names}
        state = made.init(params)
        for step in range(3):
            params, state = made.update(params, params, state, jnp.int32(step), jax.random.key(0), 1.0)
        results.append(params)
    for name in names:
        np.testing.assert_array_equal(results[0][name], results[0]["w0_weight"])
        assert not np.array_equal(results[0][name], results[1][name])


def test_deviation_a_scheduler_keeps_its_rate_under_optimizers_with_a_default_rate():
    made = make("adam", {"lr_scheduler": ("FactorScheduler", {"step": 5, "base_lr": 0.3})})
    assert made.schedule is not None
    assert float(made.schedule(1)) == pytest.approx(0.3)


def test_weight_decay_reaches_weights_and_gammas_only():
    assert make("sgd", {"wd": 1.0}).wds == {"fc_weight": 1.0, "fc_bias": 0.0, "bn_gamma": 1.0, "special_weight": 2.0}
    assert make("lars", {"wd": 1.0}).wds["bn_gamma"] == 0.0


def test_multipliers_given_win_over_attributes():
    made = make("sgd", {"lr_mult": {"special_weight": 3}, "wd": 1.0, "wd_mult": {"fc_bias": 0.5}})
    assert made.lr_mults == {"fc_weight": 1.0, "fc_bias": 1.0, "bn_gamma": 1.0, "special_weight": 3.0}
    assert made.wds["fc_bias"] == 0.5


@pytest.mark.slow("computes much")
def test_multi_precision_keeps_a_float32_copy():
    made = make_optimizer("sgd", {"learning_rate": 1e-4, "multi_precision": True}, sym.Variable("w"), ["w"])
    params, state = {"w": jnp.ones(2, jnp.bfloat16)}, made.init({"w": jnp.ones(2, jnp.bfloat16)})
    for step in range(100):
        grads = {"w": jnp.ones(2, jnp.bfloat16)}
        params, state = made.update(params, grads, state, jnp.int32(step), jax.random.key(0), 1.0)
    np.testing.assert_allclose(state["slots"]["w"][-1], 0.99, rtol=1e-5)
    assert params["w"].dtype == jnp.bfloat16


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("case", cases.SCHEDULES)
def test_schedule_equals_mxnet(case: str):
    name, arguments = cases.SCHEDULES[case]
    made = getattr(schedules, name)(**arguments)
    rates = jax.jit(jax.vmap(made))(jnp.arange(1, cases.UPDATES + 1))
    np.testing.assert_allclose(rates, NUMBERS["schedules"][case], rtol=2e-6, atol=1e-9)


def test_a_function_of_the_update_is_a_schedule():
    made = make_optimizer("sgd", {"learning_rate": lambda n: 1 / n}, sym.Variable("w"), ["w"])
    params = {"w": jnp.zeros(1)}
    new, _ = made.update(params, {"w": jnp.ones(1)}, made.init(params), jnp.int32(3), jax.random.key(0), 1.0)
    assert float(new["w"][0]) == pytest.approx(-1 / 4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"step": 0}, "step"),
        ({"step": 2, "factor": 2.0}, "factor"),
        ({"step": 2, "warmup_mode": "slow"}, "warmup_mode"),
        ({"step": 2, "warmup_begin_lr": 1.0}, "warmup_begin_lr"),
    ],
)
def test_impossible_schedule_names_the_parameter(arguments: dict[str, Any], says: str):
    with pytest.raises(ParamError, match=says):
        schedules.FactorScheduler(**arguments)


def test_unknown_optimizer_lists_those_that_exist():
    with pytest.raises(ParamError, match=r"'adma'.*'adadelta'.*'signum'.*Did you mean"):
        make("adma", {})


def test_unknown_parameter_lists_those_that_exist():
    with pytest.raises(ParamError, match=r"'nag' has no parameter \['beta1'\].*'momentum'"):
        make("nag", {"beta1": 0.9})


def test_multiplier_of_an_unknown_parameter_is_an_error():
    with pytest.raises(ParamError, match=r"lr_mult names \['fc9_weight'\]"):
        make("sgd", {"lr_mult": {"fc9_weight": 2.0}})


def test_rate_and_schedule_that_disagree_are_an_error():
    with pytest.raises(ParamError, match="differ"):
        make("sgd", {"learning_rate": 0.2, "lr_scheduler": ("FactorScheduler", {"step": 2, "base_lr": 0.1})})


def test_a_number_that_is_none_is_an_error():
    with pytest.raises(ParamError, match="momentum"):
        make("sgd", {"momentum": "fast"})


def test_groupadagrad_refuses_vectors():
    made = make("groupadagrad", {})
    with pytest.raises(ParamError, match="fc_bias"):
        made.init({name: jnp.asarray(value) for name, value in cases.weights().items()})


def test_bias_correction_is_exact_for_a_beta_near_one():
    from lowering.optim.update_rules import one_minus_power

    assert float(one_minus_power(0.999, jnp.float32(1))) == pytest.approx(0.001, rel=1e-6)
    assert float(one_minus_power(0.999, jnp.float32(1000))) == pytest.approx(1 - math.pow(0.999, 1000), rel=1e-6)
