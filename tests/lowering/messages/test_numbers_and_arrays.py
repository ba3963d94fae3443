"""NumPy's scalars, arrays of every kind and dtypes of every spelling are taken at every public door, and what is no
array of numbers is refused by the library's own error, which names the input."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering import mx
from lowering.messages.arguments import arrays_by_name, as_array, kind_of, prng_key, whole_number
from lowering.training import metrics
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import CallError, NNVMError, SymbolTypeError, TrainingError

NET = sym.FullyConnected(sym.Variable("data"), num_hidden=4, name="fc")
LOSS = sym.SoftmaxOutput(NET, name="softmax")
X = np.arange(20, dtype=np.float32).reshape(4, 5) / 20
Y = np.array([0, 1, 2, 3], np.float32)
ARGS = {"fc_weight": np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5), "fc_bias": np.ones(4, np.float32)}
BATCH = {"data": X, "softmax_label": Y}
EVERY = ARGS | BATCH


class _Two:
    """A number of no type that anything knows."""

    def __index__(self) -> int:
        return 2


class _Callback:
    def __init__(self) -> None:
        self.epochs = 0

    def on_epoch_end(self, trainer: Any, record: Any) -> None:
        self.epochs += 1


def _trainer(**options: Any) -> Any:
    trainer = lowering.Trainer(LOSS, **options)
    trainer.init(0, ARGS, data=(4, 5))
    return trainer


def _fit(**options: Any) -> Any:
    return _trainer().fit(**{"data": [BATCH], "epochs": 1, "progress": False, **options})


# -- numbers ---------------------------------------------------------------------------------------------------------

COUNTS: dict[str, Callable[[Any], Any]] = {
    "epochs": lambda two: _fit(epochs=two),
    "begin_epoch": lambda two: _fit(epochs=3, begin_epoch=two),
    "key": lambda two: lowering.init_params(LOSS, {"data": (4, 5)}, two),
    "key of init": lambda two: lowering.Trainer(LOSS).init(two, data=(4, 5)),
    "key of an initialiser": lambda two: lowering.initializer.Uniform()("fc_weight", (2, 3), np.float32, two),
    "sizes": lambda two: lowering.init_params(LOSS, {"data": (two, 5)}, 0),
    "sizes of explain": lambda two: str(lowering.explain(LOSS, data=[two, two])),
    "sizes of warm": lambda two: lowering.Predictor(NET, ARGS).warm(data=(two, 5)),
    "sizes of estimate": lambda two: str(nn.estimate(LOSS, {"data": (two, 5)})),
    "sizes of simple_bind": lambda two: lowering.simple_bind(NET, data=(two, 5)).forward(),
    "keep": lambda two: lowering.Predictor(NET, ARGS, keep=two),
    "batch_size of batches": lambda two: list(lowering.Predictor(NET, ARGS).batches([X[:2]], batch_size=two)),
    "batch_size": lambda two: list(lowering.Batches(BATCH, two)),
    "seed": lambda two: list(lowering.Batches(BATCH, 2, shuffle=True, seed=two)),
    "shard": lambda two: list(lowering.Batches(BATCH, 2, shard=(0, two))),
    "keep and every": lambda two: lowering.Checkpoints("folder", keep=two, every=two),
    "accumulate": lambda two: _trainer(accumulate=two).step(BATCH),
    "accumulate in a list": lambda two: _trainer(accumulate=[two, "sum"]).step(BATCH),
    "max_memory": lambda two: lowering.compile(LOSS, max_memory=two),
    "directions": lambda two: lowering.check_projection(LOSS, EVERY, directions=two, seed=two),
    "bins": lambda two: sym.histogram(sym.Variable("data"), bins=two, range=(0, 1)),
    "sections": lambda two: sym.split_v2(sym.Variable("data"), two),
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("door", COUNTS)
def test_whole_numbers_of_any_type_are_taken(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    own = door in ("bins", "sections")  # these ask for a registered number
    for two in (np.int64(2), np.uint8(2)) if own else (np.int64(2), np.uint8(2), np.array(2), _Two()):
        COUNTS[door](two)


def test_a_whole_number_is_an_int_and_no_bool():
    assert [type(whole_number(two)) for two in (2, np.int8(2), np.array(2), jnp.int32(2), _Two())] == [int] * 5
    for other in (True, np.bool_(True), 2.0, np.float64(2), "2", np.ones(3, int)):
        with pytest.raises(TypeError):
            whole_number(other)
    assert prng_key(np.int64(3)) == jax.random.key(3)
    assert prng_key(jax.random.key(3)) == jax.random.key(3)


def test_numpys_number_means_what_pythons_does():
    two: Any = np.int64(2)
    rows = [batch["data"] for batch in lowering.Batches(BATCH, two, shuffle=True, seed=two)]
    np.testing.assert_array_equal(rows, [b["data"] for b in lowering.Batches(BATCH, 2, shuffle=True, seed=2)])
    assert len(_fit(epochs=two).epochs) == 2
    numpys, own = (lowering.init_params(LOSS, {"data": (4, 5)}, key)[0]["fc_weight"] for key in (two, 2))
    np.testing.assert_array_equal(numpys, own)


def test_epochs_that_are_no_whole_number_are_told_as_such():
    with pytest.raises(TrainingError, match=r"Wrong epochs.*1\.5"):
        _fit(epochs=np.float64(1.5))
    with pytest.raises(TrainingError, match="whole arrays"):
        _fit(data=X, epochs=Y)


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    "number", [np.float16(0.5), np.float32(0.5), np.float64(0.5), np.array(0.5), jnp.bfloat16(0.5)]
)
def test_numbers_of_any_float_type_are_taken(number: Any):
    trainer = _trainer(clip_global_norm=number, optimizer_params={"learning_rate": number})
    trainer.step(BATCH)
    trainer.set_learning_rate(number)
    assert trainer.learning_rate == 0.5
    assert lowering.check_gradients(LOSS, EVERY, fd_rtol=number).ok


@pytest.mark.slow("compiles")
def test_flags_of_numpy_are_taken():
    assert lowering.compile(NET, is_train=np.True_, donate_aux=np.False_)  # type: ignore[arg-type]
    assert lowering.check_gradients(LOSS, EVERY, finite_differences=np.False_).ok  # type: ignore[arg-type]
    assert len(_fit(check_labels=np.True_, keep_memory=np.False_).epochs) == 1


def test_a_kind_hands_over_pythons_own():
    for annotation, value, own in (
        ("int", np.int64(2), 2),
        ("bool", np.True_, True),
        ("float | None", np.float32(0.5), 0.5),
        ("Sequence[str]", np.array(["a"]), ["a"]),
        ("Collection[str]", {"b", "a"}, ["a", "b"]),
        ("DTypeLike | None", jnp.bfloat16, "bfloat16"),
        ("int | str", np.int64(2), 2),
        ("int | None", None, None),
    ):
        kind = kind_of(annotation)
        assert kind is not None
        assert kind.read(value) == own
        assert type(kind.read(value)) is type(own)


# -- dtypes ----------------------------------------------------------------------------------------------------------

BFLOAT16 = ["bfloat16", jnp.bfloat16, jnp.dtype("bfloat16"), np.dtype("bfloat16"), jnp.bfloat16.dtype.type]


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("dtype", BFLOAT16, ids=repr)
def test_a_dtype_may_be_spelled_in_every_way(dtype: Any, tmp_path: Path):
    expected = lowering.Predictor(NET, ARGS, compute_dtype="bfloat16")(data=X)[0]
    np.testing.assert_array_equal(lowering.Predictor(NET, ARGS, compute_dtype=dtype)(data=X)[0], expected)
    assert _trainer(compute_dtype=dtype).program.program.options.compute_dtype == "bfloat16"
    assert lowering.explain(NET, compute_dtype=dtype).plan.options.compute_dtype == "bfloat16"
    exported = lowering.export_program(tmp_path / "p", NET, ARGS, {}, {"data": (4, 5)}, dtypes={"data": dtype})
    assert "bfloat16" in {str(aval.dtype) for aval in exported.in_avals}
    nn.estimate(NET, {"data": (4, 5)}, {"data": dtype})


def test_float16_and_float32_are_dtypes_of_products():
    assert lowering.Predictor(NET, ARGS, compute_dtype=np.float16).plan.options.compute_dtype == "float16"
    for whole in ("float32", np.float32, None):
        assert lowering.Predictor(NET, ARGS, compute_dtype=whole).plan.options.compute_dtype is None
        assert lowering.explain(NET, compute_dtype=whole).plan.options.compute_dtype is None


def test_what_is_no_dtype_is_refused(tmp_path: Path):
    for call in (
        lambda: lowering.explain(NET, compute_dtype="nonsense"),
        lambda: lowering.explain(NET, compute_dtype=0),  # type: ignore[arg-type]
        lambda: lowering.export_program(tmp_path / "p", NET, ARGS, {}, {"data": (4, 5)}, dtypes={"data": "nonsense"}),
        lambda: nn.estimate(NET, {"data": (4, 5)}, {"data": "nonsense"}),
        lambda: nn.estimate(NET, {"data": (4, 5)}, ["float32"]),  # type: ignore[arg-type]
    ):
        with pytest.raises(NNVMError):
            call()


# -- names, metrics, callbacks ---------------------------------------------------------------------------------------

NAMES = [
    np.array(["fc_weight", "fc_bias"]),
    {"fc_weight", "fc_bias"},
    dict.fromkeys(["fc_weight", "fc_bias"]).keys(),
    ("fc_weight", "fc_bias"),
]


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("names", NAMES, ids=lambda names: type(names).__name__)
def test_names_come_in_any_collection(names: Any):
    assert set(lowering.grad_fn(LOSS, names)(EVERY)[1]) == {"fc_weight", "fc_bias"}
    assert {row.argument for row in lowering.check_gradients(LOSS, EVERY, wrt=names).rows} == {"fc_weight", "fc_bias"}
    assert set(_trainer(wrt=names).wrt) == {"fc_weight", "fc_bias"}
    assert lowering.explain(LOSS, wrt=names).backward


@pytest.mark.slow("compiles")
def test_names_come_from_a_generator():
    assert list(lowering.grad_fn(LOSS, (name for name in ["fc_bias"]))(EVERY)[1]) == ["fc_bias"]  # type: ignore[arg-type]
    with pytest.raises(CallError, match="wrt must be a list of names"):
        lowering.grad_fn(LOSS, (number for number in range(3)))  # type: ignore[arg-type]


@pytest.mark.nightly("every collection", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    "several",
    [
        lambda: {"accuracy", "cross-entropy"},
        lambda: {"accuracy": 1, "cross-entropy": 2}.keys(),
        lambda: (name for name in ["accuracy", "cross-entropy"]),
        lambda: np.array(["accuracy", "cross-entropy"]),
        lambda: ("accuracy", metrics.cross_entropy()),
    ],
)
def test_metrics_come_in_any_collection(several: Callable[[], Any]):
    history = _fit(epochs=2, metrics=several(), validation=[BATCH])
    expected = _fit(epochs=2, metrics=["accuracy", "cross-entropy"], validation=[BATCH])
    assert [record.metrics for record in history.epochs] == [record.metrics for record in expected.epochs]
    assert [record.validation for record in history.epochs] == [record.validation for record in expected.epochs]
    assert set(_trainer().evaluate([BATCH], several())) == {"accuracy", "cross-entropy"}


def test_none_is_no_metric_and_no_callback():
    history = _fit(metrics=None, callbacks=None, validation=[BATCH])
    assert history.epochs[0].metrics == {} == history.epochs[0].validation
    assert _trainer().evaluate([BATCH], None) == {}


@pytest.mark.slow("compiles")
def test_callbacks_come_in_any_collection():
    callback = _Callback()
    for given in ([callback], callback, (one for one in [callback]), {callback}):
        _fit(callbacks=given)
    assert callback.epochs == 4


# -- arrays ----------------------------------------------------------------------------------------------------------


def _step(arrays: dict[str, Any]) -> Any:
    return _trainer().step({name: arrays[name] for name in BATCH})


def _trained(arrays: dict[str, Any]) -> Any:
    trainer = _trainer()
    trainer.fit([(arrays["data"], arrays["softmax_label"])], 1, progress=False)
    return [trainer.state.params["fc_weight"]]


def _evaluated(arrays: dict[str, Any]) -> Any:
    found = _trainer().evaluate([{name: arrays[name] for name in BATCH}], ["cross-entropy"])
    return [np.float32(found["cross-entropy"])]


def _with_heads(arrays: dict[str, Any]) -> Any:
    given = {name: arrays[name] for name in (*ARGS, "data")}
    return lowering.grad_fn(NET, ["fc_weight"])(given, head_grads=[arrays["data"][:, :4]])[1].values()


def _of_heads(arrays: dict[str, Any]) -> Any:
    report = lowering.check_gradients(NET, {**ARGS, "data": arrays["data"]}, head_grads=[arrays["data"][:, :4]])
    return [np.float32(row.scale) for row in report.rows]


def _parameters(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: arrays[name] for name in ARGS}


DOORS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "to_jax": lambda arrays: lowering.to_jax(LOSS)(arrays)[0],
    "compile": lambda arrays: lowering.compile(LOSS)(arrays)[0],
    "max_memory": lambda arrays: lowering.compile(LOSS, max_memory="1G")(arrays)[0],
    "hlo": lambda arrays: [len(lowering.compile(LOSS).hlo(arrays).splitlines())],
    "differentiable": lambda arrays: lowering.differentiable(LOSS)(arrays)[0],
    "grad_fn": lambda arrays: list(lowering.grad_fn(LOSS)(arrays)[1].values()),
    "head_grads": _with_heads,
    "check_gradients": lambda arrays: [row.scale for row in lowering.check_gradients(LOSS, arrays).rows],
    "head_grads of check_gradients": _of_heads,
    "Predictor": lambda arrays: lowering.Predictor(NET, _parameters(arrays))(data=arrays["data"]),
    "Predictor.batches": lambda arrays: next(lowering.Predictor(NET, _parameters(arrays)).batches([arrays["data"]])),
    "Trainer.init": lambda arrays: lowering.Trainer(LOSS).init(0, _parameters(arrays), data=(4, 5)).params.values(),
    "Trainer.step": _step,
    "Trainer.fit": _trained,
    "Trainer.evaluate": _evaluated,
    "Trainer.predict": lambda arrays: _trainer().predict(arrays["data"]),
    "Trainer.diagnose": lambda arrays: [len(str(_trainer().diagnose({name: arrays[name] for name in BATCH})))],
    "Batches": lambda arrays: _trainer().predict(lowering.Batches({"data": arrays["data"]}, 2)),
    "bind": lambda arrays: lowering.bind(LOSS, args=arrays).forward(),
}


@pytest.mark.nightly("every door with every kind", but_one_in=3)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "made",
    [lambda x: mx.nd.array(x), lambda x: x.astype(">f4"), lambda x: x.astype(np.float64).view(np.recarray)],
    ids=["of MXNet", "big-endian", "of a subclass"],
)
def test_arrays_of_other_kinds_are_what_jaxs_are(door: str, made: Callable[[np.ndarray], Any]):
    arrays = {name: made(array) for name, array in EVERY.items()}
    for found, expected in zip(DOORS[door](arrays), DOORS[door](EVERY), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    "door", [name for name in DOORS if name[:7] != "Trainer" and name not in ("bind", "Batches") and "head" not in name]
)
def test_lists_are_arrays_where_names_tell_which(door: str):
    data: Any = (
        X.tolist() if door != "Predictor.batches" else {"data": X.tolist()}
    )  # a list is one of every input there
    for one, expected in zip(DOORS[door](EVERY | {"data": data}), DOORS[door](EVERY), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-6)


def test_a_list_of_what_jax_traces_is_an_array():
    rows = jax.jit(lambda row: lowering.to_jax(NET)({**ARGS, "data": [row, 2 * row]})[0][0])(X[0])
    np.testing.assert_allclose(rows, lowering.to_jax(NET)({**ARGS, "data": np.stack([X[0], 2 * X[0]])})[0][0])


@pytest.mark.slow("compiles")
def test_gradients_flow_through_arrays_of_jax_alone():
    loss = lambda weight: lowering.differentiable(LOSS)({**EVERY, "fc_weight": weight})[0][0].sum()  # noqa: E731
    found, mxs = jax.grad(loss)(jnp.asarray(ARGS["fc_weight"])), {name: mx.nd.array(x) for name, x in EVERY.items()}
    given = lambda weight: lowering.differentiable(LOSS)({**mxs, "fc_weight": weight})[0][0].sum()  # noqa: E731
    np.testing.assert_array_equal(jax.grad(given)(jnp.asarray(ARGS["fc_weight"])), found)


NO_NUMBERS: dict[str, tuple[Any, str]] = {
    "None": (None, "NoneType"),
    "a word": ("abc", "abc|str"),
    "bytes": (b"x", "bytes"),
    "words": (np.full((4, 5), "a"), "<U1"),
    "a ragged list": ([[1], [1, 2]], "inhomogeneous|list"),
    "objects": (np.ones((4, 5), object), "object"),
    "one object": (object(), "object"),
    "a dict": ({"a": 1}, "dict"),
    "masked": (np.ma.masked_array(X, mask=X > 0.5), "MaskedArray"),
    "dates": (np.zeros((4, 5), "M8[s]"), "datetime64"),
    "durations": (np.zeros((4, 5), "m8[s]"), "timedelta64"),
    "a description": (jax.ShapeDtypeStruct((4, 5), np.float32), "ShapeDtypeStruct"),
    "longdouble": (np.ones((4, 5), np.longdouble), "float128"),
    "complex longdouble": (np.ones((4, 5), np.clongdouble), "complex256"),
    "records": (np.zeros((4, 5), [("a", "f4")]), "'a'"),
    "too large": (2**80, "int"),
}
LONG = np.dtype(np.longdouble).itemsize > 8  # elsewhere it is float64


IN_OWN_WORDS = ("Predictor.batches", "Trainer.evaluate", "Trainer.predict", "Trainer.fit", "Batches")
"""What takes batches says of many a value that it is none."""


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("door", [name for name in DOORS if name not in ("hlo", "bind") and "head" not in name])
@pytest.mark.parametrize("what", [what for what in NO_NUMBERS if LONG or "longdouble" not in what])
def test_what_is_no_array_of_numbers_is_refused_by_name(door: str, what: str):
    value, told = NO_NUMBERS[what]
    name = "fc_weight" if door == "Trainer.init" else "data"
    with pytest.raises(NNVMError) as refused:
        DOORS[door]({**EVERY, name: value})
    message = str(refused.value)
    assert len(message) < 700
    if door not in IN_OWN_WORDS:
        assert name in message
        assert re.search(told, message), message
        assert "expected an array" in message or "one that fits in int" in message


@pytest.mark.parametrize("what", [what for what in NO_NUMBERS if what != "None" and (LONG or "longdouble" not in what)])
def test_a_head_gradient_that_is_no_array_of_numbers_is_refused(what: str):
    value, told = NO_NUMBERS[what]
    for door in (lowering.grad_fn(NET), partial(lowering.check_gradients, NET)):
        with pytest.raises(CallError, match=r"head_grads\[0\]") as refused:
            door({**ARGS, "data": X}, head_grads=[value])
        assert re.search(told, str(refused.value))


@pytest.mark.parametrize("heads", [5, "ab", {"fc_output": X}, np.float32(1)])
def test_head_gradients_are_a_list(heads: Any):
    for door in (lowering.grad_fn(NET), partial(lowering.check_gradients, NET)):
        with pytest.raises(CallError, match="head_grads.*expected a list"):
            door({**ARGS, "data": X}, head_grads=heads)


def test_words_are_told_how_they_become_numbers():
    for call in (
        lambda words: _trainer().predict({"data": words}),
        lambda words: _fit(data=[{"data": words, "softmax_label": Y}]),
        lambda words: lowering.Predictor(NET, ARGS)(data=words),
    ):
        with pytest.raises(NNVMError, match=r"np\.unique\(words, return_inverse=True\)"):
            call(np.full((4, 5), "a"))


def test_arrays_that_jax_takes_stay_as_they_are():
    for value in (
        X,
        jnp.asarray(X),
        1.5,
        True,
        3,
        X.astype(jnp.bfloat16),
        X.astype(np.float64),
        X.astype(np.complex64),
    ):
        assert as_array(value, "data") is value
    arrays = {name: jnp.asarray(array) for name, array in EVERY.items()}
    assert arrays_by_name(arrays, "args", "f(args)") is arrays
    turned = as_array(X.astype(">f4"), "data")
    assert turned.dtype == np.float32
    np.testing.assert_array_equal(turned, X)


def test_a_file_of_arrays_is_read_batch_by_batch(tmp_path: Path):
    path = tmp_path / "x.npy"
    np.save(path, X.astype(">f4"))
    batches = lowering.Batches({"data": np.load(path, mmap_mode="r")}, 2)
    assert isinstance(batches.arrays["data"], np.memmap)
    np.testing.assert_array_equal(_trainer().predict(batches)[0], _trainer().predict(X)[0])


# -- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.estimate(NET, {"data": jax.ShapeDtypeStruct((4, 5), np.float32)}),  # type: ignore[dict-item]
        lambda: nn.estimate(NET, {"data": X}),  # type: ignore[dict-item]
        lambda: nn.estimate(NET, {"data": (4.5, 5)}),  # type: ignore[dict-item]
        lambda: nn.estimate(NET, [4, 5]),  # type: ignore[arg-type]
        lambda: nn.estimate(NET, {"data": 4}),  # type: ignore[dict-item]
    ],
)
def test_what_is_no_shape_is_refused_by_estimate(call: Callable[[], Any]):
    with pytest.raises(SymbolTypeError, match="shape"):
        call()


@pytest.mark.parametrize("size", [4.5, "N", None, True])
def test_sizes_are_whole_numbers(size: Any, tmp_path: Path):
    for call in (
        lambda: lowering.Predictor(NET, ARGS).warm(data=(size, 5)),
        lambda: lowering.explain(NET, data=(size, 5)),
        lambda: lowering.init_params(NET, {"data": (size, 5)}, 0),
        lambda: lowering.Trainer(LOSS).init(0, data=(size, 5)),
    ):
        with pytest.raises(CallError, match="whole numbers"):
            call()
    if size != "N":
        with pytest.raises(NNVMError, match="a whole number, or a name"):
            lowering.export_program(tmp_path / "p", NET, ARGS, {}, {"data": (size, 5)})


@pytest.mark.parametrize("data", [None, 5, 1.5, object()])
def test_what_is_no_batches_is_refused(data: Any):
    for call in (
        lambda: _trainer().predict(data),
        lambda: _trainer().evaluate(data),
        lambda: _fit(data=data),
        lambda: list(lowering.Predictor(NET, ARGS).batches(data)),
    ):
        with pytest.raises(NNVMError, match="batches"):
            call()


def test_a_limit_of_memory_counts_what_runs():
    wide = {name: array.astype(np.float64) if name == "data" else array for name, array in EVERY.items()}
    lowering.compile(LOSS, max_memory="1G")(wide)  # JAX makes it float32, as the weights are
