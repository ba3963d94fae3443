"""JAX without its autodiff, for tests that prove that a gradient of ours does not call it."""

from typing import NoReturn

import jax
import jax._src.api
import jax._src.interpreters.ad
import pytest

AUTODIFF = {
    "checkpoint", "closure_convert", "custom_gradient", "custom_jvp", "custom_vjp", "fwd_and_bwd", "grad", "hessian",
    "jacfwd", "jacobian", "jacrev", "jvp", "linear_transpose", "linearize", "remat", "value_and_grad", "vjp",
}  # fmt: skip


def _refuse(*args: object, **kwargs: object) -> NoReturn:
    raise AssertionError("JAX's autodiff was called")


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take JAX's autodiff away: its public functions, and the machinery below them, raise."""
    for name in AUTODIFF:
        if hasattr(jax, name):
            monkeypatch.setattr(jax, name, _refuse)
    for module in (jax._src.api, jax._src.interpreters.ad):
        for name in (*AUTODIFF, "backward_pass", "backward_pass3", "jvp_jaxpr", "linearize_jaxpr", "jvp_subtrace"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, _refuse)
