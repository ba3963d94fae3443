"""A network behind HTTP: requests that come together run together.

    python examples/serve.py net 3 --port 8000
    curl -X POST localhost:8000/predict -d '{"data": [[...]]}'

POST /predict takes one sample of the network's input, without the axis of batches, as JSON or, of the content type
application/octet-stream, as its float32 numbers (little endian) in a row, and answers {"outputs": {name: values}}.
GET /health says whether it is up. Needs the extra `serve`.

Large samples come as numbers in a row: those of 3 x 32 x 32 are answered at more than twice the rate of JSON, and JSON
of more than MAX_JSON bytes is refused, as everything else waits while it is read. Numbers are finite float32 on the way
in and out: JSON has no others.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
from typing import Any

import h11
import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

import lowering

MAX_BYTES = 16 << 20
MAX_JSON = 1 << 20
DRAINED = 4
"""How many times as much as it may send a client is listened to, so that it is there to read that it was too much."""

BODY_SECONDS = 10.0
"""How long a client may take to send its body."""

WAITING = 256
"""Requests that may wait; more are told to come again (503)."""

CONNECTIONS = 1024
"""More are told the same by uvicorn."""

GRACE = 5
"""Seconds that requests have to end when the server is told to."""


class Batcher:
    """Samples that are there, or come within `wait` seconds, run as one batch of at most `size`, padded to the next of
    `sizes`, for each of which a program is compiled before the first request."""

    def __init__(self, predict: lowering.Predictor, shape: tuple[int, ...], size: int = 32, wait: float = 0.002):
        (self.name,) = predict.inputs
        self.predict, self.shape, self.size, self.wait = predict, shape, size, wait
        self.sizes = [*(4**power for power in range(6) if 4**power < size), size]
        self.queue: asyncio.Queue[tuple[np.ndarray, asyncio.Future]] = asyncio.Queue(WAITING)
        self.batches = 0

    def warm(self) -> None:
        """Compile what is not yet."""
        for size in self.sizes:
            self.predict.warm(**{self.name: (size, *self.shape)})

    async def __call__(self, sample: np.ndarray) -> list[np.ndarray]:
        """The outputs of one sample. Raises asyncio.QueueFull."""
        answer = asyncio.get_running_loop().create_future()
        self.queue.put_nowait((sample, answer))
        return await answer

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            waiting = [await self.queue.get()]
            for pause in (0, self.wait):  # a full batch does not wait
                if len(waiting) < self.size:
                    await asyncio.sleep(pause)
                while len(waiting) < self.size and not self.queue.empty():
                    waiting.append(self.queue.get_nowait())
            batch = np.zeros((next(n for n in self.sizes if n >= len(waiting)), *self.shape), np.float32)
            batch[: len(waiting)] = [sample for sample, _ in waiting]
            try:
                outputs = await asyncio.to_thread(self._outputs, batch)
            except RuntimeError as error:  # XLA's own errors: told to who asked, and the next batch is served
                for _, answer in waiting:
                    if not answer.cancelled():
                        answer.set_exception(error)
                continue
            self.batches += 1
            for row, (_, answer) in enumerate(waiting):
                if not answer.cancelled():  # the client may have closed its connection
                    answer.set_result([output[row] for output in outputs])

    def _outputs(self, batch: np.ndarray) -> list[np.ndarray]:
        return [np.asarray(output) for output in self.predict(**{self.name: batch})]


async def _body(request: Request, most: int) -> bytes:
    """What a client sends. Raises OverflowError, ClientDisconnect."""
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= most:
            body += chunk
        elif size > DRAINED * MAX_BYTES:
            break
    if size > most:
        raise OverflowError(f"more than {most} bytes; as float32 in a row {MAX_BYTES} are read")
    return bytes(body)


def _media_type(request: Request) -> str:
    """What a client says its body is, without parameters, in small letters, as media types are compared."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _packed(body: bytes, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(body, "<f4").reshape(shape)


