"""`export_program`: a program that runs with JAX alone, with sizes left open, and equals the network."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from lowering.convolutions.backends import onednn
from lowering.xla.compile_options import options_for
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.errors import LoweringError, SymbolValueError
from tests.cli.conftest import net as net  # the fixture: a model that MXNet wrote

pytestmark = pytest.mark.usefixtures("compiled_fully")

pytest.importorskip("flatbuffers", reason="the extra `export` is not installed")

OPEN = {"data": ("N", 1, 8, 8)}


def reloaded(path: Path) -> Any:
    return jax.export.deserialize(bytearray(path.read_bytes()))


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_any_batch_equals_the_network(net: Path, weights: Any):
    model, out = nn.Model.load(net, 3), net.with_name("p.stablehlo")
    lowering.export_program(out, *model, shapes=OPEN, weights=weights)
    with np.load(f"{net}_expected.npz") as archive:
        data, expected = archive["data"], archive["output"]
    first = (dict(np.load(out.with_suffix(".npz"))),) if weights == "beside" else ()
    program = reloaded(out)
    np.testing.assert_allclose(program.call(*first, data=data)[0], expected, rtol=1e-5)
    five = np.concatenate([data] * 3)[:5]
    np.testing.assert_allclose(program.call(*first, data=five)[0], np.concatenate([expected] * 3)[:5], rtol=1e-5)


def fast(program: Any) -> Any:
    """The call as this library compiles its programs."""
    return jax.jit(program.call, compiler_options=options_for(jax.default_backend()))


@pytest.mark.slow("compiles")
def test_numbers_for_sizes_equal_a_predictor_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without oneDNN, and with a convolution that Winograd's algorithm computes; what is left open is XLA's choice."""
    monkeypatch.setattr(onednn.OneDnn, "layout", lambda *_: None)

    def by_winograd(*_: object, constant: bool = False, **__: object) -> str:
        return "winograd4" if constant else "xla"

    monkeypatch.setattr("lowering.convolutions.backends.backend.choose", by_winograd)
    rng = np.random.default_rng(0)
    hidden = sym.Convolution(sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=32, name="conv")
    net = sym.FullyConnected(sym.relu(hidden), num_hidden=5, name="fc")
    shapes, _, _ = net.infer_shape(data=(2, 32, 8, 8))
    data, *args = (rng.standard_normal(shape, np.float32) for shape in shapes)
    named = dict(zip(net.list_arguments()[1:], args, strict=True))
    (expected,) = lowering.Predictor(net, named)(data=data)
    lowering.export_program(tmp_path / "p", net, named, shapes={"data": data.shape})
    np.testing.assert_array_equal(fast(reloaded(tmp_path / "p"))(data=data)[0], expected)
    lowering.export_program(tmp_path / "p", net, named, shapes={"data": ("N", *data.shape[1:])})
    (other,) = fast(reloaded(tmp_path / "p"))(data=data)
    np.testing.assert_allclose(other, expected, rtol=1e-3, atol=1e-3)
    assert not np.array_equal(other, expected)


@pytest.mark.slow("compiles")
@pytest.mark.skipif(onednn.why_not() is not None, reason="jaxlib has no oneDNN on this platform")
def test_a_program_for_this_machine_is_a_predictor_to_the_last_bit(tmp_path: Path):
    layer = sym.Convolution(sym.Variable("data"), kernel=(3, 3), pad=(1, 1), num_filter=32, name="conv")
    net = sym.FullyConnected(sym.relu(layer), num_hidden=5, name="fc")
    shapes, _, _ = net.infer_shape(data=(2, 32, 8, 8))
    data, *args = (np.random.default_rng(0).standard_normal(shape, np.float32) for shape in shapes)
    named = dict(zip(net.list_arguments()[1:], args, strict=True))
    (expected,) = lowering.Predictor(net, named)(data=data)
    for weights in ("inside", "beside"):
        out = tmp_path / f"{weights}.stablehlo"
        lowering.export_program(out, net, named, shapes={"data": data.shape}, weights=weights, this_machine=True)
        program = reloaded(out)
        assert onednn.TARGET in program.mlir_module()
        first = (dict(np.load(out.with_suffix(".npz"))),) if weights == "beside" else ()
        np.testing.assert_array_equal(fast(program)(*first, data=data)[0], expected)
    with pytest.raises(SymbolValueError, match="open sizes of data"):
        lowering.export_program(out, net, named, shapes={"data": ("N", *data.shape[1:])}, this_machine=True)
    many = {"platforms": ["cpu", "cuda"], "this_machine": True}
    with pytest.raises(SymbolValueError, match="platforms cpu, cuda"):
        lowering.export_program(out, net, named, shapes={"data": data.shape}, **many)


