"""Functions that are evaluated at first and compiled when that pays.

Compiling a program takes as long as many of its calls, and many are called a few times only: for a last batch, for each
length of a sequence, in a cell of a notebook. So the first calls of a signature are evaluated by NumPy. The program is
compiled when they have cost a part of what compiling costs, by estimates of work that are counted in calls: the same
script computes the same bits each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from lowering.host.evaluator import Evaluator, evaluator_of
from lowering.host.open_sizes import OpenTraces, trace
from lowering.host.placed import owned, placed
from lowering.host.primitives import NotEvaluated, is_key, is_threefry
from lowering.host.quick_calls import excess_of_quick_calls
from lowering.xla.compile_options import forget_note_of_jax, jit, options_for
from lowering.xla.out_of_memory import is_of_memory, too_large, wait_for_memory
from lowering.xla.program_bound import Forgets, Kept, bytes_of_plan, inner_programs, jitted
from symjax_nnvm.errors import CallError, NNVMError, refuse_unknown

_OF_A_CALL = 20.0
"""Microseconds by which an evaluated call of nothing is slower than a compiled one: results become JAX's arrays."""

_TO_COMPILE, _A_RESULT, _AN_EQUATION = 30_000.0, 8_000.0, 1_500.0
"""Microseconds of processors that compiling takes: of any program, for each result that nothing else is fused with, and
for each equation (jaxlib 0.10.2). Programs of 1, 8, 36 and 58 equations: 45, 50, 155 and 140 ms."""

_PRICES = {
    **dict.fromkeys(("scan", "while"), 150_000.0),
    **dict.fromkeys(("random_fold_in", "random_split"), 60_000.0),
    "conv_general_dilated": 200_000.0,
    "random_bits": 250_000.0,
}
"""Microseconds that compiling one of these takes. A GRU of two layers with dropout takes 0.85 s, its gradient 1.6."""

_OF_FEW, _CONVOLUTION_OF_FEW = 0.6, 5_000.0
"""The part of the price that the options of few equations take, and what a convolution takes with them. Milliseconds by
this estimate and measured (two cores with AVX2): a draw of numbers 228 and 300, a random hue 335 and 210, a jitter of
colours 1,000 and 1,080, a convolution 26 and 42, ReLU 25 and 35."""

_SLOWER = frozenset(("scan", "while", "scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"))
"""What runs slower with the options of few equations."""

_SMALL, _SHARE_OF_SMALL, _SHARE = 50_000.0, 1 / 4, 1 / 2
"""The part of the price of compiling that is spent on evaluating before, of the first microseconds and of those beyond.
Processor seconds of a small network's training, a sixteenth of all and a quarter: 60 steps 0.43 and 0.24, 300 steps
1.12 and 1.19, 1,000 steps 2.2 and 2.7. A user who makes only three steps with a large network saves compiling, which
costs six times as much."""

_LONG = 500_000.0
"""Microseconds: a program that takes so long to compile is compiled quickly before, when NumPy may not evaluate it any
more, and fully when its calls have cost the whole price. A step of LeNet with 64 images takes 0.09 s,
compiled quickly in 0.1 s, and 0.04, compiled fully in 1.3 to 2.3."""

_PAYS, _MOST = 8, 64
"""The number of calls of a quickly compiled program that must cost less than compiling, and the most that are made. A
program of convolutions of groups and large images is compiled fully as soon as NumPy's part is spent."""

_MOST_AT_A_LOSS = 4
"""The most calls of a quickly compiled program that does not pay, where NumPy cannot evaluate it. One of AlexNet with
64 images of 224² loses by a call what compiling fully takes, 3 and 4 s, and is called once."""

_LARGE = 1 << 25
"""Elements of results whose computation is waited for."""

_flattened = jax.tree_util.tree_flatten

_ARRAYS = (jax.Array, np.ndarray, np.generic, int, float)
"""What is an array to JAX, or may be one."""

EFFORTS = ("auto", "quick", "full")
"""auto: the first calls of a program are evaluated. quick: programs are those of any platform, and are compiled with
little effort. full: every program is compiled at its first call, for its platform."""

_AT_ONCE = {"quick": 'by effort="quick": compiled quickly', "full": 'by effort="full": compiled'}
"""What runs the calls of an effort, all signatures alike."""

_effort: ContextVar[str] = ContextVar("effort", default="auto")


