"""`examples/serve.py` under load by a real client over a socket: every request is answered, by its own outputs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
httpx: Any = pytest.importorskip("httpx", reason="the extra `serve` is not installed")
uvicorn: Any = pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

_spec = importlib.util.spec_from_file_location("serve", Path(__file__).parents[1] / "examples" / "serve.py")
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
    server = uvicorn.Server(uvicorn.Config(serve.application(batcher), port=0, log_level="warning"))
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


def test_no_request_is_lost_under_load(served: tuple[str, Any]):
    url, batcher = served
    before = batcher.batches
    assert len(asyncio.run(load(url, 200))) == 200
    assert 25 <= batcher.batches - before < 200, "requests share batches of at most 8"


def test_numbers_in_a_row_are_a_sample_and_one_alone_runs_alone(served: tuple[str, Any]):
    url, batcher = served
    assert batcher.sizes == [1, 4, 8]
    sample, kind = np.array([2, 1, 0, 0], "<f4"), {"content-type": "application/octet-stream"}
    answer = httpx.post(url + "/predict", content=sample.tobytes(), headers=kind)
    assert answer.json() == {"outputs": {"fc_output": [1.0, 13.0, 25.0]}}
    assert {shape[0] for ((_, (shape, _)), _), _ in batcher.predict._ready.items()} == {1, 4, 8}, "all compiled before"
    for wrong in (b"", b"abc", sample.tobytes() * 2):
        answer = httpx.post(url + "/predict", content=wrong, headers=kind)
        assert answer.status_code == 400
        assert "as float32" in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [(b"{", 400, "expected JSON"), (b"[]", 400, "expected JSON"), (b'{"data": [1]}', 400, "expected shape [4]")],
)
def test_bad_requests_are_told(served: tuple[str, Any], body: bytes, status: int, why: str):
    answer = httpx.post(served[0] + "/predict", content=body)
    assert answer.status_code == status
    assert why in answer.json()["error"]


def test_limits_and_health(served: tuple[str, Any], monkeypatch: pytest.MonkeyPatch):
    assert httpx.get(served[0] + "/health").json()["ok"] is True
    monkeypatch.setattr(serve, "MAX_BYTES", 10)
    assert httpx.post(served[0] + "/predict", content=json.dumps({"data": [0] * 4})).status_code == 413
    monkeypatch.undo()
    monkeypatch.setattr(served[1].queue, "full", lambda: True)
    assert httpx.post(served[0] + "/predict", json={"data": [0] * 4}).status_code == 503
