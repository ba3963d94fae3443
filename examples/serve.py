"""A network behind HTTP: requests that come together run together.

    python examples/serve.py net 3 --port 8000
    curl -X POST localhost:8000/predict -d '{"data": [[...]]}'

POST /predict takes one sample of the network's input, without the axis of batches, as JSON or, of the content type
application/octet-stream, as its float32 numbers (little endian) in a row, and answers {"outputs": {name: values}}.
GET /health says whether it is up. Needs the extra `serve`.

Large samples come as numbers in a row: those of 3 x 32 x 32 are answered at more than twice the rate of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import lowering

MAX_BYTES = 16 << 20
WAITING = 256
"""Requests that may wait; more are told to come again (503)."""


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
            for pause in (0, self.wait):  # a full batch waits for nobody
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
                if not answer.cancelled():  # whoever went away
                    answer.set_result([output[row] for output in outputs])

    def _outputs(self, batch: np.ndarray) -> list[np.ndarray]:
        return [np.asarray(output) for output in self.predict(**{self.name: batch})]


def application(batcher: Batcher) -> Starlette:
    """The server of a batcher."""
    names = batcher.predict.symbol.list_outputs()

    def refused(status: int, why: str) -> JSONResponse:
        return JSONResponse({"error": why}, status)

    async def predict(request: Request) -> JSONResponse:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                return refused(413, f"more than {MAX_BYTES} bytes")
        try:
            if request.headers.get("content-type") == "application/octet-stream":
                sample = np.frombuffer(body, "<f4").reshape(batcher.shape)
            else:
                sample = np.asarray(json.loads(body)[batcher.name], np.float32)
        except (ValueError, KeyError, TypeError, RecursionError):
            shape = list(batcher.shape)
            return refused(400, f'expected JSON: {{"{batcher.name}": numbers of shape {shape}}}, or those as float32')
        if sample.shape != batcher.shape:
            return refused(400, f"expected shape {list(batcher.shape)}, got {list(sample.shape)}")
        try:
            outputs = await batcher(sample)
        except asyncio.QueueFull:
            return refused(503, "too many requests are waiting: come again")
        except RuntimeError as error:
            return refused(500, str(error)[:200])
        return JSONResponse({"outputs": {n: o.tolist() for n, o in zip(names, outputs, strict=True)}})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"ok": True, "waiting": batcher.queue.qsize(), "batches": batcher.batches})

    @contextlib.asynccontextmanager
    async def lifespan(app: Any):
        batcher.warm()
        serving = asyncio.create_task(batcher.run())
        yield
        serving.cancel()

    routes = [Route("/predict", predict, methods=["POST"]), Route("/health", health)]
    return Starlette(routes=routes, lifespan=lifespan)


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
    uvicorn.run(application(batcher), port=options.port, access_log=False)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
