"""Every name of JAX, jaxlib and XLA that the library uses and that JAX does not promise to keep.

Each is used once, in this file, with the consequence of its absence: speed is lost, or a word in a message, never a
result. `tests/lowering/native/test_unpromised.py` takes each away. What JAX promises is in its
`docs/api_compatibility.md`; what runs with which version is in `docs/reference/versions.md`.

Whatever an unpromised interface raises is caught, only here and in this folder.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.core import ShapedArray

try:  # a primitive of our own; without them `call_primitive` makes none
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except Exception:
    Primitive = ad = batching = mlir = None

# -- primitives ------------------------------------------------------------------------------------------------------


def call_primitive(
    name: str,
    *,
    eager: Callable[..., Any],
    abstract: Callable[..., Any],
    chosen: Callable[[bool, bool], Callable[..., Any]],
    mapped: Callable[..., Any],
    differentiated: Callable[..., Any],
) -> Callable[..., Any] | None:
    """Return a function that binds a primitive of JAX; None where JAX cannot register it.

    eager: its implementation outside of a jitted function. abstract: abstract arrays → the abstract result.
    chosen: whether the program is for one device of the CPU, and whether it is to be exported → the function that is
    compiled, which takes the primitive's parameters. mapped: the rule of `vmap`. differentiated: the rule of `jvp`.
    """
    if Primitive is None or ad is None or batching is None or mlir is None:
        return None

    def lower_fun(function: Callable[..., Any], ctx: Any, values: Any, parameters: Any) -> Any:
        return made_lower_fun(function, multiple_results=False)(ctx, *values, **parameters)

    def on_cpu(ctx: Any, *values: Any, **parameters: Any) -> Any:
        return lower_fun(chosen(*_program_of(ctx)), ctx, values, parameters)

    def elsewhere(ctx: Any, *values: Any, **parameters: Any) -> Any:
        return lower_fun(chosen(False, True), ctx, values, parameters)

    try:
        made_lower_fun = mlir.lower_fun
        primitive = Primitive(name)
        primitive.def_impl(eager)
        primitive.def_abstract_eval(abstract)
        mlir.register_lowering(primitive, elsewhere)
        mlir.register_lowering(primitive, on_cpu, platform="cpu")
        batching.primitive_batchers[primitive] = mapped
        ad.primitive_jvps[primitive] = differentiated
    except Exception:
        return None
    return primitive.bind


@cache
def host_call(name: str) -> Callable[..., list[Array]] | None:
    """Return a function (number, *arrays, callback=function, results=kinds) → arrays, which a program of the CPU has
    computed by that function, in Python, from NumPy's arrays; None where JAX cannot register it. results: their shapes
    and dtypes; None: those of the arrays.

    `jax.pure_callback` puts each array on JAX's first CPU client before, which waits for other programs there.
    """
    if Primitive is None or mlir is None:
        return None

    def lowered(ctx: Any, *operands: Any, callback: Callable[..., Sequence[Any]], **_results: Any) -> Any:
        results, *_ = call(ctx, callback, None, [*operands], ctx.avals_in, ctx.avals_out, has_side_effect=False)
        return results

    try:
        call = mlir.emit_python_callback
        primitive = Primitive(name)
        primitive.multiple_results = True
        primitive.def_impl(lambda *arrays, callback, **_results: callback(*map(np.asarray, arrays)))
        primitive.def_abstract_eval(
            lambda number, *arrays, results=None, **_: [*arrays] if results is None else [*map(ShapedArray, *results)]
        )
        mlir.register_lowering(primitive, lowered, platform="cpu", cacheable=False)
    except Exception:
        return None
    return primitive.bind


def _program_of(ctx: Any) -> tuple[bool, bool]:
    """Return whether the program that is being lowered is for one device, and whether it is to be exported; where JAX
    does not tell, it is for many and exported: then nothing of this machine goes into it."""
    try:
        module = ctx.module_context
        return module.axis_context.num_devices == 1, bool(module.lowering_parameters.for_export)
    except Exception:
        return False, True


def is_zero(tangent: Any) -> bool:
    """Return whether a tangent is JAX's symbol of zeros. Only rules of primitives get one."""
    return isinstance(tangent, ad.Zero)  # pyright: ignore[reportOptionalMemberAccess]


def counts_of_scan(equation: Any) -> tuple[int, int]:
    """Return how many of a scan's inputs are constants, and how many it carries, for all versions of JAX: an input with
    an axis less in the body is a row of each step."""
    inner = equation.params["jaxpr"].jaxpr
    carried = sum(out.aval.ndim == own.aval.ndim for out, own in zip(equation.outvars, inner.outvars, strict=True))
    rows = sum(whole.aval.ndim > own.aval.ndim for whole, own in zip(equation.invars, inner.invars, strict=True))
    return len(equation.invars) - carried - rows, carried


# -- calls of code in jaxlib -----------------------------------------------------------------------------------------


def library_call(
    target: str, result: jax.ShapeDtypeStruct, config: Mapping[str, Any], written_over: int | None, *operands: Array
) -> Array:
    """Return a custom call of XLA's older kind. config: its backend's. written_over: the operand whose memory takes the
    result. Raises what JAX raises where it makes no such calls: it is tried in a child process first."""
    call = jax.ffi.ffi_call(
        target,
        result,
        custom_call_api_version=2,
        input_output_aliases=None if written_over is None else {written_over: 0},
        legacy_backend_config=json.dumps(config),
    )
    return call(*operands)


# -- clients and their threads ---------------------------------------------------------------------------------------

_WORKER = "XLAEigen"
"""The end of the names of the threads that a client of XLA's CPU computes with."""

_TASKS = Path("/proc/self/task")


_of_clients_made: set[int] = set()
"""Threads of the clients that are made here."""

