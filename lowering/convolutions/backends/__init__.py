"""What computes convolutions and dense layers: which there is, and the token by which options and plans know it."""

from __future__ import annotations

from dataclasses import replace

import jax

from lowering.convolutions.backends.backend import Backend
from lowering.convolutions.backends.onednn import OneDnn, compiling, for_this_machine, why_not
from lowering.xla.platforms import here
from symjax_nnvm.pipeline import Options

__all__ = ["ONE_CORE", "OWNED", "Backend", "compiling", "for_this_machine", "placed", "why_not"]

OWNED = Backend(owned=True)
"""For options of a program that is compiled as it is: weights may be stored in a library's layout."""

ONE_CORE = Backend(owned=True, one_core=True)
"""For options of such a program for one core."""


def placed(options: Options) -> Options:
    """Options that name the platform on which the program runs, and the backend that it has there."""
    platform = options.platform or here(options.mesh)
    wish = options.backend if isinstance(options.backend, Backend) else Backend()
    alone = options.mesh is None or options.mesh.size == 1
    kind = OneDnn if platform == "cpu" and alone and (wish.owned or _may_be_undone(options)) else Backend
    return replace(options, platform=platform, backend=kind(platform, options.is_train, wish.owned, wish.one_core))


def _may_be_undone(options: Options) -> bool:
    """Whether the library's calls in a function can be replaced wherever it is transformed or exported. Weights in a
    library's layout cannot; and JAX's compilation cache, where one is set up, holds no program with a call."""
    cached = bool(jax.config.jax_compilation_cache_dir)  # pyright: ignore[reportAttributeAccessIssue]
    return options.constants is None and not options.witness and not cached
