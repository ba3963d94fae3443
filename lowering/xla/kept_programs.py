"""JAX's cache of compiled programs on the disk, for applications: a second start compiles nothing anew.

JAX keeps no program that calls a library of ours, such as oneDNN's convolutions; those are compiled in each process.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

from symjax_nnvm.io.files import cache_folder, path_text

_VARIABLE = "JAX_COMPILATION_CACHE_DIR"

_ENDINGS = ("-cache", "-atime")
"""Of the names of JAX's files: programs, and when they were read."""

_MOST = 1 << 30
"""Bytes of programs that are kept, those that were read last."""

_LEAST_SECONDS = 0.1
"""Programs that compile faster are compiled anew: reading a file takes a hundredth of a second."""


def keep_programs(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keep the programs that this process and its children compile in a folder, for later processes.

    An application calls it before anything is compiled. A folder that JAX has already (JAX_COMPILATION_CACHE_DIR)
    stays.

    Args:
        folder: the folder, which is made for its owner alone if it does not exist; None for "symjax-nnvm/programs" in
            the user's caches. At most 1 GiB of older programs is kept in it; other files are not touched.

    Returns:
        The folder.

    Raises:
        OSError: the folder cannot be made, or nothing can be written to it.
    """
    jax_folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if jax_folder and folder is None:
        return Path(jax_folder)
    path = Path(path_text(folder, "folder")) if folder is not None else cache_folder() / "programs"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):  # JAX would warn for each program
        raise PermissionError(errno.EACCES, "Nothing can be written to this folder", str(path))
    _forget_oldest(path)
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)
    os.environ[_VARIABLE] = str(path)
    return path


def keeps_programs() -> bool:
    """Return whether JAX keeps the programs that it compiles on the disk."""
    config: Any = jax.config
    return bool(config.jax_compilation_cache_dir and config.jax_enable_compilation_cache)


def _forget_oldest(folder: Path) -> None:
    """Remove the programs that were read longest ago, until what is left fits. Another process may remove them, too."""
    files: list[tuple[float, int, Path]] = []
    for path in (path for path in folder.iterdir() if path.name.endswith(_ENDINGS)):
        with suppress(OSError):
            state = path.stat()
            files.append((max(state.st_atime, state.st_mtime), state.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= _MOST:
            return
        with suppress(OSError):
            path.unlink()
        total -= size
