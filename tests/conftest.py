"""How the suite is shared out: all tests of an operator on one worker, of each one case after the other, and the others
file by file.

JAX compiles each primitive once per process and shape, and a file's fixtures are made once per process: keeping an
operator's tests together halves the suite's time.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from symjax_nnvm.io.files import cache_folder

COMPILED_FAST = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": "false",
    "xla_cpu_parallel_codegen_split_count": "1",
}
"""What halves the suite's time: thousands of small programs are compiled, and each runs once or twice. The code of a
fusion is written by XLA's older generator and not optimised by LLVM; the passes that decide what is computed run as
ever. Set XLA_FLAGS to test with other flags; empty (`XLA_FLAGS=`) is with none."""


def _flags() -> str:
    """Those that the installed XLA knows, tried in child processes: it ends the process where it meets another."""
    flags = [f"--{name}={value}" for name, value in COMPILED_FAST.items()]
    return " ".join(flags if _starts_with(flags) else (flag for flag in flags if _starts_with([flag])))


def _starts_with(flags: list[str]) -> bool:
    env = os.environ | {"XLA_FLAGS": " ".join(flags), "JAX_PLATFORMS": "cpu"}
    return not subprocess.run(
        [sys.executable, "-c", "import jax; jax.devices()"], env=env, capture_output=True
    ).returncode


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

import jax
import pytest

from lowering.host.staged import effort
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import checking_passes
from tests.cases import Case
from tests.support import budget
from tests.support.poison import poison

# One device, as users have. Tests that are marked `eight_devices` run in child processes (tests/test_eight_devices.py).
jax.config.update("jax_num_cpu_devices", 8 if HAS_EIGHT_DEVICES else 1)

CLEAR_AFTER = 2500
"""Tests between two clearings of JAX's caches; otherwise compiled programs are kept, about 1 MB for each test."""

QUICK_RUNGS = {
    *("test_inference_agrees_with_the_lowered_result", "test_value_equals_mxnet", "test_json_round_trip"),
    "test_onnxruntime_computes_what_mxnet_does",
}
"""Rungs that the quick selection climbs with one case of each operator; of other tests it leaves out those that are
marked slow."""

SAMPLED_RUNGS: dict[str, Callable[[Case], object]] = {
    "test_jitted_equals_unjitted": lambda case: case.op,
    "test_vmap_equals_a_loop": lambda case: case.op,
    "test_numpy_evaluates_what_xla_computes": lambda case: case.op,
    "test_second_order_gradient_equals_vjp_of_grad": lambda case: case.op,
    "test_gradient_equals_vjp_and_finite_differences": lambda case: (
        case.op if case.is_train and not case.no_mxnet else case.id
    ),
}
"""Rungs of most of the ladder's time → what one case is enough for: each operator.

What they can reveal, a rule that asks for values it only has outside jit, that maps over the wrong axis, that has no
second derivative, hangs on the rule, not on further shapes and dtypes. First derivatives that MXNet computed are
compared with MXNet's, in every case; one of each operator is compared with JAX's and with differences, too.
`--whole-ladder`: every case.
"""

# JAX's caches are a large heap of long-lived objects, which Python's default thresholds walk over and over.
gc.set_threshold(100_000, 50, 100)

_since_clearing = 0


@pytest.fixture(autouse=True)
def sound_graphs() -> Iterator[None]:
    """Whatever pass runs in a test, what must hold of any graph holds of its result."""
    with checking_passes():
        yield


@pytest.fixture
def compiled_fully() -> Iterator[None]:
    """Every program of a test is compiled at its first call, for this platform."""
    with effort("full"):
        yield


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX without its autodiff."""
    poison(monkeypatch)


@pytest.fixture(autouse=True)
def bounded_caches() -> Iterator[None]:
    global _since_clearing
    yield
    _since_clearing += 1
    if _since_clearing == CLEAR_AFTER:
        _since_clearing = 0
        jax.clear_caches()


@pytest.fixture(scope="session")
def whole_ladder(request: pytest.FixtureRequest) -> bool:
    """Whether every case climbs every rung, and is compiled."""
    return bool(request.config.getoption("--whole-ladder"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole-ladder", action="store_true", help="every case on every rung, and compiled: twice as long"
    )
    parser.addoption(
        "--budget",
        action="store_true",
        help="tell where the time goes, and which tests take longer than they may: " + budget.MAY,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with budget.counted(item):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--budget"):
        budget.tell(terminalreporter)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _select(config, items, lambda item: bool(item.get_closest_marker("eight_devices")) == HAS_EIGHT_DEVICES)
    if "nightly" not in config.option.markexpr:
        _select(config, items, lambda item: not budget.is_nightly(item))
    if not config.getoption("--whole-ladder"):
        _sample(config, items)
    positions: dict[str, int] = {}
    sampled: set[tuple[str, str]] = set()

    def place(item: pytest.Item) -> tuple[int, int]:
        """The operator's place, and the case's among its own."""
        operator, case = _operator(item), _case(item)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(operator or re.sub(r"\W", "_", item.nodeid.partition("::")[0])))
        if operator is None:
            return (-1, 0)
        first = positions.setdefault(operator, len(positions))
        if case is None:
            return (first, -1)
        rung = item.name.partition("[")[0]
        if rung in QUICK_RUNGS and (rung, case.op) not in sampled:
            sampled.add((rung, case.op))
            item.add_marker(pytest.mark.quick)
        return (first, positions.setdefault(case.id, len(positions)))

    for item in items:
        if _case(item) is None and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.quick)
    items.sort(key=place)


def _sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that sampled rungs do not take."""
    first: dict[tuple[str, object], str] = {}

    def is_taken(item: pytest.Item) -> bool:
        case, rung = _case(item), item.name.partition("[")[0]
        if case is None or rung not in SAMPLED_RUNGS:
            return True
        kind = (rung, SAMPLED_RUNGS[rung](case))
        return first.setdefault(kind, case.id) == case.id

    _select(config, items, is_taken)


def _select(config: pytest.Config, items: list[pytest.Item], is_taken: Callable[[pytest.Item], bool]) -> None:
    """Deselect the tests that are not taken."""
    taken = [is_taken(item) for item in items]
    config.hook.pytest_deselected(items=[item for item, is_one in zip(items, taken, strict=True) if not is_one])
    items[:] = [item for item, is_one in zip(items, taken, strict=True) if is_one]


def _params(item: pytest.Item) -> dict[str, object]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params


def _case(item: pytest.Item) -> Case | None:
    case = _params(item).get("case")
    return case if isinstance(case, Case) else None


def _operator(item: pytest.Item) -> str | None:
    """The operator that a test is about: that of its case, or its parameter `op`."""
    case = _case(item)
    op = _params(item).get("op") if case is None else case.op
    if isinstance(op, Op):
        return op.name
    return (Op.get(op).name if Op.exists(op) else op) if isinstance(op, str) else None
