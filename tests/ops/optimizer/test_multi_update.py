"""Updates of many weights: as the updates of one; names, inference, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.ops.optimizer.multi_update import FORMULAS
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ops.optimizer.multi_update import UPDATES, MultiUpdateSchema
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

ROWS = {row.name: row for row in UPDATES}
EACH = {"lrs": (0.1, 0.2), "learning_rates": (0.1, 0.2), "wds": (0.3, 0.4), "etas": (0.5, 0.6), "step_count": (1, 2)}
SINGULAR = {"lrs": "lr", "learning_rates": "lr", "wds": "wd", "etas": "eta", "step_count": "t"}
SHAPES = ((2, 3), (4,))


def net(op: str, count: int = 2, **params: Any) -> sym.Symbol:
    """The operator named `n` on its own variables, with what it requires."""
    row = ROWS[op]
    fields = row.params.__dataclass_fields__
    given = {name: value[:count] for name, value in EACH.items() if name in fields}
    return getattr(sym, op)(name="n", **{**given, row.count: count, **params})


def given_shapes() -> dict[str, Any]:
    return {f"n_weight_{i}": shape for i, shape in enumerate(SHAPES)}


@pytest.mark.parametrize("row", UPDATES, ids=lambda row: row.name)
def test_inputs_are_named_and_states_are_auxiliary(row: MultiUpdateSchema):
    symbol = net(row.name)
    named = [f"n_{name}_{i}" for i in range(2) for name in row.each]
    states = [name for name in named if name[2:-2] in row.states]
    shared = [f"n_{name}" for name in row.shared]
    assert symbol.list_auxiliary_states() == states
    assert symbol.list_arguments() == [name for name in named if name not in states] + shared
    assert symbol.list_outputs() == ["n_output0", "n_output1"]


@pytest.mark.parametrize("row", UPDATES, ids=lambda row: row.name)
def test_shapes_follow_from_the_weights(row: MultiUpdateSchema):
    symbol = net(row.name)
    arguments, outputs, auxiliary = symbol.infer_shape(**given_shapes())
    shared = {"n_lrs": (2,), "n_wds": (2,), "n_rescale_grad": (1,)}
    assert arguments == [shared.get(name) or SHAPES[int(name[-1])] for name in symbol.list_arguments()]
    assert auxiliary == [SHAPES[int(name[-1])] for name in symbol.list_auxiliary_states()]
    assert outputs == list(SHAPES)


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("row", UPDATES, ids=lambda row: row.name)
def test_many_weights_are_updated_as_one_by_one(row: MultiUpdateSchema):
    """Mended among them: multi_sgd_mom_update and its preloaded form, which MXNet's graphs cannot hold."""
    rng = np.random.RandomState(2)
    symbol = net(row.name)
    arguments, _, auxiliary = symbol.infer_shape(**given_shapes())
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    values = {
        name: rng.uniform(0.5, 1.5, shape).astype(np.float32)
        for name, shape in zip(names, [*arguments, *auxiliary], strict=True)
    }
    aux = {name: values.pop(name) for name in symbol.list_auxiliary_states()}
    outputs, new = evaluated(lowering.to_jax(symbol), values, aux)
    for i in range(2):
        each = [jnp.asarray((values | aux)[f"n_{name}_{i}"]) for name in row.each]
        hyper = {SINGULAR[name]: EACH[name][i] for name in EACH if name in row.params.__dataclass_fields__}
        hyper |= {SINGULAR.get(name, name): values[f"n_{name}"][i * (name in EACH)] for name in row.shared}
        weight, *states = FORMULAS[row.name](*each, **hyper)
        assert_close(outputs[i], weight, 1e-6, f"weight {i}")
        for name, state in zip(row.states, states, strict=True):
            assert_close(new[f"n_{name}_{i}"], state, 1e-6, f"{name} {i}")


def test_weights_with_a_master_copy_may_have_different_dtypes():
    arguments, outputs, auxiliary = net("multi_mp_sgd_update").infer_type(n_weight_0="float16", n_grad_1="float32")
    assert arguments == [np.float16, np.float16, np.float32, np.float32]
    assert (outputs, auxiliary) == ([np.float16, np.float32], [np.float32, np.float32])


def test_weights_without_a_master_copy_have_one_dtype():
    arguments, outputs, _ = net("_multi_adamw_update").infer_type(n_weight_1="float64")
    assert set(arguments) == set(outputs) == {np.float64}
    with pytest.raises(InferenceError, match="weight_1"):
        net("multi_sgd_update").infer_type(n_weight_0="float64", n_weight_1="float32")
    assert net("preloaded_multi_sgd_update").infer_type(n_weight_0="float64", n_weight_1="float16")[0] == [
        *[np.float64] * 2,
        *[np.float16] * 2,
        *[np.float32] * 2,
    ]


def test_the_number_of_weights_is_1_unless_it_is_given():
    weight, grad = sym.Variable("w"), sym.Variable("g")
    assert sym.multi_sgd_update(weight, grad, lrs=(0.1,), wds=(0,)).list_arguments() == ["w", "g"]


@pytest.mark.parametrize(
    ("op", "params", "words"),
    [
        ("multi_sgd_update", {"lrs": (0.1,)}, ("lrs", "num_weights=2", "got 1")),
        ("multi_mp_sgd_mom_update", {"wds": (0.1, 0.2, 0.3)}, ("wds", "num_weights=2", "got 3")),
        ("_multi_adamw_update", {"etas": ()}, ("etas", "num_weights=2", "got 0")),
        ("_multi_lamb_update", {"step_count": (1,)}, ("step_count", "num_tensors=2", "got 1")),
        ("multi_sgd_update", {"num_weights": 0}, ("num_weights", "≥ 1")),
    ],
)
def test_every_weight_has_its_numbers(op: str, params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, op, "n", *words):
        net(op, **params)


@pytest.mark.parametrize(
    ("op", "shapes", "words"),
    [
        ("multi_sgd_update", {"n_grad_1": (5,)}, ("'grad_1'", "(4,)", "(5,)")),
        ("preloaded_multi_sgd_update", {"n_lrs": (3,)}, ("'lrs'", "2 elements", "(3,)")),
        ("_multi_adamw_update", {"n_rescale_grad": (2,)}, ("'rescale_grad'", "one element", "(2,)")),
    ],
)
def test_impossible_shapes_are_named(op: str, shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, op, "'n'", *words):
        net(op).infer_shape(**given_shapes(), **shapes)


def test_lars_leaves_the_rate_of_a_layer_without_norm():
    names = ("lrs", "weights_sum_sq", "grads_sum_sq", "wds")
    values = {
        f"n_{name}": np.asarray(v, np.float32)
        for name, v in zip(names, ([1, 1, 1], [4, 0, 4], [9, 9, 0], [0.5] * 3), strict=True)
    }
    (out,), _ = evaluated(lowering.to_jax(sym.multi_lars(name="n", eta=0.1, eps=0.0)), values)
    assert_close(out, [0.1 * 2 / (3 + 0.5 * 2), 1, 1], 1e-6, "learning rates")
