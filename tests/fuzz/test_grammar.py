"""A short run of the grammars in the suite; and that their harness notices what it is there to notice.

`python -m tests.fuzz.run --target symbol_grammar` takes hundreds of thousands of inputs to the end.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.op import Op
from tests.fuzz import array_grammar, grammar, run, worker, workers
from tests.fuzz.arrays_to_the_end import arrays_to_the_end
from tests.fuzz.targets import Hang

SYMBOLS = range(150)
ARRAYS = range(300)


# -- the library holds the contract ----------------------------------------------------------------------------------


def test_symbols_of_the_grammar_come_to_an_end():
    reached = Counter(worker.take_to_the_end("symbol_grammar", worker.draw("symbol_grammar", 0, i)) for i in SYMBOLS)
    assert reached["traced"] > 0.2 * len(SYMBOLS), reached
    assert reached["refused"] < 0.05 * len(SYMBOLS), "the grammar's files should be legal"


def test_arrays_of_the_grammar_come_to_an_end():
    reached = Counter(worker.take_to_the_end("array_grammar", worker.draw("array_grammar", 0, i)) for i in ARRAYS)
    assert reached["saved"] > 0.2 * len(ARRAYS), reached


def test_a_symbol_is_compiled_and_run_when_it_is_asked_for():
    text = sym.relu(sym.Variable("x", shape=(2, 3))).tojson().encode()
    assert worker.take_to_the_end("symbol_grammar", text) == "traced"
    assert worker.take_to_the_end("symbol_grammar", text, execute=True) == "executed"


# -- the grammar -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", workers.GRAMMAR_TARGETS)
def test_an_input_depends_on_its_number_alone(target: str):
    first, again, other = (worker.draw(target, 0, 7), worker.draw(target, 0, 7), worker.draw(target, 1, 7))
    assert first == again != other


def test_the_grammar_draws_of_everything_that_a_file_may_hold():
    ops: set[str] = set()
    seen: Counter[str] = Counter()
    for i in range(600):
        document = json.loads(grammar.draw_symbol(random.Random(i)).decode("utf-8", "surrogatepass"))
        nodes = document["nodes"]
        names = [node["name"] for node in nodes]
        ops |= {Op.get(node["op"]).name for node in nodes if node["op"] not in ("null", "Custom")}
        readers = Counter(entry[0] for node in nodes for entry in node["inputs"])
        seen["shared input"] += max(readers.values(), default=0) > 1
        seen["subgraph"] += any("subgraphs" in node for node in nodes)
        seen["control dependency"] += any("control_deps" in node for node in nodes)
        seen["version"] += any(entry[2:] not in ([], [0]) for node in nodes for entry in node["inputs"])
        seen["one name twice"] += len(set(names)) < len(names)
        seen["Custom"] += any(node["op"] == "Custom" for node in nodes)
        seen["many heads"] += len(document["heads"]) > 100
        seen["deep chain"] += len(nodes) > 1000
        seen["extreme number"] += any("2147483648" in str(node.get("attrs")) for node in nodes)
    assert len(ops) > 250
    assert all(seen.values()), seen
    assert len(seen) == 9


def test_the_array_grammar_draws_every_kind_of_file():
    files = [array_grammar.draw_arrays(random.Random(i)) for i in range(300)]
    starts = Counter(data[:2] for data in files)
    assert starts[b"\x12\x01"] > 50
    assert starts[b"PK"] > 30
    assert starts[b"\x93N"] > 10
    assert len({arrays_to_the_end(data) for data in files[:60]}) >= 3


# -- the harness notices ---------------------------------------------------------------------------------------------


def test_the_limits_count_processor_time_and_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "CPU_SECONDS", 0.05)
    with pytest.raises(Hang, match=r"more than 0\.05 s of processor time"), worker.limits():
        sum(i for i in range(1 << 30))
    with worker.limits():
        time.sleep(0.2)
    peaks = iter((0, worker.MEMORY_GROWTH + 1))
    monkeypatch.setattr(worker, "_peak", lambda: next(peaks))
    with pytest.raises(AssertionError, match="the process grew"), worker.limits():
        pass


@pytest.mark.parametrize(("kernel", "reached"), [(3, "executed"), (1000, "traced")])
def test_what_takes_long_is_not_executed(kernel: int, reached: str):
    x = sym.Variable("x", shape=(1, 1, 2, 2))
    net = sym.Pooling(x, kernel=(kernel, kernel), pad=(kernel - 1, kernel - 1), pool_type="sum")
    assert worker.take_to_the_end("symbol_grammar", net.tojson().encode(), execute=True) == reached


_BROKEN = """
import os, signal, sys
from tests.fuzz import worker
def broken(target, data, *, execute):
    number = len(data)
    if number == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 5:
        raise ZeroDivisionError("not one of ours")
    return "saved"
worker.take_to_the_end, worker.draw = broken, lambda target, seed, number: b"x" * number
worker.main()
"""


def test_an_input_that_ends_its_process_is_kept_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    script, start = tmp_path / "broken.py", subprocess.Popen
    script.write_text(_BROKEN)

    def launch(command: list[str], **options):
        assert command[1:3] == ["-m", "tests.fuzz.worker"]
        path = {**options["env"], "PYTHONPATH": str(Path.cwd())}
        return start([sys.executable, str(script), *command[3:]], **{**options, "env": path})

    monkeypatch.setattr(workers.subprocess, "Popen", launch)
    finds = tmp_path / "finds"
    assert run.main(["--target", "array_grammar", "--executions", "9", "--finds", str(finds)]) == 1
    assert (finds / "array_grammar-3").read_bytes() == b"xxx"
    assert (finds / "array_grammar-5").read_bytes() == b"xxxxx"
    output = capsys.readouterr().out
    assert "the process ended: SIGSEGV, number 3" in output
    assert "ZeroDivisionError at outside, number 5" in output
    assert "not one of ours" in (finds / "array_grammar-5.txt").read_text()


def test_numbers_are_shared_out_among_children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    asked: list[list[str]] = []

    def launch(command: list[str], **options):
        asked.append(command)
        lines = '{"number": 3, "counts": {"saved": 2}}'
        return started(["echo", lines], **options)

    started = subprocess.Popen
    monkeypatch.setattr(workers.subprocess, "Popen", launch)
    outcome = workers.fuzz_in_workers("array_grammar", 4, seed=5, start=0, jobs=2, execute=10, finds=tmp_path / "finds")
    assert sorted(command[command.index("--start") + 1] for command in asked) == ["0", "1"]
    assert all(command[command.index("--step") + 1] == "2" for command in asked)
    assert (outcome.executions, outcome.findings) == (4, Counter())
