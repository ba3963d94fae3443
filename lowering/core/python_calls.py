"""Operators that are a user's Python: run in the caller's thread, or called by a program that is compiled as a whole.

XLA's CPU client runs at most 32 programs at once. If one of them calls Python and the others wait for it, Python that
uses the client, even for a sum of two arrays, waits for ever. So `lowering/core/segments.py` runs programs that have
such operators piece by piece, and none calls Python. Where one has to, because the caller's own `jax.jit` traces the
network or a loop's body has the operator, the Python computes by a client that nothing else uses and whose programs run
in the thread that calls them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np

from lowering.core.rules import FLowering
from lowering.native.unpromised import another_cpu
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.node import Node, Subgraph
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol

__all__ = [
    "PythonCall",
    "at_home",
    "calls_python",
    "computing_again",
    "in_step",
    "is_called_back",
    "is_python",
    "noting",
    "of_python",
    "of_this_thread",
    "refuse_export",
    "refuse_without_client",
    "shapes_of",
    "step_of_loops",
]

_making = threading.Lock()


class PythonCall(NamedTuple):
    """The result of a rule whose operator is Python, `@lowers(…, python=True)`.

    run: (arrays, is_called_back) → arrays; jax.Arrays in the caller's thread, NumPy's where a program calls it. models:
    shapes and dtypes of the results.
    """

    run: Callable[[Sequence[Any], bool], Sequence[Any]]
    models: tuple[jax.ShapeDtypeStruct, ...]

    def in_this_thread(self, inputs: Sequence[jax.Array]) -> list[Any]:
        """Return the results, computed of arrays that have values now or will have them."""
        return list(self.run(inputs, False))

    def called_back(self, inputs: Sequence[jax.Array]) -> list[jax.Array]:
        """Return the results within a program that JAX traces."""
        if _inside.traced_for_shapes:
            return [jax.numpy.zeros(model.shape, model.dtype) for model in self.models]
        depth = _inside.depth + 1
        device = _client(depth)  # made before any program waits for it

        def call(*values: Any) -> tuple[np.ndarray, ...]:
            arrays = [np.array(value) for value in values]
            with _called_back(depth, device):
                return tuple(np.asarray(result) for result in self.run(arrays, True))

        return list(jax.pure_callback(call, self.models, *inputs, vmap_method="sequential"))


_TOLD = "Raised by "


@contextmanager
def noting(what: str) -> Iterator[None]:
    """Enter a block whose errors are the user's own: they pass unchanged, with a note on what raised them."""
    try:
        yield
    except BaseException as error:
        if not of_python(error):
            error.add_note(f"{_TOLD}{what}")
        raise


def of_python(error: BaseException) -> bool:
    """Return whether a user's Python raised an error."""
    return any(note.startswith(_TOLD) for note in getattr(error, "__notes__", ()))


def calls_python(graph: Symbol | Subgraph, users: bool = False) -> bool:
    """Return whether operators of a network, those of loops' bodies and branches too, are Python or read values. users:
    whether they are a user's Python."""
    return any(is_python(node, users) for node in post_order(graph.outputs))


def is_python(node: Node, users: bool = False) -> bool:
    """Return whether a node's operator calls Python, itself or in a subgraph."""
    rule = FLowering.get(node.op)
    apart = rule is not None and (rule.python if users else rule.runs_apart(node.attrs.parsed))
    return apart or any(calls_python(graph, users) for graph in node.attrs.subgraphs)


class _Inside(threading.local):
    depth = 0
    device: Any = None
    at: tuple[int, ...] = ()
    again = False
    traced_for_shapes = False


_inside = _Inside()


@contextmanager
def _called_back(depth: int, device: Any) -> Iterator[None]:
    before = _inside.depth, _inside.device
    _inside.depth, _inside.device = depth, device
    try:
        with nullcontext() if device is None else _apart(device):
            yield
    finally:
        _inside.depth, _inside.device = before


@contextmanager
def _apart(device: Any) -> Iterator[None]:
    """Enter a block that computes on a device; arrays of others do not come to it by themselves: JAX would copy them by
    threads that may all be waiting. Raises LoweringError."""
    try:
        with jax.default_device(device), jax.transfer_guard_device_to_device("disallow_explicit"):
            yield
    except RuntimeError as error:  # JAX's, or the error of a CustomOp that it caused
        if "device-to-device" not in str(error):
            raise
        fix = "Convert it before the program runs: np.asarray(x). Arrays of mx can be used directly."
        problem = "A Python operator of a compiled program cannot use a jax.Array from outside"
        raise LoweringError(problem, fix=fix) from error


def _client(depth: int) -> Any:
    """Return the device on which Python computes that a program calls; None where jaxlib makes none. depth: how many
    such calls are within each other: an outer one may wait for an inner one, which needs threads that do not."""
    with _making:
        return _made_client(depth)


@cache
def _made_client(depth: int) -> Any:
    return another_cpu()


def refuse_export(symbol: Symbol) -> None:
    """Raise LoweringError for a network that no file can hold."""
    if calls_python(symbol, users=True):
        fix = "Write the operator with symjax_nnvm.register_custom and lowering.lowers_custom."
        raise LoweringError("A network with a CustomOp cannot be exported, because a CustomOp is Python", fix=fix)


# -- within loops that run in the caller's thread ----------------------------------------------------------------------


def step_of_loops() -> tuple[tuple[int, ...], bool]:
    """Return the number of the step of each loop that this thread is in, the outermost first, and whether the steps
    are computed again for a gradient."""
    return _inside.at, _inside.again


@contextmanager
def in_step(number: int) -> Iterator[None]:
    """Enter a block that is a step of a loop."""
    before = _inside.at
    _inside.at = (*before, number)
    try:
        yield
    finally:
        _inside.at = before


@contextmanager
def computing_again(again: bool) -> Iterator[None]:
    """Enter a block that computes again what was computed before, for a gradient, if `again`."""
    before = _inside.again
    _inside.again = before or again
    try:
        yield
    finally:
        _inside.again = before


def shapes_of(function: Callable[[], Any]) -> Any:
    """Shapes and dtypes of a function's results; Python is not called."""
    before, _inside.traced_for_shapes = _inside.traced_for_shapes, True
    try:
        return jax.eval_shape(function)
    finally:
        _inside.traced_for_shapes = before


# -- within Python that a program calls --------------------------------------------------------------------------------


def is_called_back() -> bool:
    """Return whether this thread runs Python that a program waits for."""
    return _inside.depth > 0


def refuse_without_client() -> None:
    """Raise LoweringError in Python that a program waits for, where nothing can be computed without waiting for it."""
    if _inside.depth and _inside.device is None:
        raise LoweringError(
            "A Python operator of a compiled program can use only NumPy: this jaxlib makes no second client",
            fix="Use array.asnumpy() and NumPy in it; or run the network with an executor, mx, or lowering.compile, "
            "which call no Python from compiled programs.",
        )


def of_this_thread(value: jax.Array) -> jax.Array:
    """Return an array that this thread may compute with: itself, or a copy where a program waits for the thread.

    JAX would copy it between the clients by threads that may all be waiting.
    """
    if not _inside.depth:
        return value
    refuse_without_client()
    return value if value.devices() == {_inside.device} else jax.device_put(np.asarray(value))


def at_home(value: jax.Array) -> jax.Array:
    """Return a form of an array that this thread computed in which other threads may compute with it."""
    if not _inside.depth or value.devices() != {_inside.device}:
        return value
    with jax.default_device(None):
        return jax.device_put(np.asarray(value))
