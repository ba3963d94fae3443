"""Networks in MXNet's files, printed, run where this library is not, and are the same functions in each dtype."""

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from tests.lowering.source.zoo import NAMES, NETWORKS, differences
from tests.support.printed import Child, well_formed

ROUNDING = {"float64": (1e-14, 1e-12), "float32": (1e-6, 1e-4), "bfloat16": (2**-6, None)}
"""Largest differences of outputs and states, of bfloat16 two units of the last place, and of gradients, which lose
digits in BatchNorm of a few numbers: of bfloat16's nearly all."""

USUAL = ("gluon_twins", "cnn")
"""Equal blocks in a loop, and BatchNorm with its states."""

OTHER = pytest.mark.nightly("every kind of network")


@pytest.mark.slow("starts a process")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[OTHER] * (name not in USUAL)) for name in NAMES])
def test_a_network_in_mxnets_files_is_the_same_function(child: Child, name: str):
    for dtype, (values, gradients) in ROUNDING.items():
        for is_train in (False, True):
            found = differences(child, name, dtype, is_train=is_train)
            assert max(found.outputs, found.states) <= values, (dtype, is_train, found)
            assert gradients is None or found.gradients <= gradients, (dtype, is_train, found)


@pytest.mark.nightly("prints every network")
def test_modules_are_as_ruff_has_them():
    for name in NAMES:
        net, args, aux = nn.load_checkpoint(NETWORKS / name, 0)
        with np.load(NETWORKS / f"{name}.npz") as archive:
            shapes = {key[3:]: array.shape for key, array in archive.items() if key.startswith("in|")}
        well_formed(lowering.to_source(net, args, aux, shapes=shapes))
