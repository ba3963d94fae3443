"""Predictions as an application asks for them: over HTTP, from threads, in batches, and after a start.

    python benchmarks/serving.py http [--prefix PREFIX --epoch 0 --shape 3,224,224] [--requests 2000] [--at-a-time 32]
    python benchmarks/serving.py threads MODELS [--onnxruntime PYTHON] [--only mobilenet,resnet50] [--rounds 7]
    python benchmarks/serving.py streams MODELS [--networks mobilenet_v2:16 resnet50:2] [--rounds 12]
    python benchmarks/serving.py stages MODELS [--networks resnet50:1 mobilenet:1] [--rounds 15]
    python benchmarks/serving.py starts MODELS [--networks resnet50] [--rounds 5] [--warm] [--frozen]

MODELS is the folder of `zoo.py --models`. All that is compared takes turns.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import (
    Contender,
    cores,
    fresh,
    in_process,
    medians,
    print_table,
    ratio,
    run,
    take_turns,
    with_all_cores,
)
from benchmarks.networks import NETWORKS, Row, chosen, files, inputs
from benchmarks.worker import REQUESTS

ROOT = Path(__file__).parents[1]

# -- a server ----------------------------------------------------------------------------------------------------------

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


def requests_of(shape: tuple[int, ...]) -> dict[str, bytes]:
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


def row(kind: str, at_a_time: int, times: list[float], seconds: float, batches: int) -> str:
    """What is printed of a load."""
    p50, p90, p99 = np.percentile(times, (50, 90, 99)) * 1e3
    return (
        f"{kind:8} {at_a_time:3} at a time, {len(times)} requests: {len(times) / seconds:5,.0f} a second, "
        f"p50 {p50:.1f} ms, p90 {p90:.1f}, p99 {p99:.1f}, longest {max(times) * 1e3:.1f}; "
        f"{len(times) / batches:.1f} in a batch"
    )


def http(
    prefix: str | None = None, epoch: str = "0", shape: str = "3,32,32", requests: int = 2000, at_a_time: int = 32
) -> None:
    """Print what a client of `examples/serve.py` waits.

    Without a model it is a small convolutional network on 3 x 32 x 32, with random weights. Two processes: the server,
    and a client, which holds as many connections as requests run at a time. Printed are, for samples as JSON and as
    float32, how many requests a second were answered, their times, and how many shared a batch; then for one at a time.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = [prefix or small_model(folder), epoch, "--shape", shape, "--port", "0"]
        command = [sys.executable, str(ROOT / "examples" / "serve.py"), *model]
        pipes: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, env=with_all_cores(), **pipes) as server:
            assert server.stderr is not None
            try:
                said = next(line for line in server.stderr if "running on" in line)
                found = re.search(r":(\d+)", said.partition("//")[2])
                assert found is not None
                port = int(found[1])
                for kind, request in requests_of(tuple(map(int, shape.split(",")))).items():
                    asyncio.run(load(port, request, 100, at_a_time))
                    for together, count in ((at_a_time, requests), (1, requests // 10)):
                        print(row(kind, together, *asyncio.run(load(port, request, count, together))), flush=True)
            finally:
                server.terminate()


# -- threads -----------------------------------------------------------------------------------------------------------


def threads(models: str, onnxruntime: str | None = None, only: str | None = None, rounds: int = 7) -> None:
    """Print requests a second of single samples, when each core has a request of its own to compute.

    As many threads as there are cores send requests, each one after the other. The contenders: a Predictor whose calls
    share all cores; one with `one_core=True`; and onnxruntime's session with one thread, called by all threads.
    """
    interpreters = {"all cores": None, "one core": None, **({"onnxruntime": onnxruntime} if onnxruntime else {})}
    others = [way for way in interpreters if way != "one core"]

    def rows() -> Iterator[list[str]]:
        for row in chosen(only, training=False):
            if row.batch > 1 or not row.network.onnx:
                continue
            with ExitStack() as stack:
                children = {
                    way: stack.enter_context(Contender.worker("requests", p)) for way, p in interpreters.items()
                }
                for way, child in children.items():
                    child.load(way=way, name=row.name, folder=models)
                ways = {way: child.time for way, child in children.items()}
                times = take_turns(ways, rounds, seconds=0.5, pause=0.3)
            figures = [f"{1e3 * REQUESTS * cores() / ms:.1f}" for ms in medians(times).values()]
            yield [row.name, *figures, *(f"{ratio(times, other, 'one core'):.2f}" for other in others)]

    columns = ["requests a second", *interpreters, *(f"one core of {way}" for way in others)]
    print_table(columns, rows(), ("onnxruntime", onnxruntime))


# -- predictors that differ in one thing -------------------------------------------------------------------------------


def _compare(models: str, networks: tuple[str, ...], rounds: int, variants: dict[str, Any]) -> None:
    """Print milliseconds of a Predictor of each network, `NAME:BATCH`, made and first called in each of the contexts;
    their ratio to the first one's, the seconds until the first output, and the largest difference from it."""
    import jax

    import lowering

    lowering.keep_memory()

    def call(predict: lowering.Predictor, data: Any) -> None:
        jax.block_until_ready(predict(data=data))

    def rows() -> Iterator[list[str]]:
        for name, _, batch in (network.partition(":") for network in networks):
            row = Row(name, int(batch))
            data = jax.device_put(inputs(row, ())["data"])
            ways, seconds, outputs = {}, {}, {}
            for variant, context in variants.items():
                with context(), lowering.effort("full"):
                    start = time.perf_counter()
                    predict = lowering.Predictor.load(files(models, row), 0)
                    outputs[variant] = np.asarray(predict(data=data)[0])
                    seconds[variant] = time.perf_counter() - start
                ways[variant] = in_process(partial(call, predict, data))
            times = take_turns(ways, rounds)
            first, ms = next(iter(variants)), medians(times)
            for variant in variants:
                difference = np.abs(outputs[variant] - outputs[first]).max() / np.abs(outputs[first]).max()
                figures = f"{ms[variant]:.2f}", f"{min(times[variant]):.2f}", f"{ratio(times, variant, first):.2f}"
                yield [row.label, variant, *figures, f"{seconds[variant]:.2f}", f"{difference:.0e}"]

    print_table(["network", "", "ms", "least", "ratio", "first output, s", "difference"], rows(), left=2)


def streams(
    models: str,
    networks: tuple[str, ...] = ("resnet50:16", "mobilenet:16", "mobilenet_v2:16", "mobilenet_v2:2", "squeezenet:4"),
    rounds: int = 12,
) -> None:
    """Print a batch in streams, each core computing samples of its own, beside all cores sharing every operator."""
    from lowering.xla.cpu_streams import SWITCH

    def switched(value: str) -> Any:
        return lambda: nullcontext(os.environ.update({SWITCH: value}))

    _compare(models, networks, rounds, {"shared": switched("0"), "streams": switched("1")})


def stages(models: str, networks: tuple[str, ...] = ("resnet50:1", "mobilenet:1"), rounds: int = 15) -> None:
    """Print what each stage of the pipeline gains by itself: a network with all, and without one after the other."""
    from symjax_nnvm import pipeline

    optional = [name for name in pipeline.optional_stages() if name != "EliminateCommonExpr"]
    variants: dict[str, Any] = {"every stage": nullcontext}
    for name in optional:
        variants[f"without {name}"] = lambda name=name: pipeline.without(name)
    _compare(models, networks, rounds, {**variants, "none of them": lambda: pipeline.without(*optional)})


# -- starts ------------------------------------------------------------------------------------------------------------

WAYS = ("from files, first", "from files, cached", "saved, cached")


def start(source: str, epoch: str, shape: tuple[int, ...], warm: bool, frozen: bool, save: str) -> dict[str, float]:
    """Return the processor seconds of a start, of all threads, by phase.

    epoch: "" for a folder; warm: `warm` compiles before the first call; frozen: the application calls `gc.freeze()`
    after its imports; save: a folder to write, or "".
    """
    times: dict[str, float] = {}
    clock = [time.process_time()]

    def done(phase: str) -> None:
        now = time.process_time()
        times[phase], clock[0] = now - clock[0], now

    import jax

    done("import jax")
    import lowering

    lowering.keep_memory()
    if frozen:
        gc.freeze()
    done("import lowering")
    predict = lowering.Predictor.load(source, int(epoch)) if epoch else lowering.Predictor.load(source)
    done("load")
    if warm:
        predict.warm(data=shape)
        done("warm")
    jax.block_until_ready(predict(data=np.zeros(shape, "float32")))
    done("first call")
    times["after imports"] = sum(list(times.values())[2:])
    if save:
        predict.save(save)
    return times


def starts(
    models: str,
    networks: tuple[str, ...] = ("resnet50", "mobilenet", "transformer4"),
    rounds: int = 5,
    warm: bool = False,
    frozen: bool = False,
) -> None:
    """Print the processor time from a fresh process to a network's first outputs, medians of processes that take turns.

    from files, first: no process has compiled anything; cached: JAX's compilation cache is on, and an earlier process
    filled it; saved: what `Predictor.save` wrote is read. --warm: `warm` compiles fully before the first call.
    --frozen: the application calls `gc.freeze()` after its imports.
    """
    lines, phases = [], []
    for network in networks:
        shape = NETWORKS[network].shape
        with tempfile.TemporaryDirectory() as folder:
            saved, cache = f"{folder}/saved", {"JAX_COMPILATION_CACHE_DIR": f"{folder}/cache"}
            cache["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
            files_, one = (str(Path(models) / network), "0"), (shape, warm, frozen, "")
            sources: dict[str, Any] = {
                WAYS[0]: ((*files_, *one), {"JAX_COMPILATION_CACHE_DIR": ""}),
                WAYS[1]: ((*files_, *one), cache),
                WAYS[2]: ((saved, "", *one), cache),
            }
            fresh(start, *files_, shape, True, False, saved, environment=cache)
            for arguments, environment in sources.values():
                fresh(start, *arguments, environment=environment)
            found: dict[str, list[dict[str, float]]] = {way: [] for way in sources}
            for _ in range(rounds):
                for way, (arguments, environment) in sources.items():
                    found[way].append(fresh(start, *arguments, environment=environment))
        for way, times in found.items():
            medians_ = [f"{np.median([each[phase] for each in times]):.2f}" for phase in times[0]]
            lines.append([network, way, *medians_])
            phases = [*times[0]]
    print_table(["network", "start", *phases], lines, left=2)


if __name__ == "__main__":
    run(__doc__, http, threads, streams, stages, starts)
