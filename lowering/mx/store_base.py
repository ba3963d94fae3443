"""The base class of stores of arrays: `mx.kv.create` makes a registered subclass of yours by its name."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from lowering.mx.ndarray.array import NDArray


class KVStoreBase:
    """The base class of stores of arrays for training on several devices.

    A subclass defines `broadcast`, `pushpull` and whatever else it can do; a method that it does not define raises
    NotImplementedError.
    """

    OPTIMIZER = "optimizer"
    kv_registry: ClassVar[dict[str, type[KVStoreBase]]] = {}
    """Registered classes by name, in lower case."""

    type: str
    """The name by which it was made."""
    rank: int
    """The number of this worker."""
    num_workers: int
    """How many workers there are."""

    @staticmethod
    def register(klass: Any) -> Any:
        """Register a class, so that `mx.kv.create(name of the class)` makes its stores; a decorator.

        A later class of the same name replaces the earlier one, with a warning.
        """
        name = klass.__name__.lower()
        if name in KVStoreBase.kv_registry:
            before = KVStoreBase.kv_registry[name]
            message = f"WARNING: New kvstore {klass.__module__}.{klass.__name__} is overriding existing kvstore "
            warnings.warn(f"{message}{before.__module__}.{before.__name__}", stacklevel=2)
        KVStoreBase.kv_registry[name] = klass
        return klass

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the first worker's values into `out`, in all workers.

        Args:
            key: a key, or a list of keys.
            value: an array, a list of arrays for a key, or a list of these.
            out: the arrays to write.
            priority: accepted and ignored.
        """
        raise NotImplementedError

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Copy the sums of all workers' values into `out`, or into the values.

        Args:
            key: a key, or a list of keys.
            value: an array, a list of arrays for a key, or a list of these.
            out: the arrays to write; None for the values themselves.
            priority: accepted and ignored.
        """
        raise NotImplementedError

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability: "optimizer"."""
        raise NotImplementedError

    def set_optimizer(self, optimizer: Any) -> None:
        """Update stored arrays with an optimiser by what is pushed."""
        raise NotImplementedError

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the states of the optimiser."""
        raise NotImplementedError

    def load_optimizer_states(self, fname: str) -> None:
        """Load the states that `save_optimizer_states` wrote."""
        raise NotImplementedError

    # -- what a Module uses --------------------------------------------------------------------------------------------

    def summed(self, arrays: list[NDArray]) -> list[NDArray]:
        """Return the sums of the workers' arrays; all workers must call it with the same arrays."""
        totals = [array.copy() for array in arrays]
        for number, total in enumerate(totals):
            self.pushpull(number, [total], out=[total])
        return totals

    def of_first_worker(self, arrays: list[NDArray]) -> list[NDArray]:
        """Return the arrays of the worker of rank 0, in all workers."""
        firsts = [array.copy() for array in arrays]
        for number, first in enumerate(firsts):
            self.broadcast(number, first, out=[first])
        return firsts


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store that holds nothing and sums what one call gives."""

    __test__ = False

    type, rank, num_workers = "teststore", 0, 1

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the value into `out`."""
        for array in _listed(out):
            array[:] = value

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Copy the sum of the values into `out`, or into the values."""
        first, *others = [array.copy() for array in _listed(value)]
        for other in others:
            first += other.as_in_context(first.context)
        for array in _listed(value if out is None else out):
            array[:] = first

    @staticmethod
    def is_capable(capability: str) -> bool:
        """False for "optimizer". Raises ValueError for another capability."""
        check_capability(capability)
        return False


def check_capability(capability: str) -> None:
    """Raise ValueError for a capability that no store has."""
    if capability.lower() != KVStoreBase.OPTIMIZER:
        raise ValueError(f"Unknown capability: {capability}")


def _listed(arrays: Any) -> Any:
    return arrays if isinstance(arrays, list | tuple) else [arrays]
