"""`export_program`: a network with its parameters as one file, which runs where only JAX is installed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeVar

import jax
import jax.export
import numpy as np
from numpy.typing import DTypeLike

from lowering.api.compile import serialized
from lowering.convolutions.backends import OWNED, for_this_machine
from lowering.core.cache import Programs
from lowering.core.chosen_options import chosen_options
from lowering.core.python_calls import refuse_export
from lowering.messages.arguments import arrays_by_name, misfit, require_symbol
from lowering.messages.migration_hints import with_migration_hints
from lowering.native.unpromised import UndecidedSizeError
from lowering.serving.constant_store import ConstantStore
from lowering.serving.plan import Served, ServingPlan, served, whole_plan
from lowering.sharding.placement import on_device
from lowering.xla.platforms import exported_kind
from symjax_nnvm.errors import (
    InferenceError,
    LoweringError,
    OpenSizeError,
    SymbolValueError,
    plain_list,
    printable,
)
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.io.files import atomic_writes
from symjax_nnvm.ir.types import whole_number
from symjax_nnvm.pipeline import ANY, Options
from symjax_nnvm.surgery import inference_symbol
from symjax_nnvm.symbol.call_arguments import known_dtypes
from symjax_nnvm.symbol.symbol import Symbol

_Result = TypeVar("_Result")

_NEW = "lowering.export_program(path, net, args, aux, {'data': ('N', 3, 224, 224)})"


@with_migration_hints("export_program", _NEW)
def export_program(
    path: str | os.PathLike[str],
    symbol: Symbol,
    args: Mapping[str, Any],
    aux: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    *,
    weights: Literal["inside", "beside"] = "inside",
    platforms: Sequence[str] | None = None,
    compute_dtype: DTypeLike | None = None,
    dtypes: Mapping[str, Any] | None = None,
    this_machine: bool = False,
) -> jax.export.Exported:
    """Write a trained network as serialized StableHLO, which `jax.export.deserialize` reads wherever JAX is installed.

    Training heads become the values they compute, and whatever depends on parameters alone is computed now. Where no
    size is open, algorithms are chosen as for a `Predictor`, except oneDNN's.

    The program's `call(data=x)` takes arrays by name and returns the list of outputs; a network that draws random
    numbers at inference also takes `key=`. A process that loads a file runs native code of the runtime that the file's
    writer chose (see docs/guide/serving.md).

    Args:
        path: the file's path.
        symbol: the network.
        args: arguments by name.
        aux: auxiliary states by name.
        shapes: shapes of every input by name. A name in place of a size, `("N", 3, 224, 224)`, leaves the size open;
            equal names are equal sizes. Where an operator takes only some sizes (a piece of an axis, a window), the
            program has that condition, and its call refuses other sizes.
        weights: "inside" the file, or "beside" it in a `.npz` of the same name. Weights beside the file are the call's
            first argument: `call(dict(numpy.load(file)), data=x)`.
        platforms: the platforms to make the program for: "cpu", "cuda", "rocm", "tpu"; None for that of this process.
        compute_dtype: as in `to_jax`.
        dtypes: dtypes of inputs by name; float32 for the others.
        this_machine: use oneDNN's algorithms as well, as fast as a Predictor, for machines with this processor and this
            jaxlib alone. Weights are stored in blocks for this processor: another machine computes wrong numbers
            without an error. No size may be open.

    Returns:
        The exported program.

    Raises:
        LoweringError: arrays or shapes are missing or unknown, the network runs Python code, or an operator needs an
            open size.
        SymbolValueError: options exclude each other.
        InferenceError: shapes do not fit the network.
        MissingExtraError: the package flatbuffers is not installed.
        FileError: no file can be written to the path.
        OSError: a file cannot be written.
    """
    refuse_export(require_symbol(symbol, "export_program"))
    labels = {node.name for node in label_variables(symbol)}
    network = symbol if labels.issubset({*args, *(shapes or {})}) else inference_symbol(symbol)
    arrays = {**arrays_by_name(args, "args", _NEW), **arrays_by_name(aux or {}, "aux", _NEW)}
    if weights not in ("inside", "beside"):
        raise SymbolValueError("weights= has no such place", expected="'inside' or 'beside'", got=repr(weights)[:40])
    names, states = network.list_arguments(), set(network.list_auxiliary_states())
    needed = {name: array for name, array in arrays.items() if name in states or name in names}
    dtypes = known_dtypes(dtypes or {})
    inputs = described(shapes or {}, dtypes)
    if {*needed, *inputs} != {*names, *states} or set(needed) & set(inputs):
        raise misfit(network, {*inputs, *(name for name in needed if name in names)}, states.intersection(needed))
    if this_machine:
        _require_this_machine(inputs, platforms)
    backend = OWNED if this_machine else None
    options = Options(platform=exported_kind(platforms), constants=frozenset(needed), backend=backend)
    options = chosen_options(options, compute_dtype)
    try:
        exported, constants = with_conditions(
            shapes or {}, dtypes, lambda inputs: _exported(network, needed, inputs, weights, platforms, options)
        )
    except (UndecidedSizeError, LoweringError, InferenceError, NotImplementedError) as error:
        if not any(isinstance(size, str) for shape in (shapes or {}).values() for size in shape):
            raise
        raise _cannot_stay_open(shapes, error) from error
    _write(Path(path), serialized(exported), constants if weights == "beside" else None)
    return exported


def _exported(
    network: Symbol,
    arrays: Mapping[str, Any],
    inputs: dict[str, Any],
    weights: str,
    platforms: Sequence[str] | None,
    options: Options,
) -> tuple[jax.export.Exported, dict[str, np.ndarray]]:
    """Return the program, and the arrays that it holds or takes."""
    program = _served(network, arrays, inputs, options)
    constants = {name: np.asarray(array) for name, array in program.wanted.make().items()}
    if program.needs_key:
        if "key" in inputs:
            raise SymbolValueError("The network draws random numbers, and has an input 'key' as well", fix="Rename it.")
        inputs["key"] = jax.eval_shape(lambda: jax.random.key(0))

    def run(constants: Mapping[str, Any], data: dict[str, Any]) -> list[jax.Array]:
        key = data.pop("key") if program.needs_key else None
        return program.run(data, constants, key)

    if weights == "inside":  # behind a barrier: what XLA folded into constants would be rounded otherwise than here
        function, call = (lambda **data: run(jax.lax.optimization_barrier(constants), data)), ()
    else:
        function, call = (
            (lambda values, /, **data: run(values, data)),
            ({name: _aval(array.shape, array.dtype) for name, array in constants.items()},),
        )
    jitted = jax.jit(function)
    if options.backend is not None:
        return for_this_machine(jitted, *call, platforms=["cpu"], **inputs), constants
    return jax.export.export(jitted, platforms=platforms)(*call, **inputs), constants


def _cannot_stay_open(shapes: Mapping[str, Sequence[int | str]] | None, error: Exception) -> LoweringError:
    return LoweringError(
        f"The network cannot leave these sizes open: {printable(str(error).splitlines()[0])}",
        got=f"shapes {dict(shapes or {})}",
        fix="Give numbers instead of names; if a Reshape contains the batch size, use symjax_nnvm.set_batch_size.",
    )


def _served(
    network: Symbol,
    arrays: Mapping[str, Any],
    inputs: Mapping[str, jax.ShapeDtypeStruct],
    options: Options,
) -> Served:
    """Return the function, with the fastest algorithms if no size is open and there is one kind of platform."""
    fixed = options.platform != ANY and all(isinstance(size, int) for aval in inputs.values() for size in aval.shape)
    programs, store = Programs(network), ConstantStore(arrays, on_device(None), None)
    if not fixed:
        return served(programs, store, ServingPlan(options))
    kinds = {name: (aval.shape, aval.dtype.name) for name, aval in inputs.items()}
    return served(programs, store, whole_plan(programs, store, options, kinds))


def _require_this_machine(inputs: Mapping[str, jax.ShapeDtypeStruct], platforms: Sequence[str] | None) -> None:
    """Raise SymbolValueError where a program could not call the machine's library."""
    is_open = [name for name, aval in inputs.items() if not all(isinstance(size, int) for size in aval.shape)]
    places = [*(platforms or (jax.default_backend(),))]
    if is_open or places != ["cpu"]:
        raise SymbolValueError(
            "A program for this machine has fixed shapes, and runs on its CPU",
            got=f"open sizes of {plain_list(is_open)}" if is_open else f"platforms {plain_list(places)}",
            fix="Give numbers for all sizes and platforms=['cpu'], or leave this_machine out.",
        )


