"""A predictor's folder is written again: who reads finds all of the old or all of the new, and after a kill, too."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering.predictor_folder import Folder, Signature, read_folder, write_folder
from symjax_nnvm import symbol as sym

_CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "fcntl.flock")


def content(which: int) -> Folder:
    """One of two, which differ in every file, and in how many there are."""
    net = sym.Variable("data") * sym.Variable("w", attr={"which": str(which)})
    array = np.full(4, which, "float32")
    signature = Signature({"data": ((4,), "float32")}, False)
    return Folder((net, {"w": array}, {}), {"platform": None, "dtype": None}, [signature] * (1 + which), {"v": array})


def which_of(path: Path) -> int:
    """Whose content is there; every part must be of the same."""
    found = read_folder(path)
    net, args, _ = found.network
    (which,) = {
        int(net.get_internals()["w"].attr("which") or -1),
        *(int(array[0]) for array in (args["w"], *found.values.values())),
        len(found.signatures) - 1,
    }
    return which


def killed(at: int, action: Callable[[], Any]) -> bool:
    """Whether a process that does it is killed when it opens, renames, makes or removes for the time `at`."""
    child = os.fork()
    if child == 0:
        left = [at]

        def count(event: str, _: Any) -> None:
            if event in _CHANGES:
                left[0] -= 1
                if left[0] == 0:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            action()
            os._exit(0)
        except BaseException:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.parametrize("old", [True, False], ids=["older", "now"])
def test_a_save_that_is_killed_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path, old: bool):
    place = tmp_path / "served"

    def begin() -> None:
        write_folder(place, content(0))
        if old:
            as_version_2(place)

    begin()
    found = []
    while killed(len(found) + 1, lambda: write_folder(place, content(1))):
        found.append(which_of(place))
        if found[-1]:
            begin()
    assert which_of(place) == 1
    assert len(found) > 15
    assert found == sorted(found), "once the new is there, it stays"
    assert set(found) == {0, 1}
    write_folder(place, content(0))
    assert sorted(path.name.rstrip("0123456789") for path in place.iterdir()) == ["predictor.json", "saved-"]


def as_version_2(place: Path) -> None:
    """The folder as it was written before: all files beside the list, programs among them."""
    about = json.loads((place / "predictor.json").read_text())
    files = place / about.pop("files")
    for file in files.iterdir():
        file.rename(place / file.name)
    files.rmdir()
    (place / "signature-0.stablehlo").write_bytes(b"a program")
    (place / "predictor.json").write_text(json.dumps(about | {"version": 2}))


def test_readers_find_one_content_whoever_writes(tmp_path: Path):
    write_folder(tmp_path, content(0))
    done = threading.Event()
    found: list[int] = []

    def read() -> None:
        while not done.wait(0.001):
            found.append(which_of(tmp_path))

    def write() -> None:
        for turn in range(4):
            write_folder(tmp_path, content(turn % 2))

    reader, writers = threading.Thread(target=read), [threading.Thread(target=write) for _ in range(2)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert which_of(tmp_path) in (0, 1)
    assert set(found) == {0, 1}
