"""`Predictor`: a network with its parameters, folded and kept, as a function of its data."""

import gc
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering.convolutions import choose
from lowering.convolutions import timings_table as table_module
from lowering.convolutions.geometry import Geometry
from lowering.convolutions.timings_table import Measured, Table
from lowering.serving import constant_store as constants
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, FileError, InferenceError, LoweringError, SymbolValueError
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

pytestmark = pytest.mark.usefixtures("compiled_fully")

DATA = {"data": (2, 2, 4, 4)}


def network() -> sym.Symbol:
    data = sym.Variable("data")
    hidden = sym.BatchNorm(sym.Convolution(data, kernel=(3, 3), num_filter=3, name="conv"), fix_gamma=False, name="bn")
    return sym.SoftmaxOutput(sym.FullyConnected(sym.relu(hidden), num_hidden=4, name="fc"), name="softmax")


NET = network()
RNG = np.random.default_rng(3)
ARG_SHAPES, _, AUX_SHAPES = NET.infer_shape(**DATA)
ARRAYS = {
    name: RNG.uniform(0.5, 1.5, shape).astype("float32")
    for name, shape in zip(NET.list_arguments(), ARG_SHAPES, strict=True)
}
AUX = {
    name: RNG.uniform(0.5, 1.5, shape).astype("float32")
    for name, shape in zip(NET.list_auxiliary_states(), AUX_SHAPES, strict=True)
}
X = ARRAYS["data"]
ARGS = {name: value for name, value in ARRAYS.items() if name not in ("data", "softmax_label")}


def expected(x: np.ndarray) -> np.ndarray:
    return np.asarray(evaluated(lowering.to_jax(nn.inference_symbol(NET)), {**ARGS, "data": x}, AUX)[0][0])


@pytest.mark.slow("compiles")
def test_it_predicts_what_the_network_computes():
    predict = lowering.Predictor(NET, ARGS, AUX)
    assert predict.inputs == ["data"]
    (output,) = predict(data=X)
    assert_close(np.asarray(output), expected(X), 1e-5, "output")
    ran = [record.name for record in predict.plan.records if record.ran]
    assert ran == ["SimplifyInference", "FoldScaleAxis", "AlterOpLayout", "HoistInvariants", "PrecomputePrune"]
    assert all("bn_gamma" not in ready.held for _, ready in predict._prepared_ones())


@pytest.mark.slow("compiles")
def test_a_checkpoint_is_loaded(tmp_path: Path):
    nn.save_checkpoint(tmp_path / "net", 3, NET, ARGS, AUX)
    predict = lowering.Predictor.load(tmp_path / "net", 3)
    assert_close(np.asarray(predict(data=X)[0]), expected(X), 1e-5, "output")


@pytest.mark.slow("compiles")
def test_one_executable_for_each_signature_whoever_asks():
    predict = lowering.Predictor(NET, ARGS, AUX, effort="full").warm(**DATA)  # of threads, too
    assert len(predict._ready) == 1
    found: dict[int, np.ndarray] = {}

    def ask(number: int) -> None:
        found[number] = np.asarray(predict(data=X * number if number % 2 else X[:1] * number)[0])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(predict._ready) == 2
    for number, value in found.items():
        assert_close(value, expected(X * number if number % 2 else X[:1] * number), 1e-5, f"call {number}")


def _called(predict: lowering.Predictor):
    """What runs each signature of one input."""
    return [(input, ready) for (input, _), ready in predict._prepared_ones()]


