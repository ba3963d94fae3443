"""One bound of the memory that all programs keep: what was called longest ago is forgotten.

JAX keeps a program as long as the function that was jitted. So each function, or each of its signatures, counts here
what its programs keep, by an estimate, and drops them when the bound is reached; a later call makes new ones.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import wraps
from itertools import count
from typing import Any, Protocol

import jax

from lowering.xla.host_memory import give_back
from symjax_nnvm.errors import CallError
from symjax_nnvm.inspect.footprint import parse_size

_PROGRAM, _EQUATION = 1_500_000, 6_000
"""Bytes that a compiled program keeps, with its trace and its MLIR: of any, and for each equation. Measured on jaxlib
0.10.2 as the memory of the process for each of 20 programs: of 4 equations 1.53 MB, of 40 1.77, of 400 3.4, of 1,200
8.8. When their `jax.jit` is let go of, 0.2 MB of each stay, 0.7 of the largest."""

_PLAN, _PLAN_EQUATION = 10_000, 200
"""Bytes that an evaluated program keeps: 0.16 MB for 1,200 equations, and what a signature is known by."""

_MOST = 1 << 30
"""Bytes that all programs keep: of 700 operators, or of a hundred networks of 1,500 equations."""

_LEFT = 15 / 16
"""The part of the bound that is left when it is passed: finding what was called longest ago looks at all."""

_GIVEN_BACK = 1 << 26
"""Bytes of programs that are forgotten until freed memory goes back to the system, which takes 4 ms. After 4,500 eager
steps of new shapes, bound to 60 MB, the process has 350 MB; without, 418, of which 103 are free."""

_turns = count(1).__next__
_lock = threading.Lock()


class Forgets(Protocol):
    """Has programs, of the signature `key`, that it lets go of."""

    def forget(self, key: Any, /) -> None:
        """Drop programs."""
        ...


class Kept:
    """Counts the bytes that programs keep which go together.

    owner: holds them, and must forget those of `key`; this object does not keep it alive.
    """

    __slots__ = ("__weakref__", "_key", "_owner", "bytes", "used")

    def __init__(self, owner: Forgets, key: Hashable = None):
        self._owner, self._key = weakref.ref(owner), key
        self.bytes, self.used = 0, _turns()
        with _lock:
            _bound.all.add(self)

    def use(self) -> None:
        """Note that a program is called."""
        self.used = _turns()

    def grow(self, size: int) -> None:
        """Count bytes that are kept from now on. What was called longest ago is forgotten where all are too many."""
        self.used = _turns()
        self.bytes += size
        _bound.grow(size, self)

    def forget(self) -> None:
        """Have the owner drop the programs."""
        self.bytes = 0
        owner = self._owner()
        if owner is not None:
            owner.forget(self._key)


class _Bound:
    """Holds the bound of the process, and all that is counted."""

    def __init__(self) -> None:
        self.limit, self.total, self.forgotten = _MOST, 0, 0
        self.all: weakref.WeakSet[Kept] = weakref.WeakSet()

    def grow(self, size: int, growing: Kept | None = None) -> None:
        """Count bytes, and forget what is too much, but not what grows."""
        with _lock:
            self.total += size  # of those that died meanwhile, too
            forgotten = self._too_many(growing) if self.total > self.limit else []
        for one in forgotten:
            self.forgotten += one.bytes
            one.forget()
        if self.forgotten >= _GIVEN_BACK:
            self.forgotten = 0
            give_back()

    def _too_many(self, growing: Kept | None) -> list[Kept]:
        programs = sorted((one for one in self.all if one.bytes), key=lambda one: one.used)
        self.total = sum(one.bytes for one in programs)
        if self.total <= self.limit:
            return []
        forgotten: list[Kept] = []
        for one in programs:
            if self.total <= _LEFT * self.limit:
                break
            if one is not growing:
                forgotten.append(one)
                self.total -= one.bytes
        return forgotten


_bound = _Bound()


def limit_programs(size: int | str | None = None) -> int:
    """Limit the memory that programs keep in this process; those not called for longest are dropped and made again when
    needed.

    The memory of a program is estimated from its number of equations. Programs of a `Predictor` do not count: its
    `keep` limits them.

    Args:
        size: bytes, or text such as "4G"; None to leave the limit, which is 1 GiB at first.

    Returns:
        The limit in bytes.

    Raises:
        CallError: the size is below 1 byte, or neither a whole number nor text.
        SymbolValueError: the text is not a size.
    """
    if size is not None:
        if isinstance(size, bool) or not isinstance(size, int | str):
            raise CallError("This is not a size of memory", expected='bytes, or text such as "4G"', got=f"{size!r:.40}")
        limit = parse_size(size)
        if limit < 1:
            raise CallError("The size of memory is too small", expected="a size from 1 byte on", got=f"{size!r:.40}")
        _bound.limit = limit
        _bound.grow(0)
    return _bound.limit


def jitted(function: Callable[..., Any], kept: Kept, compiler_options: Mapping[str, str] | None = None) -> Any:
    """Return `jax.jit` of a function of few equations, which counts its programs."""

    @wraps(function)
    def traced(*args: Any) -> Any:  # of its own: JAX keeps the programs of a function as long as it
        kept.grow(_PROGRAM)
        return function(*args)

    plain = jax.jit(traced)
    if compiler_options is None:
        return plain
    with_options = jax.jit(traced, compiler_options=dict(compiler_options))

    def call(*args: Any) -> Any:
        try:
            return with_options(*args)
        except ValueError:  # inside another function JAX takes no options; an error of the function's own
            return plain(*args)  # is raised again

    return call


def bytes_of_program(jaxpr: Any) -> int:
    """Return about how many bytes a compiled program keeps."""
    return _PROGRAM + _EQUATION * equations_of(jaxpr)


def bytes_of_plan(jaxpr: Any) -> int:
    """Return about how many bytes an evaluated program keeps, without its constants."""
    return _PLAN + _PLAN_EQUATION * equations_of(jaxpr)


def equations_of(jaxpr: Any) -> int:
    """Return the number of equations of a jaxpr, those of inner programs too."""
    return sum(1 + sum(map(equations_of, inner_programs(equation))) for equation in jaxpr.eqns)


def inner_programs(equation: Any) -> list[Any]:
    """Return the jaxprs in an equation: of a function that is called, of a loop, of branches."""
    parameters = equation.params.values()
    values = (
        value
        for parameter in parameters
        for value in (parameter if isinstance(parameter, tuple | list) else (parameter,))
    )
    return [jaxpr for jaxpr in (getattr(value, "jaxpr", value) for value in values) if hasattr(jaxpr, "eqns")]
