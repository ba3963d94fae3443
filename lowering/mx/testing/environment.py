"""The surroundings of a test: environment variables, the error stream, the machine; and tests that are tried again."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lowering.mx import context as contexts
from lowering.mx.context import Context, current_context
from lowering.mx.ndarray import waitall
from lowering.mx.util import setenv


def default_context() -> Context:
    """The current context."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Make a context this thread's current one, outside of all blocks."""
    contexts.set_outermost(ctx)


def list_gpus() -> range:
    """The numbers of the GPUs."""
    return range(contexts.num_gpus())


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """A block with other environment variables: a name and a value, or a dict; None removes one.

    Raises AssertionError for other arguments.
    """
    if len(args) == 1 and isinstance(args[0], dict):
        variables = args[0]
    else:
        assert len(args) == 2, "Expecting one dict arg or two args: env var name and value"
        variables = dict([args])
    before = {name: os.environ.get(name) for name in variables}
    for name, value in variables.items():
        setenv(name, value)
    try:
        yield
    finally:
        waitall()
        for name, value in before.items():
            setenv(name, value)


class EnvManager:
    """A block with another environment variable."""

    def __init__(self, key: str, val: str):
        self._change = environment(key, val)

    def __enter__(self) -> None:
        self._change.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._change.__exit__(*error)


def set_env_var(key: str, val: str, default_val: str = "") -> str:
    """Set an environment variable, and return what it was, or default_val."""
    before = os.environ.get(key, default_val)
    setenv(key, val)
    return before


@contextmanager
def discard_stderr() -> Iterator[None]:
    """A block whose errors, those of C code among them, are not shown."""
    sys.stderr.flush()
    number = sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
    saved = os.dup(number)
    try:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), number)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, number)
        os.close(saved)


def assert_exception(f: Callable[..., Any], exception_type: Any, *args: Any, **kwargs: Any) -> None:
    """Raise AssertionError where a call does not raise an error of the type."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{f} did not raise {exception_type}")


def retry(n: int) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """A decorator: a test that raises AssertionError is tried n times in all."""
    assert n > 0

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        @functools.wraps(test)
        def tried(*args: Any, **kwargs: Any) -> None:
            for _ in range(n - 1):
                try:
                    test(*args, **kwargs)
                    return
                except AssertionError:
                    waitall()
            test(*args, **kwargs)

        return tried

    return decorate


def is_cd_run() -> bool:
    """Whether this is a run of MXNet's delivery: the environment has CD_JOB=1."""
    return os.environ.get("CD_JOB") == "1"


def is_aarch64_run() -> bool:
    """Whether the processor is of ARM's 64-bit kind."""
    return platform.machine() == "aarch64"


def has_tvm_ops() -> bool:
    """Whether there are operators that TVM compiled: there are none."""
    return False


def is_op_runnable() -> bool:
    """Whether the context's device runs operators that TVM compiled, or there are none: there are none."""
    return True
