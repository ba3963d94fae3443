"""The training step: gradients of MXGradient, one update, in one function that consumes its state."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering import Trainer
from symjax_nnvm import GradientError, InferenceError, ParamError, TrainingError, freeze
from symjax_nnvm import symbol as sym
from tests.lowering.training.networks import classifier, convolutional, images, points, values
from tests.support.traced import evaluated


def trained(net: sym.Symbol, batch: dict[str, np.ndarray], steps: int = 3, **options: Any) -> Trainer:
    options = {"optimizer_params": {"learning_rate": 0.5, "momentum": 0.9}} | options
    trainer = Trainer(net, **options)
    trainer.init(0, data=batch["data"].shape)
    for _ in range(steps):
        trainer.step(batch)
    return trainer


def assert_close(ours: Trainer, theirs: Trainer, rtol: float = 2e-5) -> None:
    for name, value in ours.require_state().params.items():
        np.testing.assert_allclose(value, theirs.require_state().params[name], rtol=rtol, atol=1e-6, err_msg=name)


@pytest.mark.slow("compiles")
def test_one_step_is_the_gradient_and_the_update_rule():
    batch = points()
    trainer = Trainer(classifier(), optimizer_params={"learning_rate": 0.5})
    before = values(trainer.init(0, data=(64, 3)).params)
    (expected_out,), grads, _ = evaluated(lowering.grad_fn(classifier(), wrt=list(before)), before | batch)
    (out,) = trainer.step(batch)
    np.testing.assert_allclose(out, expected_out, rtol=1e-6)
    for name, weight in before.items():
        expected = weight - 0.5 / 64 * grads[name]
        np.testing.assert_allclose(trainer.require_state().params[name], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow("compiles")
def test_the_step_function_is_pure_counts_and_consumes_its_state():
    trainer = Trainer(classifier())
    first = trainer.init(0, data=(64, 3))
    second, outputs = trainer.step_fn(first, points())
    assert int(second.step) == 1
    assert second.step.dtype == jnp.int32
    assert outputs[0].shape == (64, 2)
    assert first.params["fc1_weight"].is_deleted()
    assert jax.tree.structure(second) == jax.tree.structure(trainer.init(0, data=(64, 3)))


@pytest.mark.slow("compiles")
def test_every_array_of_the_state_is_updated_in_place():
    trainer = trained(convolutional(), images(), steps=0)
    memory = trainer.step_fn.lower(trainer.require_state(), images()).compile().memory_analysis()
    numbers = jax.tree.map(lambda x: x.nbytes, jax.tree.leaves(trainer.require_state()))
    assert memory is not None
    assert memory.alias_size_in_bytes >= sum(numbers)


def test_auxiliary_states_and_frozen_arguments():
    for trained_names, moves in ((["fc_weight", "fc_bias"], False), (["fc_weight", "bn_beta"], True)):
        state = trained(convolutional(), images(), wrt=trained_names, steps=1).require_state()
        assert set(state.params) == set(trained_names)
        assert {"conv_weight", "bn_gamma"} <= set(state.frozen)
        np.testing.assert_array_equal(state.frozen["bn_gamma"], 1)
        assert bool(jnp.abs(state.aux["bn_moving_mean"]).sum() > 0) == moves


def test_a_seed_gives_the_same_run_and_another_seed_another():
    net = sym.SoftmaxOutput(sym.Dropout(classifier().get_internals()["fc2_output"], p=0.5), name="softmax")
    runs = []
    for seed in (0, 0, 1):
        trainer = Trainer(net)
        trainer.init(seed, data=(64, 3))
        outputs = [np.asarray(trainer.step(points())[0]) for _ in range(2)]
        assert not np.array_equal(outputs[0], outputs[1])
        runs.append(outputs[1])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_arrays_given_to_init_are_copied_and_win():
    mine = jnp.full((5, 3), 0.5)
    trainer = Trainer(classifier())
    trainer.init(0, {"fc1_weight": mine}, data=(64, 3))
    np.testing.assert_array_equal(trainer.require_state().params["fc1_weight"], mine)
    trainer.step(points())
    assert not mine.is_deleted()
    assert float(mine[0, 0]) == 0.5


def test_parameters_are_those_of_init_params():
    expected, _ = lowering.init_params(classifier(), {"data": (64, 3)}, 7)
    state = Trainer(classifier()).init(7, data=(64, 3))
    np.testing.assert_array_equal(state.params["fc1_weight"], expected["fc1_weight"])


def test_integers_and_doubles_are_cast_to_what_the_network_takes():
    batch = points()
    wide = {"data": batch["data"].astype(np.float64), "softmax_label": batch["softmax_label"].astype(np.int64)}
    assert_close(trained(classifier(), batch), trained(classifier(), wide))


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
def test_a_learning_rate_set_by_hand_compiles_nothing():
    trainer = trained(classifier(), points(), steps=1)
    before = values(trainer.require_state().params)
    trainer.set_learning_rate(0.0)
    assert trainer.learning_rate == 0.0
    trainer.set_learning_rate(0.25)
    assert trainer.learning_rate == 0.25
    trainer.step(points())
    assert trainer.step_fn._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert not np.array_equal(before["fc1_weight"], trainer.require_state().params["fc1_weight"])


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
def test_a_schedule_compiles_once_and_shows_its_rate():
    scheduler = lowering.training.FactorScheduler(step=1, factor=0.5, base_lr=0.4)
    trainer = trained(classifier(), points(), optimizer_params={"lr_scheduler": scheduler})
    assert trainer.step_fn._cache_size() == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert trainer.learning_rate == pytest.approx(0.4 * 0.5**3)
    with pytest.raises(TrainingError, match="schedule"):
        trainer.set_learning_rate(1.0)


@pytest.mark.slow("compiles")
def test_global_norm_is_limited_after_rescaling():
    batch = points()
    trainer = Trainer(classifier(), optimizer_params={"learning_rate": 1.0}, clip_global_norm=1e-3)
    before = values(trainer.init(0, data=(64, 3)).params)
    trainer.step(batch)
    moved = sum(np.sum((value - before[name]) ** 2) for name, value in trainer.require_state().params.items())
    assert float(np.sqrt(moved)) == pytest.approx(1e-3, rel=1e-3)


# -- accumulation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["null", "batch"])
def test_accumulation_equals_the_whole_batch(normalization: Any):
    whole = trained(classifier(normalization), points())
    assert_close(trained(classifier(normalization), points(), accumulate=4), whole)


def test_accumulated_outputs_are_those_of_the_whole_batch():
    trainers = [trained(classifier(), points(), steps=0, accumulate=k) for k in (1, 4)]
    whole, split = (trainer.step(points())[0] for trainer in trainers)
    np.testing.assert_allclose(whole, split, rtol=1e-5)


@pytest.mark.slow("computes much")
def test_accumulation_passes_states_from_one_micro_batch_to_the_next():
    batch = images(8)
    split = trained(convolutional(), batch, steps=1, accumulate=2, optimizer_params={"learning_rate": 0.0})
    one = trained(convolutional(), batch, steps=0, optimizer_params={"learning_rate": 0.0})
    for rows in (slice(0, 4), slice(4, 8)):
        one.step({name: array[rows] for name, array in batch.items()})
    for name, value in one.require_state().aux.items():
        np.testing.assert_allclose(split.require_state().aux[name], value, rtol=1e-5, atol=1e-7)


def test_accumulation_of_a_mean_must_be_said():
    loss = sym.MakeLoss(sym.mean(classifier().get_internals()["fc2_output"] ** 2), name="loss")
    batch = {"data": points()["data"]}
    with pytest.raises(TrainingError, match=r"loss.*\(number, \"mean\"\)"):
        trained(loss, batch, accumulate=4)
    assert_close(trained(loss, batch, accumulate=(4, "mean")), trained(loss, batch))


def test_micro_batches_of_one_row_do_not_tell_whether_a_loss_sums():
    loss = sym.MakeLoss(classifier().get_internals()["fc2_output"] ** 2, name="loss")
    batch = {"data": points()["data"][:2]}
    with pytest.raises(TrainingError, match="cannot find out whether this loss sums or averages"):
        trained(loss, batch, accumulate=2)
    assert_close(trained(loss, batch, accumulate=(2, "sum")), trained(loss, batch))


def test_a_batch_that_cannot_be_split_is_an_error():
    with pytest.raises(TrainingError, match="multiple of 5"):
        trained(classifier(), points(), accumulate=5)


# -- mirroring -------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("mirror", ["do_mirror", "blocks"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_mirroring_trains_to_the_same_parameters(mirror: Any, accumulate: int):
    plain, mirrored = (trained(convolutional(), images(), accumulate=accumulate, mirror=m) for m in (None, mirror))
    assert_close(mirrored, plain)
    assert mirrored.diagnose(images()).ok


def test_an_unknown_way_to_mirror_is_an_error():
    with pytest.raises(GradientError, match="do_mirror"):
        Trainer(classifier(), mirror="everything")


# -- mixed precision -------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
def test_bfloat16_keeps_parameters_statistics_and_losses_in_float32():
    batch = images()
    trainer = trained(convolutional(), batch, compute_dtype="bfloat16")
    state = trainer.require_state()
    assert {value.dtype for value in jax.tree.leaves((state.params, state.aux, state.opt_state))} == {np.dtype("f4")}
    assert trainer.step(batch)[0].dtype == np.float32
    text = trainer.step_fn.lower(trainer.require_state(), batch).as_text()
    (convolution, *_) = [line for line in text.splitlines() if "stablehlo.convolution" in line]
    assert "bf16" in convolution


@pytest.mark.slow("computes much")
def test_bfloat16_trains_to_nearly_the_same_parameters():
    exact, reduced = (trained(convolutional(), images(), compute_dtype=dtype) for dtype in (None, "bfloat16"))
    for name, value in exact.require_state().params.items():
        np.testing.assert_allclose(reduced.require_state().params[name], value, rtol=0.1, atol=0.02, err_msg=name)
    assert not np.array_equal(
        exact.require_state().params["conv_weight"], reduced.require_state().params["conv_weight"]
    )


def test_float16_is_refused():
    with pytest.raises(TrainingError, match="loss scale"):
        Trainer(classifier(), compute_dtype="float16")


# -- Optax -----------------------------------------------------------------------------------------------------------


class Transformation(NamedTuple):
    """The shape of an Optax GradientTransformation."""

    init: Any
    update: Any


def descent(rate: float) -> Transformation:
    def update(grads: Any, state: Any, params: Any = None) -> Any:
        return jax.tree.map(lambda g: -rate * g, grads), state + 1

    return Transformation(lambda params: jnp.zeros((), jnp.int32), update)


def test_an_optax_transformation_updates_with_the_same_gradients():
    ours = trained(classifier(), points(), optimizer_params={"learning_rate": 0.5})
    optax = trained(classifier(), points(), optimizer=descent(0.5), optimizer_params=None)
    assert int(optax.require_state().opt_state) == 3
    assert_close(optax, ours)


def test_optax_takes_no_parameters_of_mxnet():
    with pytest.raises(ParamError, match=r"no parameter \['wd'\]"):
        Trainer(classifier(), descent(0.1), {"wd": 1.0})


# -- what does not fit -----------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"softmax_label": None}, TrainingError, r"lacks the labels \['softmax_label'\]"),
        ({"data": None}, TrainingError, r"lacks the data \['data'\]"),
        ({"dta": np.ones(3)}, TrainingError, r"unknown arguments \['dta'\]"),
        ({"data": [[1.0, 2.0, 3.0]]}, TrainingError, "input 'data'; expected an array; got list"),
        ({"data": np.ones((64, 3), np.complex64)}, TrainingError, "expected float32; got complex64"),
        ({"data": np.ones((64, 4), np.float32)}, InferenceError, r"fc1.*The batch that does not fit: data \(64, 4\)"),
        ({"softmax_label": np.ones(5, np.float32)}, InferenceError, r"softmax_label \(5,\)"),
    ],
)
def test_a_batch_that_does_not_fit(change: dict[str, Any], error: type[Exception], says: str):
    trainer = trained(classifier(), points(), steps=1)
    batch = {name: value for name, value in (points() | change).items() if value is not None}
    with pytest.raises(error, match=says):
        trainer.step(batch)
    trainer.step(points())  # the state is still there


def test_floats_for_an_integer_argument_are_an_error():
    indices = sym.Variable("data", dtype="int32")
    net = sym.MakeLoss(sym.Embedding(indices, input_dim=4, output_dim=2, name="emb"), name="loss")
    trainer = Trainer(net)
    trainer.init(0, data=(3,))
    trainer.step({"data": np.array([1, 2, 3])})
    with pytest.raises(TrainingError, match="expected int32; got float32"):
        trainer.step({"data": np.ones(3, np.float32)})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data_names": ["image"]}, r"data_names names \['image'\]"),
        ({"label_names": ["target"]}, r"label_names names \['target'\]"),
        ({"label_names": ["data"]}, "both data and labels"),
        ({"wrt": ["fc9_weight"]}, r"Cannot train \['fc9_weight'\]"),
        ({"accumulate": 0}, "Wrong accumulate"),
        ({"compute_dtype": "int8"}, "Wrong compute_dtype"),
    ],
)
def test_a_trainer_that_cannot_be_made(options: dict[str, Any], says: str):
    with pytest.raises(TrainingError, match=says):
        Trainer(classifier(), **options)


def test_a_network_without_a_loss_says_how_to_make_one():
    trainer = Trainer(sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc"))
    trainer.init(0, data=(4, 3))
    with pytest.raises(GradientError, match="make_loss"):
        trainer.step({"data": np.ones((4, 3), np.float32)})


def test_training_before_init_says_what_to_call():
    with pytest.raises(TrainingError, match="trainer.init"):
        Trainer(classifier()).step(points())


def test_init_lists_everything_that_does_not_fit():
    problems = r"ghost is not in the network; fc1_weight has shape \(5, 2\)"
    with pytest.raises(TrainingError, match=rf"{problems}.*With these parameters 'data' must have shape \(\?, 2\)"):
        Trainer(classifier()).init(0, {"ghost": np.ones(1), "fc1_weight": np.ones((5, 2))}, data=(4, 3))


def test_init_without_shapes_says_which():
    with pytest.raises(TrainingError, match=r"no shape for \['data'\]"):
        Trainer(classifier()).init(0)


def test_a_gamma_that_is_fixed_ends_as_in_mxnet():
    """MXNet's Module ends with 0.82805 after four steps. A frozen one stays as it was given."""
    normed = sym.BatchNorm(sym.Variable("data"), name="bn")
    net = sym.SoftmaxOutput(sym.FullyConnected(normed, num_hidden=2), name="softmax")
    gamma = jnp.array([0.2, 3, -1])
    for wrt, expected in ((None, [0.82805] * 3), (freeze(net, ["bn_gamma"]), gamma)):
        trainer = Trainer(net, "sgd", {"learning_rate": 0.1, "wd": 0.5, "momentum": 0.9}, wrt=wrt)
        trainer.init(0, {"bn_gamma": gamma}, data=(64, 3))
        for _ in range(4):
            trainer.step(points())
        state = trainer.require_state()
        np.testing.assert_allclose((state.params | state.frozen)["bn_gamma"], expected, rtol=1e-5)
