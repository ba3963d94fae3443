"""Functions that are evaluated at first and compiled when that pays.

Compiling a small program takes as long as some thousand of its calls, and many are called a few times only: for a last
batch, for each length of a sequence, in a cell of a notebook. So the first calls of a signature are evaluated by NumPy.
The program is compiled when they have cost a part of what compiling costs, by estimates of work that are counted in
calls: the same script computes the same bits each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from lowering.host.evaluator import Evaluator, as_numpy, evaluator_of, needs_words
from lowering.host.table import NotEvaluated
from symjax_nnvm.errors import CallError, NNVMError, refuse_unknown
from symjax_nnvm.recent import Recent

_OF_A_CALL = 20.0
"""Microseconds by which an evaluated call of nothing is slower than a compiled one: results become JAX's arrays."""

_TO_COMPILE, _TO_COMPILE_AN_EQUATION = 25_000.0, 600.0
"""Microseconds of one core that compiling takes: of any program, and for each equation (jaxlib 0.10.2)."""

_SHARE = 1 / 16
"""The part of the price of compiling that is spent on evaluating before: whoever calls a small program fifty times is
likely to call it often, and waits for the slower way each time."""

_KEPT = 1024
"""Signatures of one function whose evaluated programs are kept, those called last."""

_flattened = jax.tree_util.tree_flatten

EFFORTS = ("auto", "full")
"""auto: the first calls of a small program are evaluated. full: every program is compiled at its first call."""

_effort: ContextVar[str] = ContextVar("effort", default="auto")

profiled = threading.Event()
"""Is set while a profiler records the programs that XLA runs: all are compiled."""


@contextmanager
def effort(word: str) -> Iterator[None]:
    """Let programs of this thread come to be so inside a block: `with lowering.effort("full"):`.

    word: "auto", the default: the first calls of a small program are evaluated by NumPy, which compiles nothing, and
    it is compiled when that pays; results may then differ in their last bits. "full": every program is compiled at its
    first call, and equal calls have equal bits. Raises CallError for another word.
    """
    if word not in EFFORTS:
        refuse_unknown(CallError, "No such effort:", [word], EFFORTS, "efforts")
    token = _effort.set(word)
    try:
        yield
    finally:
        _effort.reset(token)


class Staged:
    """A jitted function of arrays whose first calls of each signature are evaluated.

    jitted: `jax.jit` of the function, called where that pays.
    """

    def __init__(self, function: Callable[..., Any], jitted: Callable[..., Any] | None = None):
        self._function = function
        self.jitted = jax.jit(function) if jitted is None else jitted
        self._compiled: set[Any] = set()
        self._evaluated: Recent[Any, _Evaluated] = Recent(_KEPT)

    def __call__(self, *args: Any) -> Any:
        """The function's results."""
        try:
            return self._called(args)
        except NNVMError as error:
            _forget_note_of_jax(error)
            raise

    def _called(self, args: Sequence[Any]) -> Any:
        leaves, tree = _flattened(args)
        try:
            key = (jax.config.jax_enable_x64, tree, *[leaf.aval for leaf in leaves])  # pyright: ignore
        except AttributeError:  # no array of JAX's
            key = None
        if key is None or key in self._compiled:
            return self.jitted(*args)
        way = self._way(leaves, key, args)
        return self.jitted(*args) if way is None else way(leaves)

    def evaluates(self, *args: Any) -> bool:
        """Whether a call with these arguments, arrays of JAX's, is evaluated now."""
        return self._way_of(args)[0] is not None

    def evaluated(self, *args: Any) -> Any:
        """The results for arrays of JAX's, evaluated; None where the program is to be compiled."""
        way, leaves = self._way_of(args)
        return None if way is None else way(leaves)

    def _way_of(self, args: Sequence[Any]) -> tuple[_Evaluated | None, list[Any]]:
        """Return what evaluates a call, None where it is compiled, and the arrays of its arguments."""
        leaves, tree = _flattened(args)
        key = (jax.config.jax_enable_x64, tree, *[leaf.aval for leaf in leaves])  # pyright: ignore
        return None if key in self._compiled else self._way(leaves, key, args), leaves

    def _way(self, leaves: Sequence[Any], key: Any, args: Sequence[Any]) -> _Evaluated | None:
        """Return what evaluates a call; None where the program is, or is to be, compiled."""
        if not _may_evaluate(leaves):
            return None
        way = self._evaluated.get(key) or self._traced(key, args)
        if way is None or way.calls >= way.patience:
            self._compiled.add(key)
            return None
        return way

    def _traced(self, key: Any, args: Sequence[Any]) -> _Evaluated | None:
        """Return the evaluated program of a new signature; None where it is to be compiled at once."""
        try:
            closed, shapes = jax.make_jaxpr(lambda *given: self._function(*given), return_shape=True)(*args)
        except NNVMError as error:
            _forget_note_of_jax(error)
            raise
        try:
            evaluated = _Evaluated(evaluator_of(closed), shapes)
        except NotEvaluated:
            return None
        self._evaluated[key] = evaluated
        return evaluated


def _forget_note_of_jax(error: NNVMError) -> None:
    """Take off an error, which says all in the library's words, JAX's note that frames of its own were left out."""
    error.__notes__ = [note for note in getattr(error, "__notes__", ()) if "JAX" not in note]


class _Evaluated:
    """A signature that is not compiled yet. calls: how many were evaluated. patience: how many at most."""

    __slots__ = ("_evaluator", "_tree", "calls", "patience")

    def __init__(self, evaluator: Evaluator, shapes: Any):
        leaves, self._tree = jax.tree_util.tree_flatten(shapes)
        if any(map(needs_words, leaves)):
            raise NotEvaluated
        self._evaluator, self.calls = evaluator, 0
        price = _TO_COMPILE + _TO_COMPILE_AN_EQUATION * evaluator.equations
        self.patience = int(_SHARE * price / (_OF_A_CALL + evaluator.microseconds))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        self.calls += 1
        with np.errstate(all="ignore"):
            results = self._evaluator(*map(as_numpy, leaves))
        # JAX writes arrays that are given away: parts of inputs, constants and other results are copied.
        own = {id(value): value for value in results if getattr(value, "base", None) is None}
        arrays = [value if own.pop(id(value), None) is value else np.array(value) for value in results]
        return jax.tree_util.tree_unflatten(self._tree, jax.device_put(arrays))


def _may_evaluate(leaves: Sequence[Any]) -> bool:
    """Return whether arrays are there, on the one CPU where JAX computes by itself, and nothing watches it compute."""
    config: Any = jax.config
    if _effort.get() == "full" or profiled.is_set() or config.jax_default_device is not None:
        return False
    if config.jax_debug_nans or config.jax_debug_infs or config.jax_disable_jit:
        return False
    device = jax.devices()[0]
    if device.platform != "cpu":
        return False
    return all(
        not isinstance(leaf, Tracer) and (not isinstance(leaf, jax.Array) or leaf.devices() == {device})
        for leaf in leaves
    )
