"""Files: what is written is whole or not there at all, and what is read is a file of bounded size."""

import ast
import mmap
import os
import resource
import socket
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from symjax_nnvm.errors import FileError, MissingFolderError, NNVMError, ParamsFormatError
from symjax_nnvm.io import files
from symjax_nnvm.io.files import atomic_write, atomic_writes, open_regular, read_bounded, write_file
from symjax_nnvm.mxnet.params_files import named_arrays
from symjax_nnvm.viz.network_plot import plot_network

ROOT = Path(__file__).parents[2]
NET = sym.SoftmaxOutput(sym.FullyConnected(sym.Variable("data"), num_hidden=64, name="fc"), name="softmax")
ARGS = {"fc_weight": np.arange(64 * 32, dtype=np.float32).reshape(64, 32), "fc_bias": np.ones(64, np.float32)}


# -- every byte that is written --------------------------------------------------------------------------------------

_WRITERS = {"write_text", "write_bytes", "save", "savez", "savez_compressed", "savetxt", "tofile", "memmap", "rename",
            "replace", "copy", "copyfile", "copy2", "move", "symlink_to", "hardlink_to", "touch", "mkstemp", "truncate",
            "NamedTemporaryFile", "save_file", "serialize_file", "dump"}  # fmt: skip
_MODULES = {"os", "np", "numpy", "shutil", "tempfile", "pickle", "json", "Path", "library", "safetensors", "io"}
_METHODS = {"write_text", "write_bytes", "tofile", "symlink_to", "hardlink_to", "touch", "extract", "extractall"}
_ALLOWED = {
    "symjax_nnvm/io/files.py": {"open(name, 'xb')", "os.open(path, flags)", "os.replace",
                            "os.open(target, os.O_WRONLY)",
                            "os.open(entry.path, os.O_RDWR)"},
    "symjax_nnvm/cli/__init__.py": {"os.open(os.devnull, os.O_WRONLY)"},  # not a file
    "lowering/mx/testing/environment.py": {"open(os.devnull, 'w')"},
    "lowering/mx/gluon/utils.py": {"os.replace"},  # MXNet's function that does this
    "lowering/serving/program_file.py": {"np.savez(buffer)"},  # into memory, and from there through `files`
    "lowering/source/print_source.py": {"archive.open(f'{name}.npy', 'w')"},  # likewise, into memory
    "lowering/cli/saving.py": {"archive.open(f'{member}.npy', 'w')"},  # a member of an archive in an open file of ours
    # Orbax's folders; it writes what is in them. And a file that has no more than its size, for a moment.
    "lowering/training/checkpoints.py": {"os.rename", "os.open(probe / 'room', os.O_CREAT)"},
    "lowering/training/run_lock.py": {"os.open(self.directory / NAME, flags)"},  # a refused process reads the holder
}  # fmt: skip
"""File → the writes that it may have."""


_MAY_WRITE = {"open", "fdopen", "mmap", *_METHODS, *_WRITERS}


