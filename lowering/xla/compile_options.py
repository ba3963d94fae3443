"""XLA's compile options, as measured, by platform, in one table; and `jit`, which compiles with them.

JAX takes compile options where a program is compiled by itself, not where it becomes part of another one. So `jit`
holds two functions: one with options, called from outside, and a plain one for a caller that traces it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property, wraps
from typing import Any, Literal

import jax
import numpy as np
from jax.core import Tracer

from lowering.native.unpromised import OURS_ALONE, knows_options
from lowering.xla.host_memory import installed_memory
from lowering.xla.interrupts import hold_interrupts
from lowering.xla.out_of_memory import is_of_memory, too_large, wait_for_memory
from lowering.xla.platforms import current_platform
from lowering.xla.program_bound import Kept, bytes_of_program
from lowering.xla.switches import XLAS, onednn_calls
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.inspect.footprint import Footprint, bytes_text, estimate
from symjax_nnvm.pipeline import ANY, PLAIN
from symjax_nnvm.progress import tell
from symjax_nnvm.symbol.symbol import Symbol

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
        **OURS_ALONE,
    },
}
"""Platform → options that make programs faster there.

cpu: products go to the YNNPACK library, one by one, and convolutions to Eigen, where jaxlib 0.10 sends both there.
Measured on two cores with AVX-512, milliseconds with the default, without the library, and so: ResNet-18, batch 4,
forward 78, 65, 66, with gradients 279, 248, 246; five dense layers of 1024, batch 128, with gradients 13, 24, 13; two
LSTM layers of 512 over 64 steps, batch 32, forward 78, 184, 79.

