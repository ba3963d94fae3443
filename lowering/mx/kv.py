"""`mx.kv`: a store of arrays that sums what is pushed, by this process or by all of `jax.distributed`.

There are no servers: each process is a worker, holds all arrays and makes the same updates. Modules use a store only
for the sum of their gradients, and update by themselves.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, PartitionSpec

from lowering.executor.bound_arrays import writing
from lowering.messages.counts import checks_flags, paired
from lowering.mx.ndarray.array import NDArray, like_jax, require_arrays, stored_as
from lowering.mx.optimizer import Optimizer, Updater, get_updater
from lowering.mx.shared_arguments import explained_by
from lowering.mx.store_base import KVStoreBase as KVStoreBase
from lowering.mx.store_base import TestStore as TestStore
from lowering.mx.store_base import check_capability
from symjax_nnvm.errors import CallError, listed

LOCAL = ("local", "device", "nccl", "local_allreduce_cpu", "local_allreduce_device")
SYNCHRONOUS = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device")


class KVStore(KVStoreBase):
    """Arrays by key; a pushed array is summed, and replaces the stored one or updates it.

    Keys are numbers, or all of them are texts.

    Args:
        type: the store's name.
    """

    rank, num_workers = 0, 1

    def __init__(self, type: str):
        self.type = type
        self._held: dict[Any, NDArray] = {}
        self._updater: Callable[[Any, Any, Any], None] | None = None

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return True for "optimizer"; another capability raises ValueError."""
        check_capability(capability)
        return True

    @explained_by(KVStoreBase.broadcast)
    def init(self, key: Any, value: Any) -> None:
        """Store copies of arrays.

        Raises:
            CallError: a key is stored already.
        """
        for name, array in _pairs(key, value):
            if name in self._held:
                raise CallError(f"duplicate init of key {name!r}", fix="kv.push changes the stored value.")
            self._check_kind(name)
            (self._held[name],) = self.of_first_worker([_first(array).copy()])

    @explained_by(KVStoreBase.broadcast)
    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store copies of the first worker's arrays, and copy them into `out`.

        Raises:
            CallError: a key is stored already.
        """
        self.init(key, value)
        self.pull(key, out)

    @explained_by(KVStoreBase.pushpull)
    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum arrays, and store the sums or pass them to the updater."""
        names, totals = [], []
        for name, arrays in _pairs(key, value):
            arrays = arrays if isinstance(arrays, list | tuple) else [arrays]
            require_arrays(arrays, "A value pushed to a kvstore")
            if not arrays:
                raise CallError(
                    f"No array was pushed for key {name!r}", expected="an NDArray, or a list of them", got=[]
                )
            first, *others = arrays
            total = first.copy()
            for other in others:
                if other.shape != first.shape:
                    problem = f"The arrays that are pushed for key {name!r} have different shapes"
                    raise CallError(problem, expected=first.shape, got=other.shape)
                total += other.as_in_context(total.context)
            names.append(name)
            totals += self.summed([total])
        stored = [self._stored(name) for name in names]
        totals = [total.as_in_context(array.context) for total, array in zip(totals, stored, strict=True)]
        if self._updater is None:
            for array, total in zip(stored, totals, strict=True):
                total.copyto(array)
            return
        with writing(*(array.cell for array in stored)):
            if isinstance(self._updater, Updater):
                self._updater(names, totals, stored)
                return
            for update in zip(names, totals, stored, strict=True):
                self._updater(*update)

    @explained_by(KVStoreBase.broadcast)
    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy stored arrays into others.

        Args:
            ignore_sparse: accepted and ignored.
        """
        for name, arrays in _pairs(key, out):
            for array in arrays if isinstance(arrays, list | tuple) else [arrays]:
                self._stored(name).copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push values, then pull the sums."""
        self.push(key, value)
        self.pull(key, value if out is None else out)

    @explained_by(KVStoreBase.broadcast)
    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copy rows of stored arrays into others, whose other rows become zeros.

        Args:
            row_ids: the numbers of the rows, for each array, or once for all arrays of a key.
        """
        for name, arrays, row_lists in _with_rows(key, out, row_ids):
            require_arrays([*arrays, *row_lists], "Arrays and row_ids")
            stored = self._stored(name).asnumpy()
            for array, rows in zip(arrays, row_lists, strict=True):
                chosen = np.zeros_like(stored)
                rows = rows.asnumpy().astype(int).ravel()
                chosen[rows] = stored[rows]
                array[:] = chosen

    def set_gradient_compression(self, compression_params: Any) -> None:
        """Do nothing for {"type": "none"}; another type raises CallError."""
        if not isinstance(compression_params, Mapping):
            fix = "kv.set_gradient_compression({'type': 'none'})"
            raise CallError("compression_params must be a dict", got=f"{compression_params!r:.80}", fix=fix)
        kind = compression_params.get("type", "none")
        if kind != "none":
            fix = "Leave it out: gradients are summed as they are."
            raise CallError("Gradients are not compressed here", got=f"the type {kind!r}", fix=fix)

    @checks_flags
    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored arrays with an optimiser by what is pushed."""
        self._updater = get_updater(optimizer)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the states of the optimiser to a file of arrays.

        Args:
            fname: the file's path.
            dump_optimizer: write the counts of updates and the learning rate as well; a file holds nothing else of an
                optimiser.

        Raises:
            CallError: there is no optimiser.
        """
        self._updater_with_states().save(fname, counts=dump_optimizer)

    def load_optimizer_states(self, fname: str) -> None:
        """Load the states that `save_optimizer_states` wrote.

        Args:
            fname: the file's path.

        Raises:
            CallError: there is no optimiser.
            ParamsFormatError: the file is malformed.
        """
        self._updater_with_states().load(fname)

    def _updater_with_states(self) -> Updater:
        if not isinstance(self._updater, Updater):
            raise CallError(
                "The kvstore has no optimiser, so it has no optimiser states", fix="kv.set_optimizer(optimizer)"
            )
        return self._updater

    def set_updater(self, updater: Callable[[Any, Any, Any], None]) -> None:
        """Update stored arrays with a function (key, pushed, stored) by what is pushed."""
        if not callable(updater):
            raise CallError(
                "An updater must be a function of (key, pushed array, stored array)", got=f"{updater!r:.80}"
            )
        self._updater = updater

    _set_updater = set_updater

    def barrier(self) -> None:
        """Wait for all workers."""

    def _barrier(self) -> None:
        self.barrier()

    def summed(self, arrays: list[NDArray]) -> list[NDArray]:
        """Return the sums of the workers' arrays; all workers must call it with the same arrays."""
        return arrays

    def of_first_worker(self, arrays: list[NDArray]) -> list[NDArray]:
        """Return the arrays of the worker of rank 0, in all workers."""
        return arrays

    def _check_kind(self, key: Any) -> None:
        """Raise CallError for a text among numbers, or a number among texts."""
        for other in self._held:
            if isinstance(other, str) != isinstance(key, str):
                problem = "Mixed key types are not allowed"
                raise CallError(problem, expected=f"keys like {other!r}", got=repr(key))
            return

    def _stored(self, key: Any) -> NDArray:
        self._check_kind(key)
        if key not in self._held:
            raise CallError(f"key {key!r} has not been inited", expected=f"one of {listed(list(self._held))}")
        return self._held[key]


