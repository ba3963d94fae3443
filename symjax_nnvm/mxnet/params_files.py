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
from symjax_nnvm.mxnet.array_formats import MXNET, SAFETENSORS
from symjax_nnvm.mxnet.array_names import split_kinds, with_kinds
from symjax_nnvm.mxnet.safetensors_file import write_safetensors


def load_arrays(fname: str | os.PathLike[str]) -> Arrays:
    """Load the arrays of a file that MXNet's `nd.save` or `npx.savez` wrote, or of safetensors, `.npz` or `.npy`.

    The file's bytes decide the format, not its name. Dense arrays are views of the mapped file: nothing is copied, or
    read before it is used. While they are in use the file may be replaced or removed, but not changed in place. An
    array that was never initialised is left out.

    Args:
        fname: the file's path.

    Returns:
        A dict by name, or a list. Sparse arrays are `RowSparseArray` or `CSRArray`.

    Raises:
        ParamsFormatError: the file is malformed or of another kind, which the message names.
        MissingExtraError: the format needs a package that is not installed.
        ModelNotFoundError: there is no such file.
        FileError: the path is not a regular file.
        OSError: the file cannot be read.
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
    """Write arrays to a file: safetensors where its name ends in `.safetensors`, else MXNet's format.

    An MXNet file has the bytes that MXNet 1.9.1's `nd.save` writes. An existing file is replaced whole, also while
    arrays are views of it: loading and saving under one name is safe.

    Args:
        fname: the file's path.
        arrays: a dict by name, or a list.

    Raises:
        ParamsFormatError: the format cannot hold a dtype or a name, or is one that is only read.
        FileError: no file can be written to the path.
        OSError: the file cannot be written.
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
    """Load the arrays of a safetensors file.

    Args:
        path: the file's path.

    Returns:
        Arguments and auxiliary states, by name; arrays are views of the mapped file, as in `load_arrays`. All are
        arguments where the file's metadata names no states.

    Raises:
        MissingExtraError: the package safetensors is not installed.
        ParamsFormatError: the file is malformed.
        FileError: the path is not a regular file.
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        return split_kinds(_read(SAFETENSORS, file))


@tells_new_names
def save_safetensors(path: str | os.PathLike[str], args: Mapping[str, Any], aux: Mapping[str, Any]) -> None:
    """Write arguments and auxiliary states to a safetensors file.

    Dtypes are kept, bfloat16 as well; sparse arrays are made dense. An existing file is replaced whole, also while
    arrays are views of it.

    Args:
        path: the file's path.
        args: arguments by name.
        aux: auxiliary states by name.

    Raises:
        ParamsFormatError: a name is in both dicts, or the format cannot hold a dtype or a name.
        FileError: no file can be written to the path.
        OSError: the file cannot be written.
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
    """Return the error for a file that is not an array file; it names the file's real kind."""
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