Left out, for they gain nothing in compiling or lose in running (`benchmarks/compiling.py steps --options`, figures in
docs/reference/benchmarks.md): xla_cpu_use_fusion_emitters off (MobileNet's step a quarter slower, equal kernels
compiled anew), xla_backend_optimization_level 1 (a tenth of compiling; ResNet-18's step 5 % slower),
xla_llvm_disable_expensive_passes, xla_cpu_parallel_codegen_split_count, xla_cpu_prefer_vector_width.
"""

QUICK: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "xla_backend_optimization_level": "0",
        "xla_cpu_use_fusion_emitters": "False",
        "xla_cpu_parallel_codegen_split_count": "1",
    },
    "gpu": {"xla_gpu_autotune_level": "1", "xla_gpu_enable_triton_gemm": "False"},
}
"""Platform → options of programs that run a few times, where what compiles fastest is fastest.

cpu: what is made of ResNet-50's parameters compiles in 1.1 s instead of 1.7, and runs in 0.18 instead of 0.11. gpu:
fewer algorithms of products are tried, and none is checked. The first step of 4 transformer blocks takes 2.7 s instead
of 10 on an H200, BERT's first prediction 2.0 instead of 6, ResNet-50's first step of 64 images 8.6 instead of 12.9, and
7, 4 and 39 s of the processors instead of 67, 28 and 60; later steps 6, 3 and 21 ms for 4, 3 and 21. Of MobileNet's
50 s nearly all is cuDNN's trying algorithms of depth-wise convolutions: with autotuning off its first step takes 3.5 s,
but later ones take 90 times as long, and ResNet-50's 200 times. First calls have no depth-wise convolutions, but sums
of products (`lowering/convolutions/ops/algorithms.py`); that was not measured.
"""

FEW: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "xla_backend_optimization_level": "2",
        "xla_cpu_use_fusion_emitters": "False",
        "xla_cpu_parallel_codegen_split_count": "1",
    },
}
"""Platform → options of programs of one operator, or element by element, without loops: few kernels, none of which is
made again.

cpu: XLA's older generator of code. 14 operators and their gradients compile in 3.1 s of processor time instead of 8.9
and run in 0.51 instead of 0.54; the gradient of GELU takes 2.8 times as long (two cores with AVX2, jaxlib 0.10.2;
`benchmarks/compiling.py operators`). A loop whose body is small takes six times as long, a sum at places that an array
names twice. What updates weights (512, 512, 3, 3) takes 7 ms instead of 24 for five of them: the newer one makes no
vector code for an axis of 3.
"""


Kind = Literal["full", "quick", "few"]
"""Which table a program's options are in: `OPTIONS`, `QUICK` or `FEW`."""


def options_for(platform: str, kind: Kind = "full") -> dict[str, str] | None:
    """Return the options of a platform that the installed jaxlib supports; None when there are none. Raises CallError
    for another text in the switch."""
    return _known_options(platform, kind, onednn_calls() == XLAS)


@cache
def _known_options(platform: str, kind: Kind, with_calls: bool) -> dict[str, str] | None:
    """with_calls: XLA is to make calls of oneDNN itself."""
    table = dict({"full": OPTIONS, "quick": QUICK, "few": FEW}[kind].get(platform, {}))
    if with_calls and platform == "cpu":
        table |= dict.fromkeys(OURS_ALONE, "True")
    if table and not _knows_all(platform):
        table = {name: value for name, value in table.items() if knows_options({name: value})}
    return table or None


@cache
def _knows_all(platform: str) -> bool:
    """Return whether the installed XLA takes the options of all tables, and those of programs with calls of oneDNN."""
    tables = [table.get(platform, {}) for table in (OPTIONS, QUICK, FEW)]
    ours = OURS_ALONE if platform == "cpu" else {}
    return knows_options({name: value for table in (*tables, ours) for name, value in table.items()})


class Jitted:
    """A jitted function: `jax.jit`'s, compiled with the options of its platform where nothing else traces it.

    plain: the same without options, for `jax.export` and for callers that take JAX's own functions only. kind: the kind
    of its options. whole: whether calls run it as one program; else the function compiles what it can by itself.
    symbol: the network that it runs, whose arguments are mappings by name among its own; None where it is not known.
    kept: counts what programs keep, and has them forgotten; None: one of its own. name: for the log; "": the
    function's.

    The first run of a program is waited for, and memory that it could not allocate is reported: NumPy, reading a result
    that was never allocated, ends the process (jaxlib's "Check failed: buffer_.IsConcrete()").
    """

    def __init__(
        self,
        function: Callable[..., Any],
        platform: str | None,
        kind: Kind = "full",
        whole: bool = True,
        symbol: Symbol | None = None,
        kept: Kept | None = None,
        name: str = "",
        **options: Any,
    ):
        self._kind: Kind = kind
        self._name = name or getattr(function, "__name__", "a function")
        self._made, self._donates = False, options.get("donate_argnums", ()) != ()
        self._function, self._options = function, options
        self._platform = None if platform in (ANY, PLAIN) else platform
        self._symbol, self._whole = symbol, whole
        self._kept = Kept(self) if kept is None else kept

    def forget(self, _: Any = None) -> None:
        """Drop all programs: the next call compiles anew."""
        for name in ("_traced", "plain", "_compiling"):
            vars(self).pop(name, None)

    @cached_property
    def _traced(self) -> Callable[..., Any]:
        """Return what JAX is given: a function of its own, as JAX keeps the programs of a function as long as it."""

        @wraps(self._function)
        def traced(*args: Any) -> Any:
            self._made = True
            tell("compiling")
            outputs = self._function(*args)
            on_cpu = (self._platform or current_platform()) == "cpu"
            if on_cpu and (most := _bytes_of_largest(outputs)) > installed_memory():
                raise too_large(MemoryError(f"a result of {bytes_text(most)}"), self._estimated(args))
            return outputs

        return traced

    @cached_property
    def plain(self) -> Any:
        """Return the function, jitted without options."""
        return jax.jit(self._traced, **self._options)

    @cached_property
    def _compiling(self) -> Any:
        options = options_for(self._platform or current_platform(), self._kind)
        return self.plain if options is None else jax.jit(self._traced, compiler_options=options, **self._options)

    def __call__(self, *args: Any) -> Any:
        """Call the function. Raises LoweringError where a program needs more memory than there is."""
        if not self._whole:
            return self._function(*args)
        self._kept.use()
        try:
            began = time.perf_counter()
            if self._donates:
                hold_interrupts()
            outputs = self._run(args)
            if self._made:  # a program
                self._made = False
                tell_compiled(self._name, began)
                wait_for_memory(outputs)
                self._count(args)
        except NNVMError as error:
            forget_note_of_jax(error)
            raise
        except jax.errors.JaxRuntimeError as error:
            if not is_of_memory(error):
                raise
            self.forget()  # so that the next call waits, too
            raise too_large(error, self._estimated(args)) from error
        return outputs

    def _run(self, args: tuple[Any, ...]) -> Any:
        with suppress(ValueError):  # inside another function JAX takes no options; an error of the function's own
            return self._compiling(*args)
        return self.plain(*args)  # is raised again

    def _count(self, args: tuple[Any, ...]) -> None:
        """Count what the program of arguments like these keeps; one that is part of another's counts there."""
        if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(args)):
            self._kept.grow(bytes_of_program(self._compiling.trace(*args).jaxpr))  # which was traced before

    def _estimated(self, args: tuple[Any, ...]) -> Footprint | None:
        named = {name: value for argument in args if isinstance(argument, Mapping) for name, value in argument.items()}
        shapes = {name: np.shape(value) for name, value in named.items()}
        return None if self._symbol is None else estimated(self._symbol, shapes)

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """Lower the function, as `jax.jit(...).lower` does."""
        return self.trace(*args).lower()

    def trace(self, *args: Any) -> jax.stages.Traced:
        """Trace the function, as `jax.jit(...).trace` does."""
        try:
            return self._compiling.trace(*args)
        except NNVMError as error:
            forget_note_of_jax(error)
            raise

    def _cache_size(self) -> int:
        return self._compiling._cache_size()


