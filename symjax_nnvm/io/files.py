"""Files: the one way to write bytes, and the one way to open a file from an untrusted source.

Writing follows what databases do to commit: a temporary file beside the target, flushed and synchronised with the disk,
takes the target's place in one rename. After a killed process or a full disk the path holds the old file or the new
one; arrays that are views of the old file keep their values. only MXNet's record files grow at their place
(`GrowingFile`). Reading never waits and never reads more than its limit: only regular files are opened.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from symjax_nnvm.errors import FileError, MissingFolderError, ModelNotFoundError, NNVMError, PathError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

StrPath = str | os.PathLike[str]

_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)

_KEPT_OF_NAME = 40
"""Characters of the target's name in the temporary one's, which then is shorter than any system's limit (255 bytes)."""

_KINDS = (
    (stat.S_ISDIR, "a folder", "Name a file in it."),
    (stat.S_ISFIFO, "a named pipe (FIFO)", "Pipe it through a file: cat PIPE > FILE."),
    (stat.S_ISCHR, "a character device", "Name a file."),
    (stat.S_ISBLK, "a block device", "Name a file."),
    (stat.S_ISSOCK, "a socket", "Name a file."),
)


# -- writing ---------------------------------------------------------------------------------------------------------


@contextmanager
def atomic_write(path: StrPath) -> Iterator[BinaryIO]:
    """Yield a file to write bytes to, which becomes `path` when the block ends; if it raises, nothing has changed.

    A new file has the mode that `open` would give it; an existing one keeps its own, and its owner where the system
    allows. Symbolic links are followed. Raises FileError for a target that is not a regular file, MissingFolderError,
    OSError (PermissionError for a target that is read-only, as `open` does; no space left; …).
    """
    with atomic_writes(path) as (file,):
        yield file


@contextmanager
def atomic_writes(*paths: StrPath) -> Iterator[tuple[BinaryIO, ...]]:
    """Yield files that belong together: all are on the disk before the first takes its place, in the given order.

    As `atomic_write`. The renames follow each other at once; a process killed between two leaves whole files, of which
    the first are new and the others old.
    """
    with ExitStack() as temporaries:
        pending = [temporaries.enter_context(_temporary(path)) for path in paths]
        try:
            yield tuple(one.file for one in pending)
            for one in pending:
                one.finish()
        except OSError as error:
            if error.filename is not None or error.errno is None:
                raise
            # The error of a failed write lacks the file's name.
            where = ", ".join(str(one.target) for one in pending)
            raise OSError(error.errno, f"{os.strerror(error.errno)} (nothing was changed)", where) from error
        for one in pending:  # at once: the folder is synchronised when all have their names
            one.replace()
        for one in pending:
            one.synchronise_folder()


