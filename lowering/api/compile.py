"""`compile`: a symbol as a jitted function that can show what XLA made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.export
import numpy as np
from numpy.typing import DTypeLike

from lowering.api.function import ForwardFunction, to_jax
from lowering.core.chosen_options import DATA_AXIS, chosen_options, first_options
from lowering.core.python_calls import calls_python, refuse_export
from lowering.core.segments import by_way
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged, checked_effort
from lowering.messages.arguments import arrays_by_name, as_array, require_key, require_named, require_symbol
from lowering.messages.doors import FUNCTION, says_how_to_call
from lowering.messages.migration_hints import with_migration_hints
from lowering.xla.compile_options import jit
from lowering.xla.platforms import exported_for, exported_kind
from symjax_nnvm.errors import CallError, LoweringError, MissingExtraError, tells_new_names
from symjax_nnvm.inspect.footprint import bytes_text, estimate, parse_size
from symjax_nnvm.io.files import write_file
from symjax_nnvm.ir.types import DTYPE_CODES
from symjax_nnvm.pipeline import ANY, Options
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, Any]

_KEPT = 64
"""Combinations of shapes."""


@with_migration_hints("compile", "f = lowering.compile(symbol); outputs, new_aux = f(args | {'data': x}, aux)")
def compile(
    symbol: Symbol,
    *,
    is_train: bool = False,
    platform: str | None = None,
    compute_dtype: DTypeLike | None = None,
    mesh: Any = None,
    data_axis: str | Sequence[str] = DATA_AXIS,
    donate_aux: bool = False,
    max_memory: int | str | None = None,
    effort: str | None = None,
) -> CompiledFunction:
    """Return the symbol as a jitted function `run(args, aux={}, key=None) -> (outputs, new_aux)`.

    Weights are arguments, never constants of the program. Each combination of shapes and dtypes is compiled once.
    Arrays on several devices stay there; `hlo` then shows what each device does.

    Raises what `to_jax` raises.

    Args:
        symbol: the network.
        is_train: as in `to_jax`.
        platform: as in `to_jax`.
        compute_dtype: as in `to_jax`.
        mesh: as in `to_jax`.
        data_axis: as in `to_jax`.
        donate_aux: let XLA write new auxiliary states into the memory of the old ones, which can then not be used
            again.
        max_memory: bytes, or text such as "4G". The first call with shapes that are estimated to need more
            (`symjax_nnvm.estimate`) raises LoweringError, which names the node, before anything is traced.
        effort: how programs are made: "auto", "quick" or "full", as in `lowering.effort`; None for the effort of the
            block around a call. `lower`, `hlo` and the like describe the fully compiled program.

    Raises:
        SymbolValueError: `max_memory` is text that is not a size.
    """
    limit = None if max_memory is None else parse_size(max_memory)
    function = partial(
        *(to_jax, require_symbol(symbol, "compile")),
        is_train=is_train,
        compute_dtype=compute_dtype,
        mesh=mesh,
        data_axis=data_axis,
    )
    effort = checked_effort(effort)
    options = chosen_options(Options(platform=platform), compute_dtype, mesh, data_axis)
    staged = first_options(options) is not None and not (donate_aux or calls_python(symbol))
    return CompiledFunction(
        *(symbol, function),
        platform=platform,
        donate_aux=donate_aux,
        max_memory=limit,
        staged=staged,
        effort=effort,
    )


class CompiledFunction:
    """What `compile` returns: a function that can show its executable.

    `hlo`, `memory`, `cost` and `export` describe one combination of shapes: that of the arrays (or
    `jax.ShapeDtypeStruct`s) they get, else that of the latest call.
    """

    def __init__(
        self,
        symbol: Symbol,
        to_jax: Callable[..., ForwardFunction],
        *,
        platform: str | None,
        donate_aux: bool,
        max_memory: int | None,
        staged: bool,
        effort: str | None,
    ):
        self.symbol = symbol
        self._max_memory = max_memory
        self._fitting: Recent[Any, bool] = Recent(_KEPT)
        self._platform = platform
        self._to_jax = to_jax
        donated, whole = (1,) if donate_aux else (), not calls_python(symbol)
        compiles = partial(
            jit, to_jax(platform=platform), platform=platform, whole=whole, symbol=symbol, donate_argnums=donated
        )
        self._jitted = compiles()
        self._run: Callable[..., Any] = self._jitted if whole else by_way(effort, self._jitted)
        if staged:
            for_any = cache(partial(to_jax, platform=ANY))
            first = lambda *call: for_any()(*call)  # noqa: E731
            traces = OpenTraces(symbol.outputs)
            full = lambda kept: compiles(kept=kept)  # noqa: E731
            self._run = Staged(first, full, effort=effort, network=True, open_traces=traces)
        self._latest: tuple[Any, ...] | None = None
        self._compiled: Recent[Any, jax.stages.Compiled] = Recent(_KEPT)

    def ways(self) -> list[str]:
        """Return lines of text: the signatures of past calls, how each runs, and when it will be compiled further."""
        return self._run.ways() if isinstance(self._run, Staged) else ["all calls: compiled"]

    @says_how_to_call(FUNCTION)
    def __call__(
        self, args: Arrays, aux: Arrays | None = None, key: jax.Array | None = None
    ) -> tuple[list[jax.Array], dict[str, jax.Array]]:
        """Return (outputs, new auxiliary states), as `to_jax`'s function."""
        if key is not None:
            require_key(key)
        aux = {} if aux is None else aux
        call = (arrays_by_name(args, "args", FUNCTION.call), arrays_by_name(aux, "aux", FUNCTION.call), key)
        if self._max_memory is not None:
            self._check_memory(*call[:2])
        self._latest = call
        return self._run(*call)

    @tells_new_names
    def lower(
        self, args: Arrays | None = None, aux: Arrays | None = None, key: jax.Array | None = None
    ) -> jax.stages.Lowered:
        """Return the traced function, as `jax.jit(...).lower` does.

        Args:
            args: arguments by name; None for the shapes of the latest call.
            aux: auxiliary states by name.
            key: the PRNG key, where the graph draws random numbers.
        """
        return self._jitted.lower(*self._signature(args, aux, key))

    @tells_new_names
    def compiled(
        self, args: Arrays | None = None, aux: Arrays | None = None, key: jax.Array | None = None
    ) -> jax.stages.Compiled:
        """Return the executable for one combination of shapes, compiled ahead of time; the latest 64 are cached.

        Args:
            args: arguments by name; None for the shapes of the latest call.
            aux: auxiliary states by name.
            key: the PRNG key, where the graph draws random numbers.
        """
        signature = self._signature(args, aux, key)
        leaves, structure = jax.tree.flatten(signature)
        cache_key = (structure, tuple((leaf.shape, str(leaf.dtype), leaf.sharding) for leaf in leaves))
        executable = self._compiled.get(cache_key)
        if executable is None:
            executable = self._compiled[cache_key] = self._jitted.lower(*signature).compile()
        return executable

    @tells_new_names
    def hlo(self, args: Arrays | None = None, aux: Arrays | None = None, key: jax.Array | None = None) -> str:
        """Return the optimised HLO as text; the arguments are those of `lower`."""
        return self.compiled(args, aux, key).as_text() or ""

    @tells_new_names
    def memory(self, args: Arrays | None = None, aux: Arrays | None = None, key: jax.Array | None = None) -> Any:
        """Return XLA's memory analysis: bytes of arguments, outputs, temporaries and code. The arguments are those of
        `lower`."""
        return self.compiled(args, aux, key).memory_analysis()

    @tells_new_names
    def cost(
        self, args: Arrays | None = None, aux: Arrays | None = None, key: jax.Array | None = None
    ) -> dict[str, float]:
        """Return XLA's cost analysis: floating-point operations, bytes accessed, and so on. The arguments are those of
        `lower`."""
        return dict(self.compiled(args, aux, key).cost_analysis() or {})

    @with_migration_hints("CompiledFunction.export", "f.export('net.stablehlo', args | {'data': x}, aux)")
    def export(
        self,
        path: str | os.PathLike[str],
        args: Arrays | None = None,
        aux: Arrays | None = None,
        key: jax.Array | None = None,
        platforms: Sequence[str] | None = None,
    ) -> jax.export.Exported:
        """Write the function to a file as serialized StableHLO, which `jax.export.deserialize` reads.

        Args:
            path: the file's path.
            args: arguments by name; None for the shapes of the latest call.
            aux: auxiliary states by name.
            key: the PRNG key, where the graph draws random numbers.
            platforms: "cpu", "cuda", "rocm" or "tpu"; None for the function's own, else that of this process. A program
                for several platforms does without the optimisations of each single one.

        Returns:
            The exported function.

        Raises:
            SymbolValueError: there is no such platform, or the function is for "gpu" and does not run on this
                machine's.
            MissingExtraError: the package flatbuffers is not installed.
            LoweringError: the network runs Python code.
            OSError: the file cannot be written.
        """
        refuse_export(self.symbol)
        function = self._jitted.plain
        if platforms is not None or self._platform is None:
            function = jax.jit(self._to_jax(platform=exported_kind(platforms)))
        else:
            platforms = exported_for(self._platform)
        exported = jax.export.export(function, platforms=platforms)(*self._signature(args, aux, key))
        write_file(path, serialized(exported))
        return exported

    def _signature(self, args: Arrays | None, aux: Arrays | None, key: jax.Array | None) -> tuple[Any, ...]:
        if args is not None:
            require_key(None if isinstance(key, jax.ShapeDtypeStruct) else key)
            call: tuple[Any, ...] = (_described(args, "args"), _described({} if aux is None else aux, "aux"), key)
        elif aux is not None or key is not None:
            raise CallError(
                "aux and key can only be passed together with args",
                got="no args",
                fix="Call f.hlo(args | {'data': x}, aux, key).",
            )
        elif self._latest is not None:
            call = self._latest
        else:
            raise LoweringError(
                "Nothing has been compiled yet. Call the function once, or pass arrays (or jax.ShapeDtypeStruct) here."
            )
        if self._max_memory is not None:
            self._check_memory(*call[:2])
        return jax.tree.map(_abstract, call)

    def _check_memory(self, args: Arrays, aux: Arrays) -> None:
        """Raise LoweringError when arrays of these shapes are estimated to need too much; once for each."""
        assert self._max_memory is not None
        arrays = {**args, **aux}
        signature = tuple((name, np.shape(x), str(jax.numpy.result_type(x))) for name, x in arrays.items())
        if self._fitting.get(signature):
            return
        inputs = set(self.symbol.list_inputs())  # other names are reported when the call is bound
        shapes = {name: shape for name, shape, _ in signature if name in inputs and shape and 0 not in shape}
        dtypes = {name: dtype for name, _, dtype in signature if name in inputs and dtype in DTYPE_CODES}
        cost = estimate(self.symbol, shapes, dtypes)
        if cost.peak_bytes > self._max_memory:
            raise LoweringError(
                f"A call with these shapes needs about {bytes_text(cost.peak_bytes)} of memory",
                op=cost.op,
                node=cost.node,
                expected=f"at most {bytes_text(self._max_memory)}, the limit max_memory=",
                fix="Pass smaller arrays, or raise max_memory.",
            )
        self._fitting[signature] = True

    def __repr__(self) -> str:
        return f"<CompiledFunction {self.symbol!r}>"


def _described(arrays: Any, what: str) -> Arrays:
    """Return arrays by name, or what describes them. Raises CallError."""
    named = require_named(arrays, what, FUNCTION.call)
    return {n: array if isinstance(array, jax.ShapeDtypeStruct) else as_array(array, n) for n, array in named.items()}


def _abstract(value: Any) -> jax.ShapeDtypeStruct:
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    array = jax.numpy.asarray(value)
    spread = isinstance(value, jax.Array) and len(value.sharding.device_set) > 1
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding if spread else None)


def serialized(exported: jax.export.Exported) -> bytes:
    """Return a function as serialized StableHLO. Raises MissingExtraError without flatbuffers."""
    try:
        return bytes(exported.serialize())
    except ImportError as error:
        raise MissingExtraError(f"{error}. Install it with: pip install 'symjax-nnvm[export]'") from error