def forget_note_of_jax(error: NNVMError) -> None:
    """Remove JAX's note about hidden frames from an error that is complete in the library's words."""
    notes: list[str] = getattr(error, "__notes__", [])
    notes[:] = [note for note in notes if "JAX" not in note]
    if hasattr(error, "__notes__") and not notes:
        del error.__notes__


def jit(
    function: Callable[..., Any],
    *,
    platform: str | None = None,
    kind: Kind = "full",
    whole: bool = True,
    symbol: Symbol | None = None,
    kept: Kept | None = None,
    name: str = "",
    **options: Any,
) -> Jitted:
    """Return `jax.jit` of positional arguments. platform: where it runs; options: `jax.jit`'s; the others: see
    `Jitted`."""
    return Jitted(function, platform, kind, whole, symbol, kept, name, **options)


_LONG = 5.0
"""Seconds of compiling from which on the log gets a line."""


def tell_compiled(what: str, began: float) -> None:
    """Log how long compiling took, if it took long. began: by `time.perf_counter()`."""
    seconds = time.perf_counter() - began
    if seconds > _LONG:
        logging.getLogger("lowering").info("Compiling %s took %.1f s.", what, seconds)


# -- too little memory -----------------------------------------------------------------------------------------------


class Awaited:
    """An executable whose first run is waited for, as `Jitted` waits. cost: the estimate of a run."""

    def __init__(self, executable: jax.stages.Compiled, cost: Callable[[], Footprint | None]):
        self.executable, self._cost = executable, cost
        self._ran = False

    def __call__(self, *args: Any) -> Any:
        """Run the executable. Raises LoweringError where it needs more memory than there is."""
        if self._ran:
            return self.executable(*args)
        try:
            outputs = self.executable(*args)
            wait_for_memory(outputs)
        except jax.errors.JaxRuntimeError as error:
            if not is_of_memory(error):
                raise
            raise too_large(error, self._cost()) from error
        self._ran = True
        return outputs


def estimated(symbol: Symbol, shapes: Mapping[str, Any]) -> Footprint | None:
    """Return the estimated cost of a run of a symbol, with shapes by name; None where it cannot be estimated."""
    names = set(symbol.list_inputs())
    try:
        return estimate(symbol, {name: shape for name, shape in shapes.items() if name in names})
    except NNVMError:
        return None


HUGE = 1 << 36
"""Elements of a result from which on XLA is not run to find out whether memory suffices: XLA:CPU of JAX 0.12 ends the
process, dividing by 0, from 2³⁸ on."""


def _bytes_of_largest(results: Any) -> int:
    """Return bytes of the largest huge array among results; 0 where there is none."""
    sizes = [(array.size, array.dtype.itemsize) for array in jax.tree.leaves(results) if isinstance(array, jax.Array)]
    return max((n * size for n, size in sizes if isinstance(n, int) and n >= HUGE), default=0)