def write_file(path: StrPath, data: bytes | bytearray | memoryview | str) -> None:
    """Write a whole file, text as UTF-8 with its line ends as they are. Raises as `atomic_write`."""
    with atomic_write(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


class GrowingFile(FileIO):
    """A file that has its place from its first byte on, empty at first: others read what has been written so far.

    For formats of records alone; a killed process leaves a part of them. Nothing is kept back: a process that is forked
    has no bytes to write a second time. Raises as `atomic_write`.
    """

    def __init__(self, path: StrPath):
        target = Path(os.path.realpath(_without_nul(path)))
        if (replaced := _permitted(target, path)) is not None:
            os.close(replaced)
        super().__init__(target, "w")

    def write(self, data: bytes | memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write all bytes."""
        unwritten = memoryview(data)
        while unwritten:
            try:
                unwritten = unwritten[super().write(unwritten) :]
            except OSError as error:
                raise OSError(error.errno, os.strerror(error.errno or 0), self.name) from error
        return len(data)


@contextmanager
def one_writer(folder: StrPath) -> Iterator[None]:
    """Hold a folder's lock, which every writer of this library waits for. Raises OSError."""
    if fcntl is None:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | _CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Return the user's folder for files of this library that can be made again, by the platform's custom; it need not
    exist. An absolute XDG_CACHE_HOME decides on every platform; a relative one is ignored, by the standard."""
    named, home = Path(os.environ.get("XDG_CACHE_HOME", "")), Path(os.path.expanduser("~"))
    if named.is_absolute():
        folder = named
    elif sys.platform == "darwin":
        folder = home / "Library" / "Caches"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        folder = home / ".cache"
    return folder / "symjax-nnvm"


def make_folder(path: Path) -> None:
    """Make a folder, and write its name to the disk. Raises OSError if it exists."""
    path.mkdir()
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | _CLOEXEC)
        try:
            _synchronise(descriptor)
        finally:
            os.close(descriptor)


class _Temporary:
    """A temporary file beside its target. folder: an open descriptor of where both are, if there can be one."""

    def __init__(self, target: Path, folder: int | None, mode: int):
        self.target = target
        self._folder = folder
        self._name: Path | None
        self._name, self.file = _create(target, mode)

    def finish(self) -> None:
        """Write everything to the disk."""
        self.file.flush()
        _synchronise(self.file.fileno())
        if fcntl is None:  # Windows renames no open file
            self.file.close()

    def replace(self) -> None:
        """Rename the temporary file to its target."""
        assert self._name is not None
        os.replace(self._name, self.target)
        self._name = None

    def synchronise_folder(self) -> None:
        """The new name is on the disk."""
        if self._folder is not None:
            _synchronise(self._folder)

    def discard(self) -> None:
        """Close, and remove temporary files that were not renamed."""
        with suppress(OSError):  # flushes once more what could not be written
            self.file.close()
        if self._name is not None:
            with suppress(OSError):
                self._name.unlink()


@contextmanager
def _temporary(path: StrPath) -> Iterator[_Temporary]:
    target = Path(os.path.realpath(_without_nul(path)))
    with ExitStack() as descriptors:
        replaced, old = _permitted(target, path), None
        if replaced is not None:
            old = os.fstat(replaced)
            # The system frees what is replaced when this is closed: not between two renames, where freeing gigabytes
            # takes its time. Windows renames over no open file.
            if fcntl is None:
                os.close(replaced)
            else:
                descriptors.callback(os.close, replaced)
        folder = None
        if hasattr(os, "O_DIRECTORY"):
            with suppress(PermissionError):  # a folder that may be written to and not listed
                folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | _CLOEXEC)
                descriptors.callback(os.close, folder)
        _sweep(target)
        temporary = _Temporary(target, folder, 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777)
        try:
            if old is not None:
                _like(old, temporary.file.fileno())
            yield temporary
        finally:
            temporary.discard()


def _permitted(target: Path, path: StrPath) -> int | None:
    """Return a descriptor of an existing target that may be written to; None where there is none yet."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise MissingFolderError(
                f"{os.fspath(path)} cannot be written: there is no folder {target.parent}",
                fix=f"Make it first: mkdir -p {target.parent}",
            ) from None
        return None
    except NotADirectoryError:
        raise MissingFolderError(f"{os.fspath(path)} cannot be written: {target.parent} is not a folder.") from None
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path, status, "written to")
    return os.open(target, os.O_WRONLY | _NONBLOCK | _CLOEXEC)  # may it be written to? Nothing is.


def _create(target: Path, mode: int) -> tuple[Path, BinaryIO]:
    """Return a new file of an unused name, locked for as long as it is open."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | _CLOEXEC, mode)

    while True:
        name = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.tmp")
        try:
            file = open(name, "xb", opener=opener)  # noqa: SIM115
        except FileExistsError:
            continue
        except OSError as error:
            problem = f"{error.strerror} (a file is first written beside its target and then renamed)"
            raise OSError(error.errno, problem, os.fspath(target)) from error
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            if os.stat(name).st_ino == os.fstat(file.fileno()).st_ino:
                return name, file
        file.close()  # swept away between its creation and its lock


def _prefix(target: Path) -> str:
    return f".{target.name[:_KEPT_OF_NAME].encode(errors='replace')[:_KEPT_OF_NAME].decode(errors='ignore')}."


def _sweep(target: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote this file: no process locks them."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if _is_temporary(entry.name, target):
                with suppress(OSError):
                    descriptor = os.open(entry.path, os.O_RDWR | _NONBLOCK | _NOFOLLOW | _CLOEXEC)
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(entry.path)
                    finally:
                        os.close(descriptor)


def _is_temporary(name: str, target: Path) -> bool:
    number = name.removeprefix(_prefix(target)).removesuffix(".tmp")
    return name == f"{_prefix(target)}{number}.tmp" and len(number) == 16 and set(number) <= set("0123456789abcdef")


def _like(old: os.stat_result, descriptor: int) -> None:
    """Set a file's mode and, where the system allows, its owner to those of the file that it replaces."""
    if hasattr(os, "fchown"):
        status = os.fstat(descriptor)
        if (status.st_uid, status.st_gid) != (old.st_uid, old.st_gid):
            with suppress(OSError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        with suppress(PermissionError):  # file systems that have no modes
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)


