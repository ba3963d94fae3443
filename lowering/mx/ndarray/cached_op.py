"""MXNet's `mx.nd.CachedOp`."""

from __future__ import annotations

from typing import Any

from lowering.mx.context import Context, MixedContextsError, current_context
from lowering.mx.ndarray.array import NDArray, write_outputs
from lowering.mx.tape.blocks import CachedProgram
from symjax_nnvm.errors import CallError, listed
from symjax_nnvm.symbol.symbol import Symbol


class CachedOp:
    """MXNet's `mx.nd.CachedOp`: a symbol as a function of NDArrays, in the order of `list_inputs()`, which is compiled
    at its first call and is one call on the tape. flags, thread_safe: MXNet's; nothing to do here."""

    def __init__(self, sym: Symbol, flags: Any = (), thread_safe: bool = False):
        self._program = CachedProgram(sym, sym.list_inputs())

    def __call__(self, *args: NDArray, out: Any = None, default_ctx: Context | None = None) -> Any:
        """An array, or a list of several outputs. out: arrays that they are written to, too. Raises CallError."""
        names = self._program.names
        if len(args) != len(names) or not all(isinstance(array, NDArray) for array in args):
            expected, got = f"{len(names)} arrays: {listed(names)}", [type(array).__name__ for array in args]
            raise CallError("A CachedOp takes an NDArray for each input", expected=expected, got=got)
        context = args[0].context if args else default_ctx or current_context()
        for name, array in zip(names, args, strict=True):
            if array.context != context:
                problem = "CachedOp requires all inputs to live on the same context."
                raise MixedContextsError(f"{problem} But {names[0]} is on {context} while {name} is on {array.context}")
        results = self._program(args, context)
        if out is not None:
            write_outputs([out] if isinstance(out, NDArray) else list(out), results, out)
            return out
        return results[0] if len(results) == 1 else results