def _unpacked(body: bytes, name: str) -> np.ndarray:
    """The numbers of a JSON object's member; those too large for float32 are infinite."""
    numbers = np.asarray(json.loads(body, parse_int=float)[name], object)
    if set(map(type, numbers.ravel())) - {float}:  # true, "1" and null are none, though NumPy takes them for some
        raise TypeError
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def application(batcher: Batcher) -> Any:
    """The server of a batcher, an ASGI application."""
    names = batcher.predict.symbol.list_outputs()

    def refused(status: int, why: str, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"error": why}, status, headers)

    async def predict(request: Request) -> JSONResponse:
        try:
            return await answer(request)
        except asyncio.CancelledError:  # uvicorn waits no longer: the server is told to end
            return refused(503, "the server ends", {"connection": "close"})

    async def answer(request: Request) -> JSONResponse:
        packed = _media_type(request) == "application/octet-stream"
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _body(request, MAX_BYTES if packed else MAX_JSON)
        except TimeoutError:
            return refused(408, f"the body took more than {BODY_SECONDS:g} seconds", {"connection": "close"})
        except ClientDisconnect:
            return refused(400, "the client has left")  # and does not hear it
        except OverflowError as error:
            return refused(413, str(error))
        try:
            sample = _packed(body, batcher.shape) if packed else _unpacked(body, batcher.name)
        except (ValueError, KeyError, TypeError, RecursionError):
            shape = list(batcher.shape)
            return refused(400, f'expected JSON: {{"{batcher.name}": numbers of shape {shape}}}, or those as float32')
        if sample.shape != batcher.shape:
            return refused(400, f"expected shape {list(batcher.shape)}, got {list(sample.shape)}")
        if not np.isfinite(sample).all():
            return refused(400, "expected finite numbers of float32")
        try:
            outputs = dict(zip(names, await batcher(sample), strict=True))
        except asyncio.QueueFull:
            return refused(503, "too many requests are waiting: come again")
        except RuntimeError as error:
            return refused(500, str(error)[:200])
        infinite = [name for name, output in outputs.items() if not np.isfinite(output).all()]
        if infinite:
            return refused(500, f"the network's outputs are not finite: {', '.join(infinite)}")
        return JSONResponse({"outputs": {name: output.tolist() for name, output in outputs.items()}})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"ok": True, "waiting": batcher.queue.qsize(), "batches": batcher.batches})

    @contextlib.asynccontextmanager
    async def lifespan(app: Any):
        batcher.warm()
        serving = asyncio.create_task(batcher.run())
        yield
        serving.cancel()

    async def left_alone(scope: Any, receive: Any, send: Any) -> None:
        """The server; clients that do not read what they are told when it ends are left alone."""
        with contextlib.suppress(asyncio.CancelledError) if scope["type"] == "http" else contextlib.nullcontext():
            await server(scope, receive, send)

    routes = [Route("/predict", predict, methods=["POST"]), Route("/health", health)]
    server = Starlette(routes=routes, lifespan=lifespan)
    return left_alone


class _Flow(FlowControl):
    """When a connection is read on: not while a request is answered that has come to its end.

    uvicorn reads on whenever a request asks for its body, one that is there included, and keeps what it reads. Of a
    client that sends request after request, and reads no answer, each would let in 256 KiB more.
    """

    def __init__(self, transport: asyncio.Transport, conn: h11.Connection):
        super().__init__(transport)
        self._conn = conn

    def resume_reading(self) -> None:
        if self._conn.their_state is not h11.DONE or self._conn.our_state is h11.DONE:
            super().resume_reading()


class Protocol(H11Protocol):
    """HTTP as uvicorn speaks it, with bounded memory for each connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.flow = _Flow(transport, self.conn)


BOUNDS: dict[str, Any] = {
    "http": Protocol,
    "limit_concurrency": CONNECTIONS,
    "timeout_graceful_shutdown": GRACE,
}
"""What uvicorn is told."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix")
    parser.add_argument("epoch", type=int)
    parser.add_argument("--shape", default="3,224,224", help="of one sample")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    shape = tuple(int(size) for size in options.shape.split(","))
    batcher = Batcher(lowering.Predictor.load(options.prefix, options.epoch), shape)
    batcher.warm()
    gc.collect()
    gc.freeze()  # the collector leaves alone what is there: with JAX, a pause of a tenth of a second now and then
    uvicorn.run(application(batcher), port=options.port, access_log=False, **BOUNDS)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