@pytest.mark.slow("compiles")
def test_weights_are_transformed_once_for_all_signatures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By a table of the user's where Winograd's algorithm is the fastest at batch 1 and 2, and not at 3."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows = []
    for batch, tile in ((1, 4), (2, 4), (3, 0)):
        geometry = Geometry(batch, (12, 12), 32, 32, (3, 3), (1, 1), (1, 1), (1, 1))
        times = {"xla": 3.0, "winograd4": 4.0, "winograd2": 5.0}
        rows.append(Measured("forward", geometry, times, {f"winograd{tile}": 1.0, "library": 2.0} if tile else {}))
    table = table_module.user_table("cpu")
    table.parent.mkdir()
    table_module.write_table(table, Table("cpu", {}, rows))
    choose.forget()
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=32, name="conv")
    args = {"conv_weight": RNG.standard_normal((32, 32, 3, 3), "float32"), "conv_bias": np.ones(32, "float32")}
    predict = lowering.Predictor(net, args, platform="cpu")
    held = []
    for batch in (1, 2, 3):
        x = RNG.standard_normal((batch, 32, 12, 12), "float32")
        expected = evaluated(lowering.to_jax(net), {**args, "data": x}, {})[0][0]
        assert_close(np.asarray(predict(data=x)[0]), np.asarray(expected), 1e-5, f"batch {batch}")
        ops = [n.op.name for n in predict.plan_of(data=x.shape).graph.nodes() if n.op is not None]
        assert ("_winograd_convolution" in ops) == (batch < 3)
        held.append(next(ready.held for (_, (shape, _)), ready in _called(predict) if shape == x.shape))
    assert held[0]["conv_winograd4"].shape == (36, 32, 32)
    assert held[0]["conv_winograd4"] is held[1]["conv_winograd4"]
    assert held[0]["conv_bias"] is held[2]["conv_bias"]
    assert "TransformWeights" in [r.name for r in predict.plan_of(data=(1, 32, 12, 12)).records if r.ran]
    explained = str(lowering.explain(net, platform="cpu", constants=list(args), data=(1, 32, 12, 12)))
    assert "weights transformed before" in explained
    choose.forget()


def test_a_first_call_walks_the_network_a_few_times_however_many_parameters_it_has(monkeypatch: pytest.MonkeyPatch):
    net, walks = sym.Variable("data"), []
    for i in range(20):
        net = sym.broadcast_add(net, sym.Variable(f"b{i}"))
    predict = lowering.Predictor(net, {f"b{i}": np.ones((1, 2), "f") for i in range(20)}, effort="auto")
    listed = type(net).list_auxiliary_states
    monkeypatch.setattr(type(net), "list_auxiliary_states", lambda self: walks.append(0) or listed(self))
    np.testing.assert_array_equal(predict(data=np.ones((1, 2), "f"))[0], [[21, 21]])
    assert len(walks) < 5