@pytest.mark.slow("compiles")
def test_what_draws_at_inference_takes_a_key(tmp_path: Path):
    net = sym.Dropout(sym.broadcast_mul(sym.Variable("data"), sym.Variable("w")), mode="always", name="drop")
    args, data, key = {"w": np.ones((1, 8), "float32")}, np.ones((4, 8), "float32"), jax.random.key(3)
    lowering.export_program(tmp_path / "p", net, args, shapes={"data": ("N", 8)})
    (found,) = reloaded(tmp_path / "p").call(key=key, data=data)
    np.testing.assert_array_equal(found, lowering.Predictor(net, args)(key, data=data)[0])
    assert not np.array_equal(found, reloaded(tmp_path / "p").call(key=jax.random.key(4), data=data)[0])
    clash = sym.Dropout(sym.broadcast_mul(sym.Variable("key"), sym.Variable("w")), mode="always")
    with pytest.raises(SymbolValueError, match="an input 'key' as well.*Rename"):
        lowering.export_program(tmp_path / "q", clash, args, shapes={"key": (4, 8)})


def test_a_program_is_made_for_the_platform_that_it_is_for(tmp_path: Path):
    """Channels last is for CPUs."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=2, no_bias=True, name="conv")
    args = {"conv_weight": np.ones((2, 1, 3, 3), "float32")}
    for platforms, transposed in ((["cpu"], True), (["cuda"], False), (["cuda", "rocm"], False)):
        made = lowering.export_program(
            tmp_path / "p", net, args, shapes={"data": (1, 1, 8, 8)}, weights="beside", platforms=platforms
        )
        (weight,) = np.load(tmp_path / "p.npz").values()
        assert (weight.shape != (2, 1, 3, 3)) == transposed
        assert made.platforms == tuple(platforms)


@pytest.mark.slow("starts processes")
def test_it_needs_jax_and_nothing_of_ours(net: Path):
    lowering.export_program(net.with_name("p.stablehlo"), *nn.Model.load(net, 3), shapes=OPEN)
    code = """
import sys, jax, jax.export, numpy as np
program = jax.export.deserialize(bytearray(open("p.stablehlo", "rb").read()))
known = np.load("net_expected.npz")
np.testing.assert_allclose(program.call(data=known["data"])[0], known["output"], rtol=1e-5)
assert not {"lowering", "symjax_nnvm"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True, cwd=net.parent)


def test_what_cannot_stay_open_says_so(tmp_path: Path):
    rigid = sym.Reshape(sym.Variable("data"), shape=(2, 6))
    with pytest.raises(LoweringError, match="cannot leave these sizes open.*set_batch_size"):
        lowering.export_program(tmp_path / "p", rigid, {}, {}, {"data": ("N", 3)})
    with pytest.raises(SymbolValueError, match="a size with an invalid name"):
        lowering.export_program(tmp_path / "p", rigid, {}, {}, {"data": ("N+1", 3)})
    with pytest.raises(SymbolValueError, match="'inside' or 'beside'"):
        lowering.export_program(tmp_path / "p", rigid, {}, {}, {"data": (4, 3)}, weights="out")  # pyright: ignore
    assert list(tmp_path.iterdir()) == []


def test_a_missing_shape_is_told(net: Path):
    with pytest.raises(LoweringError, match="data"):
        lowering.export_program(net.with_name("p"), *nn.Model.load(net, 3))


def test_the_command_leaves_sizes_open(net: Path, capsys: pytest.CaptureFixture[str]):
    out = net.with_name("p.stablehlo")
    assert main(["convert", str(net), str(out), "--shape", "data=N,1,8,8"]) == 2
    assert "--weights inside" in capsys.readouterr().err
    assert main(["convert", str(net), str(out), "--shape", "data=N,1,8,8", "--weights", "beside"]) == 0
    assert "call(weights, data=…) -> outputs:\n  float32 (N, 3)" in capsys.readouterr().out
    assert out.with_suffix(".npz").exists()
