"""Files that are there are read; what the network does not give is an error that says where to put it."""

import bz2
import gzip
import struct
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowering import mx
from lowering.mx import test_utils as tu
from lowering.mx.compatibility import downloader as downloader
from lowering.mx.testing import example_files as downloads


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In a folder of its own."""
    monkeypatch.chdir(tmp_path)


def test_a_file_is_downloaded_once(tmp_path: Path):
    source = tmp_path / "there" / "file.txt"
    source.parent.mkdir()
    source.write_text("first")
    assert tu.download(source.as_uri()) == "file.txt"
    source.write_text("second")
    assert tu.download(source.as_uri()) == "file.txt"
    assert Path("file.txt").read_text() == "first"
    assert tu.download(source.as_uri(), overwrite=True) == "file.txt"
    assert Path("file.txt").read_text() == "second"
    assert tu.download(source.as_uri(), "other.txt", "a/b") == "a/b/other.txt"
    assert Path("a/b/other.txt").read_text() == "second"


@pytest.mark.slow("computes much")
def test_without_a_network(tmp_path: Path):
    tries: list[str] = []

    def fail(url: str, **_: Any) -> Any:
        tries.append(url)
        raise OSError("Network is unreachable")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(urllib.request, "urlopen", fail)
        with pytest.raises(OSError, match=r"unreachable. Get it elsewhere and put it at .*mnist.zip"):
            tu.get_mnist_ubyte()
        assert len(tries) == 5
        for get in (tu.get_mnist, tu.get_mnist_pkl, tu.get_cifar10):
            with pytest.raises(mx.MXNetError, match="cannot be downloaded"):
                get()
        with pytest.raises(AssertionError):
            tu.download("http://localhost/x", retries=-1)
        with pytest.raises(OSError, match=r"cannot be downloaded.*put it at .*imagenet1k-inception-bn-symbol.json"):
            tu.download_model("imagenet1k-inception-bn")


def test_what_is_done_is_logged_in_mxnets_words(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    (tmp_path / "file.txt").write_text("words")
    url = (tmp_path / "file.txt").as_uri()
    assert [tu.download(url, dirname="x/y") for _ in range(2)] == ["x/y/file.txt"] * 2
    assert tu.download(url, "z/a.txt") == "z/a.txt"
    assert caplog.messages == [
        "create directory x/y",
        f"downloaded {url} into x/y/file.txt successfully",
        "x/y/file.txt exists, skipping download",
        "create directory z",
        f"downloaded {url} into z/a.txt successfully",
    ]


def test_a_models_two_files(tmp_path: Path):
    source = tmp_path / "source"
    source.write_text("words")
    urls = {"symbol": source.as_uri(), "params": source.as_uri()}
    assert tu.download_model("m", "models", {"m": urls}) == ("models/m", 0)
    assert sorted(path.name for path in Path("models").iterdir()) == ["m-0000.params", "m-symbol.json"]
    assert tu.download_model("other", meta_info={"m": urls}) == tu.download_model("nothing") == (None, 0)
    with pytest.raises(AssertionError, match="missing params url"):
        tu.download_model("m", meta_info={"m": {"symbol": source.as_uri()}})
    Path("imagenet1k-resnet-18-symbol.json").write_text("{}")
    Path("imagenet1k-resnet-18-0000.params").write_text("")
    assert tu.download_model("imagenet1k-resnet-18") == ("./imagenet1k-resnet-18", 0)


def test_mnist():
    images = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    for prefix in ("train", "t10k"):
        with gzip.open(f"{prefix}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">IIII", 2051, 2, 28, 28) + images.tobytes())
        with gzip.open(f"{prefix}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 2049, 2) + bytes([7, 3]))
    found = tu.get_mnist()
    assert sorted(found) == ["test_data", "test_label", "train_data", "train_label"]
    np.testing.assert_array_equal(found["train_data"], images[:, None].astype(np.float32) / 255)
    assert (found["test_label"].tolist(), found["test_label"].dtype) == ([7, 3], np.int8)


def test_archives(tmp_path: Path):
    with zipfile.ZipFile("source.zip", "w") as archive:
        archive.writestr("inside.txt", "text")
    tu.get_zip_data("z", (tmp_path / "source.zip").as_uri(), "source.zip")
    assert Path("z/inside.txt").read_text() == "text"
    Path("z/inside.txt").unlink()
    tu.get_zip_data("z", "http://localhost/nowhere", "source.zip")
    assert not Path("z/inside.txt").exists()
    Path("packed.bz2").write_bytes(bz2.compress(b"lines"))
    for _ in range(2):
        tu.get_bz2_data("b", "plain.txt", (tmp_path / "packed.bz2").as_uri(), "packed.bz2")
    assert (Path("b/plain.txt").read_bytes(), Path("b/packed.bz2").exists()) == (b"lines", False)


def test_archives_that_would_write_elsewhere_or_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with zipfile.ZipFile("outside.zip", "w") as archive:
        archive.writestr("../elsewhere.txt", "text")
    with pytest.raises(OSError, match=r"outside.zip has a file with the name '../elsewhere.txt', which is outside"):
        tu.get_zip_data("z", (tmp_path / "outside.zip").as_uri(), "x")
    assert not Path("elsewhere.txt").exists()
    Path("no.zip").write_bytes(b"PK")
    with pytest.raises(OSError, match="no.zip is not a zip archive"):
        tu.get_zip_data("z", (tmp_path / "no.zip").as_uri(), "x")
    for module in (downloader, downloads):
        monkeypatch.setattr(module, "MOST", 10)
    with zipfile.ZipFile("large.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large", bytes(1000))
    Path("z").mkdir(exist_ok=True)
    Path("z/large.zip").write_bytes(Path("large.zip").read_bytes())
    with pytest.raises(OSError, match=r"The files in z/large.zip have more than 10 bytes"):
        tu.get_zip_data("z", "large.zip", "x")
    Path("packed.bz2").write_bytes(bz2.compress(bytes(1000)))
    monkeypatch.setattr(downloads, "download", lambda *_, **__: None)
    with pytest.raises(OSError, match="packed.bz2 has more than 10 bytes"):
        tu.get_bz2_data(".", "plain.txt", "", "packed.bz2")
    assert not Path("plain.txt").exists()


def test_iterators_over_mnist(monkeypatch: pytest.MonkeyPatch):
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(mx.io, "MNISTIter", lambda **options: given.append(options) or len(given), raising=False)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (Path("data") / f"{name}-ubyte").parent.mkdir(exist_ok=True)
        (Path("data") / f"{name}-ubyte").write_bytes(b"")
    assert tu.get_mnist_iterator(8, (784,), 3, 2) == (1, 2)
    assert given == [
        {"image": "data/train-images-idx3-ubyte", "label": "data/train-labels-idx1-ubyte", "input_shape": (784,),
         "batch_size": 8, "flat": True, "shuffle": True, "num_parts": 3, "part_index": 2},
        {"image": "data/t10k-images-idx3-ubyte", "label": "data/t10k-labels-idx1-ubyte", "input_shape": (784,),
         "batch_size": 8, "flat": True},
    ]  # fmt: skip
