"""`records`: what it shows, what it finds damaged, and what it makes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from symjax_nnvm.cli import main
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_writer import RecordWriter
from tests.goldens.records.scenarios import FOLDER, PAYLOADS
from tests.goldens.records.sources import IMAGES

GOLDENS = Path(__file__).parents[1] / "goldens" / "records"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in GOLDENS.glob("*.[ri][ed][cx]"):
        shutil.copy(path, tmp_path)
    for name, data in FOLDER.items():
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["records", "list", "seven.rec", "--count", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["0", "0", "0,", "0.5", "PNG", "0", "0", "751"]
    assert lines[3].split() == ["10", "1", "1,", "1.5", "PNG", "1", "760", "751"]
    assert lines[4] == "records: 7, 5 not shown (--count)"
    assert main(["records", "list", "payloads.rec", "--json", "--count", "50"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["bytes"] for row in found["shown"]] == [len(data) for data in PAYLOADS]
    assert {row["label"] for row in found["shown"][:-1]} == {None}


def test_verify_says_what_is_whole(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["records", "verify", "images.rec", "--decode"]) == 0
    assert (
        capsys.readouterr().out == "images.rec: 4 records, 3526 bytes in them: whole, and every image can be decoded\n"
    )
    assert main(["records", "verify", "payloads.rec"]) == 0
    assert capsys.readouterr().out.endswith("whole; 11 without the header of an image\n")
    (folder / "seven.idx").write_text("0\t0\n")
    assert main(["records", "verify", "seven.rec"]) == 0
    assert capsys.readouterr().out.endswith("1 records, 751 bytes in them: whole; 6 not in the index\n")


def test_verify_says_what_is_damaged(folder: Path, capsys: pytest.CaptureFixture[str]):
    data = bytearray((folder / "seven.rec").read_bytes())
    data[760] ^= 1
    (folder / "seven.rec").write_bytes(data)
    assert main(["records", "verify", "seven.rec"]) == 1
    out = capsys.readouterr().out
    assert "seven.rec: no part of a record begins at byte 760" in out
    assert out.endswith("seven.rec: 7 records, 4506 bytes in them: 1 damaged\n")
    assert main(["records", "verify", "seven.rec", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], len(found["problems"])) == (7, 1)
    (folder / "cut.rec").write_bytes((folder / "images.rec").read_bytes()[:-9])
    assert main(["records", "verify", "cut.rec"]) == 1
    assert "ends within the record" in capsys.readouterr().out
    with RecordWriter("many.rec") as writer:
        for i in range(30):
            writer.write_image(b"no image", i)
    assert main(["records", "verify", "many.rec", "--decode"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 21
    assert lines[-1].endswith("30 damaged; 10 more problems")


def test_make_from_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["records", "make", "new/packed.rec", "images", "--pass-through"]) == 0
    assert capsys.readouterr().err == "written: new/packed.rec, new/packed.idx, new/packed.lst; 5 records\n"
    for name in ("packed.rec", "packed.idx", "packed.lst"):
        assert (folder / "new" / name).read_bytes() == (GOLDENS / name).read_bytes(), "as im2rec"
    assert main(["records", "make", "small.rec", "images", "--resize", "12", "--no-shuffle", "--encoding", ".png"]) == 0
    file = RecordFile("small.rec")
    assert {min(file.image(i).shape[:2]) for i in range(len(file))} == {12}
    assert file.labels.tolist() == [0, 1, 1, 2, 3]


def test_make_from_a_list(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "lists").mkdir()
    (folder / "lists" / "x.lst").write_text("5\t1\t0.5\tcats/b.jpg\n6\t2\t0.25\tgone.jpg\n")
    make = ["records", "make", "x.rec", "lists/x.lst", "--root", "images", "--pack-label"]
    assert main(make) == 2
    assert "Image 6 of the list, gone.jpg: No such file: images/gone.jpg. skip_broken" in capsys.readouterr().err
    assert not (folder / "x.rec").exists()
    assert main([*make, "--skip-broken", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["files"], made["records"], len(made["left_out"])) == (["x.rec", "x.idx"], 1, 1)
    np.testing.assert_array_equal(RecordFile("x.rec").labels, [[1, 0.5]])
    assert main(make[:4]) == 2  # below the list's folder there is no image
    (folder / "lists" / "cats").mkdir()
    (folder / "lists" / "cats" / "b.jpg").write_bytes(IMAGES["wide.jpg"])
    assert main([*make[:4], "--skip-broken", "--pass-through"]) == 0
    assert RecordFile("x.rec").unpack(0)[1] == IMAGES["wide.jpg"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["make", "x.rec"], "needs a FILE and a SOURCE"),
        (["list", "seven.rec", "images"], "takes one FILE: images is one too many"),
        (["make", "x.rec", "images", "--index", "y.idx"], "leave --index out"),
        (["make", "x.idx", "images"], "x.idx is its own index"),
    ],
)
def test_wrong_usage(line: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["records", *line]) == 2
    assert message in capsys.readouterr().err