def _writes(tree: ast.AST) -> Iterator[str]:
    """Calls that write a file by another way than `files`."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        if getattr(call.func, "attr", getattr(call.func, "id", "")) not in _MAY_WRITE:
            continue
        name = ast.unparse(call.func)
        first = ast.unparse(call.args[0]) if call.args else ""
        if name == "open" or name.endswith((".open", ".fdopen")):
            texts = [a.value for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Constant)]
            modes = [t for t in texts if isinstance(t, str) and set(t) <= set("rwaxbt+") and set(t) & set("wax+")]
            if modes:
                yield f"{name}({first}, {modes[0]!r})"
            elif name in ("os.open", "os.fdopen") and "O_RDONLY" not in ast.unparse(call):
                flags = ast.unparse(call.args[1]).split(" |")[0] if len(call.args) > 1 else ""
                yield f"{name}({first}, {flags})"
        elif "." in name:
            module, _, function = name.rpartition(".")
            if function in _METHODS or (function in _WRITERS and module in _MODULES):
                yield f"{name}({first})" if function.startswith("save") else name
        if name == "mmap.mmap" and "ACCESS_READ" not in ast.unparse(call):
            yield name


@pytest.mark.slow("computes much")
def test_everything_is_written_through_one_function():
    found: dict[str, set[str]] = {}
    for package in ("symjax_nnvm", "lowering"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for write in _writes(ast.parse(text)) if any(name in text for name in _MAY_WRITE) else ():
                found.setdefault(path.relative_to(ROOT).as_posix(), set()).add(write)
    surplus = {name: writes - _ALLOWED.get(name, set()) for name, writes in found.items()}
    assert not {name: writes for name, writes in surplus.items() if writes}, "write through symjax_nnvm.io.files"
    gone = {name: writes - found.get(name, set()) for name, writes in _ALLOWED.items()}
    assert not {name: writes for name, writes in gone.items() if writes}, "allowed, and no longer there"


@pytest.mark.parametrize(
    "code",
    ["open(p, 'w')", "p.open('wb')", "open(p, mode='r+')", "p.write_text('')", "p.write_bytes(b'')", "np.save(p, a)",
     "np.savez(p, a)", "os.open(p, os.O_WRONLY | os.O_CREAT)", "os.fdopen(3, 'ab')", "mmap.mmap(3, 0)", "a.tofile(p)",
     "shutil.copy(p, q)", "os.replace(p, q)", "json.dump(a, f)", "tempfile.mkstemp()", "np.memmap(p)",
     "archive.extractall(p)"],
)  # fmt: skip
def test_the_walk_finds_a_write(code: str):
    assert list(_writes(ast.parse(code)))


# -- the kinds of files ----------------------------------------------------------------------------------------------

SAVERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "symbol.save": ("net-symbol.json", lambda path: NET.save(path)),
    "save_arrays": ("net.params", lambda path: nn.save_arrays(path, ARGS)),
    "save_checkpoint": ("net-0000.params", lambda path: nn.save_checkpoint(path.with_name("net"), 0, NET, ARGS, {})),
    "save_checkpoint's symbol": (
        "net-symbol.json",
        lambda path: nn.save_checkpoint(path.with_name("net"), 0, NET, ARGS, {}),
    ),
    "save_safetensors": ("net.safetensors", lambda path: nn.save_safetensors(path, ARGS, {})),
    "plot": ("net.dot", lambda path: plot_network(NET).save(path)),
    "export": (
        "net.stablehlo",
        lambda path: lowering.compile(NET).export(path, {"data": np.ones((2, 32), np.float32),
                                                         "softmax_label": np.ones(2, np.float32), **ARGS}),
    ),
}  # fmt: skip
"""What is saved → the file's name, and the save."""

LOADERS: dict[str, Callable[[Path], Any]] = {
    "symbol.load": sym.load,
    "load_arrays": nn.load_arrays,
    "load_safetensors": nn.load_safetensors,
    "named_arrays": named_arrays,
    "load_model": lambda path: nn.load_model(path, path),
    "check": nn.check,
    "check's params": lambda path: nn.check(NET, params=path),
}

