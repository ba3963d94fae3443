"""Fuzz one target with many inputs: `python -m tests.fuzz TARGET --examples 100000 [--seed 0] [--jobs 2]`.

Hypothesis draws and shrinks the inputs, a thousand in each child process, so that an input that ends its process, or
hangs in compiled code, is kept like any other. The input that failed is saved under `--finds` with what the child said;
`python -m tests.fuzz TARGET FILE` runs it again. The exit status is 1 when there were findings.
"""

import argparse
import faulthandler
import os
import random
import resource
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHUNK = 1000
"""Inputs of one child: what JAX and XLA keep goes with it."""

ADDRESSES = 7 << 30
"""Bytes of addresses of a child: an attempt to allocate more is a MemoryError at once, and a finding."""

SILENCE = 300
"""Seconds on the clock of one input, after which its process ends: it hangs where no signal reaches Python."""

EXECUTE = 10
"""One in so many inputs is compiled and run, chosen by what is in it."""


def _fuzz(target: str, examples: int, seed: int, record: Path) -> None:
    """A child: the property under Hypothesis. The file holds the input that runs, in the end the one that failed."""
    import hypothesis
    from hypothesis import HealthCheck, settings

    from tests.fuzz.targets import RANDOMS, check, draw

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reached: Counter[str] = Counter()

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @hypothesis.given(RANDOMS)
    def holds(rng: random.Random) -> None:
        faulthandler.dump_traceback_later(SILENCE, exit=True)
        record.write_bytes(b"")
        data = draw(target, rng)
        record.write_bytes(data)
        reached[check(target, data, run=zlib.crc32(data) % EXECUTE == 0)] += 1

    holds()
    faulthandler.cancel_dump_traceback_later()
    print(*(f"{stage} {count}" for stage, count in reached.most_common()), sep=", ")


def _child(target: str, examples: int, seed: int, finds: Path) -> bool:
    """Whether a child found nothing; what it found is saved and shown."""
    with tempfile.TemporaryDirectory(prefix="symjax-nnvm-fuzz-") as folder:
        record = Path(folder) / "input"
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", target, "--record", str(record)]
        # LLVM's optimisation of programs that run once would be most of the time.
        environment = {"XLA_FLAGS": "--xla_backend_optimization_level=0", **os.environ}
        numbers = ["--examples", str(examples), "--seed", str(seed)]
        done = subprocess.run([*command, *numbers], env=environment, capture_output=True, text=True, errors="replace")
        if done.returncode:
            finds.mkdir(parents=True, exist_ok=True)
            place, data = finds / f"{target}-{seed}", record.read_bytes() if record.exists() else b""
            place.write_bytes(data)
            place.with_suffix(".txt").write_text(done.stderr, encoding="utf-8")
            print(
                f"finding: status {done.returncode}\n{done.stderr[-3000:]}\n{' '.join(command[3:6])} {place}",
                flush=True,
            )
    print(f"{target}, seed {seed}: {done.stdout.strip() or 'failed'}", flush=True)
    return done.returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    from tests.fuzz.targets import TARGETS

    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("file", nargs="?", type=Path, help="run this input again, and nothing else")
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first child; each has the next number")
    parser.add_argument("--jobs", type=int, default=1, help="children at a time")
    parser.add_argument("--finds", type=Path, default=Path("fuzz-finds"))
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.file:
        from tests.fuzz.targets import check

        print(check(options.target, options.file.read_bytes(), run=True))
        return 0
    if options.record:
        _fuzz(options.target, options.examples, options.seed, options.record)
        return 0
    first, last = options.seed, options.seed + -(-options.examples // CHUNK)
    size = min(CHUNK, options.examples)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(lambda seed: _child(options.target, size, seed, options.finds), range(first, last))
        return 0 if all(list(found)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
