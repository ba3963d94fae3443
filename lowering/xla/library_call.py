"""A call of a platform's library inside a function that a caller may transform: a primitive of JAX, which another
function of the same meaning replaces wherever the call cannot be made.

That is in programs that are exported, for a file may be read on another machine (but see `exporting_calls`); in those
of several devices, over which XLA cannot split a call; on platforms besides the CPU; where it is mapped
or differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import jax
from jax import Array

from lowering.native.unpromised import call_primitive, is_zero

__all__ = ["LIBRARY_CALLS", "Multilinear", "exporting_calls", "library_call"]

_CALL = "library_call"

LIBRARY_CALLS = frozenset((_CALL, "ffi_call"))
"""The names of the primitives that call a library: the one below, and JAX's, where the call is there in any case."""

_exported: ContextVar[bool] = ContextVar("exported", default=False)


class Multilinear(Protocol):
    """A function linear in each of its arrays, in two forms. Two that are equal are the same function."""

    @property
    def by_library(self) -> Callable[..., Array]:
        """Return the function as the library computes it."""
        ...

    @property
    def elsewhere(self) -> Callable[..., Array]:
        """Return the function as JAX's own operations compute it."""
        ...

    @property
    def samples_axis(self) -> int:
        """Return the axis of samples."""
        ...

    @property
    def adds_samples(self) -> bool:
        """Return whether each array has samples, over which the result is a sum; else the first array and the result
        have them."""
        ...

    def of_samples(self, count: int) -> Callable[..., Array]:
        """Return the function for a number of samples."""
        ...


def library_call(function: Multilinear, *arrays: Array) -> Array:
    """Return the function of these arrays, by the library where that can be."""
    return function.elsewhere(*arrays) if _bind is None else _bind(*arrays, function=function)


@contextmanager
def exporting_calls() -> Iterator[None]:
    """Let programs exported in this context keep their calls, and run only on machines of one kind."""
    token = _exported.set(True)
    try:
        yield
    finally:
        _exported.reset(token)


def _eager(*arrays: Array, function: Multilinear) -> Array:
    return jax.jit(library_call, static_argnums=0)(function, *arrays)


def _abstract(*avals: Any, function: Multilinear) -> Any:
    out = jax.eval_shape(function.elsewhere, *(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals))
    return avals[0].update(shape=out.shape, dtype=out.dtype)


def _chosen(alone: bool, exported: bool) -> Callable[..., Array]:
    """Return the function that is compiled: the call in programs of one CPU device, unless exported for others."""
    chosen = alone and (_exported.get() or not exported)

    def compiled(*arrays: Array, function: Multilinear) -> Array:
        return (function.by_library if chosen else function.elsewhere)(*arrays)

    return compiled


def _mapped(arrays: Sequence[Array], axes: Sequence[int | None], *, function: Multilinear) -> tuple[Array, int]:
    return jax.vmap(function.elsewhere, in_axes=tuple(axes))(*arrays), 0


def _differentiated(primals: Sequence[Array], tangents: Sequence[Any], *, function: Multilinear) -> tuple[Array, Any]:
    """Return the product rule: a summand for each array, that with its tangent in its place."""
    summands = [
        function.elsewhere(*primals[:i], tangent, *primals[i + 1 :])
        for i, tangent in enumerate(tangents)
        if not is_zero(tangent)
    ]
    return library_call(function, *primals), sum(summands[1:], start=summands[0])


_bind = call_primitive(
    _CALL, eager=_eager, abstract=_abstract, chosen=_chosen, mapped=_mapped, differentiated=_differentiated
)
