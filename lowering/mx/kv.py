"""`mx.kv`: a store of arrays that sums what is pushed. Modules need none here: one program holds the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowering.mx.ndarray.array import NDArray
from lowering.mx.optimizer import Optimizer, get_updater
from symjax_nnvm.errors import CallError, listed

LOCAL = ("local", "device", "nccl", "local_allreduce_cpu", "local_allreduce_device")


class KVStore:
    """Arrays by key. What is pushed is summed, and replaces what is held, or updates it."""

    rank, num_workers = 0, 1

    def __init__(self, type: str):
        self.type = type
        self._held: dict[Any, NDArray] = {}
        self._updater: Callable[[Any, NDArray, NDArray], None] | None = None

    def init(self, key: Any, value: Any) -> None:
        """Hold copies of arrays. Raises CallError for a key that is held."""
        for each, array in _pairs(key, value):
            if each in self._held:
                raise CallError(f"duplicate init of key {each!r}", fix="kv.push changes what is held.")
            self._held[each] = _first(array).copy()

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Sum arrays, a list for each key, and keep the sum, or give it to the updater."""
        for each, arrays in _pairs(key, value):
            first, *others = arrays if isinstance(arrays, list | tuple) else [arrays]
            total = first.copy()
            for other in others:
                total += other
            if self._updater is None:
                self._of(each)[:] = total
            else:
                self._updater(each, total, self._of(each))

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy what is held into arrays."""
        for each, arrays in _pairs(key, out):
            for array in arrays if isinstance(arrays, list | tuple) else [arrays]:
                self._of(each).copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Both."""
        self.push(key, value)
        self.pull(key, value if out is None else out)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Have what is pushed update what is held."""
        self._updater = get_updater(optimizer)

    def set_updater(self, updater: Callable[[Any, NDArray, NDArray], None]) -> None:
        """The same by a function (key, pushed, held)."""
        self._updater = updater

    def barrier(self) -> None:
        """Nothing: there is one worker."""

    def _of(self, key: Any) -> NDArray:
        if key not in self._held:
            raise CallError(f"key {key!r} has not been inited", expected=f"one of {listed(list(self._held))}")
        return self._held[key]


def _pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
    return list(zip(key, value, strict=True)) if isinstance(key, list | tuple) else [(key, value)]


def _first(array: Any) -> NDArray:
    return array[0] if isinstance(array, list | tuple) else array


def create(name: str = "local") -> KVStore:
    """A store. Raises CallError for those of several machines, and says what trains on these."""
    if name in LOCAL:
        return KVStore(name)
    if name.startswith(("dist", "p3", "horovod", "byteps")):
        raise CallError(
            f"kvstore {name!r} needs MXNet's servers, which are not here",
            fix="On several machines call jax.distributed.initialize() and train with lowering.Trainer, whose arrays "
            "jax.sharding lays out; on one machine take kvstore='local'.",
        )
    raise CallError(f"No kvstore is called {name!r}", expected=f"one of {listed(LOCAL)}")
