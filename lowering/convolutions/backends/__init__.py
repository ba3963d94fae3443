"""A backend computes convolutions and dense layers; options and plans have a token for it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax

from lowering.convolutions.backends.backend import Backend
from lowering.convolutions.backends.onednn import OneDnn, compiling, for_this_machine, why_not
from lowering.convolutions.backends.xla_onednn import XlaOneDnn
from lowering.native import unpromised
from lowering.xla.compile_options import options_for
from lowering.xla.platforms import current_platform
from lowering.xla.switches import OURS, SWITCH, XLAS, onednn_calls
from symjax_nnvm.pipeline import Options

__all__ = [
    "FIRST_ON_GPU",
    "ONE_CORE",
    "OWNED",
    "Backend",
    "compiling",
    "described",
    "for_this_machine",
    "placed",
    "xla_makes_calls",
]

OWNED = Backend(owned=True)
"""For options of a program that is compiled as it is: weights may be stored in a library's layout."""

ONE_CORE = Backend(owned=True, one_core=True)
"""For options of such a program for one core."""

FIRST_ON_GPU = Backend(first_on_gpu=True)
"""For options of a program for any platform that serves first calls on a GPU."""


def placed(options: Options) -> Options:
    """Return options that name the platform on which the program runs, and the backend that it has there."""
    platform = options.platform or current_platform(options.mesh)
    wish = options.backend if isinstance(options.backend, Backend) else Backend()
    alone = options.mesh is None or options.mesh.size == 1
    kind = _kind(wish, options) if platform == "cpu" and alone else Backend
    backend = kind(platform, options.is_train, wish.owned, wish.one_core, wish.first_on_gpu)
    return replace(options, platform=platform, backend=backend)


def _kind(wish: Backend, options: Options) -> type[Backend]:
    """Return the backend of one CPU. XLA makes its calls where this library compiles, which gives the option for it."""
    word = onednn_calls()
    if word == OURS and (wish.owned or _may_be_undone(options)):
        return OneDnn
    return XlaOneDnn if word == XLAS and wish.owned and xla_makes_calls() else Backend


@cache
def xla_makes_calls() -> bool:
    """Return whether XLA makes calls of oneDNN itself, if its option is on."""
    return unpromised.makes_onednn_calls({**(options_for("cpu") or {}), **dict.fromkeys(unpromised.OURS_ALONE, "True")})


def described() -> str:
    """Return what computes convolutions in this process, or why no library does, in words."""
    if onednn_calls() == XLAS and why_not() is None:
        state = "made" if xla_makes_calls() else "requested, but this jaxlib makes none"
        return f"XLA's own calls ({SWITCH}={XLAS} in the environment), {state}"
    return why_not() or "in use for convolutions and dense layers"


def _may_be_undone(options: Options) -> bool:
    """Return whether the library's calls in a function can be replaced wherever it is transformed or exported. Weights
    in a library's layout cannot; and JAX's compilation cache, where one is set up, holds no program with a call."""
    cached = bool(jax.config.jax_compilation_cache_dir)  # pyright: ignore[reportAttributeAccessIssue]
    return options.constants is None and not options.witness and not cached
