"""`examples/serve.py` under load by a real client over a socket: every request is answered, by its own outputs."""

import asyncio
import importlib.util
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
httpx: Any = pytest.importorskip("httpx", reason="the extra `serve` is not installed")
uvicorn: Any = pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

_spec = importlib.util.spec_from_file_location("serve", Path(__file__).parents[2] / "examples" / "serve.py")
assert _spec is not None
assert _spec.loader is not None
serve: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(serve)

NET = sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")
WEIGHT = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Any]]:
    predict = lowering.Predictor(NET, {"fc_weight": WEIGHT, "fc_bias": np.zeros(3, "float32")})
    batcher = serve.Batcher(predict, (4,), size=8)
    server = uvicorn.Server(uvicorn.Config(serve.application(batcher), port=0, log_level="warning", **serve.BOUNDS))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", batcher
    server.should_exit = True
    thread.join()


async def load(url: str, count: int) -> list[float]:
    """Seconds of each request, 32 at a time; each answer is checked."""
    limit = asyncio.Semaphore(32)

    async def one(client: Any, number: int) -> float:
        async with limit:
            began = time.perf_counter()
            answer = await client.post("/predict", json={"data": [number, 1, 0, 0]})
            took = time.perf_counter() - began
        assert answer.status_code == 200
        assert answer.json()["outputs"]["fc_output"] == [1.0, 4.0 * number + 5, 8.0 * number + 9]
        return took

    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        return list(await asyncio.gather(*(one(client, number) for number in range(count))))


@pytest.mark.slow("computes much")
def test_no_request_is_lost_under_load(served: tuple[str, Any]):
    url, batcher = served
    before = batcher.batches
    assert len(asyncio.run(load(url, 200))) == 200
    assert 25 <= batcher.batches - before < 200, "requests share batches of at most 8"


@pytest.mark.slow("asks a server")
def test_numbers_in_a_row_are_a_sample_and_one_alone_runs_alone(served: tuple[str, Any]):
    url, batcher = served
    assert batcher.sizes == [1, 4, 8]
    sample, kind = np.array([2, 1, 0, 0], "<f4"), {"content-type": "application/octet-stream"}
    answer = httpx.post(url + "/predict", content=sample.tobytes(), headers=kind)
    assert answer.json() == {"outputs": {"fc_output": [1.0, 13.0, 25.0]}}
    assert {shape[0] for ((_, (shape, _)), _), _ in batcher.predict._prepared_ones()} == {1, 4, 8}, (
        "all compiled before"
    )
    for wrong in (b"", b"abc", sample.tobytes() * 2):
        answer = httpx.post(url + "/predict", content=wrong, headers=kind)
        assert answer.status_code == 400
        assert "as float32" in answer.json()["error"]


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"{", 400, "expected JSON"),
        (b"[]", 400, "expected JSON"),
        (b'{"data": [1]}', 400, "expected shape [4]"),
        (b'{"data": [1e39, 0, 0, 0]}', 400, "finite numbers of float32"),
        (b'{"data": [0, -1e400, 0, 0]}', 400, "finite numbers of float32"),
        (b'{"data": [Infinity, 0, 0, 0]}', 400, "finite numbers of float32"),
        (b'{"data": [NaN, 0, 0, 0]}', 400, "finite numbers of float32"),
        (b'{"data": [1' + b"0" * 400 + b", 0, 0, 0]}", 400, "finite numbers of float32"),
        (b'{"data": [1' + b"0" * 5000 + b", 0, 0, 0]}", 400, "finite numbers of float32"),
        (b'{"data": [true, 0, 0, 0]}', 400, "expected JSON"),
        (b'{"data": [true, false, true, true]}', 400, "expected JSON"),
        (b'{"data": ["1", 0, 0, 0]}', 400, "expected JSON"),
        (b'{"data": [null, 0, 0, 0]}', 400, "expected JSON"),
        (b'{"data": [[1], [2], [3], [4, 5]]}', 400, "expected JSON"),
        (b'{"data": {"0": 1}}', 400, "expected JSON"),
        (b"[" * 100_000, 400, "expected JSON"),
        (b'{"data": [3.4e38, 3.4e38, 3.4e38, 3.4e38]}', 500, "outputs are not finite: fc_output"),
    ],
)
def test_bad_requests_are_told(served: tuple[str, Any], body: bytes, status: int, why: str):
    answer = httpx.post(served[0] + "/predict", content=body)
    assert answer.status_code == status
    assert why in answer.json()["error"]


