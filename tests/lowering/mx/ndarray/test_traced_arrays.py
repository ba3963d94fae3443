"""Arrays of mx in functions that JAX traces."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lowering import mx
from tests.support.traced import evaluated

X = jnp.arange(6.0).reshape(2, 3)

OUTSIDE = mx.nd.ones((2, 3))


def part_written(x: Any) -> Any:
    x[0] = x[1] + 1
    x[1][2] = 9
    return x


def whole_written(x: Any) -> Any:
    x[:] = 2
    x += 1
    return x


def gradient(x: Any) -> Any:
    x.attach_grad()
    with mx.autograd.record():
        y = (x * x).sum()
    y.backward()
    return x.grad


WORK: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "arithmetic": (lambda x: x * 2 + 1, X * 2 + 1),
    "index": (lambda x: x[1], X[1]),
    "slices": (lambda x: x[:, 1:], X[:, 1:]),
    "indices": (lambda x: x[[1, 0]], X[::-1]),
    "view in another shape": (lambda x: x.reshape((3, 2)), X.reshape(3, 2)),
    "part written": (part_written, [[4, 5, 6], [3, 4, 9]]),
    "whole written": (whole_written, np.full((2, 3), 3)),
    "gradient": (gradient, 2 * X),
}

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "read": (lambda x: x.asnumpy(), "no numbers before the traced function runs.*Return the array"),
    "decided by": (lambda x: 1 if x.sum() > 0 else 0, "no numbers before the traced function runs"),
    "printed": (repr, "no numbers before the traced function runs"),
    "written outside": (lambda x: OUTSIDE.__setitem__(slice(None), x), "cannot be written.*Return it from"),
    "part written outside": (lambda x: OUTSIDE.__setitem__(0, x[1]), "cannot be written.*Return it from"),
    "added outside": (OUTSIDE.__iadd__, "cannot be written.*Return it from"),
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("work", WORK)
def test_what_needs_no_numbers_is_traced(work: str):
    function, expected = WORK[work]
    np.testing.assert_allclose(evaluated(lambda x: function(mx.nd.array(x)).value, X), expected)


@pytest.mark.parametrize("work", REFUSED)
def test_what_needs_numbers_says_so_and_no_traced_value_gets_out(work: str):
    function, words = REFUSED[work]
    with pytest.raises(mx.MXNetError, match=words):
        jax.make_jaxpr(lambda x: function(mx.nd.array(x)))(X)
    np.testing.assert_array_equal(OUTSIDE.asnumpy(), np.ones((2, 3)))