def test_arrays_may_change_once_they_were_given():
    """Aligned ones, whose memory `jax.device_put` shares."""

    def aligned(value: np.ndarray) -> np.ndarray:
        room = np.empty(value.nbytes + 64, "uint8")
        start = -room.ctypes.data % 64
        found = room[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
        found[:] = value
        return found

    w, x = aligned(np.full(1 << 16, 2, "float32")), aligned(np.full(1 << 16, 3, "float32"))
    predict = lowering.Predictor(sym.Variable("data") * sym.Variable("w"), {"w": w})
    (first,) = predict(data=x)
    w[:] = x[:] = 0
    assert np.asarray(first).max() == 6
    assert np.asarray(predict(data=np.ones(1 << 16, "float32"))[0]).max() == 2


@pytest.mark.slow("compiles")
def test_what_was_saved_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    predict = lowering.Predictor(NET, ARGS, AUX, compute_dtype="bfloat16").warm(**DATA)
    (before,) = predict(data=X)
    predict.save(tmp_path / "served")
    loaded = lowering.Predictor.load(tmp_path / "served")
    monkeypatch.setattr(constants, "jit", None)
    np.testing.assert_array_equal(loaded(data=X)[0], before)
    loaded.save(tmp_path / "again")
    monkeypatch.undo()
    assert_close(np.asarray(loaded(data=X[:1])[0]), expected(X[:1]), 5e-2, "another signature")
    again = lowering.Predictor.load(tmp_path / "again")
    monkeypatch.setattr(constants, "jit", None)
    np.testing.assert_array_equal(again(data=X)[0], before)


def test_a_mistaken_call_is_not_saved(tmp_path: Path):
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    predict = lowering.Predictor(net, {"fc_weight": np.ones((2, 3), "f"), "fc_bias": np.zeros(2, "f")})
    with pytest.raises(InferenceError):
        predict(data=np.ones((2, 4), "f"))
    predict(data=np.ones((2, 3), "f"))
    predict.save(tmp_path / "served")
    assert [shapes["data"].shape for shapes in predict.signatures] == [(2, 3)]


@pytest.mark.slow("compiles")
def test_a_server_that_starts_again_compiles_what_it_had(tmp_path: Path):
    net = sym.broadcast_mul(sym.Cast(sym.Variable("data"), dtype="float32"), sym.Variable("w"))
    predict = lowering.Predictor(net, {"w": np.ones((1, 3), "float32")}).warm(data=(2, 3))
    predict(data=np.ones((1, 3), "int32"))
    predict.warm(data=(4, 3))
    predict.save(tmp_path / "served")
    loaded = lowering.Predictor.load(tmp_path / "served")
    assert len(loaded._ready) == 0
    for inputs in loaded.signatures:
        loaded.warm(**inputs)
    assert [key for key, _ in loaded._ready.items()] == [key for key, _ in predict._prepared_ones()]
    assert loaded.signatures == predict.signatures
    assert [(each["data"].shape, each["data"].dtype.name) for each in loaded.signatures] == [
        *(((2, 3), "float32"), ((1, 3), "int32"), ((4, 3), "float32"))
    ]


@pytest.mark.slow("compiles")
def test_so_many_signatures_are_kept(tmp_path: Path):
    predict = lowering.Predictor(NET, ARGS, AUX, keep=2)
    for rows in (1, 2, 1, 3):  # 2 goes
        assert_close(np.asarray(predict(data=X[:1].repeat(rows, 0))[0])[0], expected(X[:1])[0], 1e-5, "output")
    assert [shape[0] for (_, (shape, _)), _ in _called(predict)] == [1, 3]
    predict.save(tmp_path / "served")
    assert [each["data"].shape[0] for each in lowering.Predictor.load(tmp_path / "served").signatures] == [1, 3]
    every = lowering.Predictor(sym.Variable("data") + 1, {}, keep=None)
    for size in range(1, 5):
        every(data=np.ones(size))
    assert len(every._ready) == 4
    for keep in (0, -1, 2.5, "3"):
        with pytest.raises(CallError, match="keep must be a number of signatures"):
            lowering.Predictor(NET, ARGS, AUX, keep=keep)  # pyright: ignore[reportArgumentType]


def test_threads_may_use_what_others_let_go():
    net = sym.broadcast_mul(sym.Variable("data"), sym.exp(sym.Variable("w")))
    predict = lowering.Predictor(net, {"w": np.zeros(1, "float32")}, keep=1)
    wrong: list[int] = []

    def ask(size: int) -> None:
        for turn in range(4):
            (output,) = predict(data=np.full(size, turn, "float32"))
            if not np.array_equal(output, np.full(size, turn)):
                wrong.append(size)

    threads = [threading.Thread(target=ask, args=(size,)) for size in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.slow("compiles")
def test_what_is_made_for_a_signature_goes_with_it():
    """Executables, values that others do not use, plans and programs."""
    net = sym.FullyConnected(sym.Variable("data"), sym.Variable("w") * 2, no_bias=True, flatten=False, num_hidden=3)
    predict = lowering.Predictor(net, {"w": np.ones((3, 2), "float32")}, keep=1)
    predict(data=np.ones((1, 1, 2), "float32"))
    ((_, first),) = predict._prepared_ones()
    executable, (value,) = weakref.ref(first.executable), first.held.values()
    assert [each is value for each in predict._kept.computed.values()] == [True]
    first.run({"data": jnp.ones((1, 1, 2))}, None)
    for size in range(2, 30):
        predict(data=np.ones((1, size, 2), "float32"))
    (output,) = first.run({"data": jnp.ones((1, 1, 2))}, None)  # what is in use stays
    assert_close(np.asarray(output), np.full((1, 1, 3), 4, "float32"), 1e-6, "output")
    assert len(predict._programs._programs) < 20
    assert len(predict._programs.pipeline._made) < 70
    assert choose.choose.cache_parameters()["maxsize"] == 4096
    del first, value
    gc.collect()
    assert executable() is None


@pytest.mark.slow("compiles")
def test_a_saved_predictor_draws_by_the_key(tmp_path: Path):
    net = sym.Dropout(sym.Variable("data") * sym.Variable("w"), mode="always", name="drop")
    predict = lowering.Predictor(net, {"w": np.ones(8, "float32")}).warm(data=(8,))
    predict.save(tmp_path / "served")
    loaded = lowering.Predictor.load(tmp_path / "served")
    key = jax.random.key(3)
    np.testing.assert_array_equal(loaded(key, data=np.ones(8))[0], predict(key, data=np.ones(8))[0])


@pytest.mark.slow("compiles")
def test_what_is_no_saved_predictor_is_told(tmp_path: Path):
    def load(**options: str):
        return lowering.Predictor.load(tmp_path / "served", **options)

    with pytest.raises(FileError, match="no predictor.*epoch"):
        load()
    lowering.Predictor(NET, ARGS, AUX).warm(**DATA).save(tmp_path / "served")
    with pytest.raises(CallError, match="own.*dtype"):
        load(compute_dtype="bfloat16")
    about = tmp_path / "served" / "predictor.json"
    for text in ("[", "[]", '{"version": 2}', '{"version": 1, "signatures": [{"inputs": 3}]}', "[" * 100_000):
        about.write_text(text)
        with pytest.raises(FileError, match="no predictor"):
            load()


@pytest.mark.slow("compiles")
def test_batches_of_one_size_one_ahead():
    predict = lowering.Predictor(NET, ARGS, AUX)
    x = np.concatenate([X * k for k in range(1, 4)])[:5]
    read: list[int] = []

    def data():
        for i, rows in enumerate((slice(0, 2), slice(2, 4), slice(4, 5))):
            read.append(i)
            yield x[rows]

    found = predict.batches(data())
    first = next(found)
    assert read == [0, 1]
    parts = [first, *found]
    assert [len(part[0]) for part in parts] == [2, 2, 1]
    assert_close(np.concatenate([part[0] for part in parts]), expected(x), 1e-5, "output")
    labelled = {"data": x, "softmax_label": np.zeros(5, "float32")}
    for batches in (lowering.Batches(labelled, 2, last="pad"), [(x[:2],), {"data": x[2:4]}, [x[4:]]]):
        again = [part[0] for part in predict.batches(batches, 2)]
        assert_close(np.concatenate(again), expected(x), 1e-5, "output")
    assert len(predict._ready) == 1


@pytest.mark.slow("compiles")
def test_batches_that_do_not_fit_are_told():
    predict = lowering.Predictor(NET, ARGS, AUX)
    mean = lowering.Predictor(sym.mean(sym.Variable("data")), {})
    for call, told in (
        (lambda: list(predict.batches([X, np.concatenate([X, X])])), "Batch 1 has.*1 to 2 samples.*Batches"),
        (lambda: list(predict.batches([X[:0]])), "at least one sample"),
        (lambda: list(predict.batches([(X, X)])), "inputs.*data.*2 in a tuple"),
        (lambda: list(predict.batches([{"dta": X}])), "dta"),
        (lambda: list(mean.batches([np.ones(3, "float32")], 4)), "cannot be cut.*last='drop'"),
    ):
        with pytest.raises(LoweringError, match=f"(?s){told}"):
            call()


@pytest.mark.slow("compiles")
def test_half_precision_gives_float32():
    (output,) = lowering.Predictor(NET, ARGS, AUX, compute_dtype="bfloat16")(data=X)
    assert output.dtype == jnp.float32
    assert_close(np.asarray(output), expected(X), 5e-2, "output")


def test_dtypes_of_inputs_follow_where_they_are_warmed():
    net = sym.broadcast_mul(sym.Variable("data"), sym.Variable("w"))
    predict = lowering.Predictor(net, {"w": np.ones((1, 3), "int32")}).warm(data=(2, 3))
    assert predict(data=np.ones((2, 3), "int32"))[0].dtype == jnp.int32
    assert len(predict._ready) == 1


def test_random_networks_take_a_key():
    predict = lowering.Predictor(sym.Dropout(sym.Variable("data"), mode="always", name="drop"), {})
    with pytest.raises(LoweringError, match="needs a PRNG key"):
        predict(data=np.ones(8))
    one, same, other = (predict.warm(data=(8,))(jax.random.key(seed), data=np.ones(8))[0] for seed in (0, 0, 5))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_data_without_axes_are_told():
    with pytest.raises(InferenceError):
        lowering.Predictor(NET, ARGS, AUX)(data=np.float32(1))


@pytest.mark.slow("compiles")
def test_shapes_that_do_not_fit_are_told_in_the_words_of_the_network_that_was_given():
    predict = lowering.Predictor(NET, ARGS, AUX)
    predict(data=X)
    with pytest.raises(InferenceError, match="in operator 'Convolution', node 'conv', input 'weight'") as told:
        predict(data=X[:, :1])
    assert "laid" not in str(told.value)


def test_what_is_amiss_is_told():
    predict = lowering.Predictor(NET, ARGS, AUX)
    for call, error, told in (
        (lambda: predict(), LoweringError, "missing.*data"),
        (lambda: predict(dta=X), LoweringError, "data"),
        (lambda: predict(data=X, fc_weight=ARGS["fc_weight"]), LoweringError, "has.*fc_weight.*already"),
        (lambda: predict(data=X[:, :1]), InferenceError, "conv"),
        (lambda: predict.warm(dta=(1, 2, 4, 4)), LoweringError, "data"),
        (lambda: lowering.Predictor(NET, ARGS), LoweringError, "bn_moving_mean"),
        (lambda: lowering.Predictor(NET, {**ARGS, "fc_wait": X}, AUX), LoweringError, "fc_wait"),
        (lambda: lowering.Predictor(NET, ARGS, AUX, ctx="gpu"), CallError, "platform="),  # pyright: ignore
        (
            lambda: lowering.Predictor(NET, ARGS, AUX, platform="cup"),
            SymbolValueError,
            "No such platform.*'cup'.*Did you mean 'cpu'",
        ),
    ):
        with pytest.raises(error, match=told):
            call()


@pytest.mark.slow("compiles")
def test_large_constants_are_computed_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch):
    programs: list[int] = []
    compute = constants._computing

    def counting(once):
        programs.append(len(once.arg_names))
        return compute(once)

    monkeypatch.setattr(constants, "_computing", counting)
    whole = lowering.Predictor(NET, ARGS, AUX)(data=X)[0]
    assert len(programs) == 1
    monkeypatch.setattr(constants, "_AT_ONCE", 64)
    parts = lowering.Predictor(NET, ARGS, AUX)(data=X)[0]
    assert len(programs) > 3  # one finds the sizes
    assert (np.asarray(whole) == np.asarray(parts)).all()


@pytest.mark.nightly("processes that load hundreds of megabytes")
@pytest.mark.slow("starts processes")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the process's memory is read from Linux")
def test_loading_keeps_one_copy_of_the_parameters():
    """In a process of its own, whose peak is below twice the file: by hand the file and the arrays are there."""
    code = """
import sys, numpy as np, symjax_nnvm as nn, lowering, lowering.serving.constant_store
from symjax_nnvm import symbol as sym

def memory(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key + ":")) / 1024

net = sym.Variable("data")
for i in range(12):
    net = sym.BatchNorm(sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=1024, name=f"c{i}"), name=f"b{i}")
shapes, _, states = net.infer_shape(data=(1, 1024, 2, 2))
args = {n: np.full(s, 0.001, np.float32) for n, s in zip(net.list_arguments(), shapes) if n != "data"}
aux = {n: np.ones(s, np.float32) for n, s in zip(net.list_auxiliary_states(), states)}
if sys.argv[1] == "save":
    nn.save_checkpoint(sys.argv[2], 0, net, args, aux)
else:
    lowering.serving.constant_store._AT_ONCE = 1 << 26
    size = sum(array.nbytes for array in args.values()) / 2**20
    del args
    net, args, aux = nn.load_checkpoint(sys.argv[2], 0)
    before = memory("VmRSS")
    predict = lowering.Predictor(net, args, aux)
    predict(data=np.ones((1, 1024, 2, 2), np.float32))
    print((memory("VmRSS") - before) / size, (memory("VmHWM") - before) / size)
"""
    with tempfile.TemporaryDirectory() as folder:
        for word in ("save", "load"):
            command = [sys.executable, "-c", code, word, f"{folder}/net"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
    kept, peak = map(float, done.stdout.split())
    assert kept < 1.3
    assert peak < 2