def test_limits_and_health(served: tuple[str, Any], monkeypatch: pytest.MonkeyPatch):
    assert httpx.get(served[0] + "/health").json()["ok"] is True
    monkeypatch.setattr(serve, "MAX_JSON", 10)
    assert httpx.post(served[0] + "/predict", content=json.dumps({"data": [0] * 4})).status_code == 413
    monkeypatch.undo()
    monkeypatch.setattr(served[1].queue, "full", lambda: True)
    assert httpx.post(served[0] + "/predict", json={"data": [0] * 4}).status_code == 503


def test_numbers_in_a_row_are_finite_too(served: tuple[str, Any]):
    kind = {"content-type": "application/octet-stream"}
    for odd in (np.nan, np.inf):
        answer = httpx.post(served[0] + "/predict", content=np.array([odd, 0, 0, 0], "<f4").tobytes(), headers=kind)
        assert answer.status_code == 400
        assert "finite" in answer.json()["error"]


def connected(url: str, length: int, kind: str = "json") -> socket.socket:
    """A client that has sent the head of a request alone."""
    client = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20)
    head = (
        f"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Type: application/{kind}\r\nContent-Length: {length}\r\n\r\n"
    )
    client.sendall(head.encode())
    return client


def test_a_client_may_not_take_for_ever_to_send_its_body(served: tuple[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serve, "BODY_SECONDS", 0.3)
    with connected(served[0], 100) as client:
        client.sendall(b"{")
        began = time.monotonic()
        answer = b"".join(iter(lambda: client.recv(4096), b""))  # until the server hangs up
        assert time.monotonic() - began < 5
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"took more than 0.3 seconds" in answer


@pytest.mark.slow("asks a server")
def test_a_client_that_leaves_is_no_error(
    served: tuple[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with connected(served[0], 100) as client:
                client.sendall(b"{")
                time.sleep(0.05)
        assert asyncio.run(load(served[0], 20))
    assert caplog.text == ""


@pytest.mark.parametrize(("kind", "size"), [("octet-stream", 18 << 20), ("json", 14 << 20)])
def test_a_client_that_sends_too_much_reads_why(served: tuple[str, Any], kind: str, size: int):
    with connected(served[0], size, kind) as client:
        for _ in range(size >> 20):
            client.sendall(b" " * (1 << 20))
        answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"more than" in answer


@pytest.mark.slow("computes much")
def test_long_json_holds_nobody_up(served: tuple[str, Any]):
    """It is refused unread; of the largest that is read ten at a time leave the server awake."""
    bodies = [json.dumps({"data": [0.123456] * count}).encode() for count in (1_400_000, 100_000)]
    assert len(bodies[0]) > serve.MAX_JSON > len(bodies[1]) > serve.MAX_JSON * 0.9

    async def longest() -> float:
        async with httpx.AsyncClient(base_url=served[0], timeout=60) as client:
            sent = [asyncio.create_task(client.post("/predict", content=body)) for body in bodies * 10]
            times = []
            while not all(task.done() for task in sent):
                began = time.perf_counter()
                assert (await client.get("/health")).status_code == 200
                times.append(time.perf_counter() - began)
            assert [(await task).status_code for task in sent] == [413, 400] * 10
        return max(times)

    assert asyncio.run(longest()) < 3


@pytest.mark.slow("asks a server")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("Application/Octet-Stream", np.array([2, 1, 0, 0], "<f4").tobytes()),
        ("application/octet-stream; name=x", np.array([2, 1, 0, 0], "<f4").tobytes()),
        ("APPLICATION/OCTET-STREAM ;a=b", np.array([2, 1, 0, 0], "<f4").tobytes()),
        ("Application/JSON; charset=utf-8", b'{"data": [2, 1, 0, 0]}'),
        ("application/json;charset=UTF-8", b'{"data": [2, 1, 0, 0]}'),
    ],
)
def test_media_types_are_compared_without_case_and_parameters(served: tuple[str, Any], kind: str, body: bytes):
    answer = httpx.post(served[0] + "/predict", content=body, headers={"content-type": kind})
    assert answer.json() == {"outputs": {"fc_output": [1.0, 13.0, 25.0]}}


def spoken(url: str, sent: bytes) -> bytes:
    """What the server says first to bytes."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as client:
        client.sendall(sent)
        return client.recv(1 << 16)


HEAD = b"POST /predict HTTP/1.1\r\nHost: here\r\n"
BODY = b'{"data": [2, 1, 0, 0]}'


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"Content-Length: -1\r\n\r\n" + BODY, 400),
        (HEAD + b"Content-Length: many\r\n\r\n" + BODY, 400),
        (HEAD + b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\n" + BODY, 400),
        (HEAD + b"Content-Length: 3\r\n\r\n" + BODY, 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n16\r\n" + BODY + b"\r\n0\r\n\r\n", 200),
        (HEAD + b"Content-Length: 800000\r\n\r\n" + b'{"data":' * 100_000, 400),
        (b"GET /health HTTP/1.1\r\nHost: here\r\nX: " + b"x" * 500_000 + b"\r\n\r\n", 400),
        (b"GET /" + b"x" * 300_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n", 400),
        (b"HEAD /health HTTP/1.1\r\nHost: here\r\n\r\n", 200),
        (b"HEAD /predict HTTP/1.1\r\nHost: here\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_of_ours_is_answered(
    served: tuple[str, Any], sent: bytes, status: int, caplog: pytest.LogCaptureFixture
):
    assert spoken(served[0], sent).startswith(b"HTTP/1.1 %d" % status)
    assert "Traceback" not in caplog.text
    assert httpx.get(served[0] + "/health").status_code == 200


def test_requests_one_after_the_other_without_waiting_are_all_answered(served: tuple[str, Any]):
    port = int(served[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall((HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY) * 20)
        got = b""
        while got.count(b"fc_output") < 20:
            got += client.recv(1 << 16)
    assert got.count(b"200 OK") == got.count(b"[1.0,13.0,25.0]") == 20


@pytest.mark.nightly("computes much")
def test_a_client_that_reads_no_answers_is_read_no_further(served: tuple[str, Any]):
    """What it may send is what the buffers of both sockets hold."""
    many = (HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY) * 500
    with socket.create_connection(("127.0.0.1", int(served[0].rpartition(":")[2])), timeout=20) as client:
        client.setblocking(False)
        sent, began = 0, time.monotonic()
        while sent < 64 << 20 and time.monotonic() - began < 4:
            try:
                sent += client.send(many)
            except BlockingIOError:
                time.sleep(0.01)
        assert httpx.get(served[0] + "/health").status_code == 200
    assert sent < 32 << 20
    assert asyncio.run(load(served[0], 20))


@pytest.mark.slow("waits for processes or threads")
def test_a_client_that_reads_late_is_answered_all_the_same(served: tuple[str, Any]):
    """Its requests, more than is read at once, are read as answers leave."""
    head = HEAD + b"X: " + b"x" * 4000 + b"\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    with socket.create_connection(("127.0.0.1", int(served[0].rpartition(":")[2])), timeout=20) as client:
        sending = threading.Thread(target=client.sendall, args=((head + BODY) * 300,))
        sending.start()
        time.sleep(0.5)
        got = b""
        while got.count(b"fc_output") < 300:
            part = client.recv(1 << 16)
            assert part
            got += part
        sending.join()
    assert got.count(b"200 OK") == got.count(b"[1.0,13.0,25.0]") == 300


STUCK = {
    "body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "numbers": HEAD + b"Content-Type: application/octet-stream\r\nContent-Length: 100\r\n\r\n1234",
    "chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n12",
    "too much": HEAD + b"Content-Length: 60000000\r\n\r\n" + b"x" * 2_000_000,
    "head": b"POST /predict HT",
    "unread": (HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY) * 300,
}


@pytest.mark.nightly("starts processes")
@pytest.mark.skipif(sys.platform == "win32", reason="it is ended by a signal")
def test_the_server_ends_without_a_traceback_though_clients_are_stuck(tmp_path: Path):
    nn.save_checkpoint(str(tmp_path / "net"), 0, NET, {"fc_weight": WEIGHT, "fc_bias": np.zeros(3, "float32")}, {})
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        str(root / "examples" / "serve.py"),
        str(tmp_path / "net"),
        "0",
        "--shape",
        "4",
        "--port=0",
    ]
    env = os.environ | {"PYTHONPATH": str(root)}
    with subprocess.Popen(command, env=env, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
        try:
            assert server.stderr is not None
            said = next(line for line in server.stderr if "running on" in line)
            found = re.search(r"http://[\d.]+:\d+", said)
            assert found is not None
            with connected(found[0], 100) as client:
                stuck = [client]
                client.sendall(b"{")
                for sent in STUCK.values():
                    stuck.append(socket.create_connection(client.getpeername(), timeout=20))
                    stuck[-1].sendall(sent)
                time.sleep(0.5)
                server.send_signal(signal.SIGTERM)
                server.wait(timeout=serve.GRACE + 15)
                assert b"503" in client.recv(4096)
                for each in stuck:
                    each.close()
        finally:
            server.kill()
        assert "Traceback" not in server.stderr.read()