@contextmanager
def effort(word: str) -> Iterator[None]:
    """Choose how this thread makes programs inside a block: `with lowering.effort("full"):`.

    With "quick" and "full", equal calls return equal bits.

    Args:
        word: "auto" (the default): NumPy evaluates the first calls of a program, without compiling, until compiling
            pays; the last bits of results may then differ. "quick": every program is compiled with little effort, so it
            is ready sooner and runs slower. "full": every program is compiled fully at its first call.

    Raises:
        CallError: the word is another one.
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


class Account(Kept):
    """Counts what the first calls of functions cost that are compiled together when that pays.

    owner: as `Kept` takes it, for what their programs keep. spent: microseconds by which the calls were slower than
    compiled ones. price: microseconds that compiling takes. excess: microseconds by which a call of each, compiled
    quickly, is slower.
    """

    __slots__ = ("excess", "price", "spent")

    def __init__(self, owner: Forgets, key: Any = None):
        super().__init__(owner, key)
        self.spent = self.price = self.excess = 0.0

    @property
    def limit(self) -> float:
        """Microseconds that are spent on evaluating."""
        return _SHARE_OF_SMALL * min(self.price, _SMALL) + _SHARE * max(0.0, self.price - _SMALL)

    @property
    def pays_quickly(self) -> bool:
        """Whether calls are compiled quickly before they are compiled fully."""
        return self.price >= _LONG and _PAYS * self.excess <= self.price

    @property
    def last(self) -> float:
        """Microseconds that are spent before compiling fully."""
        return self.price if self.pays_quickly else self.limit

    @property
    def is_begun(self) -> bool:
        """Whether calls are evaluated, not yet compiled quickly."""
        return self.spent <= self.limit or not self.pays_quickly

    @property
    def is_due(self) -> bool:
        """Whether compiling fully pays."""
        return self.spent >= self.last > 0

    def count_quick(self, excess: float) -> None:
        """Count a call of a program that is compiled quickly. excess: the microseconds by which it is slower."""
        self.price = self.price or _SMALL
        self.spent += max(excess, self.last / (_MOST if self.pays_quickly else _MOST_AT_A_LOSS))

    def __str__(self) -> str:
        if not self.last:
            return "not called yet"
        share = f"{self.spent / self.last:.0%}"
        return f"compiled when first calls have cost {self.last / 1e6:.2g} s more than compiled ones, now {share} of it"


Compile = Callable[..., Callable[..., Any]]
"""Returns a function that is compiled at its first call, and counts what its programs keep in the `Kept` it is given.
Of programs of few equations it takes `compiler_options`, too."""


class Staged:
    """A function of arrays whose first calls of each signature are evaluated.

    function: what is evaluated. compiles: returns `jax.jit` of it, or of what computes the same, anew for each
    signature that is called so often that compiling pays; None: `jitted` of it.
    accounts: None: each signature has one, and is compiled when that is due. Else of all calls of this function and of
    others; who holds them has other functions called when they are due, and what is compiled is compiled quickly.
    effort: "auto", "quick" or "full"; None: that of the block that a call is in. told_by: returns the arguments whose
    shapes and dtypes distinguish signatures; None: all. network: a network's, whose first calls on a GPU are compiled
    quickly. open_traces: what is traced of this function with open sizes, and of others that compute the same; None:
    each size is traced. few: its programs have few equations, and `compiles` takes options for such.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        compiles: Compile | None = None,
        accounts: Sequence[Account] | None = None,
        effort: str | None = None,
        told_by: Callable[..., Any] | None = None,
        network: bool = False,
        open_traces: OpenTraces | None = None,
        few: bool = False,
    ):
        self._function, self._accounts, self._effort, self._told_by = function, accounts, effort, told_by
        self._compiles = partial(jitted, function) if compiles is None else compiles
        self._network, self._all = network, Kept(self)
        self._signatures: dict[Any, _Signature] = {}
        self._open, self._few = open_traces, few
        self._at_once: dict[str, None] = {}
        """The efforts other than "auto" that calls were made by."""

    def __call__(self, *args: Any) -> Any:
        """Call the function, by the way that is due, and return its results."""
        try:
            way = self._way(args)
            if isinstance(way, _Evaluated):
                try:
                    return way(_flattened(args)[0])
                except MemoryError:  # the compiled program needs less, or its error names how much
                    way.fits = False
                    way = self._way(args)
            return way(*args)
        except NNVMError as error:
            forget_note_of_jax(error)
            raise
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            if not is_of_memory(error):
                raise
            raise too_large(error) from error

    def _way(self, args: Sequence[Any]) -> Callable[..., Any]:
        """Return what runs a call, and count the call."""
        effort = "auto" if self._accounts else chosen_effort(self._effort)
        if effort != "auto":
            self._all.use()
            self._at_once[effort] = None
            return self._quick if effort == "quick" else self._in_full
        leaves, tree = _flattened(args if self._told_by is None else self._told_by(*args))
        try:
            kinds = [leaf.aval for leaf in leaves]
        except AttributeError:  # not all are JAX's arrays
            if not all(isinstance(leaf, _ARRAYS) for leaf in leaves):
                return self._in_full
            kinds = [*map(jax.typeof, leaves)]
        key = (jax.config.jax_enable_x64, tree, *kinds)  # pyright: ignore[reportAttributeAccessIssue]
        signature = self._signatures.get(key)
        if signature is not None and signature.compiled is not None:
            signature.account.use()
            return signature.compiled
        evaluates = may_evaluate(leaves if self._told_by is None else _flattened(args)[0])
        if not (evaluates or self._accounts or (self._network and may_be_quick())):
            return self._in_full
        if signature is None:
            signature = self._signatures[key] = _Signature(Account(self, key))
        signature.account.use()
        if evaluates and signature.is_evaluated:
            way = signature.evaluated or self._traced(signature, args)
            if way is not None and way.fits and (way.is_begun if self._accounts is not None else way.is_affordable):
                return way
            signature.is_evaluated, signature.evaluated = False, None
            account = signature.account
            signature.is_quick = not self._few and (account.pays_quickly or (way is None and account.price >= _LONG))
        return self._quick_or_full(signature, signature.is_quick or not evaluates)

    def _quick_or_full(self, signature: _Signature, begins_quickly: bool) -> Callable[..., Any]:
        """Return what runs a call that is not evaluated. begins_quickly: the first are compiled quickly."""
        if self._accounts is not None:
            for account in self._accounts:
                account.count_quick(signature.excess)
            return self._in_full
        if begins_quickly and not signature.account.is_due:
            signature.account.count_quick(signature.excess)
            return self._quick
        signature.account.bytes = 0  # the plan's
        options = {} if signature.options is None else {"compiler_options": signature.options}
        compiled = self._compiles(signature.account, **options)
        later = _waited_for(compiled, _LARGE) if signature.is_large else compiled
        signature.compiled = later
        return _waited_for(compiled, 0) if self._few else later  # a new size is too large more often

    def forget(self, key: Any) -> None:
        """Drop the programs of a signature, and what was counted: it begins anew. None: of what is compiled for
        all that are not told apart."""
        if key is None:
            vars(self).pop("_in_full", None)
        else:
            self._signatures.pop(key, None)

    def ways(self) -> list[str]:
        """Lines of text: the signatures that were called, how each runs, and when it moves up."""
        signatures = [
            f"{', '.join(map(str, key[2:5]))}{', …' if len(key) > 5 else ''}: {signature}"
            for key, signature in [*self._signatures.items()]
        ]
        return [*signatures, *map(_AT_ONCE.__getitem__, [*self._at_once])]

    @cached_property
    def _in_full(self) -> Callable[..., Any]:
        """What runs calls of signatures that are not told apart: they are compiled at once."""
        compiled = self._compiles(self._all)
        # A network's is waited for, or was estimated.
        return _waited_for(compiled, _LARGE) if self._few else compiled

    @cached_property
    def _quick(self) -> Callable[..., Any]:
        return jit(self._function, kind="quick")

    def _traced(self, signature: _Signature, args: Sequence[Any]) -> _Evaluated | None:
        """Return the evaluated program of a new signature; None where NumPy lacks something."""
        traced = None if self._open is None else self._open.traced(self._function, args)
        traced = traced or trace(self._function, args)
        jaxpr = traced.closed.jaxpr
        few = self._few and _SLOWER.isdisjoint(primitives_of(jaxpr))
        price = price_of_compiling(jaxpr, few)
        if few:
            signature.options = options_for("cpu", "few")
        signature.excess = excess = excess_of_quick_calls(jaxpr)
        signature.is_large = any(math.prod(out.aval.shape) > _LARGE for out in jaxpr.outvars)
        accounts = [signature.account] if self._accounts is None else self._accounts
        for account in accounts:
            account.price, account.excess = account.price + price, account.excess + excess
        try:
            evaluated = _Evaluated(evaluator_of(traced.closed), traced.shapes, accounts)
        except (NotEvaluated, MemoryError):
            return None
        signature.evaluated = evaluated
        signature.account.grow(bytes_of_plan(jaxpr))
        return evaluated


