"""Means of no integers."""

import pytest

from tests.support import warm

MEANS = """
import jax.numpy as jnp, lowering
from symjax_nnvm import symbol as sym
net = sym.mean(sym.Variable("x"), axis=0)
for dtype in ("int8", "uint8", "int32"):
    (mean,), _ = lowering.compile(net)({"x": jnp.zeros((0, 3), dtype)})
    assert mean.tolist() == [0, 0, 0]
"""


@pytest.mark.slow("starts processes")
def test_the_mean_of_no_integers_is_0_and_ends_no_process():
    """XLA folds 0 / 0 when it compiles. In a process of its own, which it would end."""
    child = warm.run(["-c", MEANS])
    assert child.returncode == 0, child.stderr
