"""Optimisers' updates: states, inference, refusals, forms with a float32 copy, and formulas fed with arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.optim import layerwise_updates, updates
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ops.optimizer.update import UPDATES, UpdateSchema
from tests.support.comparison import assert_close
from tests.support.refusals import refused

ROWS = {row.name: row for row in UPDATES}
REQUIRED = {"lr": 0.1, "eta": 0.5, "t": 2, "wd": 0.3}
FORMULA_OF = {
    "mp_sgd_update": "sgd_update",
    "mp_sgd_mom_update": "sgd_mom_update",
    "mp_nag_mom_update": "nag_mom_update",
    "_mp_adamw_update": "_adamw_update",
    "mp_lamb_update_phase1": "lamb_update_phase1",
    "mp_lamb_update_phase2": "lamb_update_phase2",
}


def net(op: str, **params: Any) -> sym.Symbol:
    """The operator named `n` on its own variables, with what it requires."""
    fields = ROWS[op].params.__dataclass_fields__
    given = {name: value for name, value in REQUIRED.items() if name in fields} | params
    return getattr(sym, op)(name="n", **given)


def run(op: str, values: dict[str, Any], **params: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(output, new states) of the operator on inputs by name."""
    symbol = net(op, **params)
    states = {f"n_{name}": values[name] for name in ROWS[op].states}
    rest = {f"n_{name}": values[name] for name in ROWS[op].inputs if name not in ROWS[op].states}
    (out,), new = jax.jit(lowering.to_jax(symbol))(rest, states)
    return np.asarray(out), {name.removeprefix("n_"): np.asarray(value) for name, value in new.items()}


def draw(row: UpdateSchema, dtype: Any = np.float32) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(5)
    return {
        name: rng.uniform(0.5, 1.5, (1,) if name in row.numbers else (2, 3)).astype(
            np.float32 if name in row.single else dtype
        )
        for name in row.inputs
    }


# -- schema and inference --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", UPDATES, ids=lambda row: row.name)
def test_states_are_auxiliary(row: UpdateSchema):
    symbol = net(row.name)
    assert symbol.list_auxiliary_states() == [f"n_{name}" for name in row.inputs if name in row.states]
    assert symbol.list_arguments() == [f"n_{name}" for name in row.inputs if name not in row.states]
    assert symbol.list_outputs() == ["n_output"]


@pytest.mark.parametrize("row", UPDATES, ids=lambda row: row.name)
def test_shapes_follow_from_any_input_and_numbers_have_one_element(row: UpdateSchema):
    expected = {f"n_{name}": (1,) if name in row.numbers else (2, 3) for name in row.inputs}
    for known in (name for name in row.inputs if name not in row.numbers):
        arguments, outputs, auxiliary = net(row.name).infer_shape(**{f"n_{known}": (2, 3)})
        assert arguments == [expected[name] for name in net(row.name).list_arguments()]
        assert auxiliary == [expected[name] for name in net(row.name).list_auxiliary_states()]
        assert outputs == [(2, 3)]


def test_what_stands_beside_a_half_precision_weight_is_single():
    types = net("mp_lamb_update_phase1").infer_type(n_weight="float16")
    assert types == ([np.float16, np.float16, np.float32], [np.float32], [np.float32, np.float32])
    types = net("mp_lamb_update_phase2").infer_type(n_weight="float16")
    assert types == ([np.float16, *[np.float32] * 3], [np.float16], [np.float32])
    types = net("_adamw_update").infer_type(n_weight="float64")
    assert types == ([np.float64, np.float64, np.float32], [np.float64], [np.float64, np.float64])


@pytest.mark.parametrize(
    ("op", "shapes", "words"),
    [
        ("sgd_update", {"n_weight": (2, 3), "n_grad": (3, 2)}, ("Shape inconsistent", "'grad'", "(3, 2)")),
        ("sgd_mom_update", {"n_weight": (2, 3), "n_mom": (2,)}, ("Shape inconsistent", "'mom'", "(2,)")),
        ("_adamw_update", {"n_weight": (2,), "n_rescale_grad": (2,)}, ("'rescale_grad'", "one element", "(2,)")),
        ("lamb_update_phase2", {"n_weight": (2,), "n_r2": (2, 1)}, ("'r2'", "one element", "(2, 1)")),
    ],
)
def test_impossible_shapes_are_named(op: str, shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, op, "'n'", *words):
        net(op).infer_shape(**shapes)


def test_a_master_copy_is_float32():
    with pytest.raises(InferenceError, match="weight32"):
        net("mp_sgd_update").infer_type(n_weight="float16", n_weight32="float64")


def test_required_parameters_are_asked_for():
    for op, missing in (("sgd_update", "lr"), ("ftml_update", "t"), ("lamb_update_phase1", "wd")):
        kept = {k: v for k, v in REQUIRED.items() if k in ROWS[op].params.__dataclass_fields__ and k != missing}
        with pytest.raises(ParamError, match=f"Required parameter {missing}"):
            getattr(sym, op)(name="n", **kept)