class _Signature:
    """Holds what one signature runs by. account: the account of its programs' bytes, and of its calls if it has its
    own. is_evaluated: its next call may be. is_quick: NumPy may not evaluate it, and compiling takes long. excess:
    microseconds by which a call is slower then. is_large: memory may not hold its results. options: XLA's, of what is
    compiled."""

    __slots__ = ("account", "compiled", "evaluated", "excess", "is_evaluated", "is_large", "is_quick", "options")

    def __init__(self, account: Account):
        self.account, self.is_evaluated, self.is_quick, self.is_large = account, True, False, False
        self.excess = 0.0
        self.evaluated: _Evaluated | None = None
        self.compiled: Callable[..., Any] | None = None
        self.options: dict[str, str] | None = None

    def __str__(self) -> str:
        if self.compiled is None and self.evaluated is not None:
            return f"evaluated by NumPy; {self.evaluated.account}"
        return "compiled" if self.compiled is not None else f"compiled quickly; {self.account}"


def _waited_for(compiled: Callable[..., Any], size: int) -> Callable[..., Any]:
    """Return a function that raises where memory does not hold its results, before any array is written with them, or
    read: NumPy, reading what was never allocated, ends the process. size: elements of results that are waited for."""

    def waited(*args: Any) -> Any:
        results = compiled(*args)
        if any(not isinstance(array, Tracer) and array.size > size for array in _flattened(results)[0]):
            wait_for_memory(results)
        return results

    return waited


