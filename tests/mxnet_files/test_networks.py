"""Small networks of every kind, as MXNet 1.9.1 saved them: files byte for byte, and what they compute."""

from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from tests.support.comparison import assert_close

NETWORKS = Path(__file__).parents[1] / "goldens" / "networks"
NAMES = sorted(path.stem for path in NETWORKS.glob("*.npz"))
RTOL = 1e-5
VANISHING = ("transformer", "key_bias")
"""Its gradient is zero but for rounding: softmax ignores what is added to all scores."""


@cache
def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(NETWORKS / f"{name}.npz") as archive:
        return dict(archive)


def part(name: str, kind: str) -> dict[str, np.ndarray]:
    """The golden arrays of a kind, by their names."""
    return {key.partition("|")[2]: array for key, array in golden(name).items() if key.startswith(f"{kind}|")}


GRADIENTS = [name for name in NAMES if part(name, "grad")]


def test_there_are_networks_of_every_kind():
    assert len(NAMES) == 18
    assert len(GRADIENTS) == 12


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", NAMES)
def test_a_saved_symbol_is_mxnets_byte_for_byte(name: str):
    text = (NETWORKS / f"{name}-symbol.json").read_bytes().decode()
    assert sym.load_json(text).tojson() == text


@pytest.mark.parametrize("path", sorted(NETWORKS.glob("*.params")), ids=lambda path: path.stem)
def test_saved_arrays_are_mxnets_byte_for_byte(path: Path, tmp_path: Path):
    nn.save_arrays(tmp_path / "again.params", nn.load_arrays(path))
    assert (tmp_path / "again.params").read_bytes() == path.read_bytes()


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_mxnets(name: str):
    net, args, aux = nn.load_model(NETWORKS / f"{name}-symbol.json", NETWORKS / f"{name}-0000.params")
    outputs, _ = lowering.compile(net)({**args, **part(name, "in")}, aux)
    for i, expected in part(name, "out").items():
        assert_close(outputs[int(i)], expected, RTOL, f"output {i} of {name}")


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_mxnets(name: str):
    net, args, aux = nn.load_checkpoint(NETWORKS / name, 0)
    expected = part(name, "grad")
    heads = part(name, "head")
    gradient = jax.jit(lowering.grad_fn(net, wrt=list(expected)))
    outputs, grads, new_aux = gradient(
        {**args, **part(name, "in")}, aux, None, [heads[str(i)] for i in range(len(heads))]
    )
    for i, value in part(name, "train").items():
        assert_close(outputs[int(i)], value, RTOL, f"output {i} of {name}")
    for what, ours, theirs in (("gradient", grads, expected), ("state", new_aux, part(name, "aux"))):
        assert ours.keys() == theirs.keys()
        for argument, value in theirs.items():
            if (name, argument) == VANISHING:
                assert np.max(np.abs(ours[argument])) < 1e-6
                continue
            assert_close(ours[argument], value, RTOL, f"{what} of {argument} in {name}")


@pytest.mark.slow("compiles")
def test_the_gradient_of_a_while_loop_passes_the_witness():
    # MXNet's own is wrong there.
    net, args, _ = nn.load_checkpoint(NETWORKS / "while_loop", 0)
    lowering.check_gradients(net, {**args, **part("while_loop", "in")}, wrt=["factor_weight"])