# -- forms with a float32 copy ---------------------------------------------------------------------------------------


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(("op", "single"), FORMULA_OF.items())
def test_a_form_with_a_master_copy_is_the_single_form_of_the_copy(op: str, single: str):
    """Mended: mp_nag_mom_update decays by the old weight, mp_lamb_update_phase2 writes weight32."""
    values = draw(ROWS[op], np.float16)
    of_copy = {**values, "weight": values["weight32"], "grad": values.get("grad", values["weight32"])}
    of_copy = {name: value.astype(np.float32) for name, value in of_copy.items()}
    out, new = run(op, values)
    expected, expected_states = run(single, of_copy)
    assert out.dtype == (np.float32 if "phase1" in op else np.float16)
    if "weight32" in ROWS[op].states:
        np.testing.assert_array_equal(out, new["weight32"].astype(np.float16))
        out = new["weight32"]
    assert_close(out, expected, 1e-6, "output")
    for name, value in expected_states.items():
        assert_close(new[name], value, 1e-6, name)


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("op", ["_adamw_update", "_mp_adamw_update"])
@pytest.mark.parametrize("factor", [0.0, np.inf, -np.inf, np.nan])
def test_adamw_skips_the_step_of_an_unusable_gradient(op: str, factor: float):
    values = draw(ROWS[op])
    values |= {"rescale_grad": np.full(1, factor, np.float32), "grad": np.full((2, 3), np.inf, np.float32)}
    out, new = run(op, values)
    np.testing.assert_array_equal(out, values["weight32" if "weight32" in values else "weight"])
    for name, value in new.items():
        np.testing.assert_array_equal(value, values[name])


def test_half_precision_keeps_an_epsilon_that_float16_cannot_hold():
    values = {name: np.zeros(3, np.float16) for name in ("grad", "mean", "var")} | {"weight": np.ones(3, np.float16)}
    out, new = run("adam_update", values)
    np.testing.assert_array_equal(run("adam_update", values, wd=0.0)[0], np.ones(3))
    assert np.isfinite(out).all()
    assert all(value.dtype == np.float16 for value in new.values())


@pytest.mark.parametrize("norms", [(0.0, 2.0), (2.0, 0.0), (0.0, 0.0)])
def test_lamb_takes_the_plain_learning_rate_where_a_norm_is_0(norms: tuple[float, float]):
    values = draw(ROWS["lamb_update_phase2"])
    values |= {name: np.full(1, norm, np.float32) for name, norm in zip(("r1", "r2"), norms, strict=True)}
    out, _ = run("lamb_update_phase2", values)
    assert_close(out, values["weight"] - 0.1 * values["g"], 1e-6, "weight")


def test_a_clip_of_0_stops_the_gradient_and_a_negative_one_is_none():
    values = draw(ROWS["sgd_update"])
    assert_close(run("sgd_update", values, wd=0.0, clip_gradient=0.0)[0], values["weight"], 0, "weight")
    free = run("sgd_update", values, clip_gradient=-1.0)[0]
    np.testing.assert_array_equal(run("sgd_update", values, clip_gradient=-0.5)[0], free)


def test_signsgd_counts_only_the_sign():
    values = draw(ROWS["signsgd_update"]) | {"grad": np.array([[-2, 0, 3], [1e-9, -1e9, 0]], np.float32)}
    out = run("signsgd_update", values, wd=0.0, rescale_grad=7.0, clip_gradient=1e-3)[0]
    assert_close(out, values["weight"] - 0.1 * np.sign(values["grad"]), 1e-6, "weight")


# -- the formulas, as training uses them -----------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_learning_rates_and_step_numbers_may_be_arrays():
    weight, grad, mean, var = (jnp.asarray(v) for v in draw(ROWS["lamb_update_phase1"]).values())
    traces: list[Any] = []

    @jax.jit
    def step(lr: Any, t: Any) -> Any:
        traces.append(lr)
        return layerwise_updates.lamb(weight, grad, mean, var, lr=lr, t=t, wd=0.1)

    for lr, t in ((0.1, 1), (0.2, 5)):
        expected = layerwise_updates.lamb(weight, grad, mean, var, lr=lr, t=t, wd=0.1)
        for ours, theirs in zip(step(jnp.float32(lr), jnp.int32(t)), expected, strict=True):
            assert_close(ours, theirs, 1e-5, "array")
    assert len(traces) == 1


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_half_precision_is_calculated_in_single_and_rounded_once(dtype: Any):
    arrays = [jnp.asarray(v, dtype) for v in draw(ROWS["adam_update"]).values()]
    hyper: dict[str, Any] = {"lr": jnp.float32(0.1), "wd": 0.3, "clip_gradient": 0.7}
    exact = updates.adam(*[array.astype(np.float32) for array in arrays], **hyper)
    for ours, theirs in zip(updates.adam(*arrays, **hyper), exact, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_array_equal(np.asarray(ours, np.float32), np.asarray(theirs.astype(dtype), np.float32))


def test_momentum_0_is_plain_descent():
    weight, grad, mom = (jnp.asarray(v) for v in draw(ROWS["sgd_mom_update"]).values())
    hyper: dict[str, Any] = {"lr": 0.1, "wd": 0.2, "rescale_grad": 0.5, "clip_gradient": 0.3}
    (plain,) = updates.sgd(weight, grad, **hyper)
    for formula in (updates.sgd_mom, updates.nag):
        assert_close(formula(weight, grad, mom, momentum=0.0, **hyper)[0], plain, 1e-6, "weight")


def test_an_update_in_a_graph_trains():
    """Ten steps on w² / 2, whose gradient is w itself."""
    weight = sym.Variable("w")
    function = jax.jit(lowering.to_jax(sym.sgd_mom_update(weight, weight, lr=0.3, momentum=0.5, name="n")))
    value, states = np.array([4.0, -2.0], np.float32), {"n_mom": np.zeros(2, np.float32)}
    for _ in range(10):
        (value,), states = function({"w": value}, states)
    assert np.abs(value).max() < 0.2
