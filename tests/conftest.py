"""How the suite is shared out: file by file, whose fixtures are made once per process, and the ladder operator by
operator. JAX is imported by the functions that need it: the process that hands out the tests runs none, and XLA reads
its flags when JAX is imported."""

import gc
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from zlib import crc32

import pytest

from symjax_nnvm.io.files import cache_folder
from tests.support import budget
from tests.support.together import as_tables

COMPILED_FAST = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_llvm_disable_expensive_passes": "true",
}
"""What halves the suite's time: thousands of small programs are compiled, and each runs once or twice. The code of a
fusion is written by XLA's older generator and not optimised by LLVM; the passes that decide what is computed run as
ever. Set XLA_FLAGS to test with other flags; empty (`XLA_FLAGS=`) is with none."""


def _flags() -> str:
    """Those that the installed XLA knows, tried in child processes: it ends the process where it meets another."""
    flags = [f"--{name}={value}" for name, value in COMPILED_FAST.items()]
    return " ".join(flags if _starts_with(flags) else (flag for flag in flags if _starts_with([flag])))


_STARTS = """
try:
    from jaxlib.xla_client import make_cpu_client as start  # a fifth of the time that JAX takes
except ImportError:
    from jax import devices as start
start()
"""


def _starts_with(flags: list[str]) -> bool:
    env = os.environ | {"XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}
    return not subprocess.run([sys.executable, "-c", _STARTS], env=env, capture_output=True).returncode


if "XLA_FLAGS" not in os.environ:
    os.environ["XLA_FLAGS"] = _flags()  # pytest-xdist's workers have it from here


def _cache_without_tables() -> tempfile.TemporaryDirectory[str] | None:
    """The user's answers of what native code can do without the user's timings of algorithms, which would decide what
    tests compute; None where there are none."""
    folder = cache_folder()
    if not any(folder.glob("algorithms_*.json")):
        return None
    copied = tempfile.TemporaryDirectory()
    shutil.copytree(folder, Path(copied.name) / folder.name, ignore=shutil.ignore_patterns("algorithms_*.json"))
    return copied


HAS_EIGHT_DEVICES = os.environ.get("TESTS_HAVE_EIGHT_DEVICES") == "1"
"""Set by `tests/test_eight_devices.py` for its child processes."""

if (_cache := _cache_without_tables()) is not None:
    os.environ["XDG_CACHE_HOME"] = _cache.name  # for child processes and workers, too

CLEAR_AFTER = 2500
"""Tests between two clearings of JAX's caches, an operator's ladder as `AN_OPERATOR`; otherwise compiled programs are
kept, about 1 MB for each test."""

AN_OPERATOR = 25

# JAX's caches are a large heap of long-lived objects, which Python's default thresholds walk over and over.
gc.set_threshold(100_000, 50, 100)

_since_clearing = 0
_began = perf_counter()


def pytest_configure(config: pytest.Config) -> None:
    """One device, as users have, where tests run. Those that are marked `eight_devices` run in child processes
    (tests/test_eight_devices.py)."""
    if hasattr(config, "workerinput") or not getattr(config.option, "tx", None):
        import jax

        jax.config.update("jax_num_cpu_devices", 8 if HAS_EIGHT_DEVICES else 1)
        _share_contexts()


def _share_contexts() -> None:
    """One of MLIR's contexts for 100 programs of a thread, where JAX makes one for each: that takes it 4 ms, a quarter
    of what a small program takes to compile. A context has types and constants; a program's names are its module's."""
    from jax._src.interpreters import mlir

    if (make := getattr(mlir, "make_ir_context", None)) is None:
        return
    of_thread = threading.local()

    def shared() -> object:
        of_thread.programs = getattr(of_thread, "programs", 100) + 1
        if of_thread.programs > 100:
            of_thread.context, of_thread.programs = make(), 1
        return of_thread.context

    mlir.make_ir_context = shared


@pytest.fixture(autouse=True)
def sound_graphs() -> Iterator[None]:
    """Whatever pass runs in a test, what must hold of any graph holds of its result."""
    from symjax_nnvm.ir.pass_registry import checking_passes

    with checking_passes():
        yield


@pytest.fixture
def compiled_fully() -> Iterator[None]:
    """Every program of a test is compiled at its first call, for this platform."""
    from lowering.host.staged import effort

    with effort("full"):
        yield


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX without its autodiff."""
    from tests.support.poison import poison

    poison(monkeypatch)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rung", help="of tests/ops/test_ladder.py this rung alone")
    parser.addoption(
        "--whole-ladder", action="store_true", help="every case on every rung, and compiled: twice as long"
    )
    parser.addoption("--seed", help="draw the order of files and operators by this text")
    parser.addoption("--minutes", type=float, help="skip what has not begun after so long")
    parser.addoption(
        "--budget",
        action="store_true",
        help="tell where the time goes, and which tests take longer than they may: " + budget.MAY,
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    import numpy as np

    from lowering.mx import keys

    number = crc32(item.nodeid.encode())  # a test's random numbers depend on its name alone, not on what ran before it
    keys.seed(number)
    np.random.seed(number)
    random.seed(number)
    minutes = item.config.getoption("--minutes")
    if minutes is not None and perf_counter() - _began > 60 * minutes:
        pytest.skip("its time is over")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with budget.counted(item):
        yield


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """JAX's caches are bounded."""
    import jax

    global _since_clearing
    _since_clearing += AN_OPERATOR if _is_of_the_ladder(item) else 1
    if _since_clearing >= CLEAR_AFTER:
        _since_clearing = 0
        jax.clear_caches()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--budget"):
        budget.tell(terminalreporter)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _select(config, items, lambda item: bool(item.get_closest_marker("eight_devices")) == HAS_EIGHT_DEVICES)
    if "nightly" not in config.option.markexpr:
        left = budget.nightly(items)
        _select(config, items, lambda item: item not in left)
    items[:] = as_tables(items)
    for item in items:
        if not _is_of_the_ladder(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(re.sub(r"\W", "_", item.nodeid.partition("::")[0])))
        if item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)
    items.sort(key=_is_of_the_ladder)
    if (seed := config.getoption("--seed")) is not None:
        items[:] = budget.drawn(items, seed)


def _is_of_the_ladder(item: pytest.Item) -> bool:
    """Whether a test is of one operator alone: those are many and small, so they come last and fill both workers."""
    return item.path.name == "test_ladder.py"


def _select(config: pytest.Config, items: list[pytest.Item], is_taken: Callable[[pytest.Item], bool]) -> None:
    """Deselect the tests that are not taken."""
    taken = [is_taken(item) for item in items]
    config.hook.pytest_deselected(items=[item for item, is_one in zip(items, taken, strict=True) if not is_one])
    items[:] = [item for item, is_one in zip(items, taken, strict=True) if is_one]