every_saver = pytest.mark.parametrize("kind", SAVERS)
every_loader = pytest.mark.parametrize("kind", LOADERS)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can grow beyond some bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.slow("writes many files")
@every_saver
def test_a_full_disk_leaves_the_old_file_and_nothing_else(kind: str, tmp_path: Path):
    name, save = SAVERS[kind]
    path = tmp_path / name
    save(path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with full_disk(100), pytest.raises(OSError, match=rf"File too large \(nothing was changed\).*{name}"):
        save(path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    path.unlink()
    with full_disk(100), pytest.raises(OSError, match="File too large"):
        save(path)
    assert not path.exists()
    assert not leftovers(tmp_path)


@every_saver
def test_files_have_the_mode_that_open_gives_them_and_keep_theirs(kind: str, tmp_path: Path):
    name, save = SAVERS[kind]
    path = tmp_path / name
    with umask(0o027):
        save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@every_saver
def test_a_target_that_is_no_file_is_refused_at_once(kind: str, tmp_path: Path):
    name, save = SAVERS[kind]
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(FileError, match=r"cannot be written to; expected a regular file; got a named pipe \(FIFO\)"):
        save(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(FileError, match="got a folder. Name a file in it"):
        save(path)
    with pytest.raises(MissingFolderError, match="there is no folder .*/nowhere. Make it first: mkdir -p"):
        save(tmp_path / "nowhere" / name)
    assert os.listdir(tmp_path) in ([name], [])


@every_saver
def test_a_link_stays_one(kind: str, tmp_path: Path):
    name, save = SAVERS[kind]
    (tmp_path / "real").mkdir()
    path = tmp_path / name
    path.symlink_to(Path("real") / name)
    save(path)
    save(path)
    assert path.is_symlink()
    assert os.listdir(tmp_path / "real") == [name]


@every_loader
def test_nothing_but_files_is_read_and_nothing_is_waited_for(kind: str, tmp_path: Path):
    load = LOADERS[kind]
    pipe, folder, listening = tmp_path / "pipe.json", tmp_path / "folder", tmp_path / "socket"
    os.mkfifo(pipe)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(listening))
        for path, what in ((pipe, "named pipe"), (folder, "folder"), (listening, "socket"),
                           (Path("/dev/zero"), "character device")):  # fmt: skip
            with pytest.raises(FileError, match=f"{path} cannot be read; expected a regular file; got a {what}"):
                load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(NNVMError, match="NUL character|neither JSON text nor the path"):
        load(Path("a\0b"))


@every_loader
def test_a_sparse_terabyte_is_refused_at_once(kind: str, tmp_path: Path):
    path = tmp_path / "sparse"
    for head in (
        b"",
        b"{",
        b"PK\x03\x04",
        b"\x93NUMPY\x01\0\x02\0{}",
        (b"\x12\x01" + b"\0" * 14 + b"\xff" * 7 + b"\0"),
    ):
        with path.open("wb") as file:
            file.write(head)
            file.truncate(1 << 40)
        with bounded_memory(), pytest.raises(NNVMError):
            LOADERS[kind](path)


def test_booleans_and_archives_of_a_sparse_terabyte_are_refused(tmp_path: Path):
    """They are copied, where all else is mapped."""
    path = tmp_path / "sparse"
    head = BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|b1", "fortran_order": False, "shape": (1 << 40,)})
    with path.open("wb") as file:
        file.write(head.getvalue())
        file.truncate(len(head.getvalue()) + (1 << 40))
    with bounded_memory(), pytest.raises(ParamsFormatError, match="1099511627776 booleans is too large"):
        nn.load_arrays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", b"")
    end = path.read_bytes().index(b"PK\x01\x02")
    member, directory = path.read_bytes()[:end], bytearray(path.read_bytes()[end:])
    directory[20:28] = (0x7FFFFFFE).to_bytes(4, "little") * 2  # 2 GiB, and the file is as long
    directory[-6:-2] = (0x80000000).to_bytes(4, "little")  # where the directory is
    with path.open("wb") as file:
        file.write(member)
        file.seek(0x80000000)
        file.write(directory)
    with bounded_memory(), pytest.raises(ParamsFormatError, match="2147483646 bytes of arrays, which do not fit"):
        nn.load_arrays(path)


@contextmanager
def bounded_memory(room: int = 1 << 30) -> Iterator[None]:
    """Memory that is taken, as opposed to files that are mapped, may grow by some bytes."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    taken = next(int(line.split()[1]) << 10 for line in Path("/proc/self/status").read_text().splitlines()
                 if line.startswith("VmData"))  # fmt: skip
    resource.setrlimit(resource.RLIMIT_DATA, (taken + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


# -- load and save under one name ------------------------------------------------------------------------------------

BIG = {"fc_weight": np.random.RandomState(0).standard_normal((64, 1000)).astype(np.float32),
       "fc_bias": np.arange(64, dtype=np.float32)}  # fmt: skip
"""More than a page: views of a file that is cut off cannot be read."""


def by_name(arrays: Any) -> dict[str, np.ndarray]:
    return dict(zip(BIG, arrays, strict=True))


@pytest.mark.parametrize(
    ("save", "load"),
    [
        (lambda p, a: nn.save_arrays(p / "m", a), lambda p: nn.load_arrays(p / "m")),
        (lambda p, a: nn.save_arrays(p / "m", [*a.values()]), lambda p: by_name(nn.load_arrays(p / "m"))),
        (lambda p, a: nn.save_safetensors(p / "m", a, {}), lambda p: nn.load_safetensors(p / "m")[0]),
        (lambda p, a: nn.save_checkpoint(p / "m", 0, NET, a, {}), lambda p: nn.load_checkpoint(p / "m", 0)[1]),
        (
            lambda p, a: nn.save_checkpoint(p / "m", 0, NET, a, {}),
            lambda p: nn.load_model(p / "m-symbol.json", p / "m-0000.params")[1],
        ),
    ],
    ids=["save_arrays", "save_arrays, a list", "save_safetensors", "save_checkpoint", "load_model"],
)  # fmt: skip
def test_what_is_loaded_can_be_saved_under_its_name(save: Any, load: Any, tmp_path: Path):
    save(tmp_path, BIG)
    loaded = load(tmp_path)
    assert not any(array.flags.owndata for array in loaded.values())
    save(tmp_path, loaded)
    for arrays in (loaded, load(tmp_path)):
        for name, array in BIG.items():
            np.testing.assert_array_equal(arrays[name], array)
    first, second = BIG
    save(tmp_path, {first: loaded[first] + 1, second: loaded[second]})
    np.testing.assert_array_equal(load(tmp_path)[first], BIG[first] + 1)
    np.testing.assert_array_equal(loaded[first], BIG[first])  # still the old file
    assert not leftovers(tmp_path)


# -- the functions themselves ----------------------------------------------------------------------------------------


def test_whatever_is_raised_nothing_has_changed(tmp_path: Path):
    write_file(tmp_path / "a", "old")
    for error in (KeyboardInterrupt, ValueError, SystemExit):
        with pytest.raises(error), atomic_write(tmp_path / "a") as file:  # noqa: PT012
            file.write(b"new")
            raise error
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_files_that_belong_together_are_all_whole_before_one_is_there(tmp_path: Path):
    write_file(tmp_path / "a", "old")
    full = pytest.raises(OSError, match="File too large")
    with full_disk(1 << 16), full, atomic_writes(tmp_path / "a", tmp_path / "b") as (a, b):
        a.write(b"new")
        b.write(b"0" * (1 << 17))
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"
    with atomic_writes(tmp_path / "a", tmp_path / "b") as (a, b):
        a.write(b"new")
        b.write(b"new")
        assert (tmp_path / "a").read_text() == "old"
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "new"


def test_a_checkpoint_that_cannot_be_written_leaves_its_symbol(tmp_path: Path):
    nn.save_checkpoint(tmp_path / "m", 0, NET, ARGS, {})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    other = sym.FullyConnected(sym.Variable("data"), num_hidden=2, name="fc")
    with pytest.raises(ParamsFormatError, match="complex"):
        nn.save_checkpoint(tmp_path / "m", 0, other, {"fc_weight": np.ones(2, complex)}, {})
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_names_of_any_length_and_paths_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("x" * 255, "ü" * 127, "-", "a b\n"):
        write_file(tmp_path / name, name)
        assert (tmp_path / name).read_text() == name
    with pytest.raises(OSError, match="File name too long"):
        write_file(tmp_path / ("x" * 256), "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with atomic_write("relative") as file:
        file.write(b"1")
        monkeypatch.chdir(tmp_path / "elsewhere")
    assert (tmp_path / "relative").read_bytes() == b"1"
    assert not leftovers(tmp_path)


def test_what_a_killed_process_left_is_removed_by_the_next_save(tmp_path: Path):
    with atomic_write(tmp_path / "m.params"):
        (mine,) = leftovers(tmp_path)
        (tmp_path / f"{mine[:-8]}0000.tmp").write_bytes(b"half")  # no process holds its lock
        (tmp_path / ".m.params.notes.tmp").write_bytes(b"not ours")
        with atomic_write(tmp_path / "m.params") as file:
            assert len(leftovers(tmp_path)) == 3  # mine, which is locked, the inner one, and what is not ours
            file.write(b"inner")
    assert leftovers(tmp_path) == [".m.params.notes.tmp"]


def test_a_folder_that_cannot_be_synchronised_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fsync(descriptor: int) -> None:
        raise OSError(failing, os.strerror(failing))

    monkeypatch.setattr(files.os, "fsync", fsync)
    failing = 22  # EINVAL: some file systems have nothing to synchronise
    write_file(tmp_path / "a", "1")
    failing = 5  # EIO
    with pytest.raises(OSError, match="Input/output error.*a"):
        write_file(tmp_path / "a", "2")
    assert (tmp_path / "a").read_text() == "1"
    assert not leftovers(tmp_path)


def test_where_the_system_has_fewer_switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Windows opens no folders, has no modes and no locks of this kind."""
    monkeypatch.setattr(files, "fcntl", None)
    for name in ("O_DIRECTORY", "fchmod", "fchown"):
        monkeypatch.delattr(os, name)
    for text in ("1", "2"):
        write_file(tmp_path / "a", text)
    assert (tmp_path / "a").read_text() == "2"
    assert os.listdir(tmp_path) == ["a"]


def test_a_read_only_target_and_a_read_only_folder_are_refused(tmp_path: Path):
    path = tmp_path / "a"
    write_file(path, "old")
    path.chmod(0o444)
    with ordinary_user(tmp_path), pytest.raises(PermissionError, match=f"Permission denied: '{path}'"):
        write_file(path, "new")
    path.chmod(0o666)
    tmp_path.chmod(0o555)
    with (
        ordinary_user(tmp_path),
        pytest.raises(PermissionError, match="first written beside its target and then renamed"),
    ):
        write_file(path, "new")
    tmp_path.chmod(0o755)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


@contextmanager
def ordinary_user(folder: Path) -> Iterator[None]:
    """Not the superuser, whom no mode keeps out. The folders above let everybody through meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    above = [parent for parent in folder.parents if parent.stat().st_mode & 0o055 != 0o055 and parent.owner() == "root"]
    modes = {parent: stat.S_IMODE(parent.stat().st_mode) for parent in above}
    for parent in above:
        parent.chmod(modes[parent] | 0o055)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for parent, mode in modes.items():
            parent.chmod(mode)


def test_reading_is_bounded(tmp_path: Path):
    write_file(tmp_path / "a", b"12345")
    assert read_bounded(tmp_path / "a", 5, "a number") == b"12345"
    with pytest.raises(FileError, match="a is too large for a number: expected at most 4 bytes"):
        read_bounded(tmp_path / "a", 4, "a number")
    with pytest.raises(FileError, match="too large for a number"):
        read_bounded("/proc/self/maps", 10, "a number")  # a file that says it has no bytes
    write_file(tmp_path / "empty", b"")
    with open_regular(tmp_path / "empty") as file, pytest.raises(FileError, match="empty cannot be mapped"):
        files.map_file(file)
    with open_regular(tmp_path / "a") as file:
        assert isinstance(files.map_file(file), mmap.mmap)


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.slow("writes many files")
def test_the_command_neither_waits_for_pipes_nor_writes_halves(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    nn.save_checkpoint(tmp_path / "m", 0, NET, ARGS, {})
    model, pipe, out = str(tmp_path / "m"), tmp_path / "pipe", tmp_path / "out.npz"
    given = ["run", model, "data=zeros", "--shape", "data=2,32"]
    for name in ("pipe", "pipe.npy", "pipe.png"):
        os.mkfifo(tmp_path / name)
    refused = [
        [*given, "--labels", str(pipe)],
        ["run", model, f"data={pipe}.npy"],
        ["run", model, f"data={pipe}.png", "--shape", "data=1,3,1,1"],
        [*given, "--output", str(pipe)],
        [*given, "--labels", "/dev/zero"],
        ["check", str(tmp_path), "--params", str(pipe)],
    ]
    for argv in refused:
        assert main(argv) == 2, argv
    assert main([*given, "--output", str(out)]) == 0
    before = out.read_bytes()
    capsys.readouterr()
    with full_disk(100):
        assert main([*given, "--output", str(out)]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "File too large (nothing was changed)" in line
    assert out.read_bytes() == before
    assert not leftovers(tmp_path)


# -- memory of what is mapped ------------------------------------------------------------------------------------------


def _resident_pages(array: np.ndarray) -> int:
    """The pages of an array's memory that are the process's now, by Linux."""
    first, last = array.ctypes.data, array.ctypes.data + array.nbytes
    begin = end = 0
    for text in Path("/proc/self/smaps").read_text().split("\n"):
        head = text.split(" ", 1)[0]
        if head.count("-") == 1 and all(part and set(part) <= set("0123456789abcdef") for part in head.split("-")):
            begin, end = (int(part, 16) for part in head.split("-"))
        elif text.startswith("Rss:") and begin <= first and last <= end:
            return int(text.split()[1]) * 1024 // mmap.PAGESIZE
    raise AssertionError("the array's memory is not mapped")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="smaps is Linux's")
def test_pages_of_a_mapped_array_are_given_back_and_read_again(tmp_path: Path):
    values = np.random.default_rng(0).random((3, 1 << 18), np.float32)
    nn.save_arrays(tmp_path / "w.params", dict(zip("abc", values, strict=True)))
    arrays: Any = nn.load_arrays(tmp_path / "w.params")
    assert [float(array.sum()) for array in arrays.values()] == [float(row.sum()) for row in values]
    read = _resident_pages(arrays["b"])
    files.release_pages(arrays["b"])
    released = read - _resident_pages(arrays["b"])
    assert values[1].nbytes // mmap.PAGESIZE - 1 <= released <= values[1].nbytes // mmap.PAGESIZE
    assert all((array == row).all() for array, row in zip(arrays.values(), values, strict=True))


def test_pages_that_may_have_been_written_are_kept(tmp_path: Path):
    path = tmp_path / "w.bin"
    path.write_bytes(bytes(1 << 16))
    array = np.memmap(path, np.float32, mode="c")
    array[:] = 1
    files.release_pages(array)
    files.release_pages(np.asarray(array)[::2])
    files.release_pages(np.ones(1 << 16))
    assert (array == 1).all()
