"""`symjax-nnvm run --output`: members of the archive are safe file names, distinct, one for each output."""

import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import pytest

from lowering.cli.saving import member_names, write_npz
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main

NAMES = (
    *("fc_output", "softmax0_output", "file", "allow_pickle", "stage1/unit2/out", "stage1_unit2_out", "A", "a"),
    *(
        "../../x",
        "/etc/x",
        "..",
        ".",
        "",
        "C:\\x",
        "a\0b",
        "a\x1bb",
        "x" * 5000,
        "x" * 4999,
        "ü.1",
        "\u202egpj",
        "con:",
    ),
)


def test_members_are_files_of_the_folder_they_are_unpacked_in():
    members = member_names(NAMES)
    assert list(members) == list(NAMES)
    assert len({member.lower() for member in members.values()}) == len(NAMES)
    for name, member in members.items():
        assert member.isprintable(), name
        assert len(member) <= 125, name
        assert not member.startswith("."), name
        for path in (PurePosixPath, PureWindowsPath):
            assert path(f"{member}.npy").name == f"{member}.npy", name
    unchanged = [name for name, member in members.items() if name == member]
    assert unchanged == ["fc_output", "softmax0_output", "file", "allow_pickle", "stage1_unit2_out", "A", "ü.1"]


def test_an_archive_has_every_array(tmp_path: Path):
    arrays = {name: np.full((2, i), i, np.float32) for i, name in enumerate(NAMES)}
    with (tmp_path / "out.npz").open("wb") as file:
        write_npz(file, arrays)
    members = member_names(NAMES)
    with np.load(tmp_path / "out.npz") as archive:
        assert len(archive.files) == len(NAMES)
        for name, array in arrays.items():
            np.testing.assert_array_equal(archive[members[name]], array)


def test_outputs_of_hostile_names_are_saved_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    data = sym.Variable("data")
    outputs = [sym.identity(data, name="../../x"), sym.identity(data, name="\x1b[2J")]
    outputs.append(sym.Variable("file"))  # an output that is an input has its name
    sym.Group(outputs).save("net-symbol.json")
    shapes = ("--shape", "data=2,2", "--shape", "file=2")
    assert main(["run", "net", "data=random", "file=zeros", *shapes, "--output", "out"]) == 0
    captured = capsys.readouterr()
    assert "saved: out, with '../../x_output' as ____x_output" in captured.err
    assert (captured.out + captured.err).replace("\n", "").isprintable()
    with zipfile.ZipFile("out") as archive:
        assert archive.namelist() == ["____x_output.npy", "__2J_output.npy", "file.npy"]
