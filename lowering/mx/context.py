"""Contexts: `mx.cpu()`, `mx.gpu(0)`, the current one of a thread, and the JAX device of each."""

from __future__ import annotations

import functools
import logging
import threading
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax

from lowering.executor.bound_arrays import Place
from lowering.mx.base import classproperty
from lowering.xla.platforms import kind_of
from symjax_nnvm.errors import CallError, MXNetError

DEVICE_TYPES = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5, "tpu": 7}
"""MXNet's codes of device types, and one for types that MXNet lacks."""

_PLATFORMS = {"cpu_pinned": "cpu", "cpu_shared": "cpu"}
_scopes = threading.local()


@functools.cache
def quiet_jax() -> None:
    """Set the logger "jax" to warnings where it has no level, once, before `mx` first computes.

    Scripts begin with `logging.basicConfig(level=DEBUG)`, and JAX would log each compilation.
    """
    if logging.getLogger("jax").level == logging.NOTSET:
        logging.getLogger("jax").setLevel(logging.WARNING)


class UnknownDeviceError(CallError, KeyError):
    """A type of device that there is not."""


class MixedContextsError(CallError):
    """Arrays of two devices in one computation."""


class Context:
    """The device that holds arrays and runs graphs; `with mx.gpu(0):` makes it the thread's current one.

    Any number of CPU contexts are one device, as in MXNet.

    Args:
        device_type: "cpu", "gpu" or "tpu", or another Context.
        device_id: the number of the device.

    Raises:
        UnknownDeviceError: the type is another one; the error is a KeyError, too.
    """

    devstr2type = DEVICE_TYPES
    devtype2str: ClassVar[dict[int, str]] = {code: name for name, code in DEVICE_TYPES.items()}

    def __init__(self, device_type: Any, device_id: int | str = 0):
        if isinstance(device_type, Context):
            device_type, device_id = device_type.device_type, device_type.device_id
        if not isinstance(device_type, str) or device_type not in DEVICE_TYPES:
            expected = f"one of {', '.join(DEVICE_TYPES)}"
            raise UnknownDeviceError(
                "There is no such type of device", expected=expected, got=repr(device_type), fix="mx.cpu()"
            )
        self.device_type = str(device_type)
        try:
            self.device_id = int(device_id)
        except (TypeError, ValueError):
            raise CallError("device_id must be a whole number", got=repr(device_id), fix="mx.gpu(0)") from None

    @property
    def device_typeid(self) -> int:
        """Return MXNet's code of the device type."""
        return DEVICE_TYPES[self.device_type]

    @property
    def platform(self) -> str:
        """Return JAX's name of the device's kind: "cpu", "gpu" or "tpu"."""
        return _PLATFORMS.get(self.device_type, self.device_type)

    @property
    def device(self) -> Place:
        """Return the JAX device; None for JAX's default. If there is no such device, it raises CallError."""
        quiet_jax()
        if self.platform == "cpu":
            return None if jax.default_backend() == "cpu" else jax.devices("cpu")[0]
        devices = _devices(self.platform)
        if not 0 <= self.device_id < len(devices):
            raise CallError(
                f"There is no {self}: JAX sees {len(devices)} devices of that kind",
                fix="mx.cpu() runs on the CPU; for GPUs install JAX with CUDA: pip install jax[cuda12].",
            )
        device = devices[self.device_id]
        return None if device == jax.devices()[0] else device

    @classproperty
    def default_ctx(cls) -> Context:
        """Return the current context; deprecated: use `mx.current_context()`."""
        problem = "Context.default_ctx has been deprecated. Please use Context.current_context() instead."
        warnings.warn(problem, DeprecationWarning, stacklevel=3)
        return current_context()

    def empty_cache(self) -> None:
        """Do nothing: XLA's allocator keeps its memory."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> tuple[str, int]:
        return self.device_type, self.device_id

    def __enter__(self) -> Self:
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"


def _stack() -> list[Context]:
    """Return the contexts entered in this thread, the innermost last."""
    if not hasattr(_scopes, "stack"):
        _scopes.stack = [CPU]
    return _scopes.stack


def _devices(platform: str) -> list[Place]:
    try:
        return jax.devices(platform)
    except RuntimeError:  # JAX has no such backend
        return []


@functools.cache
def cpu(device_id: int = 0) -> Context:
    """A context of the CPU."""
    return Context("cpu", device_id)


CPU = cpu()
"""The default context of arrays."""


@functools.cache
def cpu_pinned(device_id: int = 0) -> Context:
    """A context of the CPU: JAX pins what it copies by itself."""
    return Context("cpu_pinned", device_id)


@functools.cache
def gpu(device_id: int = 0) -> Context:
    """A context of a GPU."""
    return Context("gpu", device_id)


def num_gpus() -> int:
    """Return the number of GPUs that JAX sees."""
    return len(_devices("gpu"))


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Return the free bytes and all bytes of a GPU that JAX may allocate.

    Args:
        device_id: the number of the GPU.

    Raises:
        CallError: there is no such GPU.
        MXNetError: JAX does not report it.
    """
    device = gpu(device_id).device or jax.devices()[0]
    stats = device.memory_stats() or {}
    if "bytes_limit" not in stats:
        raise MXNetError(f"JAX does not report the memory of {device}")
    return stats["bytes_limit"] - stats.get("bytes_in_use", 0), stats["bytes_limit"]


def current_context() -> Context:
    """Return the innermost context that this thread has entered; `cpu(0)` without one."""
    return _stack()[-1]


def check_one_device(operator: str, contexts: Sequence[Context]) -> None:
    """Raise MixedContextsError for contexts that are not all one device. operator: the name that the error has."""
    first = contexts[0]
    both = "require all inputs live on the same context. But the first argument is on"
    for number, context in enumerate(contexts, 1):
        if context is not first and context != first and context.device != first.device:
            raise MixedContextsError(
                f"Operator {operator} {both} {first} while the {number}-th argument is on {context}",
                fix=f"x.as_in_context(mx.{first}) copies an array there.",
            )


def context_of(value: jax.Array) -> Context:
    """The context of a value on one device: the current one, if that is this device."""
    current, devices = current_context(), value.devices()
    if len(devices) > 1 or devices == {current.device or jax.devices()[0]}:
        return current
    (device,) = devices
    kind = kind_of(device)
    if kind == "cpu":
        return current if current.platform == "cpu" else cpu()
    return Context(kind, _devices(kind).index(device))


def set_outermost(ctx: Context) -> None:
    """Make a context this thread's current one outside of all blocks."""
    _stack()[0] = ctx


def as_context(ctx: Any) -> Context:
    """A context from what people give for one: a Context, its name or its text, None for the current one."""
    if isinstance(ctx, str) and ctx.endswith(")") and "(" in ctx:  # cpu(1)
        return Context(*ctx[:-1].split("(", 1))
    return current_context() if ctx is None else ctx if isinstance(ctx, Context) else Context(ctx)
