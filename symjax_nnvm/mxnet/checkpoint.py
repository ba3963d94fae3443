"""Checkpoints: a symbol file and an array file that belong together, under MXNet's names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsIndex

from symjax_nnvm.errors import ParamsFormatError, printable, tells_new_names
from symjax_nnvm.io.files import atomic_writes, path_text
from symjax_nnvm.mxnet.array_file import write_list
from symjax_nnvm.mxnet.array_names import split_kinds, with_kinds
from symjax_nnvm.mxnet.find_files import as_epoch, params_path, prefix_of, symbol_path
from symjax_nnvm.mxnet.params_files import named_arrays, save_arrays
from symjax_nnvm.mxnet.sparse import SparseArray
from symjax_nnvm.symbol.call_arguments import expect_arrays, expect_symbol
from symjax_nnvm.symbol.symbol import Symbol, load

Params = dict[str, Any]


def load_checkpoint(prefix: str | os.PathLike[str], epoch: SupportsIndex | str) -> tuple[Symbol, Params, Params]:
    """Load a model from `prefix-symbol.json` and `prefix-0000.params`, written by any version of MXNet.

    The graph decides which arrays are auxiliary states, whatever prefix they have in the file. Arrays that the graph
    does not have are sorted by their prefix. Arrays are views of the mapped file; sparse ones are made dense.

    Args:
        prefix: the part of the path before `-symbol.json`; the path of either file will do, too.
        epoch: a number, or text such as `"0003"`.

    Returns:
        The symbol, its arguments by name, its auxiliary states by name.

    Raises:
        ModelNotFoundError: a file is missing; the message lists the epochs and models there are.
        JSONFormatError: the symbol's file is malformed.
        ParamsFormatError: the arrays' file is malformed, or `epoch` is not an epoch.
        OSError: a file cannot be read.
    """
    symbol = load(symbol_path(prefix_of(prefix)[0]))
    args, aux = load_params(prefix, epoch)
    states = set(symbol.list_auxiliary_states())
    arguments = set(symbol.list_arguments())
    every = args | aux
    in_aux = {name for name in every if name in states or (name not in arguments and name in aux)}
    return symbol, {n: a for n, a in every.items() if n not in in_aux}, {n: a for n, a in every.items() if n in in_aux}


def load_params(prefix: str | os.PathLike[str], epoch: SupportsIndex | str) -> tuple[Params, Params]:
    """(arguments, auxiliary states) of `prefix-0000.params` by the names' prefixes `arg:` and `aux:`; bare names are
    arguments. Warns when there are none. Raises ModelNotFoundError, ParamsFormatError, OSError."""
    path = params_path(prefix_of(prefix)[0], as_epoch(epoch))
    arrays = named_arrays(path, "a checkpoint")
    if not arrays:
        warnings.warn(f"{printable(str(path))} holds no parameters.", stacklevel=2)
    for name, array in arrays.items():
        try:
            arrays[name] = array.todense() if isinstance(array, SparseArray) else array
        except ParamsFormatError as error:
            raise ParamsFormatError(f"{path}, array {name!r}: {error}") from None
    return split_kinds(arrays)


@tells_new_names
def save_checkpoint(
    prefix: str | os.PathLike[str],
    epoch: SupportsIndex | str,
    symbol: Symbol | None,
    args: Mapping[str, Any],
    aux: Mapping[str, Any],
) -> None:
    """Write `prefix-symbol.json` and `prefix-0000.params`, byte for byte as MXNet 1.9.1 does.

    Existing files are replaced whole, after both new ones are on the disk. This is safe while arrays are views of them.

    Args:
        prefix: the part of the path before `-symbol.json`.
        epoch: a number, or text such as `"0003"`.
        symbol: the symbol; None to write only the arrays.
        args: arguments by name.
        aux: auxiliary states by name.

    Raises:
        ParamsFormatError: MXNet cannot load an array's dtype, or `epoch` is not an epoch.
        FileError: no file can be written to the path.
        OSError: a file cannot be written.
    """
    if symbol is None:
        save_params(prefix, epoch, args, aux)
        return
    expect_symbol(symbol, "save_checkpoint")
    named = _named(args, aux)
    with atomic_writes(_params_path(prefix, epoch), f"{path_text(prefix)}-symbol.json") as (params, graph):
        graph.write(Symbol.tojson(symbol).encode())
        write_list(params, named)


@tells_new_names
def save_params(
    prefix: str | os.PathLike[str],
    epoch: SupportsIndex | str,
    args: Mapping[str, Any],
    aux: Mapping[str, Any],
) -> None:
    """Write `prefix-0000.params`. Raises ParamsFormatError, FileError, OSError."""
    save_arrays(_params_path(prefix, epoch), _named(args, aux))


def _named(args: Mapping[str, Any], aux: Mapping[str, Any]) -> dict[str, Any]:
    expect_arrays(args, "args")
    expect_arrays(aux, "aux")
    return with_kinds(args, aux)


def _params_path(prefix: str | os.PathLike[str], epoch: SupportsIndex | str) -> Path:
    return Path(f"{path_text(prefix, 'prefix')}-{as_epoch(epoch):04d}.params")
