"""A jitted function of a batch, in lanes where that is faster: the one way into lanes of all that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from lowering.host.staged import chosen_effort
from lowering.lanes.lanes import Lanes, Parts, Summands, Unsplit, added
from lowering.xla import cpu_streams
from lowering.xla.compile_options import jit
from lowering.xla.program_bound import Kept
from symjax_nnvm.errors import CallError, cut
from symjax_nnvm.ir.attributes import FAlgorithm
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import whole_number
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.symbol import Symbol

_CALLS_BEFORE = 100
"""Calls of a batch's shape that run whole before lanes are compiled: compiling each lane pays after this many."""

_SHAPES_COUNTED = 256
"""Shapes of batches whose calls are counted: data whose shapes never come again keeps no more than these."""

_MEETING_BYTES = 2 << 20
"""So many bytes for each lane must be computed between two sums over all samples, for meeting to cost little: lanes
take turns at Python. On two cores a step in lanes takes this part of the time of the whole: MobileNet 0.90 (95 MiB
between two sums), ResNet-18 0.96 (112), VGG-11 0.96 and with batch norms 0.99 (190), 3 dense layers of 1024 at batch
128, of 5 MiB in all, 1.3."""

_count: ContextVar[int | None] = ContextVar("lanes", default=None)


@contextmanager
def in_lanes(count: str | int) -> Iterator[None]:
    """Choose in how many lanes this thread trains inside a block: `with lowering.in_lanes("off"):`.

    In lanes each core of a CPU computes the gradients of samples of its own; see docs/guide/training.md.

    Args:
        count: "auto" (the default): as many as cores, where an estimate says that this is faster; "off": the batch is
            computed as a whole; a number: that many, wherever the network can be split.

    Raises:
        CallError: the count is another one.
    """
    token = _count.set(parse_lanes(count))
    try:
        yield
    finally:
        _count.reset(token)


def parse_lanes(count: Any) -> int | None:
    """Return the requested number of lanes, 1 for none; None where an estimate decides. Raises CallError."""
    if count == "auto":
        return None
    try:
        number = 1 if count == "off" else whole_number(count)
    except TypeError:
        number = 0
    if number < 1:
        raise CallError("Wrong lanes", expected="'auto', 'off', or a number from 1 on", got=cut(repr(count), 100))
    return number


def may_pay(symbols: Sequence[Symbol]) -> bool:
    """Return whether some operator of networks may be a library's call; without one lanes are not faster."""
    return any(node.op in FAlgorithm for symbol in symbols for node in post_order(symbol.outputs))


def of_rows(data: Mapping[str, Any], **lists: Sequence[Any]) -> Mapping[str, Any]:
    """Return data, and those arrays of lists that have as many rows."""
    rows = {np.shape(array)[:1] for array in data.values()}
    others = {f"{name} {i}": array for name, arrays in lists.items() for i, array in enumerate(arrays)}
    return {**data} | {n: a for n, a in others.items() if a is not None and np.shape(a) and rows == {np.shape(a)[:1]}}


class BatchFunction(NamedTuple):
    """A function of a batch.

    function: of arrays. whole: the same, jitted. samples: returns those of the arguments, by name, that have samples
    along axis 0. finish: takes the function's results, with `Summands`, and its arguments, and returns what a call
    does; None: sums are added up. residuals: the number of the result that a backward pass alone reads. same_shapes:
    arguments other than samples have the same shapes in every call.
    """

    function: Callable[..., Any]
    whole: Callable[..., Any]
    samples: Callable[..., Mapping[str, Any]]
    finish: Callable[..., Any] | None = None
    residuals: int | None = None
    same_shapes: bool = False