class WorkersStore(KVStore):
    """A store of the processes of `jax.distributed`, which wait for each other in every call."""

    def __init__(self, type: str):
        super().__init__(type)
        self.rank, self.num_workers = jax.process_index(), jax.process_count()
        devices = sorted(jax.devices(), key=lambda device: -device.id)
        firsts = {device.process_index: device for device in devices}  # the last one of each has the lowest number
        self._mesh = Mesh(np.array([firsts[i] for i in range(self.num_workers)]), ("workers",))
        whole = jax.NamedSharding(self._mesh, PartitionSpec())
        self._add = jax.jit(lambda arrays: [array.sum(0) for array in arrays], out_shardings=whole)

    def barrier(self) -> None:
        """Wait for all workers."""
        multihost_utils.sync_global_devices("mx.kv.barrier")

    def summed(self, arrays: list[NDArray]) -> list[NDArray]:
        """Return the sums of the workers' arrays; all workers must pass the same keys."""
        device = self._mesh.devices[self.rank]
        split = jax.NamedSharding(self._mesh, PartitionSpec("workers"))
        stacked = [
            jax.make_array_from_single_device_arrays(
                (self.num_workers, *array.shape), split, [jax.device_put(array.value, device)[None]]
            )
            for array in arrays
        ]
        totals = [total.addressable_data(0) for total in self._add(stacked)]
        return [
            stored_as(like_jax(total, array.context), array.stype) for total, array in zip(totals, arrays, strict=True)
        ]

    def of_first_worker(self, arrays: list[NDArray]) -> list[NDArray]:
        """Return the arrays of the worker of rank 0, in all."""
        return self.summed(arrays if self.rank == 0 else [array.zeros_like() for array in arrays])


