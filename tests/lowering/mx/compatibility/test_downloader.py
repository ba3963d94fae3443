"""What `gluon.utils.download` gets of an HTTP server: whole and checked, again where that helps, or not at all."""

import gzip
import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lowering import mx
from lowering.mx.compatibility import downloader as downloads
from lowering.mx.gluon.utils import download

TEXT = b"words"
SHA1 = hashlib.sha1(TEXT).hexdigest()


class Server(ThreadingHTTPServer):
    """Gives words; another status on its first answers, or fewer bytes than it says, where a path asks for it."""

    asked: Counter[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        first = self.server.asked[self.path] < 3
        busy = {"/busy.txt": 503, "/many.txt": 429}.get(self.path, 200) if first else 200
        self.send_response(404 if self.path == "/missing.txt" else busy)
        packed = gzip.compress(TEXT)
        bodies = {"/packed.txt": packed, "/packed_short.txt": packed[:-9]}
        bodies |= {"/deflate.txt": zlib.compress(TEXT), "/deflate_raw.txt": zlib.compress(TEXT, wbits=-15)}
        bodies |= {"/deflate_short.txt": zlib.compress(TEXT)[:-5], "/deflate_broken.txt": b"\x78\x9cwords"}
        body = bodies.get(self.path, TEXT)
        said = {"/short.txt": "9", "/odd.txt": "abc", "/below.txt": "-5"}.get(self.path, str(len(body)))
        self.send_header("Content-Length", said)
        if "packed" in self.path:
            self.send_header("Content-Encoding", "gzip")
        if "deflate" in self.path or "br" in self.path.split("."):
            self.send_header("Content-Encoding", "br" if "br" in self.path.split(".") else "deflate")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


@pytest.fixture(scope="module")
def serving() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def server(serving: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    serving.asked = Counter()
    return serving


def test_a_file_is_got_once_and_again_where_it_is_another(server: Server, capsys: pytest.CaptureFixture[str]):
    url = f"{server.url}/a.txt"
    assert [download(url), download(url), download(url, ".")] == ["a.txt", "a.txt", "./a.txt"]
    assert server.asked["/a.txt"] == 1
    assert capsys.readouterr().out == f"Downloading a.txt from {url}...\n"
    assert download(url, "b/c.txt", sha1_hash=SHA1) == "b/c.txt"
    for overwrite in (True, False):
        Path("a.txt").write_text("old")
        download(url, overwrite=overwrite, sha1_hash=SHA1)
        assert Path("a.txt").read_bytes() == TEXT


@pytest.mark.slow("computes much")
def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(server: Server, capsys: pytest.CaptureFixture[str]):
    download(f"{server.url}/busy.txt")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[2] == lines[4] == f"Downloading busy.txt from {server.url}/busy.txt..."
    assert lines[1].startswith("download failed due to <HTTPError 503")
    assert lines[3].endswith(", retrying, 3 attempts left")
    with pytest.raises(mx.MXNetError, match=r"missing.txt cannot be downloaded: .*404.*put it at .*missing.txt"):
        download(f"{server.url}/missing.txt")
    download(f"{server.url}/many.txt")
    capsys.readouterr()
    for url in ("nonsense", "gopher://host/file", f"{server.url}:x/file"):
        with pytest.raises(OSError, match="unknown url type|nonnumeric port"):
            download(url)
    assert "retrying" not in capsys.readouterr().out
    with pytest.raises(OSError, match=r"busy.txt/x cannot be downloaded|File exists|Not a directory"):
        download(f"{server.url}/a.txt", "busy.txt/x")
    assert server.asked == {"/busy.txt": 3, "/many.txt": 3, "/missing.txt": 1}


def test_names_are_quoted_and_lengths_that_are_no_numbers_are_not_checked(server: Server):
    for name, asked in (("a b.txt", "/a%20b.txt"), ("ü.txt", "/%C3%BC.txt"), ("a%20b.txt", "/a%20b.txt")):
        assert download(f"{server.url}/{name}") == name
        assert server.asked[asked] >= 1
    for name in ("odd.txt", "below.txt"):
        assert Path(download(f"{server.url}/{name}")).read_bytes() == TEXT
    assert sum(server.asked.values()) == 5


def test_a_file_that_is_not_whole_or_another_leaves_what_was_there(server: Server):
    Path("a.txt").write_text("old")
    with pytest.raises(UserWarning, match=f"content hash does not match.*expected SHA-1 0+; got {SHA1}"):
        download(f"{server.url}/a.txt", sha1_hash="0" * 40, retries=2)
    with pytest.raises(OSError, match="only 5 of 9 bytes arrived"):
        download(f"{server.url}/short.txt", "a.txt", overwrite=True, retries=2)
    assert server.asked == {"/a.txt": 2, "/short.txt": 2}
    assert Path("a.txt").read_text() == "old"
    assert os.listdir() == ["a.txt"]


def test_a_file_that_is_too_large_is_not_asked_for_again(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(downloads, "MOST", 4)
    with pytest.raises(mx.MXNetError, match="has more than 4 bytes"):
        download(f"{server.url}/a.txt")
    assert (server.asked["/a.txt"], os.listdir()) == (1, [])


def test_certificates_that_are_not_checked_are_told(server: Server):
    with pytest.warns(UserWarning, match="Unverified HTTPS request"):
        download(f"{server.url}/a.txt", verify_ssl=False)


def test_what_a_server_packs_is_unpacked_and_whole(server: Server):
    assert Path(download(f"{server.url}/packed.txt", sha1_hash=SHA1)).read_bytes() == TEXT
    for name in ("packed_short.txt", "packed_not.txt"):
        with pytest.raises(mx.MXNetError, match="cannot be downloaded"):
            download(f"{server.url}/{name}", retries=1)
        assert not Path(name).exists()


@pytest.mark.parametrize("name", ["deflate.txt", "deflate_raw.txt"])
def test_what_a_server_packs_by_deflate_is_unpacked(server: Server, name: str):
    assert Path(download(f"{server.url}/{name}", sha1_hash=SHA1)).read_bytes() == TEXT


@pytest.mark.parametrize("name", ["deflate_short.txt", "deflate_broken.txt", "a.br.txt"])
def test_what_cannot_be_unpacked_leaves_nothing(server: Server, name: str):
    told = "packed by 'br'" if "br." in name else "cannot be downloaded"
    with pytest.raises(mx.MXNetError, match=told):
        download(f"{server.url}/{name}", retries=1)
    assert os.listdir() == []
