"""Training on a mesh of eight devices: the numbers of one device, and a state that is where it was asked to be."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, PartitionSpec

import lowering
from lowering.sharding.placement import make_placement
from lowering.training import list_optimizers
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import TrainingError
from tests.lowering.training.mesh_networks import NETWORKS, batch, mlp

pytestmark = pytest.mark.eight_devices

RTOL = 1e-12


def mesh(data: int = 4, model: int = 2) -> Mesh:
    """With the explicit axes that JAX makes by default."""
    return jax.make_mesh((data, model), ("data", "model"), devices=jax.devices()[: data * model])


def trained(net: sym.Symbol, arrays: dict[str, np.ndarray], steps: int = 2, /, **options: Any) -> lowering.Trainer:
    optimizer = options.pop("optimizer", ("sgd", {"learning_rate": 0.3, "momentum": 0.9}))
    trainer = lowering.Trainer(net, *optimizer, initializer="xavier", **options)
    trainer.init(3, data=arrays["data"].shape)
    for _ in range(steps):
        trainer.step(arrays)
    return trainer


def assert_same(found: lowering.Trainer, wanted: lowering.Trainer, rtol: float = RTOL) -> None:
    """All of the two states, up to rounding."""
    rows = jax.tree_util.tree_leaves_with_path(wanted.require_state())
    for (path, right), left in zip(rows, jax.tree.leaves(found.require_state()), strict=True):
        if not jax.numpy.issubdtype(right.dtype, jax.dtypes.prng_key):
            scale = max(1.0, float(np.abs(right).max(initial=0)))
            np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol * scale, err_msg=jax.tree_util.keystr(path))


@pytest.mark.nightly("every network", but_one_in=8)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", NETWORKS)
def test_a_mesh_computes_what_one_device_does(name: str) -> None:
    net, shape, rules = NETWORKS[name]
    arrays = batch(shape)
    with jax.enable_x64(True):
        alone = trained(net(), arrays)
        assert {value.dtype.name for value in alone.require_state().params.values()} == {"float64"}
        for sharding in ("replicate", "fsdp", "zero1", rules):
            assert_same(trained(net(), arrays, mesh=mesh(), sharding=sharding), alone)


@pytest.mark.slow("compiles")
@pytest.mark.nightly("all update by the same program", but_one_in=12)
@pytest.mark.usefixtures("compiled_fully")  # powers of float32 numbers and draws differ in their last bits
@pytest.mark.parametrize("name", list_optimizers())
def test_every_optimiser_updates_its_part(name: str) -> None:
    net = sym.FullyConnected(sym.Variable("data", dtype="float64"), num_hidden=8, no_bias=True, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=4, no_bias=True, name="fc2")
    net, arrays = sym.SoftmaxOutput(net, name="softmax"), batch((12,))
    with jax.enable_x64(True):
        optimizer = (name, {"learning_rate": 0.1})
        alone = trained(net, arrays, optimizer=optimizer)
        assert_same(trained(net, arrays, optimizer=optimizer, mesh=mesh(8, 1), sharding="fsdp"), alone)


FEATURES: dict[str, dict[str, Any]] = {
    "accumulation": {"accumulate": 2},
    "clipping": {"clip_global_norm": 0.01},
    "mirroring": {"mirror": "blocks"},
    "frozen": {"wrt": ["fc2_weight", "fc2_bias"], "frozen_statistics": True},
}


@pytest.mark.nightly("every feature", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("feature", FEATURES)
def test_what_a_step_can_do_it_does_on_a_mesh(feature: str) -> None:
    arrays, options = batch((12,)), FEATURES[feature]
    with jax.enable_x64(True):
        wanted = trained(mlp(), arrays, **options)
        assert_same(trained(mlp(), arrays, mesh=mesh(), sharding="fsdp", **options), wanted)


@pytest.mark.nightly("compiles")
def test_half_precision_on_a_mesh() -> None:
    arrays = {name: value.astype(np.float32) for name, value in batch((12,)).items()}
    wanted = trained(mlp("float32"), arrays, compute_dtype="bfloat16")
    assert_same(trained(mlp("float32"), arrays, mesh=mesh(), sharding="zero1", compute_dtype="bfloat16"), wanted, 2e-2)


@pytest.mark.slow("compiles")
def test_statistics_of_each_device_are_those_of_micro_batches() -> None:
    """Gradients are those of micro-batches, each with its own statistics; the moving ones are the devices' mean."""
    arrays = batch((12,))
    with jax.enable_x64(True):
        apart = trained(mlp(), arrays, 1, mesh=mesh(), batch_statistics="device").require_state()
        wanted = trained(mlp(), arrays, 1, accumulate=4).require_state()
        for name, value in wanted.params.items():
            np.testing.assert_allclose(apart.params[name], value, rtol=RTOL, atol=RTOL)
        together = trained(mlp(), arrays, 1).require_state()
        np.testing.assert_allclose(apart.aux["bn_moving_mean"], together.aux["bn_moving_mean"], rtol=RTOL, atol=RTOL)
        assert np.abs(np.asarray(apart.aux["bn_moving_var"] - together.aux["bn_moving_var"])).max() > 1e-3


