"""`mx.util`: GPUs, environment variables and the switches of the NumPy dialect, which is off."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax

from lowering.mx.context import Context, gpu_memory_info, num_gpus
from symjax_nnvm.errors import CallError, MXNetError, ParamError

_T = TypeVar("_T")


def get_gpu_count() -> int:
    """How many GPUs JAX sees."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """`mx.context.gpu_memory_info`."""
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Context) -> int:
    """CUDA's compute capability of a GPU: 70 for sm_70.

    Raises ParamError, a ValueError, for another context; CallError where there is no such GPU; MXNetError where JAX
    does not say.
    """
    if ctx.device_type != "gpu":
        raise ParamError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    said = str(getattr(ctx.device or jax.devices()[0], "compute_capability", ""))
    if not re.fullmatch(r"\d+\.\d", said):
        raise MXNetError(f"JAX does not say the compute capability of {ctx}")
    return int(said.replace(".", ""))


def getenv(name: str) -> str | None:
    """An environment variable; None where it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def set_module(module: str | None) -> Callable[[_T], _T]:
    """A decorator that says of which module a function or class is."""

    def decorator(func: _T) -> _T:
        if module is not None:
            func.__module__ = module
        return func

    return decorator


# -- the NumPy dialect -------------------------------------------------------------------------------------------------


def is_np_shape() -> bool:
    """Whether sizes and ranks of 0 are known ones: they are not."""
    return False


def is_np_array() -> bool:
    """Whether operators give arrays of the NumPy dialect: they do not."""
    return False


def set_np_shape(active: bool) -> bool:
    """Whether it was on before: it was not. Raises CallError for True."""
    if active:
        raise _no_numpy()
    return False


def set_np(shape: bool = True, array: bool = True) -> None:
    """Switch the dialect on or off. Raises CallError for on."""
    set_np_shape(shape or array)


def reset_np() -> None:
    """Switch it off: it is."""


@contextmanager
def _switched(active: bool = True) -> Iterator[None]:
    """Enter a block with the dialect on or off. Raises CallError for on."""
    set_np_shape(active)
    yield


np_shape = np_array = _switched


def use_np(func: Any) -> Callable[..., Any]:
    """A decorator of functions and classes of the NumPy dialect: what it makes raises CallError when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise _no_numpy()

    refuse.__name__, refuse.__doc__ = func.__name__, func.__doc__
    return refuse


use_np_shape = use_np_array = use_np


def _no_numpy() -> CallError:
    return CallError("The NumPy dialect, mx.np, is not here", fix="Use mx.nd and mx.sym, or jax.numpy.")
