"""Functions that are evaluated at first and compiled when that pays.

Compiling a program takes as long as many of its calls, and many are called a few times only: for a last batch, for each
length of a sequence, in a cell of a notebook. So the first calls of a signature are evaluated by NumPy. The program is
compiled when they have cost a part of what compiling costs, by estimates of work that are counted in calls: the same
script computes the same bits each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from lowering.host.evaluator import Evaluator, evaluator_of
from lowering.host.table import NotEvaluated, is_key, is_threefry
from lowering.native.unpromised import put
from lowering.xla.options import forget_note_of_jax, jit
from symjax_nnvm.errors import CallError, NNVMError, refuse_unknown
from symjax_nnvm.recent import Recent

_OF_A_CALL = 20.0
"""Microseconds by which an evaluated call of nothing is slower than a compiled one: results become JAX's arrays."""

_TO_COMPILE, _A_RESULT, _AN_EQUATION, _A_CONVOLUTION = 20_000.0, 8_000.0, 600.0, 130_000.0
"""Microseconds of one core that compiling takes: of any program, for each result that nothing else is fused with, for
each equation, and for a convolution (jaxlib 0.10.2)."""

_SMALL, _SHARE_OF_SMALL, _SHARE = 50_000.0, 1 / 16, 1 / 2
"""The part of the price of compiling that is spent on evaluating before, of the first microseconds and of those beyond:
whoever calls a small program fifty times is likely to call it often, and waits for the slower way each time; who makes
three steps with a large one is spared what they would cost six times over."""

_QUICK_CALLS = 4
"""So many calls of a program that is compiled quickly come before it is compiled fully: who looks at results makes few,
who trains makes thousands."""

_KEPT = 1024
"""Signatures of one function whose evaluated programs are kept, those called last."""

_flattened = jax.tree_util.tree_flatten

_ARRAYS = (jax.Array, np.ndarray, np.generic, int, float)
"""What is an array to JAX, or may be one."""

EFFORTS = ("auto", "quick", "full")
"""auto: the first calls of a program are evaluated. quick: programs are those of any platform, and are compiled with
little effort. full: every program is compiled at its first call, for its platform."""

_effort: ContextVar[str] = ContextVar("effort", default="auto")

profiled = threading.Event()
"""Is set while a profiler records the programs that XLA runs: all are compiled."""


@contextmanager
def effort(word: str) -> Iterator[None]:
    """Let programs of this thread come to be so inside a block: `with lowering.effort("full"):`.

    word: "auto", the default: the first calls of a program are evaluated by NumPy, which compiles nothing, and it is
    compiled when that pays; results may then differ in their last bits. "quick": every program is compiled with little
    effort: it is there sooner, and slower. "full": every program is compiled at its first call. By "quick" and "full"
    equal calls have equal bits. Raises CallError for another word.
    """
    token = _effort.set(chosen_effort(word))
    try:
        yield
    finally:
        _effort.reset(token)


def chosen_effort(word: str | None = None) -> str:
    """A word that was given, or the effort of the block that a call is in. Raises CallError for another word."""
    return checked_effort(word) or _effort.get()


def checked_effort(word: str | None) -> str | None:
    """The word that an option was given, or None. Raises CallError for another word."""
    if word is not None and word not in EFFORTS:
        refuse_unknown(CallError, "No such effort:", [word], EFFORTS, "efforts")
    return word


class Account:
    """Counts what the first calls of functions cost that are compiled together when that pays.

    spent: microseconds by which the calls were slower than compiled ones. price: microseconds that compiling takes.
    """

    def __init__(self, price: float = 0.0):
        self.spent, self.price = 0.0, price

    @property
    def limit(self) -> float:
        """Microseconds that are spent before compiling."""
        return _SHARE_OF_SMALL * min(self.price, _SMALL) + _SHARE * max(0.0, self.price - _SMALL)

    @property
    def is_due(self) -> bool:
        """Whether compiling pays."""
        return self.spent >= self.limit > 0

    def count_quick(self) -> None:
        """Count a call of a program that is compiled quickly: some of these reach the limit."""
        self.price = self.price or _SMALL
        self.spent += self.limit / _QUICK_CALLS

    def __str__(self) -> str:
        share = f"{self.spent / self.limit:.0%}" if self.limit else "nothing"
        return (
            f"compiled when first calls have cost {self.limit / 1e6:.2g} s more than compiled ones, now {share} of it"
        )


