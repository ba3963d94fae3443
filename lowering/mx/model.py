"""`mx.model`: checkpoints, what callbacks are given, FeedForward, and the steps of a training loop over a kvstore."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lowering.mx.callback import LogValidationMetricsCallback as LogValidationMetricsCallback
from lowering.mx.kv import create as _create
from lowering.mx.module.feed_forward import FeedForward as FeedForward
from lowering.mx.module.module_checkpoints import BatchEndParam as BatchEndParam
from lowering.mx.module.module_checkpoints import load_checkpoint as load_checkpoint
from lowering.mx.module.module_checkpoints import load_params as load_params
from lowering.mx.module.module_checkpoints import save_checkpoint as save_checkpoint
from lowering.mx.ndarray.array import NDArray
from lowering.mx.store_base import KVStoreBase
from symjax_nnvm.errors import CallError

_LARGE = 16 * 1024 * 1024
"""Numbers in a parameter, from which on a store of one process does not update by itself."""


def _create_kvstore(kvstore: Any, num_device: int, arg_params: Mapping[str, NDArray]) -> tuple[Any, bool]:
    """Return (a store or None, whether it updates parameters by itself). kvstore: a store, a name or None; one device
    of one process needs none. Raises CallError, a TypeError, for anything else."""
    if not (kvstore is None or isinstance(kvstore, str | KVStoreBase)):
        raise CallError("kvstore must be KVStore, str or None", got=type(kvstore).__name__)
    if kvstore is None or (isinstance(kvstore, str) and num_device == 1 and "dist" not in kvstore):
        return None, False
    store = _create(kvstore) if isinstance(kvstore, str) else kvstore
    large = kvstore == "local" and max(math.prod(array.shape) for array in arg_params.values()) > _LARGE
    return store, store.is_capable(KVStoreBase.OPTIMIZER) and not large


def _initialize_kvstore(
    kvstore: Any,
    param_arrays: Sequence[Sequence[NDArray]],
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """Hold the parameters in a store; where it updates, copy them to the arrays of all devices, too."""
    for name, arrays in zip(param_names, param_arrays, strict=False):
        if update_on_kvstore:
            kvstore.broadcast(name, arg_params[name], out=arrays)
        else:
            kvstore.init(name, arg_params[name])


def _update_params_on_kvstore(
    param_arrays: Sequence[Sequence[NDArray]],
    grad_arrays: Sequence[Sequence[NDArray | None]],
    kvstore: Any,
    param_names: Sequence[str],
) -> None:
    """Push the gradients of all devices, and pull the parameters that the store updates."""
    for i, (arrays, grads) in enumerate(zip(param_arrays, grad_arrays, strict=False)):
        if grads[0] is not None:
            kvstore.pushpull(param_names[i], grads, out=arrays, priority=-i)


def _update_params(
    param_arrays: Sequence[Sequence[NDArray]],
    grad_arrays: Sequence[Sequence[NDArray | None]],
    updater: Any,
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] | None = None,
) -> None:
    """Update the parameters of each device by one call of an updater (indices, gradients, parameters), after a store
    has summed the gradients of all devices."""
    updates: list[list[tuple[int, Any, Any]]] = [[] for _ in range(num_device)]
    for i, (arrays, grads) in enumerate(zip(param_arrays, grad_arrays, strict=False)):
        if grads[0] is None:
            continue
        if kvstore:
            kvstore.pushpull(i if param_names is None else param_names[i], grads, priority=-i)
        for device, (array, grad) in enumerate(zip(arrays, grads, strict=False)):
            updates[device].append((i * num_device + device, grad, array))
    for rows in filter(None, updates):
        updater(*zip(*rows, strict=True))
