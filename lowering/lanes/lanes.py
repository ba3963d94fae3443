"""Lanes: a function of a batch, computed by every core for samples of its own from end to end.

XLA's CPU shares each operator out over the cores, which then wait for each other. A lane is a thread with a client of
XLA's CPU that has one worker: it runs the function's program for its part of the batch (`split.py`). For a sum over all
samples the lanes synchronise: each waits for the others, and adds up in the order of the lanes, so that equal calls
return equal bits. The clients share one memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.sharding import SingleDeviceSharding

from lowering.lanes.meeting import Meeting, sum_of_lanes
from lowering.lanes.pieces import Lane, Piece, Unsplit
from lowering.lanes.split import run
from lowering.native.ask import ask
from lowering.native.unpromised import host_call, one_worker_device, put
from lowering.xla.compile_options import Awaited, jit
from lowering.xla.out_of_memory import telling_memory
from lowering.xla.program_bound import bytes_of_program

__all__ = ["Lanes", "Unsplit"]

_clients: list[SingleDeviceSharding] = []
_making = threading.Lock()


def _places(count: int) -> list[SingleDeviceSharding]:
    """Return the devices of the lanes, each on a client of its own. Raises Unsplit where jaxlib makes none."""
    with _making:
        while len(_clients) < count:
            device = one_worker_device() if ask("one_core") else None
            if device is None:
                raise Unsplit("jaxlib makes no client with one worker here")
            _clients.append(SingleDeviceSharding(device))
        return _clients[:count]


class _Kind(NamedTuple):
    """What lanes have of a result: rows along an axis, or a summand, or all of it."""

    axis: int | None
    partial: bool


class Summands(NamedTuple):
    """Stands for a sum: what each lane adds to it, in the order of the lanes."""

    of_lanes: list[Any]


class Parts:
    """Stands for a result that stays where it was computed, for a function that runs in the same lanes.

    lanes: whose result it is. shape, dtype: those of the whole. of_lanes: what each lane has of it.
    """

    def __init__(self, lanes: Lanes, kind: _Kind, aval: Any, of_lanes: Sequence[jax.Array]):
        self.lanes, self.kind, self.shape, self.dtype, self.of_lanes = lanes, kind, aval.shape, aval.dtype, of_lanes

    def whole(self) -> jax.Array:
        """Return the result as one array."""
        return jnp.asarray(added(_joined(self.kind, [*map(np.asarray, self.of_lanes)])))


_running = threading.Lock()
"""Held while lanes run: two functions at once, with one worker in each lane, could wait for each other for ever."""


class Lanes:
    """A function of arrays of fixed shapes and dtypes, computed in several lanes.

    is_split: for each leaf of the arguments, whether it has the samples along axis 0; what is `Parts` has them where it
    has. for_calls: only a function with calls of a library is split; XLA's own operators share the cores as well.
    residuals: the number of the result whose arrays stay in the lanes, as `Parts`. Raises Unsplit.

    Attributes:
        work: bytes of the results that one lane computes on its samples.
        summands: bytes of the results that are sums.
        sums: how often the lanes synchronise.
        bytes: what the programs of all lanes keep, by an estimate.
        refused: why nothing that reads its `Parts` runs in lanes.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        is_split: Sequence[bool],
        count: int,
        for_calls: bool = False,
        residuals: int | None = None,
    ):
        self.count, self._places = count, _places(count)
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*jax.tree.map(_of_whole, arguments))
        if for_calls and all(equation.primitive.name != "library_call" for equation in closed.jaxpr.eqns):
            raise Unsplit("no convolution of it is computed by a library")
        self._structs, self._tree = jax.tree.flatten(shapes)
        self._stays = [False] * len(self._structs)
        if residuals is not None:
            stays = [jax.tree.map(lambda _, n=n: n == residuals, result) for n, result in enumerate(shapes)]
            self._stays = jax.tree.leaves(stays)
        leaves = jax.tree.leaves(arguments)
        self._used, equations = _needed(closed.jaxpr)
        self._split = [is_split[i] for i in self._used]
        shortest = [i for i in self._used if is_split[i] and leaves[i].shape[0] % count]
        if shortest:
            raise Unsplit(f"{leaves[shortest[0]].shape[0]} samples cannot be divided by {count}")
        operands = [(leaves[i], closed.in_avals[i]) for i in self._used]
        keys = {n: jax.random.key_impl(leaf) for n, (leaf, _) in enumerate(operands) if _is_key(leaf)}
        places = [
            (leaf.kind.axis, leaf.kind.partial) if isinstance(leaf, Parts) else (0 if split else None, False)
            for (leaf, _), split in zip(operands, self._split, strict=True)
        ]
        self._meeting = Meeting(count)
        call = host_call("lane_sum")
        if call is None:
            raise Unsplit("this JAX calls no Python from programs")
        add_up = partial(sum_of_lanes, partial(call, callback=self._meeting))
        self.work, self.summands, self.sums, self._kinds = 0, 0, 0, list[_Kind]()
        self.refused = ""
        self.bytes = count * bytes_of_program(closed.jaxpr)

        def of_lane(number: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
            lane = Lane(count, number, add_up)
            operands = [Piece(array, *place) for array, place in zip(arrays, places, strict=True)]
            for n, impl in keys.items():
                operands[n].array = jax.random.wrap_key_data(operands[n].array, impl=impl)
            every = {closed.jaxpr.invars[i]: piece for i, piece in zip(self._used, operands, strict=True)}
            nothing = Piece(None)
            pieces = [every.get(variable, nothing) for variable in closed.jaxpr.invars]
            results = run(lane, closed.jaxpr, closed.consts, pieces, equations)
            self.work, self.sums = lane.work, lane.sums
            self._kinds = [_Kind(piece.axis, piece.partial) for piece in results]
            self.summands = sum(piece.array.nbytes for piece in results if piece.partial)
            return [piece.array for piece in results]

        self._function = jit(of_lane, platform="cpu")
        self._operands = [
            _struct_of_lane(*operand, split, count) for operand, split in zip(operands, self._split, strict=True)
        ]
        self._lowered = [self._lower(place) for place in self._places]
        self._programs: list[Any] = []
        self._threads = ThreadPoolExecutor(count, "lane")  # they end with this object
        self._begun: list[Future[list[Any]]] = []

    def _lower(self, place: SingleDeviceSharding) -> Any:
        number = jax.ShapeDtypeStruct((), jnp.int32, sharding=place)
        arrays = [jax.ShapeDtypeStruct(shape, dtype, sharding=place) for shape, dtype in self._operands]
        return self._function.lower(number, *arrays)

    def _compile(self) -> None:
        while len(self._programs) < self.count:  # one after the other: a compiler's memory is more than a step's
            lowered = self._lowered[len(self._programs)]
            self._programs.append(Awaited(lowered.compile(), lambda: None))
        self._lowered = []

    def traced(self, *arguments: Any) -> Any:
        """Return the function's results, in a program that calls the lanes while it runs."""
        call, leaves = host_call("lane_step"), jax.tree.leaves(arguments)
        if call is None or any(self._stays):
            raise Unsplit("this JAX calls no Python from programs")
        with _running:
            self._compile()
        tree = jax.tree.structure(arguments)

        def step(_: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
            results = jax.tree.leaves(added(self(*jax.tree.unflatten(tree, arrays))))
            return [np.asarray(array, struct.dtype) for array, struct in zip(results, self._structs, strict=True)]

        operands = [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves]
        kinds = tuple(struct.shape for struct in self._structs), tuple(struct.dtype for struct in self._structs)
        results = call(jnp.zeros((), jnp.int32), *operands, callback=step, results=kinds)
        return jax.tree.unflatten(self._tree, results)

    def __call__(self, *arguments: Any) -> Any:
        """Return the function's results, when they are computed, on the device of the first of JAX's arrays among the
        arguments, without any as NumPy's; in place of a sum its `Summands`, of what stays in the lanes its `Parts`."""
        leaves = jax.tree.leaves(arguments)
        home = next((leaf.sharding for leaf in leaves if isinstance(leaf, jax.Array)), None)
        arrays = [_on_host(leaves[i], dtype) for i, (_, dtype) in zip(self._used, self._operands, strict=True)]
        with _running, telling_memory:
            self._compile()
            wait(self._begun)  # of a call that was interrupted
            self._meeting.begin()
            lanes = self._begun = []
            try:
                operands = [self._of_lane(number, arrays) for number in range(self.count)]
                lanes.extend(self._threads.submit(self._run, *of_lane) for of_lane in enumerate(operands))
                found = [lane.exception() for lane in lanes]
            except BaseException:  # an interrupt: lanes end where they would meet
                self._meeting.end()
                raise
            first = [e for e in found if e is not None and "BrokenBarrierError" not in str(e)] or [*filter(None, found)]
            if first:
                raise self._meeting.error or first[0]
            parts = [lane.result() for lane in lanes]
            self._begun = []  # which hold the results
        of_results = [*zip(self._kinds, self._structs, self._stays, zip(*parts, strict=True), strict=True)]
        joined: list[Any] = [None if stays else _joined(kind, p) for kind, _, stays, p in of_results]
        joined = joined if home is None else _put(joined, home)
        results = [
            Parts(self, kind, struct, pieces) if stays else array
            for array, (kind, struct, stays, pieces) in zip(joined, of_results, strict=True)
        ]
        return jax.tree.unflatten(self._tree, results)

    def _of_lane(self, number: int, arrays: Sequence[np.ndarray | Parts]) -> list[jax.Array]:
        """Return the operands of a lane's program."""
        operands: list[Any] = [np.asarray(number, np.int32)]
        for array, split in zip(arrays, self._split, strict=True):
            if isinstance(array, Parts):
                operands.append(array.of_lanes[number])
                continue
            rows = array.shape[0] // self.count if split else 0
            operands.append(array[number * rows : (number + 1) * rows] if split else array)
        return _put(operands, self._places[number])

    def _run(self, number: int, operands: Sequence[jax.Array]) -> list[Any]:
        try:
            results = self._programs[number](*operands)
            return [result if stays else np.asarray(result) for result, stays in zip(results, self._stays, strict=True)]
        except BaseException:
            self._meeting.end()
            raise


def _put(tree: Any, place: Any) -> Any:
    """Return a tree with its NumPy arrays on a device, without copies. 165 arrays for each of two lanes take 3 ms;
    `jax.device_put` in the lanes' threads, which take turns at Python, takes 11."""
    leaves, structure = jax.tree.flatten(tree)
    ours = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
    placed = put([_kind(array.shape, array.dtype) for array in ours], ours, place, committed=True)
    arrays = iter(jax.device_put(ours, place) if placed is None else placed)
    return structure.unflatten([next(arrays) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


@lru_cache(4096)
def _kind(shape: tuple[int, ...], dtype: np.dtype) -> ShapedArray:
    return ShapedArray(shape, dtype)


def _joined(kind: _Kind, pieces: Sequence[np.ndarray]) -> Any:
    if kind.partial:
        return Summands([*pieces])
    return pieces[0] if kind.axis is None else np.concatenate(pieces, kind.axis)


def added(results: Any) -> Any:
    """Return results of `Lanes` with the summands added up, in their order."""

    def of_leaf(leaf: Any) -> Any:
        return sum(leaf.of_lanes[1:], start=leaf.of_lanes[0]) if _is_sum(leaf) else leaf

    return jax.tree.map(of_leaf, results, is_leaf=_is_sum)


def _is_sum(leaf: Any) -> bool:
    return isinstance(leaf, Summands)


def _needed(jaxpr: Any) -> tuple[list[int], list[Any]]:
    """Return the numbers of the inputs, and the equations, that results depend on."""
    needed = {atom for atom in jaxpr.outvars if not hasattr(atom, "val")}
    equations = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            equations.append(equation)
            needed.update(atom for atom in equation.invars if not hasattr(atom, "val"))
    return [i for i, variable in enumerate(jaxpr.invars) if variable in needed], equations[::-1]


def _of_whole(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, Parts) else leaf


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _on_host(leaf: Any, dtype: Any) -> np.ndarray | Parts:
    if isinstance(leaf, Parts):
        return leaf
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf, dtype)


def _struct_of_lane(leaf: Any, aval: Any, split: bool, count: int) -> tuple[tuple[int, ...], Any]:
    """Return the shape and dtype in which a lane gets an argument."""
    if isinstance(leaf, Parts):
        return leaf.of_lanes[0].shape, leaf.of_lanes[0].dtype
    data = jax.eval_shape(jax.random.key_data, aval) if _is_key(leaf) else aval
    return ((data.shape[0] // count, *data.shape[1:]) if split else data.shape), data.dtype