class Staged:
    """A function of arrays whose first calls of each signature are evaluated.

    function: what is evaluated. jitted: `jax.jit` of it, or of what computes the same, which is called where that pays.
    accounts: None: each signature has one, and is compiled when that is due. Else of all calls of this function and of
    others; who holds them has other functions called when they are due. jitted is then what is compiled quickly.
    effort: "auto", "quick" or "full"; None: that of the block that a call is in. told_by: returns those arguments whose
    shapes and dtypes tell signatures apart; None: all. network: a network's, whose first calls on a GPU are compiled
    quickly.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        jitted: Callable[..., Any] | None = None,
        accounts: Sequence[Account] | None = None,
        effort: str | None = None,
        told_by: Callable[..., Any] | None = None,
        network: bool = False,
    ):
        self._function, self._accounts, self._effort, self._told_by = function, accounts, effort, told_by
        self.jitted = jax.jit(function) if jitted is None else jitted
        self._compiled: set[Any] = set()
        self._network, self._quick_calls = network, Recent[Any, int](_KEPT)
        self._evaluated: Recent[Any, _Evaluated] = Recent(_KEPT)

    def __call__(self, *args: Any) -> Any:
        """The function's results."""
        try:
            effort = "auto" if self._accounts else chosen_effort(self._effort)
            if effort != "auto":
                return (self._quick if effort == "quick" else self.jitted)(*args)
            leaves, tree = _flattened(args if self._told_by is None else self._told_by(*args))
            try:
                kinds = [leaf.aval for leaf in leaves]
            except AttributeError:  # not all are JAX's arrays
                kinds = None
            if kinds is None:
                if not all(isinstance(leaf, _ARRAYS) for leaf in leaves):
                    return self.jitted(*args)
                kinds = [*map(jax.typeof, leaves)]
            key = (jax.config.jax_enable_x64, tree, *kinds)  # pyright: ignore[reportAttributeAccessIssue]
            if key in self._compiled:
                for account in self._accounts or ():
                    account.count_quick()
                return self.jitted(*args)
            if not may_evaluate(leaves if self._told_by is None else _flattened(args)[0]):
                for account in self._accounts or ():
                    account.count_quick()
                return (self._quick if self._network and self._is_quick(key) else self.jitted)(*args)
            way = self._evaluated.get(key) or self._traced(key, args)
            if way is not None and (self._accounts is not None or way.is_affordable):
                with suppress(MemoryError):  # the compiled program needs less, or tells how much
                    return way(_flattened(args)[0])
            self._compiled.add(key)
            return self.jitted(*args)
        except NNVMError as error:
            forget_note_of_jax(error)
            raise

    def _is_quick(self, key: Any) -> bool:
        """Count a call of a network, and return whether it is one of the first on a GPU."""
        if not may_be_quick():
            return False
        calls = self._quick_calls[key] = (self._quick_calls.get(key) or 0) + 1
        if calls > _QUICK_CALLS:
            self._compiled.add(key)
        return calls <= _QUICK_CALLS

    def ways(self) -> list[str]:
        """Lines of text: the signatures that were called, how each runs, and when it moves up."""
        started = [(key, f"evaluated by NumPy; {each.account}") for key, each in self._evaluated.items()]
        quick = [
            (key, f"compiled quickly, {calls} of {_QUICK_CALLS} calls") for key, calls in self._quick_calls.items()
        ]
        known = dict([*started, *quick]) | dict.fromkeys(self._compiled, "compiled")
        return [f"{', '.join(map(str, key[2:5]))}{', …' if len(key) > 5 else ''}: {way}" for key, way in known.items()]

    @cached_property
    def _quick(self) -> Callable[..., Any]:
        return jit(self._function, quick=True)

    def _traced(self, key: Any, args: Sequence[Any]) -> _Evaluated | None:
        """Return the evaluated program of a new signature; None where NumPy lacks something."""
        closed, shapes = jax.make_jaxpr(lambda *given: self._function(*given), return_shape=True)(*args)
        price = _TO_COMPILE + _A_RESULT * len(closed.jaxpr.outvars) + _price_of(closed.jaxpr)
        accounts = [Account()] if self._accounts is None else self._accounts
        for account in accounts:
            account.price += price
        try:
            evaluated = _Evaluated(evaluator_of(closed), shapes, accounts)
        except (NotEvaluated, MemoryError):
            return None
        self._evaluated[key] = evaluated
        return evaluated