class InLanes:
    """A function that runs in lanes where that is faster, else as the whole; its residuals stay in the lanes.

    lanes: their count, as `in_lanes` takes it; None: that of the block that a call is in. may_pay: whether an estimate
    is to choose lanes at all. in_programs: a program that is traced around a call calls the lanes, too.
    """

    def __init__(
        self,
        batch_function: BatchFunction,
        *,
        lanes: str | int | None = None,
        may_pay: bool = True,
        in_programs: bool = False,
    ):
        self._batch_function, self._finish = batch_function, batch_function.finish or self._summed
        self._is_own, self._may_pay = lanes is not None, may_pay
        self._own = None if lanes is None else parse_lanes(lanes)
        self._added = jit(added, kind="few")
        self._before, self._in_programs = 0 if in_programs else _CALLS_BEFORE, in_programs
        self._calls: Recent[Any, int] = Recent(_SHAPES_COUNTED)
        self._lanes: dict[Any, Lanes | str] = {}
        self._names: dict[Any, str] = {}
        self._kept: dict[Any, Kept] = {}

    def at_once(self) -> None:
        """Compute every call from now on in the same way as later ones."""
        self._before = 0

    def __call__(self, *arguments: Any) -> Any:
        """Return the function's results; those of lanes when they are computed."""
        count = self._own if self._is_own else _count.get()
        leaves = () if self._batch_function.same_shapes else jax.tree.leaves(arguments)
        parts = next((leaf for leaf in leaves if isinstance(leaf, Parts)), None)
        lanes = self._lanes_for(count, arguments, parts)
        if isinstance(lanes, Lanes):
            if self._in_programs and _is_traced(leaves):
                return lanes.traced(*arguments)
            return self._finish(lanes(*arguments), *arguments)
        if parts is not None:
            arguments = jax.tree.map(lambda leaf: leaf.whole() if isinstance(leaf, Parts) else leaf, arguments)
        return self._batch_function.whole(*arguments)

    def _cache_size(self) -> int:
        return getattr(self._batch_function.whole, "_cache_size", int)() + sum(
            isinstance(lanes, Lanes) for lanes in self._lanes.values()
        )

    def _summed(self, results: Any, *_: Any) -> Any:
        """Return results of lanes with the summands added up."""
        leaves, tree = jax.tree.flatten(results, is_leaf=lambda leaf: isinstance(leaf, Summands))
        sums = iter(self._added([leaf for leaf in leaves if isinstance(leaf, Summands)]))
        return jax.tree.unflatten(tree, [next(sums) if isinstance(leaf, Summands) else leaf for leaf in leaves])

    def _lanes_for(self, count: int | None, arguments: Sequence[Any], parts: Parts | None) -> Lanes | str | None:
        """Return the lanes for arguments of these shapes, or why there are none; None where that is not decided."""
        if parts is not None:
            count = len(parts.of_lanes)
        elif count == 1 or (count is None and not self._may_pay):
            return None
        leaves, tree = jax.tree.flatten(
            self._batch_function.samples(*arguments) if self._batch_function.same_shapes else arguments
        )
        if not self._in_programs and _is_traced(leaves):
            return None
        kinds = [(np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves]
        key = (count, jax.config.read("jax_enable_x64"), tree, *kinds)
        if key not in self._lanes:
            calls = self._calls[key] = (self._calls.get(key) or 0) + 1
            if count is None and calls <= self._before and chosen_effort() != "full":
                return None
            try:
                lanes = self._lanes[key] = self._made(key, count, arguments, parts)
            except Unsplit as reason:
                self._lanes[key] = str(reason)
                if parts is not None:
                    parts.lanes.refused = str(reason)
            else:
                self._kept[key] = Kept(self, key)
                self._kept[key].grow(lanes.bytes)
        elif key in self._kept:
            self._kept[key].use()
        lanes = self._lanes.get(key)
        if isinstance(lanes, Lanes) and lanes.refused:
            self.forget(key)
            lanes = self._lanes[key] = lanes.refused
        return lanes

    def forget(self, key: Any) -> None:
        """Drop the lanes for a batch's shapes: they are made anew when such a batch comes again."""
        self._lanes.pop(key, None)
        self._kept.pop(key, None)

    def _made(self, key: Any, count: int | None, arguments: Sequence[Any], parts: Parts | None) -> Lanes:
        """Return lanes for arguments of these shapes. Raises Unsplit."""
        samples = self._batch_function.samples(*arguments)
        self._names[key] = ", ".join(f"{name} {np.shape(value)}" for name, value in samples.items())
        arrays = [leaf for leaf in jax.tree.leaves(arguments) if isinstance(leaf, jax.Array) and not _is_traced([leaf])]
        devices = {device for array in arrays for device in array.devices()} or {*jax.devices()[:1]}
        if [device.platform for device in devices] != ["cpu"]:
            raise Unsplit("lanes need arrays on one CPU")
        if jax.config.read("jax_enable_x64"):
            raise Unsplit("JAX is in 64-bit mode, which the threads of lanes do not have")
        why_not = cpu_streams.why_not()
        if why_not is not None and count is None:
            raise Unsplit(why_not)
        rows = {name: np.shape(value)[:1] for name, value in samples.items()}
        if len(set(rows.values())) != 1 or () in rows.values():
            raise Unsplit(f"inputs have {', '.join(f'{name} {size}' for name, size in rows.items()) or 'no'} rows")
        ours = {id(value) for value in samples.values()}
        is_split = [id(leaf) in ours for leaf in jax.tree.leaves(arguments)]
        lanes = Lanes(
            self._batch_function.function,
            arguments,
            is_split,
            count or cpu_streams.count(),
            for_calls=count is None,
            residuals=self._batch_function.residuals,
        )
        if count is None and lanes.work < lanes.count * (_MEETING_BYTES * (lanes.sums + 1) + lanes.summands):
            raise Unsplit("samples are too small a part of the work")
        return lanes

    def ways(self) -> list[str]:
        """Return lines of text: how the calls of each batch's shapes run, and why not in lanes."""
        return [f"{self._names[key]}: {_way(lanes)}" for key, lanes in [*self._lanes.items()]]


def _is_traced(leaves: Iterable[Any]) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in leaves)


def _way(lanes: Lanes | str) -> str:
    if isinstance(lanes, str):
        return f"as a whole, not in lanes: {lanes}"
    return f"in {lanes.count} lanes, which meet {lanes.sums} times"