def with_conditions(
    shapes: Mapping[str, Sequence[int | str]],
    dtypes: Mapping[str, Any],
    function: Callable[[dict[str, jax.ShapeDtypeStruct]], _Result],
) -> _Result:
    """Return what a function makes of inputs, under the conditions that its operators have for sizes that are open."""
    conditions: list[str] = []
    while True:
        try:
            return function(described(shapes, dtypes, conditions))
        except OpenSizeError as error:
            if error.condition in conditions:
                raise
            conditions.append(error.condition)


def described(
    shapes: Mapping[str, Sequence[int | str]], dtypes: Mapping[str, Any], conditions: Sequence[str] = ()
) -> dict[str, jax.ShapeDtypeStruct]:
    """Return shapes and dtypes of inputs by name, whose sizes are numbers, or names for which the conditions hold.

    Raises SymbolValueError for an unknown name, and for what is neither a number nor a name.
    """
    scope = jax.export.SymbolicScope(conditions)

    def size(name: str, value: int | str) -> Any:
        if not isinstance(value, str):
            try:
                return whole_number(value)
            except TypeError:
                got = repr(value)[:40]
                raise SymbolValueError(
                    f"{name} has a size that is neither a number nor a name",
                    expected="a whole number, or a name",
                    got=got,
                ) from None
        if not value.isidentifier():
            raise SymbolValueError(
                f"{name} has a size with an invalid name", expected="letters and digits", got=repr(value)[:40]
            )
        return jax.export.symbolic_shape(value, scope=scope)[0]

    return {
        name: _aval(tuple(size(name, dim) for dim in shape), dtypes.get(name, "float32"))
        for name, shape in shapes.items()
    }


def _aval(shape: Sequence[Any], dtype: Any) -> jax.ShapeDtypeStruct:
    """Return a shape and a dtype as JAX has them: with `jax_enable_x64` off, 32 bits of 64."""
    return jax.ShapeDtypeStruct(tuple(shape), jax.dtypes.canonicalize_dtype(np.dtype(dtype)))


def _write(path: Path, program: bytes, constants: Mapping[str, np.ndarray] | None) -> None:
    """Write both files, or neither."""
    if constants is None:
        with atomic_writes(path) as (file,):
            file.write(program)
        return
    buffer = BytesIO()
    np.savez(buffer, **constants)  # pyright: ignore[reportArgumentType]
    with atomic_writes(path.with_suffix(".npz"), path) as (arrays, file):
        arrays.write(buffer.getvalue())
        file.write(program)