_making = threading.Lock()


def another_cpu() -> Any:
    """Return the device of another client of XLA's CPU, whose programs run in the thread that calls them and wait for
    no others; None where jaxlib makes none."""
    try:
        jax.devices("cpu")  # has its workers before
        with _making:
            before = _threads_or_none()
            device = import_module("jaxlib.xla_client").make_cpu_client(asynchronous=False, num_devices=1).devices()[0]
            _of_clients_made.update(_threads_or_none().keys() - before.keys())
        return device
    except Exception:
        return None


def one_worker_device() -> Any:
    """Return the device of a client as `another_cpu`'s that has one worker; None where jaxlib makes none, or where it
    cannot be seen that it has one.

    A client makes as many workers as the thread that makes it may use cores: a thread of our own may use one, and the
    client's threads get their cores back.
    """
    try:
        jax.devices("cpu")
        before, cores, clients = _threads(), os.sched_getaffinity(0), list[Any]()

        def make() -> None:
            with suppress(Exception):
                os.sched_setaffinity(0, {min(cores)})
                clients.append(another_cpu())

        maker = threading.Thread(target=make)
        maker.start()
        maker.join()
        if clients in ([], [None]):
            return None
        deadline = time.monotonic() + 1
        while True:
            new = {thread: name for thread, name in _threads().items() if thread not in before}
            if any(name.endswith(_WORKER) for name in new.values()) or time.monotonic() > deadline:
                break
            time.sleep(0.01)  # a thread names itself, which it may not have done yet
        for thread in new:
            with suppress(ProcessLookupError):  # another thread of the process, that has ended
                if os.sched_getaffinity(thread) == {min(cores)}:
                    os.sched_setaffinity(thread, cores)
        return clients[0] if sum(name.endswith(_WORKER) for name in new.values()) == 1 else None
    except Exception:
        return None


def workers() -> int:
    """Return the number of threads of JAX's CPU client, which decides the layout of oneDNN's weights; 0 where
    unknown."""
    jax.devices("cpu")  # has them from here on
    try:
        return sum(name.endswith(_WORKER) for id, name in _threads().items() if id not in _of_clients_made)
    except Exception:
        return 0


def _threads_or_none() -> dict[int, str]:
    """Return the threads; none where they cannot be seen."""
    try:
        return _threads()
    except OSError:
        return {}


def _threads() -> dict[int, str]:
    """Return the threads of this process with their names."""
    names = {}
    for task in _TASKS.iterdir():
        try:
            names[int(task.name)] = (task / "comm").read_text().strip()
        except OSError:  # ended meanwhile
            continue
    return names


# -- arrays ----------------------------------------------------------------------------------------------------------


def put(kinds: Sequence[Any], arrays: Sequence[np.ndarray], sharding: Any, committed: bool) -> list[Array] | None:
    """Return NumPy's arrays as JAX's on one device, as `jax.device_put` does in five times the time; None where JAX has
    another way. kinds: their `jax.typeof`, which they must be. committed: whether the results are bound to the device.
    """
    try:
        device, put_one = [*sharding.device_set], _put_one()
        return [put_one(kind, sharding, [a], device, committed) for kind, a in zip(kinds, arrays, strict=True)]
    except Exception:
        return None


@cache
def _put_one() -> Callable[..., Array]:
    return import_module("jax._src.lib").xla_client.batched_device_put


# -- compile options -------------------------------------------------------------------------------------------------

OURS_ALONE: Mapping[str, str] = {"xla_cpu_experimental_onednn_custom_call": "False"}
"""The compile options of programs with calls of oneDNN. With that option, which `XLA_FLAGS` can set, XLA makes such
calls itself, takes ours for its own, and ends the process where a weight is stored in blocks."""


def knows_options(options: Mapping[str, str]) -> bool:
    """Return whether the installed XLA takes compile options: XLA raises an error for an unknown one."""
    try:
        _nothing().compile(compiler_options=dict(options))
    except Exception:
        return False
    return True


@cache
def _nothing() -> Any:
    """Return the shortest program, to be compiled."""
    return jax.jit(lambda: 0).lower()


def makes_onednn_calls(options: Any) -> bool:
    """Return whether the installed XLA makes oneDNN calls of its own with these compile options: jaxlib 0.12 does."""

    def convolution(data: Array, weight: Array) -> Array:
        return jax.lax.conv_general_dilated(data, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    try:
        shapes = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((1, 56, 56, 64), (3, 3, 64, 64)))
        return "onednn$conv" in (jax.jit(convolution).lower(*shapes).compile(options).as_text() or "")
    except Exception:
        return False


# -- errors ----------------------------------------------------------------------------------------------------------


def _undecided() -> type[Exception]:
    """Return JAX's error where it cannot decide about a size that is left open; in jax 0.10.0 it has no public name."""
    for module in ("jax.errors", "jax._src.export.shape_poly"):
        with suppress(Exception):
            return import_module(module).InconclusiveDimensionOperation
    return _NoSuchError


class _NoSuchError(Exception):
    """An error that is never raised: then JAX's own error reaches the caller."""


UndecidedSizeError = _undecided()


def number_of(size: Any, numbers: Mapping[str, int]) -> Any:
    """Return a size that is left open, with numbers for its symbols; anything else as it is, and where JAX has another
    way."""
    evaluate = getattr(size, "_evaluate", None)
    if evaluate is None:
        return size
    try:
        return int(evaluate(numbers))
    except Exception:
        return size


# -- processes -------------------------------------------------------------------------------------------------------


def distributed_state() -> Any:
    """Return JAX's state of the processes that it connected: `client`, the store that all share, and others; None where
    it has another place."""
    try:
        return import_module("jax._src.distributed").global_state
    except Exception:
        return None
