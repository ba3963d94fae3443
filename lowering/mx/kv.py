"""`mx.kv`: a store of arrays that sums what is pushed, by this process or by all of `jax.distributed`.

There are no servers: each process is a worker, holds all arrays and makes the same updates. Modules ask a store for the
sum of their gradients alone, and update by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, PartitionSpec

from lowering.executor.arrays import writing
from lowering.mx.ndarray.array import NDArray, like_jax
from lowering.mx.optimizer import Optimizer, get_updater
from symjax_nnvm.errors import CallError, listed

LOCAL = ("local", "device", "nccl", "local_allreduce_cpu", "local_allreduce_device")
SYNCHRONOUS = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device")


class KVStore:
    """Arrays by key. What is pushed is summed, and replaces what is held, or updates it.

    rank, num_workers: this process among those that push together.
    """

    rank, num_workers = 0, 1

    def __init__(self, type: str):
        self.type = type
        self._held: dict[Any, NDArray] = {}
        self._updater: Callable[[Any, NDArray, NDArray], None] | None = None

    def init(self, key: Any, value: Any) -> None:
        """Hold copies of arrays. Raises CallError for a key that is held."""
        for name, array in _pairs(key, value):
            if name in self._held:
                raise CallError(f"duplicate init of key {name!r}", fix="kv.push changes the stored value.")
            (self._held[name],) = self.of_first_worker([_first(array).copy()])

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Hold copies of arrays, and copy what is held into others."""
        self.init(key, value)
        self.pull(key, out)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do something, such as "optimizer": it updates what it holds."""
        return capability == "optimizer"

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum arrays, a list for each key, and keep the sum, or give it to the updater."""
        for name, arrays in _pairs(key, value):
            first, *others = arrays if isinstance(arrays, list | tuple) else [arrays]
            total = first.copy()
            for other in others:
                total += other
            (total,) = self.summed([total])
            if self._updater is None:
                self._stored(name)[:] = total
            else:
                held = self._stored(name)
                with writing(held.cell):
                    self._updater(name, total, held)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy what is held into arrays."""
        for name, arrays in _pairs(key, out):
            for array in arrays if isinstance(arrays, list | tuple) else [arrays]:
                self._stored(name).copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push values, then pull the sums."""
        self.push(key, value)
        self.pull(key, value if out is None else out)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Have what is pushed update what is held."""
        self._updater = get_updater(optimizer)

    def set_updater(self, updater: Callable[[Any, NDArray, NDArray], None]) -> None:
        """The same by a function (key, pushed, held)."""
        self._updater = updater

    def barrier(self) -> None:
        """Wait for all workers."""

    def summed(self, arrays: list[NDArray]) -> list[NDArray]:
        """The sums of the workers' arrays; all must ask for the same ones."""
        return arrays

    def of_first_worker(self, arrays: list[NDArray]) -> list[NDArray]:
        """The arrays of the worker of rank 0, in all."""
        return arrays

    def _stored(self, key: Any) -> NDArray:
        if key not in self._held:
            raise CallError(f"key {key!r} has not been inited", expected=f"one of {listed(list(self._held))}")
        return self._held[key]


class WorkersStore(KVStore):
    """A store of the processes of `jax.distributed`, which wait for each other in every call."""

    def __init__(self, type: str):
        super().__init__(type)
        self.rank, self.num_workers = jax.process_index(), jax.process_count()
        firsts = [min(devices, key=lambda device: device.id) for devices in _devices_by_process()]
        self._mesh = Mesh(np.array(firsts), ("workers",))
        whole = jax.NamedSharding(self._mesh, PartitionSpec())
        self._add = jax.jit(lambda arrays: [array.sum(0) for array in arrays], out_shardings=whole)

    def barrier(self) -> None:
        """Wait for all workers."""
        multihost_utils.sync_global_devices("mx.kv.barrier")

    def summed(self, arrays: list[NDArray]) -> list[NDArray]:
        """The sums of the workers' arrays; all must ask for the same ones."""
        device = self._mesh.devices[self.rank]
        split = jax.NamedSharding(self._mesh, PartitionSpec("workers"))
        stacked = [
            jax.make_array_from_single_device_arrays(
                (self.num_workers, *array.shape), split, [jax.device_put(array.value, device)[None]]
            )
            for array in arrays
        ]
        totals = [total.addressable_data(0) for total in self._add(stacked)]
        return [like_jax(total, array.context) for total, array in zip(totals, arrays, strict=True)]

    def of_first_worker(self, arrays: list[NDArray]) -> list[NDArray]:
        """The arrays of the worker of rank 0, in all."""
        return self.summed(arrays if self.rank == 0 else [array.zeros_like() for array in arrays])


def _devices_by_process() -> list[list[Any]]:
    return [[device for device in jax.devices() if device.process_index == i] for i in range(jax.process_count())]


def _pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
    return list(zip(key, value, strict=True)) if isinstance(key, list | tuple) else [(key, value)]


def _first(array: Any) -> NDArray:
    return array[0] if isinstance(array, list | tuple) else array


def create(name: str = "local") -> KVStore:
    """A store: of this process, or "dist_sync" of all. Raises CallError for those that need MXNet's servers."""
    if name in LOCAL:
        return KVStore(name)
    if name in SYNCHRONOUS:
        if not jax.distributed.is_initialized():
            problem = f"kvstore {name!r} is of several processes, and this one knows of no others"
            fix = "Call jax.distributed.initialize() first, before anything else of JAX; on one machine take 'local'."
            raise CallError(problem, fix=fix)
        return WorkersStore(name)
    if name.startswith(("dist", "p3", "horovod", "byteps")):
        raise CallError(
            f"kvstore {name!r} needs MXNet's servers, which are not here",
            fix="After jax.distributed.initialize() take 'dist_sync', which sums gradients over all processes.",
        )
    raise CallError(f"No kvstore is called {name!r}", expected=f"one of {listed((*LOCAL, *SYNCHRONOUS))}")