def _pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
    pairs = [(key, value)] if _is_key(key) else paired(key, value, "values", "keys")
    for name, _ in pairs:
        if not isinstance(name, str | numbers.Integral):
            raise CallError("unexpected type for keys", expected="a whole number or a text", got=f"{name!r:.80}")
    return pairs


def _is_key(key: Any) -> bool:
    """Return whether this is one key: several are a list, or anything else that gives them."""
    return isinstance(key, str) or not isinstance(key, Iterable)


def _with_rows(key: Any, out: Any, row_ids: Any) -> Iterator[tuple[Any, list[NDArray], list[NDArray]]]:
    """Yield each key with its arrays and the numbers of their rows."""
    several = not _is_key(key)
    key = list(key) if several else key
    rows_by_key = row_ids if several and isinstance(row_ids, list | tuple) and len(row_ids) == len(key) else None
    for i, (name, arrays) in enumerate(_pairs(key, out)):
        arrays = list(arrays) if isinstance(arrays, list | tuple) else [arrays]
        rows = row_ids if rows_by_key is None else rows_by_key[i]
        rows = list(rows) if isinstance(rows, list | tuple) else [rows]
        yield name, arrays, rows * len(arrays) if len(rows) == 1 else rows


def _first(array: Any) -> NDArray:
    first = array[0] if isinstance(array, list | tuple) and array else array
    if not isinstance(first, NDArray):
        raise CallError(
            "A kvstore can store only NDArrays", got=type(first).__name__, fix="mx.nd.array(value) makes one."
        )
    return first


def create(name: str = "local") -> Any:
    """Return a store.

    Args:
        name: "local" and its kin for this process, "dist_sync" for all, or the name of a registered class
            (`KVStoreBase.register`).

    Raises:
        CallError: the store needs MXNet's servers, or `name` is not a name.
    """
    if not isinstance(name, str):
        raise CallError("name must be a string", got=type(name).__name__, fix="mx.kv.create('local')")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name in LOCAL:
        return KVStore(name)
    if name in SYNCHRONOUS:
        if not jax.distributed.is_initialized():
            problem = f"kvstore {name!r} needs several processes, but this process is connected to no others"
            fix = "Call jax.distributed.initialize() before anything else of JAX; in one process use 'local'."
            raise CallError(problem, fix=fix)
        return WorkersStore(name)
    if name.startswith(("dist", "p3", "horovod", "byteps")):
        raise CallError(
            f"kvstore {name!r} needs MXNet's servers, which are not here",
            fix="Use 'dist_sync' after jax.distributed.initialize(): it sums gradients over all processes.",
        )
    raise CallError(f"No kvstore is called {name!r}", expected=f"one of {listed((*LOCAL, *SYNCHRONOUS))}")