def primitives_of(jaxpr: Any) -> Iterator[str]:
    """Yield the names of the primitives of equations, of inner programs too."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in inner_programs(equation):
            yield from primitives_of(inner)


def price_of_compiling(jaxpr: Any, few: bool = False) -> float:
    """Return the microseconds of processors that compiling a program takes, about. few: with the options of few
    equations."""
    prices = {**_PRICES, "conv_general_dilated": _CONVOLUTION_OF_FEW} if few else _PRICES
    price = _TO_COMPILE + _A_RESULT * len(jaxpr.outvars)
    price += sum(prices.get(name, _AN_EQUATION) for name in primitives_of(jaxpr))
    return _OF_FEW * price if few else price


class _Evaluated:
    """A program of one signature, evaluated. accounts: each call is counted in. fits: memory holds what it computes."""

    __slots__ = ("_accounts", "_cost", "_evaluator", "_kinds", "_tree", "fits")

    def __init__(self, evaluator: Evaluator, shapes: Any, accounts: Sequence[Account]):
        self._kinds, self._tree = jax.tree_util.tree_flatten(shapes)
        if any(is_key(kind.dtype) and not is_threefry(kind.dtype) for kind in self._kinds):
            raise NotEvaluated
        self._evaluator, self._accounts, self.fits = evaluator, accounts, True
        self._cost = _OF_A_CALL + evaluator.microseconds

    @property
    def account(self) -> Account:
        """The account that calls are counted in, one of them."""
        return self._accounts[0]

    @property
    def is_begun(self) -> bool:
        """Whether calls of the accounts are evaluated, not yet compiled quickly."""
        return all(account.is_begun for account in self._accounts)

    @property
    def is_affordable(self) -> bool:
        """Whether one more call costs less than is spent before compiling."""
        return all(account.spent + self._cost <= account.limit for account in self._accounts)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        for account in self._accounts:
            account.spent += self._cost
        with np.errstate(all="ignore"):
            results = self._evaluator(*self._evaluator.taken(leaves))
        arrays = map(_as_kind, placed(owned(results), _place_of(leaves)), self._kinds)
        return jax.tree_util.tree_unflatten(self._tree, arrays)


def _place_of(leaves: Sequence[Any]) -> Any:
    """Return the device that arrays are bound to, as results then are, too; None where they may go to any."""
    bound = (leaf for leaf in leaves if getattr(leaf, "committed", False))
    return next((device for leaf in bound for device in leaf.devices()), None)


def _as_kind(array: jax.Array, kind: Any) -> jax.Array:
    """Return an array; as an array of keys if `kind` has JAX's dtype of keys."""
    return jax.random.wrap_key_data(array, impl="threefry2x32") if is_key(kind.dtype) else array


def may_be_quick() -> bool:
    """Whether compiling for the device takes so long that first calls are compiled quickly: on a GPU."""
    return jax.default_backend() == "gpu"


def may_evaluate(leaves: Sequence[Any] = ()) -> bool:
    """Whether arrays are there, on the one CPU where JAX computes by itself, and nothing watches it compute."""
    config: Any = jax.config
    if (
        config.jax_default_device is not None
        or config.jax_debug_nans
        or config.jax_debug_infs
        or config.jax_disable_jit
    ):
        return False
    device = jax.devices()[0]
    if device.platform != "cpu":
        return False
    return all(
        not isinstance(leaf, Tracer) and (not isinstance(leaf, jax.Array) or leaf.devices() == {device})
        for leaf in leaves
    )
