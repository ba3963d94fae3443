"""Compile options: given where a program is compiled by itself, and not given elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.xla import compile_options as xla_options
from symjax_nnvm import symbol as sym

NET = sym.sum(sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=2, no_bias=True, name="conv"))
ARGS = {"data": jnp.ones((1, 2, 5, 5)), "conv_weight": jnp.full((2, 2, 3, 3), 0.5)}


@pytest.mark.slow("compiles")
@pytest.mark.usefixtures("compiled_fully")
def test_what_is_compiled_alone_is_compiled_with_the_options(monkeypatch: pytest.MonkeyPatch):
    seen = []
    jit = jax.jit
    monkeypatch.setattr(jax, "jit", lambda f, **kwargs: seen.append(kwargs.get("compiler_options")) or jit(f, **kwargs))
    for platform in ("cpu", "plain"):
        lowering.compile(NET, platform=platform)(ARGS)
    lowering.bind(NET, "cpu", ARGS).forward(is_train=False)
    assert seen.count(xla_options.options_for("cpu")) == 3


@pytest.mark.slow("compiles")
def test_compiled_functions_work_inside_others():
    """Where JAX takes no compile options: in a jitted function, a scan, a derivative."""
    function = lowering.compile(NET)
    expected = function(ARGS)[0][0][0]

    def call(args: dict[str, jax.Array]) -> jax.Array:
        return function(args)[0][0][0]

    np.testing.assert_allclose(jax.jit(call)(ARGS), expected, rtol=1e-6)
    _, scanned = jax.lax.scan(lambda carry, _: (carry, call(ARGS)), 0, jnp.arange(2))
    np.testing.assert_allclose(scanned, [expected] * 2, rtol=1e-6)
    batch = {name: jnp.stack([array] * 2) for name, array in ARGS.items()}
    np.testing.assert_allclose(jax.vmap(call)(batch), [expected] * 2, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(call)(ARGS)["conv_weight"], np.full((2, 2, 3, 3), 9.0), rtol=1e-6)


def test_options_that_jaxlib_does_not_know_are_left_out(monkeypatch: pytest.MonkeyPatch):
    known = dict(xla_options.OPTIONS["cpu"])
    monkeypatch.setattr(xla_options, "OPTIONS", {"cpu": {**known, "xla_of_another_year": "1"}, "tpu": {"xla_no": "1"}})
    caches = xla_options._known_options, xla_options._knows_all
    for cache in caches:
        cache.cache_clear()
    try:
        assert "xla_of_another_year" not in (xla_options.options_for("cpu") or {})
        assert xla_options.options_for("tpu") is None
        assert xla_options.options_for("cuda") is None
    finally:
        monkeypatch.undo()
        for cache in caches:
            cache.cache_clear()


def test_errors_of_the_function_stay_what_they_are():
    def fails(x: jax.Array) -> jax.Array:
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        xla_options.jit(fails)(jnp.ones(1))