def _spec(array: Any) -> PartitionSpec:
    return array.sharding.spec


def test_the_state_is_split_from_the_start_and_stays_so() -> None:
    arrays, split, whole = batch((12,)), PartitionSpec("data"), PartitionSpec()
    expected = {"replicate": (whole, whole), "fsdp": (split, split), "zero1": (whole, split)}
    for sharding, (parameter, slot) in expected.items():
        trainer = trained(mlp("float32"), arrays, 0, mesh=mesh(), sharding=sharding)
        first = trainer.require_state()
        for _ in range(2):
            state = trainer.require_state()
            assert _spec(state.params["fc1_weight"]) == parameter
            assert _spec(state.opt_state["slots"]["fc1_weight"][0]) == slot
            assert _spec(state.aux["bn_moving_mean"]) == whole
            trainer.step(arrays)
        assert first.params["fc1_weight"].is_deleted()  # it was donated


def test_several_data_axes_are_dealt_to_the_axes_of_an_array() -> None:
    """Where no axis of an array can be split over all devices."""
    cube = jax.make_mesh((2, 2, 2), ("a", "b", "c"), devices=jax.devices()[:8])
    of = make_placement(cube, "fsdp", ("a", "b", "c")).parameters
    shapes = {"whole": (3, 16), "dealt": (4, 6, 3), "part": (4,), "odd": (3, 5)}
    specs = {name: tuple(sharding.spec) for name, sharding in of(shapes).items()}
    dealt = {"dealt": (("b", "c"), "a", None), "part": (("a", "b"),)}
    assert specs == {"whole": (None, ("a", "b", "c")), **dealt, "odd": ()}
    data = sym.Variable("data", dtype="float64")
    net = sym.LinearRegressionOutput(sym.FullyConnected(data, num_hidden=4, name="fc"), name="out")
    rng = np.random.default_rng(0)
    arrays = {"data": rng.normal(size=(8, 6)), "out_label": rng.normal(size=(8, 4))}
    with jax.enable_x64(True):
        split = trained(net, arrays, mesh=cube, data_axis=("a", "b", "c"), sharding="fsdp")
        assert tuple(_spec(split.require_state().params["fc_weight"])) == (("b", "c"), "a")
        assert_same(split, trained(net, arrays))


def test_a_device_has_its_part_of_a_split_state() -> None:
    state = trained(mlp("float32"), batch((12,)), 1, mesh=mesh(8, 1), sharding="fsdp").require_state()
    held = state.params["fc1_weight"], state.opt_state["slots"]["fc1_weight"][0]
    assert [array.addressable_shards[0].data.nbytes * 8 for array in held] == [array.nbytes for array in held]


@pytest.mark.nightly("compiles much; the steps, and the split state, run always")
def test_fit_evaluate_and_predict_as_on_one_device() -> None:
    arrays = {name: value.astype(np.float32) for name, value in batch((12,), rows=30).items()}
    batches = lowering.Batches(arrays, 8, shuffle=True, last="keep")  # the last has 6 rows: no four equal parts
    runs = []
    for options in ({}, {"mesh": mesh(), "sharding": "fsdp"}):
        trainer = lowering.Trainer(mlp("float32"), "sgd", {"learning_rate": 0.1}, initializer="xavier", **options)
        trainer.init(0, data=(8, 12))
        history = trainer.fit(batches, 2, validation=batches, metrics=["accuracy", "ce"], progress=False)
        trainer.set_learning_rate(0.05)
        runs.append(([*history["cross-entropy"], *history["val-accuracy"]], trainer.predict(arrays["data"][:8])[0]))
    (wanted, outputs), (found, others) = runs
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(others, outputs, rtol=1e-4)


