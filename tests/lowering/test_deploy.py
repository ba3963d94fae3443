"""`export_program`: a program that runs with JAX alone, with sizes left open, and equals the network."""

from __future__ import annotations

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
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.errors import LoweringError, SymbolValueError
from tests.cli.conftest import net as net  # the fixture: a model that MXNet wrote

pytest.importorskip("flatbuffers", reason="the extra `export` is not installed")

OPEN = {"data": ("N", 1, 8, 8)}


def reloaded(path: Path) -> Any:
    return jax.export.deserialize(bytearray(path.read_bytes()))


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
    with pytest.raises(SymbolValueError, match="no name of a dimension"):
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
