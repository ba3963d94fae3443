"""Load arrays from files of every kind and save them: `load_arrays`, `save_arrays`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from symjax_nnvm.errors import ParamsFormatError, missing_extra, plain_list, tells_new_names
from symjax_nnvm.io.files import atomic_write, open_regular, path_text
from symjax_nnvm.io.formats import HEAD, FileFormat, array_suffixes, format_of_bytes, format_of_name
from symjax_nnvm.io.guess import guess_file_type, require_file
from symjax_nnvm.mxnet.array_file import Arrays
from symjax_nnvm.mxnet.formats import MXNET, SAFETENSORS
from symjax_nnvm.mxnet.names import split_kinds, with_kinds
from symjax_nnvm.mxnet.safetensors_file import write_safetensors


def load_arrays(fname: str | os.PathLike[str]) -> Arrays:
    """Return the arrays of a file that MXNet's `nd.save` or 2.0's `npx.savez` wrote, or of safetensors, `.npz` or
    `.npy`: a dict by name, or a list. The bytes decide the format, not the name.

    Dense arrays are views of the mapped file: nothing is copied or read before it is used. While they live the file may
    be replaced or removed, as saving under its name does, but not changed in its place. Sparse ones are
    `RowSparseArray` or `CSRArray`. An array that was never initialised is left out. Raises ParamsFormatError for
    anything malformed, and says what other kinds of files are; MissingExtraError, ModelNotFoundError, FileError for no
    regular file, OSError.
    """
    path = Path(path_text(fname, "fname"))
    require_file(path)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(HEAD)
        row = format_of_bytes(head, size)
        if row is None:
            raise _no_array_file(path, head, size)
        return _read(row, file)


def named_arrays(path: str | os.PathLike[str], whose: str = "a model") -> dict[str, Any]:
    """Return the arrays of a file of any kind by its own names, `arg:` and `aux:` included. Raises as `load_arrays`
    does, and ParamsFormatError for arrays without names."""
    arrays = load_arrays(path)
    if isinstance(arrays, dict):
        return arrays
    if arrays:
        raise ParamsFormatError(
            f"{os.fspath(path)} holds {len(arrays)} arrays without names; {whose}'s have names. "
            "Get the list with load_arrays, and name them with dict(zip(names, arrays))."
        )
    return {}


def save_arrays(fname: str | os.PathLike[str], arrays: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write arrays, a dict by name or a list, into a file of the kind that its name's end says: `.safetensors`; any
    other name is of an MXNet file, byte for byte as MXNet 1.9.1's `nd.save` writes it.

    A file of that name is replaced whole, also while arrays are views of it: loading and saving under one name is safe.
    Raises ParamsFormatError for dtypes and names that such a file cannot hold and for a kind that is only read,
    FileError, OSError.
    """
    if not isinstance(arrays, (Mapping, Sequence)) or isinstance(arrays, (str, bytes)):
        raise ParamsFormatError(
            "Arrays must be saved by name or as a list",
            got=type(arrays).__name__,
            fix="For one array pass {'name': array}.",
        )
    fname = path_text(fname, "fname")
    row = format_of_name(fname) or MXNET
    if row.write is None:
        raise ParamsFormatError(
            f"{fname} has the name of {row.title}, which cannot be written",
            expected=f"a name that ends in {plain_list(array_suffixes(written=True))}",
            fix="Or call the function that writes such files, as numpy.savez does .npz.",
        )
    with atomic_write(fname) as file:
        row.write(file, arrays)


def load_safetensors(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arguments, auxiliary states) of a safetensors file; all are arguments where its metadata names no states.

    Arrays are views of the mapped file, as `load_arrays` gives them.
    Raises MissingExtraError without safetensors, ParamsFormatError for a malformed file, FileError, OSError.
    """
    with open_regular(path) as file:
        return split_kinds(_read(SAFETENSORS, file))


@tells_new_names
def save_safetensors(path: str | os.PathLike[str], args: Mapping[str, Any], aux: Mapping[str, Any]) -> None:
    """Write arguments and auxiliary states by their names, dtypes kept, bfloat16 too; sparse arrays are made dense.

    A file of that name is replaced whole, also while arrays are views of it. Raises ParamsFormatError for a name in
    both and dtypes and names it does not hold, FileError, OSError.
    """
    with atomic_write(path) as file:
        write_safetensors(file, with_kinds(args, aux))


def _read(row: FileFormat, file: BinaryIO) -> Any:
    """Return the arrays of an open file of a kind. Raises ParamsFormatError, FileError, MissingExtraError, OSError."""
    file.seek(0)
    try:
        return row.read(file)
    except ModuleNotFoundError as error:
        if row.extra is None:
            raise
        raise missing_extra(f"Reading {row.title} needs the library {error.name}", row.extra) from error


def _no_array_file(path: Path, head: bytes, size: int) -> ParamsFormatError:
    """Return the error for a file that is no array file, which says what it is instead."""
    if size == 0:
        return ParamsFormatError(f"{path} is empty.")
    kind = guess_file_type(head, size)
    if kind is not None:
        return ParamsFormatError(f"{path} is {kind}.")
    if size < 32:
        return ParamsFormatError(
            f"{path} has {size} bytes; the smallest array file has 32. It is truncated, or not an array file."
        )
    return ParamsFormatError(f"{path} is not an array file of MXNet: it begins with {head[:8]!r}.")