def _price_of(jaxpr: Any) -> float:
    """Return microseconds that compiling equations takes, of inner programs too."""
    inner = [value for equation in jaxpr.eqns for value in equation.params.values()]
    programs = [value.jaxpr for value in inner if hasattr(value, "jaxpr")]
    convolutions = sum(equation.primitive.name == "conv_general_dilated" for equation in jaxpr.eqns)
    own = _AN_EQUATION * len(jaxpr.eqns) + _A_CONVOLUTION * convolutions
    return own + sum(map(_price_of, programs))


class _Evaluated:
    """A program of one signature, evaluated. accounts: each call is counted in."""

    __slots__ = ("_accounts", "_cost", "_evaluator", "_kinds", "_tree", "_types")

    def __init__(self, evaluator: Evaluator, shapes: Any, accounts: Sequence[Account]):
        self._kinds, self._tree = jax.tree_util.tree_flatten(shapes)
        if any(is_key(kind.dtype) and not is_threefry(kind.dtype) for kind in self._kinds):
            raise NotEvaluated
        self._evaluator, self._accounts = evaluator, accounts
        self._cost = _OF_A_CALL + evaluator.microseconds
        self._types: list[Any] = []

    @property
    def account(self) -> Account:
        """The account that calls are counted in, one of them."""
        return self._accounts[0]

    @property
    def is_affordable(self) -> bool:
        """Whether one more call costs less than is spent before compiling."""
        return all(account.spent + self._cost <= account.limit for account in self._accounts)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        for account in self._accounts:
            account.spent += self._cost
        with np.errstate(all="ignore"):
            results = self._evaluator(*self._evaluator.taken(leaves))
        # JAX writes arrays that are given away: parts of inputs, constants and other results are copied.
        own = {id(value): value for value in results if getattr(value, "base", None) is None}
        arrays = [np.asarray(value) if own.pop(id(value), None) is value else np.array(value) for value in results]
        arrays = map(_as_kind, self._placed(arrays, _place_of(leaves)), self._kinds)
        return jax.tree_util.tree_unflatten(self._tree, arrays)

    def _placed(self, arrays: list[np.ndarray], place: SingleDeviceSharding | None) -> Sequence[jax.Array]:
        """Return NumPy's arrays as JAX's."""
        pairs = zip(arrays, self._types, strict=True) if self._types else ()
        if self._types and all(array.dtype == t.dtype and array.shape == t.shape for array, t in pairs):
            placed = put(self._types, arrays, place or _on_first_device(), place is not None)
            if placed is not None:
                return placed
        placed = jax.device_put(arrays, place)
        self._types = [*map(jax.typeof, placed)]
        return placed


def _place_of(leaves: Sequence[Any]) -> SingleDeviceSharding | None:
    """Return the device that arrays are bound to, as results then are, too; None where they may go to any."""
    bound = (leaf for leaf in leaves if getattr(leaf, "committed", False))
    return next((SingleDeviceSharding(device) for leaf in bound for device in leaf.devices()), None)


@cache
def _on_first_device() -> SingleDeviceSharding:
    """Return where arrays are that may go to any device."""
    return SingleDeviceSharding(jax.devices()[0])


def _as_kind(array: jax.Array, kind: Any) -> jax.Array:
    """Return an array, of keys where it holds the words of keys."""
    return jax.random.wrap_key_data(array, impl="threefry2x32") if is_key(kind.dtype) else array


def may_be_quick() -> bool:
    """Whether compiling for the device takes so long that first calls are compiled quickly: on a GPU."""
    return jax.default_backend() == "gpu" and not profiled.is_set()


def may_evaluate(leaves: Sequence[Any] = ()) -> bool:
    """Whether arrays are there, on the one CPU where JAX computes by itself, and nothing watches it compute."""
    config: Any = jax.config
    if profiled.is_set() or config.jax_default_device is not None:
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
