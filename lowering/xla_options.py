"""XLA's compile options: what was measured, by platform, in one table; and `jit`, which compiles with them.

JAX takes compile options where a program is compiled by itself, not where it becomes part of another one. So `jit`
holds two functions: one with options, called from outside, and a plain one for whoever traces it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import Any

import jax

from lowering.native.unpromised import OURS_ALONE, knows_option
from lowering.platforms import here

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
        **OURS_ALONE,
    },
}
"""Platform → options that make programs faster there.

cpu: products go to the YNNPACK library, one by one, and convolutions to Eigen, where jaxlib 0.10 sends both there.
Measured on two cores with AVX-512 (`benchmarks/xla_options.py`), milliseconds with the default, without the library,
and so: ResNet-18, batch 4, forward 78, 65, 66, with gradients 279, 248, 246; five dense layers of 1024, batch 128, with
gradients 13, 24, 13; two LSTM layers of 512 over 64 steps, batch 32, forward 78, 184, 79.

Left out, for they gain nothing in compiling or lose in running (`benchmarks/compile_times.py --options`, figures in
docs/benchmarks.md): xla_cpu_use_fusion_emitters off (MobileNet's step a quarter slower, equal kernels compiled anew),
xla_backend_optimization_level 1 (a tenth of compiling; ResNet-18's step 5 % slower), xla_llvm_disable_expensive_passes,
xla_cpu_parallel_codegen_split_count, xla_cpu_prefer_vector_width.
"""

ONCE: Mapping[str, Mapping[str, str]] = {"cpu": {"xla_backend_optimization_level": "0"}}
"""Platform → options of programs that run once, where what compiles fastest is fastest: what is made of ResNet-50's
parameters compiles in 1.1 s instead of 1.7, and runs in 0.18 instead of 0.11."""


@cache
def options_for(platform: str, once: bool = False) -> dict[str, str] | None:
    """The options of a platform that the installed jaxlib knows; None when there are none. once: those of `ONCE`."""
    table = (ONCE if once else OPTIONS).get(platform, {})
    known = {name: value for name, value in table.items() if knows_option(name, value)}
    return known or None


class Jitted:
    """A jitted function: `jax.jit`'s, compiled with the options of its platform where nothing else traces it.

    plain: the same without options, for `jax.export` and for what takes none but JAX's own. whole: whether calls run
    it as one program; else the function compiles what it can by itself.
    """

    def __init__(self, function: Callable[..., Any], platform: str | None, once: bool, whole: bool, **options: Any):
        self._function, self._platform, self._once, self._options = function, platform, once, options
        self._whole = whole
        self.plain = jax.jit(function, **options)

    @cached_property
    def _compiling(self) -> Any:
        found = options_for(self._platform or here(), self._once)
        return self.plain if found is None else jax.jit(self._function, compiler_options=found, **self._options)

    def __call__(self, *args: Any) -> Any:
        """What the function returns."""
        if not self._whole:
            return self._function(*args)
        with suppress(ValueError):  # inside another function JAX takes no options; an error of the function's own
            return self._compiling(*args)
        return self.plain(*args)  # is raised again

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """As `jax.jit(...).lower`."""
        return self._compiling.lower(*args)

    def _cache_size(self) -> int:
        return self._compiling._cache_size()


def jit(
    function: Callable[..., Any], *, platform: str | None = None, once: bool = False, whole: bool = True, **options: Any
) -> Jitted:
    """`jax.jit` of positional arguments, with `OPTIONS`, or `ONCE`. platform: where it runs; options: `jax.jit`'s.
    whole: see `Jitted`."""
    return Jitted(function, platform, once, whole, **options)
