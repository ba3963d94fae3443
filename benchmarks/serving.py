"""What a client of `examples/serve.py` waits: requests from a process of their own, some at a time, over a socket.

    python benchmarks/serving.py [--prefix PREFIX --epoch 0 --shape 3,224,224] [--requests 2000] [--at-a-time 32]

Without a model it is a small convolutional network on 3 x 32 x 32, with random weights. Two processes: the server, and
a client, which holds as many connections as requests run at a time. Printed are, for samples as JSON and as float32,
how many requests a second were answered, their times, and how many shared a batch; then for one at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

MOST_JSON = 1 << 20
"""Bytes that the server reads."""


def small_model(folder: str) -> str:
    """The prefix of a small network's checkpoint."""
    import lowering
    import symjax_nnvm as nn
    from symjax_nnvm import symbol as sym

    h = sym.Variable("data")
    for number, filters in enumerate((16, 32, 64)):
        h = sym.Convolution(h, kernel=(3, 3), stride=(2, 2), pad=(1, 1), num_filter=filters, name=f"conv{number}")
        h = sym.Activation(sym.BatchNorm(h, name=f"norm{number}"), act_type="relu")
    net = sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=10, name="fc"), name="softmax")
    args, aux = lowering.init_params(net, {"data": (1, 3, 32, 32)}, 0)
    nn.save_checkpoint(f"{folder}/small", 0, net, args, aux)
    return f"{folder}/small"


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """The body of the answer. Raises RuntimeError for any status but 200."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if " 200 " not in head.partition("\r\n")[0]:
        raise RuntimeError(f"{head.partition(chr(13))[0]}: {body[:200]!r}")
    return body


def _request(path: str, body: bytes = b"", kind: str = "json") -> bytes:
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: here\r\nContent-Type: application/{kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def requests(shape: tuple[int, ...]) -> dict[str, bytes]:
    """A request of random numbers, in both kinds where the server reads as much JSON."""
    sample = np.random.default_rng(0).standard_normal(shape).round(4).astype("<f4")
    kinds = {"float32": _request("/predict", sample.tobytes(), "octet-stream")}
    json_text = json.dumps({"data": sample.astype(float).round(4).tolist()}).encode()
    return kinds if len(json_text) > MOST_JSON else {"JSON": _request("/predict", json_text), **kinds}


async def load(port: int, request: bytes, count: int, at_a_time: int) -> tuple[list[float], float, int]:
    """(seconds of each request, of all of them, batches that the server ran)."""
    times: list[float] = []
    left = iter(range(count))

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        for _ in left:
            began = time.perf_counter()
            await _ask(reader, writer, request)
            times.append(time.perf_counter() - began)
        writer.close()

    async def batches() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        found = json.loads(await _ask(reader, writer, _request("/health")))["batches"]
        writer.close()
        return found

    before, began = await batches(), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(at_a_time)))
    return times, time.perf_counter() - began, await batches() - before


def main() -> None:
    """Start the server, load it, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix")
    parser.add_argument("--epoch", default="0")
    parser.add_argument("--shape", default="3,32,32", help="of one sample")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--at-a-time", type=int, default=32)
    options = parser.parse_args()
    shape = tuple(int(size) for size in options.shape.split(","))
    with tempfile.TemporaryDirectory() as folder:
        model = [options.prefix or small_model(folder), options.epoch, "--shape", options.shape, "--port", "0"]
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, str(ROOT / "examples" / "serve.py"), *model]
        environment = os.environ | {"PYTHONPATH": paths}
        with subprocess.Popen(
            command, text=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as server:
            assert server.stderr is not None
            try:
                said = next(line for line in server.stderr if "running on" in line)
                found = re.search(r":(\d+)", said.partition("//")[2])
                assert found is not None
                port = int(found[1])
                for kind, request in requests(shape).items():
                    asyncio.run(load(port, request, 100, options.at_a_time))
                    for at_a_time in (options.at_a_time, 1):
                        count = options.requests if at_a_time > 1 else options.requests // 10
                        print(row(kind, at_a_time, *asyncio.run(load(port, request, count, at_a_time))), flush=True)
            finally:
                server.terminate()


def row(kind: str, at_a_time: int, times: list[float], seconds: float, batches: int) -> str:
    """What is printed of a load."""
    p50, p90, p99 = np.percentile(times, (50, 90, 99)) * 1e3
    return (
        f"{kind:8} {at_a_time:3} at a time, {len(times)} requests: {len(times) / seconds:5,.0f} a second, "
        f"p50 {p50:.1f} ms, p90 {p90:.1f}, p99 {p99:.1f}, longest {max(times) * 1e3:.1f}; "
        f"{len(times) / batches:.1f} in a batch"
    )


if __name__ == "__main__":
    main()
