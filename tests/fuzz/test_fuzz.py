"""A short run of the fuzz targets in the suite; and that they notice what they are there to notice.

`python -m tests.fuzz TARGET` runs many more inputs.
"""

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.op import Op
from tests.fuzz import __main__ as runner
from tests.fuzz import contract, corpus
from tests.fuzz.contract import Hang
from tests.fuzz.grammar import draw_symbol
from tests.fuzz.onnx_corpus import onnx_models
from tests.fuzz.targets import RANDOMS, TARGETS, check, draw
from tests.onnx.not_back import NOT_BACK
from tests.support import warm

# -- the readers hold the contract -----------------------------------------------------------------------------------


LENGTHS = [pytest.param(4, id="short"), pytest.param(1, id="long", marks=pytest.mark.nightly("four times as many"))]


@pytest.mark.nightly("every format", but_one_in=3)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("part", LENGTHS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_input_is_read_or_refused_with_an_error_of_ours(target: str, part: int):
    # The same inputs every time: new ones are for `python -m tests.fuzz`.
    @settings(
        max_examples=TARGETS[target].examples // part,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        database=None,
        derandomize=True,
    )
    @given(RANDOMS)
    def holds(rng: random.Random) -> None:
        check(target, draw(target, rng))

    holds()


LEAST = {"symbol_json": "loaded", "symbol_grammar": "traced", "arrays": "saved", "records": "read", "onnx": "loaded"}
LEAST["source"] = "printed"
"""The stage that a part of the inputs must reach, or the target tests the first check alone."""


@pytest.mark.nightly("every format", but_one_in=3)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_are_repeatable_and_a_part_of_them_comes_far(target: str):
    first, again = ([draw(target, random.Random(i)) for i in range(60)] for _ in range(2))
    assert first == again
    reached = Counter(check(target, data) for data in first)
    assert 3 <= reached[LEAST.get(target, "predicted")] < 60, reached
    assert target != "symbol_grammar" or reached["refused"] < 6, "the grammar's files should be legal"


# -- what is drawn ---------------------------------------------------------------------------------------------------


@pytest.mark.slow("computes much")
def test_every_seed_is_accepted():
    assert all(check("symbol_json", text.encode()) == "loaded" for text in corpus.symbol_texts()[::24])
    assert all(check("arrays", corpus.join(fields)) != "refused" for fields in corpus.array_fields())
    assert all(check("records", corpus.join(fields)) == "read" for fields in corpus.record_fields())
    assert check("predictor_folder", corpus.predictor_folder().text.encode()) == "predicted"
    assert all(check("arrays", corpus.zip_of(members)) != "refused" for members in corpus.zip_members())
    # A few of the table's cases cannot be read back: tests/onnx/not_back.py.
    assert sum(check("onnx", model) == "refused" for model in onnx_models()[::24]) <= len(NOT_BACK) // 2


@pytest.mark.slow("computes much")
def test_the_grammar_draws_of_everything_that_a_file_may_hold():
    ops: set[str] = set()
    seen: Counter[str] = Counter()
    for i in range(600):
        document = json.loads(draw_symbol(random.Random(i)).decode("utf-8", "surrogatepass"))
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


@pytest.mark.slow("computes much")
def test_every_kind_of_array_file_is_drawn():
    starts = Counter(draw("arrays", random.Random(i))[:2] for i in range(300))
    assert starts[b"\x12\x01"] > 50
    assert starts[b"PK"] > 30
    assert starts[b"\x93N"] > 10
    assert sum(starts.values()) - starts[b"\x12\x01"] - starts[b"PK"] - starts[b"\x93N"] > 20  # safetensors


# -- the harness notices ---------------------------------------------------------------------------------------------


def test_the_contract_counts_processor_time_and_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contract, "CPU_SECONDS", 0.05)
    with pytest.raises(Hang, match=r"more than 0\.05 s of processor time"), contract.contract(0):
        sum(i for i in range(1 << 30))
    with contract.contract(0):
        time.sleep(0.2)
    peaks = iter((1 << 30, (1 << 30) + contract.READ_MEMORY + 10))
    monkeypatch.setattr(contract, "_peak", lambda: next(peaks))
    with pytest.raises(AssertionError, match="67108874 bytes of memory for an input of 1"), contract.contract(1):
        pass


@pytest.mark.parametrize(("kernel", "reached"), [(3, "executed"), (1000, "traced")])
def test_a_symbol_is_run_when_it_is_asked_for_unless_that_takes_long(kernel: int, reached: str):
    x = sym.Variable("x", shape=(1, 1, 2, 2))
    net = sym.Pooling(x, kernel=(kernel, kernel), pad=(kernel - 1, kernel - 1), pool_type="sum").tojson().encode()
    assert check("symbol_grammar", net) == "traced"
    assert check("symbol_grammar", net, run=True) == reached


BROKEN = """
import os, random, signal
from tests.fuzz import __main__, targets
def broken(target, data, *, run):
    if len(data) == 3: {does}
    return "saved"
targets.check, targets.draw = broken, lambda target, rng: b"x" * rng.randrange(9)
raise SystemExit(__main__.main())
"""


@pytest.mark.nightly("starts processes")
@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "finding: status -11"),
        ("raise ZeroDivisionError('not one of ours')", "not one of ours"),
        ("pass", "saved "),
    ],
)
def test_the_input_that_fails_or_ends_its_process_is_kept_and_shrunk(
    does: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN.format(does=does))

    def launch(command: list[str], **options):
        assert command[3:5] == ["-m", "tests.fuzz"]
        return warm.run([str(script), *command[5:]], env=options["env"])

    monkeypatch.setattr(runner.subprocess, "run", launch)
    finds = tmp_path / "finds"
    status = runner.main(["arrays", "--examples", "40", "--seed", "7", "--finds", str(finds)])
    assert said in capsys.readouterr().out
    assert (status, finds.exists()) == ((0, False) if does == "pass" else (1, True))
    if status:
        assert (finds / "arrays-7").read_bytes() == b"xxx"


def test_a_file_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "input").write_bytes(corpus.join(corpus.array_fields()[-1]))
    assert runner.main(["arrays", str(tmp_path / "input")]) == 0
    assert "saved" in capsys.readouterr().out