def _synchronise(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # this file system has nothing to synchronise
            raise


# -- reading ---------------------------------------------------------------------------------------------------------


def open_regular(path: StrPath) -> BinaryIO:
    """Open a regular file for reading. Raises FileError for any other kind, without waiting for it, ModelNotFoundError
    for none, PathError for no path; OSError."""
    try:
        status = os.stat(_without_nul(path))  # opening some devices does something
    except FileNotFoundError as error:
        raise ModelNotFoundError(f"No such file: {path_text(path)}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path, status, "read")
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise _not_regular(path, status, "read")
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | _NONBLOCK | _CLOEXEC)


def read_bounded(path: StrPath, limit: int, what: str, error: type[NNVMError] = FileError) -> bytes:
    """Read all bytes of a file of at most `limit`.

    Raises `error` for a larger file, with the limit; FileError for no regular file, OSError.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > limit else file.read(limit + 1)
    if size > limit or len(data) > limit:
        raise error(f"{os.fspath(path)} is too large for {what}: expected at most {limit} bytes.")
    return data


def bounded_lines(file: BinaryIO, limit: int, error: type[NNVMError] = FileError) -> Iterator[bytes]:
    """Yield the lines of an open file, one after the other. Raises `error`, with the number, for a longer one."""
    for number in count(1):
        line = file.readline(limit + 1)
        if not line:
            return
        if len(line) > limit:
            raise error(f"{file.name}: line {number} is too long: expected at most {limit} bytes.")
        yield line


class _ReadOnlyMap(mmap.mmap):
    """A file in memory that nothing writes: its pages hold what the file holds."""


def map_file(file: BinaryIO) -> mmap.mmap:
    """Return an open file's bytes, read when they are used. The file may be replaced meanwhile, but not changed.

    Raises FileError for an empty file and one that the system does not map.
    """
    try:
        return _ReadOnlyMap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (ValueError, OSError) as error:
        raise FileError(f"{file.name} cannot be mapped into memory: {error}.") from None


def release_pages(array: np.ndarray) -> None:
    """Give the memory of an array that `map_file` mapped back to the system, which reads the file again when the array
    is used. Other arrays keep theirs."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else base
    if not (isinstance(mapped, _ReadOnlyMap) and array.flags.c_contiguous and hasattr(mmap, "MADV_DONTNEED")):
        return
    start = array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:  # the pages at both ends are others', too
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


class PositionedFile:
    """A regular file that is read at any place, by many threads at once; each process opens it when it first reads.

    Only its path is pickled. Reading raises FileError, OSError.
    """

    def __init__(self, path: StrPath):
        self.path = os.path.abspath(_without_nul(path))
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Return the file's size in bytes now."""
        return os.fstat(self._opened().fileno()).st_size

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset` on; fewer where the file ends."""
        file = self._opened()
        if not hasattr(os, "pread"):  # Windows: all threads share the file's one position
            with self._lock:
                file.seek(offset)
                return file.read(count)
        data = os.pread(file.fileno(), count, offset)
        while 0 < len(data) < count:  # the system gives no more than 2 GiB at once, and a network at times less
            more = os.pread(file.fileno(), count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def close(self) -> None:
        """Close the file, which no other thread may be reading; the next read opens it again."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> BinaryIO:
        file = self._file
        if file is None:
            with self._lock:
                file = self._file = self._file or open_regular(self.path)
        return file

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])


def path_text(path: StrPath, argument: str = "path") -> str:
    """Return a path as text. argument: its name in the function that was called. Raises PathError for anything else, as
    None is, a number (`open` takes it for an open file) and bytes."""
    text = path.__fspath__() if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        got = f"{path!r:.80} of type {type(path).__name__}"
        raise PathError(f"{argument} must be a path", expected="text, or a pathlib.Path", got=got)
    return text


def _without_nul(path: StrPath) -> StrPath:
    if "\0" in path_text(path):
        raise FileError(f"{os.fspath(path)!r:.200} is not a path: it contains a NUL character.")
    return path


def _not_regular(path: StrPath, status: os.stat_result, verb: str) -> FileError:
    kind, fix = next(((kind, fix) for test, kind, fix in _KINDS if test(status.st_mode)), ("something else", ""))
    return FileError(f"{os.fspath(path)} cannot be {verb}", expected="a regular file", got=kind, fix=fix)
