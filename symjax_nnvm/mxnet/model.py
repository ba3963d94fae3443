"""`load_model`: a symbol file and an array file of any kind, matched to each other."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from symjax_nnvm.errors import ParamsFormatError, plain_list, printable
from symjax_nnvm.files import open_regular
from symjax_nnvm.mxnet.match import match_params
from symjax_nnvm.mxnet.params import load_arrays
from symjax_nnvm.mxnet.safetensors_file import is_safetensors, load_safetensors
from symjax_nnvm.recognise import require_file
from symjax_nnvm.symbol.symbol import Symbol, load

__all__ = ["load_model", "named_arrays"]

Params = dict[str, Any]


def load_model(
    symbol_path: str | os.PathLike[str],
    params_path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[Symbol, Params, Params]:
    """(symbol, arguments, auxiliary states) from two files.

    The array file may be a checkpoint's or a Gluon export's `.params`, what Gluon's `save_parameters` wrote (structural
    names, matched by roles, shapes and order), MXNet 2.0's, `.npz`, or `.safetensors`. shapes: shapes of the model's
    inputs, which let `match_params` check every array's. Arrays are views of the mapped file where it is not
    compressed. Warns of arrays that the symbol has no use for.

    Raises ParamsMismatchError listing everything that is missing, wrongly shaped or ambiguous; JSONFormatError,
    ParamsFormatError, MissingExtraError, OSError.
    """
    symbol = load(os.fspath(symbol_path))
    match = match_params(symbol, named_arrays(Path(params_path)), shapes)
    match.raise_if_incomplete()
    if match.surplus:
        surplus = f"{len(match.surplus)} arrays are not used: {plain_list(match.surplus)}"
        warnings.warn(f"{printable(str(params_path))}: {surplus}", stacklevel=2)
    return symbol, match.args, match.aux


def named_arrays(path: Path) -> Params:
    """The arrays of a file of any kind by its own names, `arg:` and `aux:` included. Raises as `load_model` does."""
    require_file(path)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(9)
    if is_safetensors(head, size):
        args, aux = load_safetensors(path)
        return {f"arg:{name}": array for name, array in args.items()} | {
            f"aux:{name}": array for name, array in aux.items()
        }
    arrays = load_arrays(path)
    if isinstance(arrays, list):
        if arrays:
            raise ParamsFormatError(f"{path} holds {len(arrays)} arrays without names; a model's have names.")
        return {}
    return dict(arrays)
