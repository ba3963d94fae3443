"""A program is made for the platform that it runs on: the one that is named, else the mesh's, else JAX's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lowering
from lowering.xla import platforms
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError, SymbolValueError
from symjax_nnvm.pipeline import Options

NET = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=2, no_bias=True, name="conv")
WEIGHT = {"conv_weight": np.ones((2, 4, 3, 3), "float32")}
ARGS = WEIGHT | {"data": np.ones((1, 4, 8, 8), "float32")}

CHANNELS_LAST = "dim_numbers = [b, 0, 1, f]"
"""Only programs for CPUs have them."""


def is_for_a_cpu(text: str) -> bool:
    assert "stablehlo.convolution" in text
    return CHANNELS_LAST in text


DOORS: dict[str, Callable[[str], Any]] = {
    "Options": lambda word: Options(platform=word),
    "to_jax": lambda word: lowering.to_jax(NET, platform=word),
    "compile": lambda word: lowering.compile(NET, platform=word),
    "grad_fn": lambda word: lowering.grad_fn(NET, platform=word),
    "differentiable": lambda word: lowering.differentiable(NET, platform=word),
    "explain": lambda word: lowering.explain(NET, platform=word),
    "Predictor": lambda word: lowering.Predictor(NET, WEIGHT, platform=word),
    "simple_bind": lambda word: lowering.simple_bind(NET, ctx=word, data=(1, 4, 8, 8)),
    "bind": lambda word: lowering.bind(NET, args=ARGS, ctx=word),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("word", ["nonsense", "mps", "cuda"])
def test_a_word_that_is_no_platform_is_refused(door: str, word: str):
    with pytest.raises(SymbolValueError, match=f"No such platform.*{word}.*cpu.*gpu.*tpu"):
        DOORS[door](word)


@pytest.mark.parametrize("door", ["Predictor", "simple_bind", "bind"])
@pytest.mark.parametrize("word", ["tpu", "plain"])
def test_a_platform_without_a_device_is_refused(door: str, word: str):
    with pytest.raises(SymbolValueError, match=f"no device of the platform '{word}'.*cpu"):
        DOORS[door](word)


@pytest.mark.parametrize("word", ["nonsense", "mps", "gpu"])
def test_a_word_that_nothing_is_exported_for_is_refused(word: str, tmp_path: Path):
    compiled = lowering.compile(NET)
    with pytest.raises(NNVMError, match=f"Cannot export for.*{word}.*cpu.*cuda.*rocm.*tpu"):
        compiled.export(tmp_path / "p", ARGS, platforms=("cpu", word))
    with pytest.raises(NNVMError, match=f"Cannot export for.*{word}.*cpu.*cuda.*rocm.*tpu"):
        lowering.export_program(tmp_path / "p", NET, WEIGHT, shapes={"data": (1, 4, 8, 8)}, platforms=[word])


@pytest.mark.slow("compiles")
@pytest.mark.parametrize(
    ("places", "for_a_cpu"),
    [
        *((None, True), (("cpu",), True), (("cuda",), False), (("cuda", "rocm"), False), (("tpu",), False)),
        *((("cpu", "cuda"), False), (("cuda", "tpu"), False)),
    ],
)
def test_what_is_exported_is_made_for_its_platforms(places: tuple[str, ...] | None, for_a_cpu: bool, tmp_path: Path):
    """And for several kinds without what one kind alone gains by."""
    pytest.importorskip("flatbuffers", reason="the extra `export` is not installed")
    made = lowering.compile(NET).export(tmp_path / "p", ARGS, platforms=places)
    assert is_for_a_cpu(made.mlir_module()) == for_a_cpu
    assert made.platforms == (places or ("cpu",))
    program = lowering.export_program(
        *(tmp_path / "q", NET, WEIGHT), shapes={"data": ("N", 4, 8, 8)}, platforms=places, weights="beside"
    )
    assert is_for_a_cpu(program.mlir_module()) == for_a_cpu
    (weight,) = np.load(tmp_path / "q.npz").values()
    assert (weight.shape != WEIGHT["conv_weight"].shape) == for_a_cpu


@pytest.mark.parametrize("word", ["any", "plain"])
def test_a_program_for_all_platforms_has_nothing_of_one(word: str):
    run = lowering.compile(NET, platform=word)
    assert not is_for_a_cpu(run.lower(ARGS).as_text())
    np.testing.assert_allclose(run(ARGS)[0][0], lowering.compile(NET)(ARGS)[0][0], rtol=1e-6)


def test_a_plain_program_has_operations_that_a_person_would_write():
    data, given = sym.Variable("data"), {"data": ARGS["data"]}
    for net in (sym.Pooling(data, kernel=(2, 2), stride=(2, 2), pool_type="max"), sym.LRN(data, nsize=3)):
        for word, is_written in (("any", False), ("plain", True)):
            assert ("reduce_window" in lowering.compile(net, platform=word).lower(given).as_text()) == is_written


def test_the_default_device_is_where_a_program_runs(monkeypatch: pytest.MonkeyPatch):
    """Also of a function that was made, and traced, before."""
    run = jax.jit(lowering.to_jax(NET))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert not is_for_a_cpu(run.lower(ARGS).as_text())
    with jax.default_device(jax.devices("cpu")[0]):
        assert platforms.current_platform() == "cpu"
        assert is_for_a_cpu(run.lower(ARGS).as_text())
    with jax.default_device("cpu"):
        assert platforms.current_platform() == "cpu"


def test_a_mesh_is_where_a_program_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("data",))
    assert is_for_a_cpu(jax.jit(lowering.to_jax(NET, mesh=mesh)).lower(ARGS).as_text())


def test_a_predictor_lies_on_the_default_device():
    last = jax.devices("cpu")[-1]
    with jax.default_device(last):
        (output,) = lowering.Predictor(NET, WEIGHT)(data=ARGS["data"])
    assert output.devices() == {last}


def test_a_device_of_another_kind_is_none_in_particular(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "METAL")
    assert platforms.current_platform() == "any"
    assert not is_for_a_cpu(jax.jit(lowering.to_jax(NET)).lower(ARGS).as_text())
