"""A short run of the fuzz targets in the suite; and that they notice what they are there to notice.

`python -m tests.fuzz.run` runs them for hundreds of thousands of inputs.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symjax_nnvm.errors import JSONFormatError
from tests.fuzz import corpus, mutate, run, targets
from tests.fuzz.mutate_onnx import mutate_onnx
from tests.fuzz.onnx_corpus import onnx_models
from tests.fuzz.targets import TARGETS, Hang, contract
from tests.onnx.not_back import NOT_BACK

TEXTS = corpus.symbol_texts(every=12)
FILES = corpus.array_fields()
ARCHIVES = corpus.zip_members()
RECORDS = corpus.record_fields()
MODELS = onnx_models(every=12)

short = settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    database=None,
)
randoms = st.randoms(use_true_random=False)


# -- the readers hold the contract -----------------------------------------------------------------------------------


@short
@given(randoms, st.sampled_from(TEXTS), st.sampled_from(TEXTS))
def test_mutated_symbols(rng: random.Random, text: str, other: str):
    TARGETS["symbol_json"](mutate.mutate_json(rng, text, other))


@short
@given(randoms, st.sampled_from(FILES), st.sampled_from(FILES))
def test_mutated_array_files(rng: random.Random, fields: corpus.Fields, other: corpus.Fields):
    TARGETS["params"](mutate.mutate_params(rng, fields, other))


@short
@given(randoms, st.sampled_from(ARCHIVES), st.sampled_from(ARCHIVES))
def test_mutated_zip_files(rng: random.Random, members: dict[str, bytes], other: dict[str, bytes]):
    TARGETS["zip"](mutate.mutate_zip(rng, members, other))


@short
@given(randoms, st.sampled_from(RECORDS), st.sampled_from(RECORDS))
def test_mutated_record_files(rng: random.Random, fields: corpus.Fields, other: corpus.Fields):
    TARGETS["records"](mutate.mutate_params(rng, fields, other))


@short
@given(randoms, st.sampled_from(MODELS), st.sampled_from(MODELS))
def test_mutated_onnx_models(rng: random.Random, model: bytes, other: bytes):
    TARGETS["onnx"](mutate_onnx(rng, model, other))


@short
@given(st.binary(max_size=200), st.sampled_from(list(TARGETS)))
def test_any_bytes(data: bytes, target: str):
    TARGETS[target](data)


# -- the harness notices ---------------------------------------------------------------------------------------------


def test_every_seed_is_accepted():
    assert all(TARGETS["symbol_json"](text.encode()) for text in TEXTS)
    assert all(TARGETS["params"](corpus.join(fields)) for fields in FILES)
    assert all(TARGETS["records"](corpus.join(fields)) for fields in RECORDS)
    assert TARGETS["predictor_folder"](corpus.predictor_folder().text.encode())
    # The last archive is a sparse array of MXNet 2.0.
    assert all(TARGETS["zip"](corpus.zip_of(members)) for members in ARCHIVES[:-1])
    # A few of the table's cases cannot be read back: tests/onnx/not_back.py.
    assert sum(not TARGETS["onnx"](model) for model in MODELS) <= len(NOT_BACK) // 2


@pytest.mark.parametrize("target", TARGETS)
def test_mutants_are_repeatable_and_some_are_accepted(target: str):
    draw = run.mutator(target)
    rngs = random.Random(1), random.Random(1)
    first, second = ([draw(rng) for _ in range(100)] for rng in rngs)
    assert first == second
    assert 3 <= sum(map(TARGETS[target], first)) <= 80


def test_the_corpus_is_the_same_every_time(tmp_path: Path):
    for name in ("a", "b"):
        corpus.write(tmp_path / name, "zip")
    assert {p.name for p in (tmp_path / "a").iterdir()} == {p.name for p in (tmp_path / "b").iterdir()} != set()


def test_the_contract_notices_time_and_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(targets, "TIME_LIMIT", 0.02)
    with pytest.raises(Hang, match=r"more than 0\.02 s"), contract(0):
        time.sleep(5)
    peaks = iter((1 << 30, (1 << 30) + targets.MEMORY_CONSTANT + 10))
    monkeypatch.setattr(targets, "_peak", lambda: next(peaks))
    with pytest.raises(AssertionError, match="67108874 bytes of memory for an input of 1"), contract(1):
        pass


def test_a_finding_is_saved_once_per_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys):
    def broken(data: bytes) -> bool:
        raise TypeError("not one of ours") if len(data) % 2 else JSONFormatError("one of ours, but it escaped")

    monkeypatch.setitem(run.TARGETS, "zip", broken)
    assert run.main(["--target", "zip", "--executions", "50", "--finds", str(tmp_path)]) == 1
    assert len(list(tmp_path.glob("zip-*.txt"))) == 2
    assert "TypeError" in capsys.readouterr().out


def test_a_clean_run_ends_with_status_0(tmp_path: Path):
    assert run.main(["--target", "params", "--executions", "50", "--finds", str(tmp_path / "finds")]) == 0
    assert not (tmp_path / "finds").exists()
