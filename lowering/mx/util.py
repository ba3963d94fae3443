"""`mx.util`: GPUs, environment variables, and the switches of the NumPy dialect."""

from __future__ import annotations

import functools
import inspect
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax

from lowering.mx.context import Context, gpu_memory_info, num_gpus
from symjax_nnvm.errors import CallError, MXNetError, ParamError, SymbolTypeError

_T = TypeVar("_T")


def get_gpu_count() -> int:
    """Return the number of GPUs that JAX sees."""
    return num_gpus()


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Return what `mx.context.gpu_memory_info` returns."""
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx: Context) -> int:
    """Return CUDA's compute capability of a GPU: 70 for sm_70.

    Args:
        ctx: the GPU's context.

    Raises:
        ParamError: the context is not a GPU's; the error is a ValueError, too.
        CallError: there is no such GPU.
        MXNetError: JAX does not report it.
    """
    if ctx.device_type != "gpu":
        raise ParamError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    text = str(getattr(ctx.device or jax.devices()[0], "compute_capability", ""))
    if not re.fullmatch(r"\d+\.\d", text):
        raise MXNetError(f"JAX does not report the compute capability of {ctx}")
    return int(text.replace(".", ""))


def getenv(name: str) -> str | None:
    """Return an environment variable; None where it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def set_module(module: str | None) -> Callable[[_T], _T]:
    """Set the module that a function or class shows; a decorator."""

    def decorator(func: _T) -> _T:
        if module is not None:
            func.__module__ = module
        return func

    return decorator


# -- np_shape: sizes and ranks of 0 are known ones; np_array: layers give and take arrays of mx.np ------------


class _Mode(threading.local):
    """The modes of this thread, and of all."""

    here = False
    everywhere = False
    arrays = False


_mode = _Mode()


def is_np_shape() -> bool:
    """Return whether sizes and ranks of 0 are known ones, and -1 and None unknown."""
    return _mode.here or _Mode.everywhere


def is_np_array() -> bool:
    """Whether layers, losses, parameters and data of this thread are arrays of `mx.np`."""
    return _mode.arrays


def set_np_shape(active: bool | int) -> bool:
    """Switch it on or off in this thread, or with 2 on and with 0 off in all, and return whether it was on before.
    Raises CallError, a TypeError, for anything that is not a whole number."""
    if not isinstance(active, int):
        raise CallError("an integer is required", got=repr(active), fix="mx.util.set_np_shape(True)")
    before = is_np_shape()
    _mode.here = bool(active)
    if active is not True and active in (0, 2):
        _Mode.everywhere = active == 2
    return before


def set_np(shape: bool = True, array: bool = True) -> None:
    """Switch both modes of this thread on or off. Raises ParamError, a ValueError, for arrays without shapes."""
    if array and not shape:
        raise ParamError("NumPy Shape semantics is required in using NumPy array semantics.", fix="npx.set_np()")
    set_np_shape(shape)
    _mode.arrays = bool(array)


def reset_np() -> None:
    """Switch both off."""
    set_np(shape=False, array=False)


@contextmanager
def np_shape(active: bool | int | None = True) -> Iterator[None]:
    """A block with `set_np_shape`; None changes nothing."""
    before = _mode.here, _Mode.everywhere
    if active is not None:
        set_np_shape(active)
    try:
        yield
    finally:
        _mode.here, _Mode.everywhere = before


@contextmanager
def np_array(active: bool | None = True) -> Iterator[None]:
    """A block in which `is_np_array()` is True, or False; None changes nothing."""
    before = _mode.arrays
    if active is not None:
        _mode.arrays = bool(active)
    try:
        yield
    finally:
        _mode.arrays = before


def in_these_modes(function: Callable[..., _T]) -> Callable[..., _T]:
    """A function that runs in the modes of this thread, in whatever thread it is called."""
    shape, array = is_np_shape(), is_np_array()

    def call(*args: Any) -> _T:
        with np_shape(shape), np_array(array):
            return function(*args)

    return call


def use_np_shape(func: Any) -> Any:
    """Run a function, or every method and property of a class, inherited ones too, under `np_shape`; a decorator.

    Args:
        func: the function or class.

    Raises:
        SymbolTypeError: `func` is neither.
    """
    return _run_under(np_shape, func, "use_np_shape")


def use_np_array(func: Any) -> Any:
    """A decorator: a function, or every method and property of a class, runs under `np_array`. Raises
    SymbolTypeError for what is neither."""
    return _run_under(np_array, func, "use_np_array")


def use_np(func: Any) -> Any:
    """A decorator of both: `use_np_shape` and `use_np_array`."""
    return use_np_shape(use_np_array(func))


def _run_under(mode: Callable[[], Any], func: Any, decorator: str) -> Any:
    """Return a function, or a class with all methods and properties, that runs in a mode. Raises
    SymbolTypeError for what is neither."""
    if inspect.isclass(func):
        for name in dir(func):
            member = inspect.getattr_static(func, name)
            if isinstance(member, staticmethod | classmethod) and name in vars(func):
                setattr(func, name, type(member)(_run_under(mode, member.__func__, decorator)))
            elif isinstance(member, property):
                getter = member.fget and _run_under(mode, member.fget, decorator)
                setattr(func, name, property(getter, member.fset, member.fdel))
            elif inspect.isfunction(member):
                setattr(func, name, _run_under(mode, member, decorator))
        return func
    if not callable(func):
        raise SymbolTypeError(f"{decorator} must decorate a class or a function", got=type(func).__name__)

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return func(*args, **kwargs)

    return call
