"""Parts of a batch side by side, each on a core: where that is done, and that it gives the same."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib.xla_client
import numpy as np
import pytest

import lowering
from lowering.convolutions.backends import onednn
from lowering.convolutions.geometry import Epilogue, Geometry
from lowering.serving import constant_store as constants
from lowering.xla import cpu_streams
from symjax_nnvm import symbol as sym
from tests.support.comparison import assert_close

CALLED = Geometry(1, (6, 6), 4, 16, (3, 3), (1, 1), (1, 1), (1, 1))

pytestmark = [
    pytest.mark.usefixtures("compiled_fully"),
    pytest.mark.skipif(
        cpu_streams.one_core() is None or onednn.block_of_a_core(CALLED, Epilogue()) is None,
        reason="there is one core, or jaxlib has no oneDNN or no second client on this platform",
    ),
]

CORES = cpu_streams.count()
SIZE = (8, 14, 14)


def network() -> sym.Symbol:
    """Large enough for the library, with a sum and an activation behind a convolution; two outputs."""
    same = {"kernel": (3, 3), "pad": (1, 1), "no_bias": True}
    h = sym.Convolution(sym.Variable("data"), num_filter=64, name="a", **same)
    h = sym.relu(sym.BatchNorm(h, fix_gamma=False, name="n"))
    h = sym.relu(sym.Convolution(h, num_filter=64, name="b", **same) + h)
    return sym.Group([sym.mean(h, axis=(2, 3)), sym.Flatten(sym.Pooling(h, kernel=(2, 2), stride=(2, 2)))])


def arguments(net: sym.Symbol, **shapes: tuple[int, ...]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    known, _, states = net.infer_shape(**shapes)
    names = zip(net.list_arguments(), known, strict=True)
    args = {n: rng.standard_normal(s).astype("float32") / 8 for n, s in names if n not in shapes}
    return args, {n: np.ones(s, "float32") for n, s in zip(net.list_auxiliary_states(), states, strict=True)}


def predictor(net: sym.Symbol | None = None) -> lowering.Predictor:
    net = net or network()
    return lowering.Predictor(net, *arguments(net, data=(2, *SIZE)))


def batch(samples: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((samples, *SIZE)).astype("float32")


def rows(predict: lowering.Predictor) -> list[int | None]:
    return [ready.plan.rows for _, ready in predict._prepared_ones()]


@pytest.mark.slow("compiles")
def test_parts_give_to_the_last_bit_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch):
    data, predict = batch(4 * CORES), predictor()
    found = predict(data=data)
    assert rows(predict) == [4]
    assert predict.ways()[-1].endswith("compiled, 4 samples by each core")
    monkeypatch.setenv(cpu_streams.SWITCH, "0")
    whole = predictor()
    expected = whole(data=data)
    assert rows(whole) == [None]
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert np.array_equal(predict(data=data)[0], found[0]), "what has streams keeps them"


@pytest.mark.slow("compiles")
def test_outputs_lie_where_all_other_arrays_do():
    found = predictor()(data=jnp.asarray(batch(CORES)))
    here = jnp.zeros(()).devices()
    assert all(each.devices() == here for each in found)
    jax.block_until_ready([each + jnp.ones(each.shape) for each in found])


def test_the_device_is_none_of_jax_and_computes_in_the_thread_that_calls_it():
    here = cpu_streams.one_core()
    assert here is not None
    assert here.device_set.isdisjoint(jax.devices("cpu"))
    threads: list[int] = []

    def told(x: np.ndarray) -> np.ndarray:
        threads.append(threading.get_ident())
        return x

    asked = jax.jit(lambda x: jax.pure_callback(told, jax.ShapeDtypeStruct((4,), np.float32), x))
    jax.block_until_ready(asked(jax.device_put(np.ones(4, np.float32), here)))
    assert threads == [threading.get_ident()]


@pytest.mark.slow("compiles")
def test_many_threads_predict_at_once():
    predict = predictor().warm(data=(2 * CORES, *SIZE))
    batches = [batch(2 * CORES, seed) for seed in range(12)]
    expected = [predict(data=data) for data in batches]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda data: predict(data=data), batches))
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(found, expected, strict=True))


@pytest.mark.slow("compiles")
def test_a_core_computes_a_call_alone_and_calls_of_threads_side_by_side(tmp_path: Path):
    net = sym.softmax(network()[0], axis=0)  # samples mix
    args, aux = arguments(net, data=(3, *SIZE))
    predict = lowering.Predictor(net, args, aux, one_core=True)
    batches = [batch(3, seed) for seed in range(8)]
    expected = [lowering.Predictor(net, args, aux)(data=data) for data in batches[:1]]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda data: predict(data=data), batches))
    assert [type(ready.executable) for _, ready in predict._prepared_ones()] == [cpu_streams.Streams]
    assert_close(found[0][0], expected[0][0], 1e-6, "one core")
    assert found[0][0].devices() == expected[0][0].devices()
    for data, (output,) in zip(batches, found, strict=True):
        assert np.array_equal(predict(data=data)[0], output)
    predict.save(tmp_path / "saved")
    assert np.array_equal(lowering.Predictor.load(tmp_path / "saved", one_core=True)(data=batches[0])[0], found[0][0])


@pytest.mark.slow("compiles")
def test_a_call_that_draws_is_shared_by_all_cores():
    net = network()[0] + sym.random.normal(shape=(2, 64))
    predict = lowering.Predictor(net, *arguments(net, data=(2, *SIZE)), one_core=True)
    predict(jax.random.key(0), data=batch(2))
    assert not isinstance(predict._prepared_ones()[0][1].executable, cpu_streams.Streams)


def offset(samples: int) -> sym.Symbol:
    return sym.broadcast_add(network()[0], sym.Variable("offset", shape=(samples, 1)))


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("net", "samples"),
    [
        (network(), 2 * CORES + 1),
        (sym.softmax(network()[0], axis=0), 2 * CORES),
        (offset(2 * CORES), 2 * CORES),
        (sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="few"), 2 * CORES),
        (sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, num_group=2, name="small"), 2 * CORES),
        (sym.FullyConnected(network()[1], num_hidden=4096, name="large"), 2 * CORES),
    ],
    ids=["no equal parts", "samples mix", "a number for each sample", "no library", "small", "large parameters"],
)
def test_all_cores_share_what_does_not_come_in_parts(net: sym.Symbol, samples: int):
    predict = lowering.Predictor(net, *arguments(net, data=(samples, *SIZE)))
    predict.warm(data=(samples, *SIZE))
    assert rows(predict) == [None]


@pytest.mark.eight_devices
def test_a_mesh_shares_out_the_samples_itself():
    net = network()
    mesh = jax.make_mesh((2,), ("data",))
    predict = lowering.Predictor(net, *arguments(net, data=(2, *SIZE)), mesh=mesh)
    predict.warm(data=(2 * CORES, *SIZE))
    assert rows(predict) == [None]


@pytest.mark.slow("compiles")
def test_a_second_start_has_the_same_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data, predict = batch(2 * CORES), predictor()
    expected = predict(data=data)
    predict.save(tmp_path)
    again = lowering.Predictor.load(tmp_path)
    monkeypatch.setattr(constants, "jit", None)  # nothing is computed again
    assert all(np.array_equal(a, b) for a, b in zip(again(data=data), expected, strict=True))
    assert rows(again) == [2]
    again.save(tmp_path)
    assert np.array_equal(lowering.Predictor.load(tmp_path)(data=data)[0], expected[0])


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("other", ["cores", "blocks", "off"])
def test_a_folder_of_another_machine_runs_as_this_one_does(other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data, predict = batch(2 * CORES), predictor()
    expected = predict(data=data)
    predict.save(tmp_path)
    if other == "cores":
        monkeypatch.setattr(cpu_streams, "count", lambda: 2 * CORES)
    elif other == "off":
        monkeypatch.setenv(cpu_streams.SWITCH, "0")
    else:
        monkeypatch.setattr(onednn, "block_of_a_core", lambda geometry, epilogue: None)
    again = lowering.Predictor.load(tmp_path)
    assert_close(np.asarray(again(data=data)[0]), np.asarray(expected[0]), 1e-6, "output")
    assert rows(again) == [1 if other == "cores" else None]


@pytest.mark.slow("compiles")
def test_batches_are_those_of_single_samples():
    predict, data = predictor(), batch(3 * CORES + 1)
    found = [
        outputs[0] for outputs in predict.batches([data[i : i + 2 * CORES] for i in range(0, len(data), 2 * CORES)])
    ]
    assert rows(predict) == [2]
    single = predictor()
    expected = np.concatenate([np.asarray(single(data=data[i : i + 1])[0]) for i in range(len(data))])
    assert_close(np.concatenate(found), expected, 1e-5, "output")


@pytest.mark.slow("waits for processes or threads")
def test_where_the_client_cannot_be_made_all_cores_share_as_ever(monkeypatch: pytest.MonkeyPatch):
    def refuses(**_: object):
        raise TypeError("make_cpu_client() got an unexpected keyword argument")

    monkeypatch.setattr(jaxlib.xla_client, "make_cpu_client", refuses)
    assert cpu_streams._one_core.__wrapped__() is None
    monkeypatch.undo()
    monkeypatch.setattr(cpu_streams, "ask", lambda kind: None)  # the child process ended, or saw more workers than one
    assert cpu_streams._one_core.__wrapped__() is None


def test_the_second_client_leaves_the_threads_of_the_process_their_cores():
    before, cores = dict(os.environ), os.sched_getaffinity(0)
    assert cpu_streams._one_core.__wrapped__() is not None
    assert os.environ == before
    assert {tuple(sorted(os.sched_getaffinity(int(task.name)))) for task in Path("/proc/self/task").iterdir()} == {
        tuple(sorted(cores))
    }