def test_arrays_on_explicit_and_on_auto_axes_are_taken() -> None:
    arrays = {name: value.astype(np.float32) for name, value in batch((12,)).items()}
    wanted = trained(mlp("float32"), arrays, 1)
    for kind in (AxisType.Explicit, AxisType.Auto):
        given = jax.make_mesh((8,), ("data",), axis_types=(kind,))
        where = jax.sharding.NamedSharding(given, PartitionSpec("data"))
        trainer = trained(mlp("float32"), arrays, 0, mesh=given)
        with jax.set_mesh(given):
            trainer.state, _ = trainer.step_fn(trainer.require_state(), jax.device_put(arrays, where))
        assert_same(trainer, wanted, 1e-5)


@pytest.mark.nightly("trains on three meshes; those of one device always run")
def test_a_checkpoint_goes_on_on_another_mesh(tmp_path: Path) -> None:
    pytest.importorskip("orbax.checkpoint")
    arrays = {name: value.astype(np.float32) for name, value in batch((12,), rows=32).items()}
    batches = lowering.Batches(arrays, 8, shuffle=True)

    def run(epochs: int, folder: Path | None, **options: Any) -> list[float]:
        trainer = lowering.Trainer(mlp("float32"), "sgd", {"learning_rate": 0.1}, initializer="xavier", **options)
        trainer.init(0, data=(8, 12))
        checkpoints = None if folder is None else lowering.Checkpoints(folder, every=2, asynchronous=False)
        history = trainer.fit(batches, epochs, metrics=["ce"], checkpoints=checkpoints, progress=False)
        return list(history["cross-entropy"])

    wanted = run(3, None)
    run(1, tmp_path, mesh=mesh(), sharding="fsdp")
    run(2, tmp_path, mesh=mesh(2, 1), sharding="zero1")
    np.testing.assert_allclose(run(3, tmp_path), wanted, rtol=1e-5)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "word": ({"mesh": True, "sharding": "fsdb"}, "Did you mean 'fsdp'"),
    "axis": ({"mesh": True, "data_axis": "date"}, "Did you mean 'data'"),
    "rule's axis": ({"mesh": True, "sharding": [("fc1_weight", PartitionSpec("modle"))]}, "Did you mean 'model'"),
    "no mesh": ({"sharding": "fsdp"}, "mesh=jax.make_mesh"),
    "devices": ({"mesh": [0, 1]}, "expected a jax.sharding.Mesh"),
    "statistics": ({"mesh": True, "batch_statistics": "batch"}, "'global' or 'device'"),
    "statistics of devices": ({"batch_statistics": "device"}, "batch_statistics needs a mesh"),
    "nothing": ({"mesh": True, "sharding": [("fc9_weight", PartitionSpec("model"))]}, "match no parameter"),
    "uneven": ({"mesh": True, "sharding": [("fc2_weight", PartitionSpec(None, ("data", "model")))]}, "Split axis 1"),
    "rank": ({"mesh": True, "sharding": [("fc2_bias", PartitionSpec(None, "model"))]}, "more axes than the array"),
    "rules": ({"mesh": True, "sharding": ["fc2_bias"]}, "pairs of a pattern and a PartitionSpec"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_with_the_way_out(case: str) -> None:
    options, told = MISTAKES[case]
    if options.get("mesh") is True:
        options = {**options, "mesh": mesh(4, 2) if case != "uneven" else mesh(1, 8)}
    if case == "uneven":
        options["sharding"] = [("fc2_weight", PartitionSpec("model"))]  # four classes, eight devices
    with pytest.raises(TrainingError, match=told):
        lowering.Trainer(mlp("float32"), **options).init(0, data=(8, 12))


def test_parts_of_batches_are_the_whole_batch() -> None:
    rows = {"data": np.arange(22)}
    for last in ("drop", "pad", "keep"):
        for shuffle in (False, True):
            whole = list(lowering.Batches(rows, 8, shuffle=shuffle, last=last).epoch(3, 1))
            parts = [
                list(lowering.Batches(rows, 8, shuffle=shuffle, last=last, shard=(i, 2)).epoch(3, 1)) for i in (0, 1)
            ]
            joined = [np.concatenate([left["data"], right["data"]]) for left, right in zip(*parts, strict=True)]
            np.testing.assert_array_equal(np.concatenate(joined), np.concatenate([each["data"] for each in whole]))
    for shard, told in (((2, 2), "index from 0"), ((0, 3), "multiple of 3"), ("mine", "index, count")):
        with pytest.raises(TrainingError, match=told):
            lowering.Batches(rows, 8, shard=shard)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TrainingError, match="6 rows in the last batch"):
        lowering.Batches(rows, 8, shard=(0, 4), last="keep")
