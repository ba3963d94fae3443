"""Fuzz the readers for a given number of executions: `python -m tests.fuzz.run --executions 200000`.

Every input that breaks the contract of `targets` is saved under `--finds`, once per place in the code, with its
traceback; the exit status is then 1. At the end: executions, executions per second, how many inputs were accepted, and
with `--coverage` which lines of the readers were never reached. `--engine atheris` hands the target to libFuzzer.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz import corpus, mutate
from tests.fuzz.mutate_onnx import mutate_onnx
from tests.fuzz.onnx_corpus import onnx_models
from tests.fuzz.targets import TARGETS, Hang
from tests.fuzz.workers import GRAMMAR_TARGETS, fuzz_in_workers

READERS = (
    "symjax_nnvm/io/symbol_json/reader.py",
    "symjax_nnvm/io/symbol_json/attrs.py",
    "symjax_nnvm/io/symbol_json/checks.py",
    "symjax_nnvm/io/symbol_json/graph.py",
    "symjax_nnvm/io/symbol_json/text.py",
    "symjax_nnvm/mxnet/*.py",
    "symjax_nnvm/passes/infer*.py",
    "symjax_nnvm/ir/params.py",
    "symjax_nnvm/ir/types.py",
    "lowering/serving/archive.py",
    "symjax_nnvm/onnx/imports/*.py",
)
"""What coverage is reported of."""

Mutator = Callable[[random.Random], bytes]


def mutator(target: str) -> Mutator:
    """A function that draws one mutant of the target's seeds."""
    if target == "symbol_json":
        texts = corpus.symbol_texts()
        return lambda rng: mutate.mutate_json(rng, rng.choice(texts), rng.choice(texts))
    if target == "predictor_folder":
        text = corpus.predictor_folder().text
        return lambda rng: mutate.mutate_json(rng, text, text)
    if target in ("params", "records"):
        files = corpus.array_fields() if target == "params" else corpus.record_fields()
        return lambda rng: mutate.mutate_params(rng, rng.choice(files), rng.choice(files))
    if target == "onnx":
        models = onnx_models()
        return lambda rng: mutate_onnx(rng, rng.choice(models), rng.choice(models))
    archives = corpus.zip_members()
    return lambda rng: mutate.mutate_zip(rng, rng.choice(archives), rng.choice(archives))


def place(error: BaseException) -> str:
    """Where in the library an error came from: what tells findings apart."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "symjax_nnvm" in frame.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(error).__name__} at {where}"


def fuzz(target: str, executions: int, seed: int, finds: Path) -> int:
    """Run one target; how many different findings there were."""
    check, draw, rng = TARGETS[target], mutator(target), random.Random(seed)
    found: dict[str, int] = {}
    accepted, started, shown = 0, time.monotonic(), 0.0
    for n in range(1, executions + 1):
        data = draw(rng)
        try:
            accepted += check(data)
        except KeyboardInterrupt:
            raise
        except (Exception, Hang) as error:
            where = place(error)
            if where not in found:
                _save(finds, target, data, where)
                print(f"\nfinding: {where}: {str(error)[:200]}", flush=True)
            found[where] = found.get(where, 0) + 1
        now = time.monotonic()
        if now - shown > 1 or n == executions:
            shown, rate = now, n / (now - started)
            line = f"{target}: {n:,} of {executions:,} · {rate:,.0f}/s · {accepted / n:.0%} accepted"
            end = "\n" if n == executions else "\r" if sys.stderr.isatty() else ""
            if end:
                print(f"{line} · {len(found)} findings", end=end, file=sys.stderr, flush=True)
    for where, count in sorted(found.items(), key=lambda item: -item[1]):
        print(f"  {count:7,} × {where}")
    return len(found)


def _save(finds: Path, target: str, data: bytes, where: str) -> None:
    finds.mkdir(parents=True, exist_ok=True)
    stem = f"{target}-{hashlib.sha256(data).hexdigest()[:12]}"
    (finds / stem).write_bytes(data)
    (finds / f"{stem}.txt").write_text(f"{where}\n\n{traceback.format_exc()}", encoding="utf-8")


def fuzz_with_atheris(target: str, executions: int, seed: int, finds: Path) -> int:
    """libFuzzer, guided by coverage, on a corpus directory beside the findings."""
    seeds = finds / f"corpus-{target}"
    corpus.write(seeds, target)
    command = [sys.executable, "-m", "tests.fuzz.atheris_target", target, str(seeds), f"-runs={executions}"]
    command += [f"-seed={seed or 1}", f"-artifact_prefix={finds}/{target}-", "-timeout=10", "-rss_limit_mb=2048"]
    return min(1, abs(subprocess.run(command, check=False).returncode))


def measured(arguments: list[str], finds: Path) -> int:
    """The same command under coverage.py, which must be there before the library is imported; then its report."""
    finds.mkdir(parents=True, exist_ok=True)
    coverage, data = [sys.executable, "-m", "coverage"], f"--data-file={finds / 'coverage'}"
    again = [argument for argument in arguments if argument != "--coverage"]
    command = [*coverage, "run", data, f"--include={','.join(READERS)}", "-m", "tests.fuzz.run", *again]
    status = subprocess.run(command, check=False).returncode
    subprocess.run([*coverage, "report", data, "--show-missing"], check=False)
    return status


def fuzz_grammar(options: argparse.Namespace) -> int:
    """Run a grammar's inputs in child processes; 1 when there were findings."""
    numbers = {name: getattr(options, name) for name in ("seed", "start", "jobs", "execute", "finds")}
    outcome = fuzz_in_workers(options.target, options.executions, **numbers)
    for where, count in outcome.findings.most_common():
        print(f"  {count:7,} × {where}")
    return 1 if outcome.findings else 0


def main(arguments: list[str] | None = None) -> int:
    """The command line; the number of findings decides the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--target", choices=[*TARGETS, *GRAMMAR_TARGETS, "all"], default="all", help="all: of mutations"
    )
    parser.add_argument("--executions", type=int, default=200_000, help="of each target")
    parser.add_argument("--start", type=int, default=0, help="grammars: the number of the first input")
    parser.add_argument("--jobs", type=int, default=1, help="grammars: processes at a time")
    parser.add_argument("--execute", type=int, default=10, metavar="N", help="symbol_grammar: compile every N-th input")
    parser.add_argument("--engine", choices=["mutate", "atheris"], default="mutate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--finds", type=Path, default=Path("fuzz-finds"), help="where findings are saved")
    parser.add_argument("--coverage", action="store_true", help="report lines of the readers that were never reached")
    options = parser.parse_args(arguments)
    if options.coverage:
        return measured(sys.argv[1:] if arguments is None else arguments, options.finds)
    if options.target in GRAMMAR_TARGETS:
        return fuzz_grammar(options)
    targets = list(TARGETS) if options.target == "all" else [options.target]
    engine = fuzz if options.engine == "mutate" else fuzz_with_atheris
    findings = sum(engine(target, options.executions, options.seed, options.finds) for target in targets)
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
