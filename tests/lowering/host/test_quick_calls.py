"""By how much a quickly compiled program is slower, by an estimate of its work."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from lowering.host.quick_calls import excess_of_quick_calls


def excess(function: Any, *shapes: tuple[int, ...]) -> float:
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return excess_of_quick_calls(jax.make_jaxpr(function)(*arguments).jaxpr)


def convolution(groups: int = 1) -> Any:
    return lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=groups)


def test_products_count_their_multiplications_and_other_equations_their_elements():
    assert excess(jnp.dot, (10, 20), (20, 30)) == pytest.approx(0.1e-3 * 10 * 20 * 30)
    assert excess(jnp.tanh, (10, 20)) == 1e-3 * 200
    assert excess(convolution(), (2, 3, 8, 8), (4, 3, 3, 3)) == pytest.approx(0.1e-3 * 2 * 4 * 64 * 27)


def test_convolutions_for_which_xla_writes_loops_count_more():
    assert excess(convolution(), (2, 4, 2, 8), (4, 4, 3, 3)) == pytest.approx(6e-3 * 2 * 4 * 16 * 36)
    assert excess(convolution(4), (2, 4, 8, 8), (4, 1, 3, 3)) == pytest.approx(6e-3 * 2 * 4 * 64 * 9)


def test_a_loop_counts_its_turns():
    once = excess(jnp.tanh, (5,))
    assert excess(lambda x: lax.scan(lambda c, _: (jnp.tanh(c), None), x, None, 7), (5,)) == pytest.approx(7 * once)
    assert excess(jax.jit(jnp.tanh), (5,)) == once
    assert excess(lambda x: lax.cond(x[0] > 0, jnp.tanh, jnp.sin, x), (5,)) > 2 * once
