"""`to_source`: a network as plain JAX, as text; `save_source`: with its weights, in a folder."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lowering.messages.arguments import arrays_by_name, require_symbol
from lowering.messages.migration_hints import with_migration_hints
from lowering.serving.program_file import with_conditions
from lowering.source.module import module_text
from lowering.source.names import Names, identifier
from lowering.source.trace import traced
from symjax_nnvm import __version__
from symjax_nnvm.errors import SymbolValueError, plain_list
from symjax_nnvm.inspect.roles import label_variables
from symjax_nnvm.io.files import atomic_writes
from symjax_nnvm.surgery import inference_symbol
from symjax_nnvm.symbol.call_arguments import known_dtypes
from symjax_nnvm.symbol.symbol import Symbol

_NEW = "lowering.to_source(net, args, aux, shapes={'data': ('batch', 3, 224, 224)})"

_MODULES = {*sys.stdlib_module_names, "jax", "jaxlib", "ml_dtypes", "numpy", "opt_einsum", "scipy"}
"""Modules that JAX imports: a file of such a name beside a script would be imported in their place."""

Shapes = Mapping[str, Sequence[int | str]]


@with_migration_hints("to_source", _NEW)
def to_source(
    symbol: Symbol,
    args: Mapping[str, Any] | None = None,
    aux: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    *,
    dtypes: Mapping[str, Any] | None = None,
    wrt: Sequence[str] | None = None,
) -> str:
    """Return the network as a Python module that needs only JAX: `forward(params, data, *, train=False, key=None)`.

    A node that was given a name is a variable of that name, blocks that repeat are a function, and each operator is
    what its rule does on any platform. `train=` and `key=` are there where the network needs them; in training a
    network with states returns `(outputs, states)`. `jax.grad` of it is MXNet's gradient, loss heads included. `load`
    reads the arrays that `save_source` writes beside it.

    Args:
        symbol: the network.
        args: arguments by name; only shapes and dtypes are read. Parameters without an array are float32, of the shape
            that follows from the others.
        aux: auxiliary states by name, likewise.
        shapes: shapes of the inputs by name. A name in place of a size, `("batch", 3, 224, 224)`, leaves it open.
            Training heads become the values that they compute where the labels are not among the inputs.
        dtypes: dtypes of inputs by name; float32 for the others.
        wrt: names of arguments: print the program of MXGradient, which returns the outputs and these gradients, in
            training; a head that is not a loss has its gradient as an input.

    Raises:
        LoweringError: a node cannot be printed; the message names it, the reason and the way out.
        SymbolValueError: a name in `shapes` is not an argument of the network.
        InferenceError: shapes do not fit the network.
    """
    network = require_symbol(symbol, "to_source")
    arrays = {**arrays_by_name(args or {}, "args", _NEW), **arrays_by_name(aux or {}, "aux", _NEW)}
    labels = {node.name for node in label_variables(network)}
    if wrt is None and not labels.issubset({*arrays, *(shapes or {})}):
        network = inference_symbol(network)
    names = [*network.list_arguments(), *network.list_auxiliary_states()]
    unknown = [name for name in shapes or {} if name not in names]
    if unknown:
        raise SymbolValueError(
            f"shapes= has names that the network lacks: {plain_list(unknown)}",
            expected=f"names among {plain_list(names)}",
        )
    avals = {
        name: jax.ShapeDtypeStruct(np.shape(array), jax.dtypes.canonicalize_dtype(array.dtype))
        for name, array in arrays.items()
        if name in names
    }
    declared = _declared(network) | avals
    program = with_conditions(
        shapes or {}, known_dtypes(dtypes or {}), lambda inputs: traced(network, declared | inputs, wrt)
    )
    data = [name for name in dict.fromkeys(names) if name in (shapes or {})] + program.head_grads
    about = "the program of MXGradient" if wrt is not None else "plain JAX"
    name = identifier(symbol.name or "", "network")
    title = f"{name}: {about}, written by symjax-nnvm {__version__}. It needs only JAX."
    return module_text(program, data, title)


def _declared(network: Symbol) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the variables whose shapes the network itself decides."""
    shapes, dtypes = network.infer_shape_partial(), network.infer_type_partial()
    names = [*network.list_arguments(), *network.list_auxiliary_states()]
    rows = zip(names, [*shapes[0], *shapes[2]], [*dtypes[0], *dtypes[2]], strict=True)
    return {
        name: jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype or np.float32))
        for name, shape, dtype in rows
        if shape and 0 not in shape
    }


def save_source(
    folder: str | os.PathLike[str],
    symbol: Symbol,
    args: Mapping[str, Any],
    aux: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    **options: Any,
) -> list[Path]:
    """Write the module of `to_source`, and beside it `weights.npz` with its arrays; return both paths.

    The module is named after the folder, with a number after a name that JAX imports itself. Raises what `to_source`
    raises, SymbolValueError where a `.npz` cannot have a name, FileError and OSError.

    Args:
        folder: where; it is made where there is none.
        symbol: the network.
        args: as in `to_source`.
        aux: as in `to_source`.
        shapes: as in `to_source`.
        options: further arguments of `to_source`.
    """
    source = to_source(symbol, args, aux, shapes, **options)
    place = Path(folder)
    module = Names(_MODULES).new(place.name, "network")
    files = [place / f"{module}.py", place / "weights.npz"]
    names = {*symbol.list_arguments(), *symbol.list_auxiliary_states()} - set(shapes or ())
    arrays = {name: array for name, array in {**args, **(aux or {})}.items() if name in names}
    place.mkdir(parents=True, exist_ok=True)
    with atomic_writes(files[1], files[0]) as (weights, text):
        weights.write(_archive(arrays))
        text.write(source.encode())
    return files


def _archive(arrays: Mapping[str, Any]) -> bytes:
    """Return a `.npz` of arrays of any names but those that a `.npz` has for others."""
    others = [name for name in arrays if name.endswith(".npy") or "\0" in name]
    if others:
        raise SymbolValueError(
            f"A .npz cannot have arrays of these names: {plain_list(others)}",
            fix="Give them other names: symjax_nnvm.rename(net, {...}).",
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()
