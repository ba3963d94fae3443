"""What a child process says of native code: what hangs, ends it or is wrong there is never called here."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowering.convolutions.backends import onednn
from lowering.convolutions.geometry import Epilogue, Geometry
from lowering.native import ask as asking
from lowering.native import trials

G = Geometry(1, (6, 6), 4, 16, (3, 3), (1, 1), (1, 1), (1, 1))
MAKES = "onednn_verbose,v1,primitive,create:cache_miss,cpu,convolution,{},forward_inference,0.3"

CHILD = """
import json, os, sys, time
print("READY with threads: {threads}", flush=True)
for line in sys.stdin:
    {does}
"""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A process that has asked nothing yet, with a place for answers of its own."""
    place = tmp_path / "symjax-nnvm" / "answers.json"
    for name in ("_child", "_trouble", "_answers"):
        monkeypatch.setattr(asking, name, None)
    monkeypatch.setattr(asking, "answers_file", lambda: place)
    yield place
    asking._end()


def says(monkeypatch: pytest.MonkeyPatch, does: str, threads: int = 0) -> None:
    monkeypatch.setattr(asking, "_PROGRAM", CHILD.format(does=does, threads=threads or asking._threads()))


def test_an_answer_is_kept_for_other_processes(alone: Path, monkeypatch: pytest.MonkeyPatch):
    says(monkeypatch, f"print({MAKES.format('brg_conv_fwd:avx512_core')!r}); print('ANSWER 16', flush=True)")
    assert asking.ask("block", G, Epilogue()) == 16
    asking._end()
    says(monkeypatch, "os.abort()")
    assert asking.ask("block", G, Epilogue()) == 16, "nothing is asked twice"
    monkeypatch.setattr(asking, "_answers", None)
    assert asking.ask("block", G, Epilogue()) == 16, "nor in another process"
    assert [*json.loads(alone.read_text()).values()] == [16]


@pytest.mark.slow("waits for processes or threads")
@pytest.mark.parametrize(
    "does",
    ["os.abort()", "os.kill(os.getpid(), 11)", "sys.exit(3)", "time.sleep(60)", "print('ANSWER 16', flush=True)"],
    ids=["abort", "segmentation fault", "error", "hang", "oneDNN did not say how"],
)
def test_what_ends_the_child_or_never_comes_back_is_not_used(does: str, alone: Path, monkeypatch: pytest.MonkeyPatch):
    says(monkeypatch, does)
    monkeypatch.setattr(asking, "SECONDS", 2.0)
    assert asking.ask("block", G, Epilogue()) is None
    assert asking.trouble() is None
    asking._end()
    says(monkeypatch, f"print({MAKES.format('jit:avx2')!r}); print('ANSWER 8', flush=True)")
    assert asking.ask("block", G, Epilogue(bias=True)) == 8, "another child answers the next question"


@pytest.mark.slow("waits for processes or threads")
@pytest.mark.parametrize("name", ["x64:gemm:jit", "ref:any", "gemm:blas"])
def test_code_that_is_not_made_for_the_geometry_is_not_used(name: str, alone: Path, monkeypatch: pytest.MonkeyPatch):
    """It is told before it computes, so the child is ended at once, and not when it hangs."""
    says(monkeypatch, f"print({MAKES.format(name)!r}, flush=True); time.sleep(60)")
    start = time.monotonic()
    assert asking.ask("block", G, Epilogue()) is None
    assert time.monotonic() - start < 30


def test_a_child_that_had_nothing_to_do_is_replaced(alone: Path, monkeypatch: pytest.MonkeyPatch):
    says(monkeypatch, f"print({MAKES.format('jit:avx2')!r}); print('ANSWER 8', flush=True); sys.exit(0)")
    assert asking.ask("block", G, Epilogue()) == 8
    assert asking.ask("block", G, Epilogue(bias=True)) == 8


def test_a_child_that_ended_is_waited_for(alone: Path, monkeypatch: pytest.MonkeyPatch):
    """Else it stays in the table of processes."""
    says(monkeypatch, f"print({MAKES.format('jit:avx2')!r}); print('ANSWER 8', flush=True); sys.exit(0)")
    assert asking.ask("block", G, Epilogue()) == 8
    assert asking._child is not None
    process, deadline = asking._child._process, time.monotonic() + 60
    while process.returncode is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.returncode == 0


@pytest.mark.slow("starts a process")
def test_the_child_imports_jax_and_few_of_our_modules(alone: Path, monkeypatch: pytest.MonkeyPatch):
    """It is waited for, and importing the whole package takes as long as JAX."""
    names = "print(*(name for name in sys.modules if name.startswith(('lowering.', 'symjax_nnvm'))), flush=True)"
    monkeypatch.setattr(asking, "_PROGRAM", asking._PROGRAM.replace("main()", names))
    child = asking._Child()
    assert set((child.line(60) or "").split()) == {
        "lowering.convolutions",
        "lowering.convolutions.geometry",
        "lowering.convolutions.layouts",
        "lowering.native",
        "lowering.native.onednn_call",
        "lowering.native.trials",
        "lowering.native.unpromised",
    }
    child.end()


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "import os; os.abort()"])
def test_without_a_child_nothing_is_used_and_nothing_kept(program: str, alone: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "_PROGRAM", program)
    assert asking.ask("block", G, Epilogue()) is None
    assert "the child process did not start" in (asking.trouble() or "")
    assert not alone.exists()


def test_a_child_with_other_threads_is_not_asked(alone: Path, monkeypatch: pytest.MonkeyPatch):
    """Weights may have another layout for them, and the numbers would be wrong here."""
    says(monkeypatch, "print('ANSWER 16', flush=True)", threads=asking._threads() + 1)
    assert asking.ask("block", G, Epilogue()) is None
    assert "threads" in (asking.trouble() or "")
    assert not alone.exists()


def test_an_interrupted_question_leaves_no_answer_to_the_next(alone: Path, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C while it is waited for: the child's late answer is of another question."""
    made = MAKES.format("jit:avx2")
    does = f"print({made!r}); print('ANSWER', {{'true': 64, 'false': 8}}[line.split('[')[-1][:5].strip(',').strip()])"
    says(monkeypatch, does + "; sys.stdout.flush()")
    assert asking.ask("block", G, Epilogue(bias=True)) == 64

    real = asking._Child.line

    def interrupted(child: Any, seconds: float) -> str | None:
        monkeypatch.setattr(asking._Child, "line", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(asking._Child, "line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asking.ask("block", G, Epilogue(bias=True, act_type="relu"))
    assert asking.ask("block", G, Epilogue()) == 8
    assert sorted(json.loads(alone.read_text()).values()) == [8, 64]


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("answer", ["7", "1", "0", "-1", "true", "64.0", "1000000", '"8"', "[8]"])
def test_a_block_that_none_can_be_is_no_answer(answer: str, alone: Path, monkeypatch: pytest.MonkeyPatch):
    """With one oneDNN would read beyond the weight: neither the child's word nor a file's is taken."""
    says(monkeypatch, f"print({MAKES.format('jit:avx2')!r}); print('ANSWER {answer}', flush=True)")
    assert asking.ask("block", G, Epilogue()) is None
    asking._end()
    question = next(iter(json.loads(alone.read_text())))
    alone.write_text(json.dumps({question: json.loads(answer)}))
    monkeypatch.setattr(asking, "_answers", None)
    says(monkeypatch, f"print({MAKES.format('jit:avx2')!r}); print('ANSWER 8', flush=True)")
    assert asking.ask("block", G, Epilogue()) == 8, "it is asked again"


@pytest.mark.parametrize("name", ["frozen", "executable", "child"])
def test_a_program_that_is_no_python_starts_none(name: str, alone: Path, monkeypatch: pytest.MonkeyPatch):
    """An application that is its own sys.executable would start itself, and that one itself."""
    match name:
        case "frozen":
            monkeypatch.setattr(asking.sys, "frozen", True, raising=False)
        case "executable":
            monkeypatch.setattr(asking.sys, "executable", None)
        case _:
            monkeypatch.setenv("SYMJAX_NNVM_IS_A_CHILD", "1")
    monkeypatch.setattr(asking, "_Child", lambda: pytest.fail("a process was started"))
    assert asking.ask("block", G, Epilogue()) is None
    assert "not a Python interpreter" in (asking.trouble() or "")


def test_whatever_starting_a_child_raises_nothing_is_used(alone: Path, monkeypatch: pytest.MonkeyPatch):
    def raises() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asking, "_Child", raises)
    assert asking.ask("block", G, Epilogue()) is None
    assert "can't start new thread" in (asking.trouble() or "")


def test_paths_that_are_no_text_reach_the_child(alone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(asking.sys, "path", [*asking.sys.path, tmp_path])
    says(monkeypatch, f"print({MAKES.format('jit:avx2')!r}); print('ANSWER 8', flush=True)")
    assert asking.ask("block", G, Epilogue()) == 8


def test_a_file_of_answers_that_is_none_is_not_read(alone: Path, monkeypatch: pytest.MonkeyPatch):
    alone.parent.mkdir()
    says(monkeypatch, f"print({MAKES.format('jit:avx2')!r}); print('ANSWER 8', flush=True)")
    for text in ("[", "[1, 2]", '{"a": "text"}', "9" * 10_000):
        alone.write_text(text)
        monkeypatch.setattr(asking, "_answers", None)
        assert asking.ask("block", G, Epilogue()) == 8, text


def test_answers_are_of_an_environment(monkeypatch: pytest.MonkeyPatch):
    place = asking.answers_file.__wrapped__
    here = place()
    assert here == place()
    for change in ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, {"DNNL_MAX_CPU_ISA": "AVX"}, {"XLA_FLAGS": "--xla_cpu_x=1"}):
        with monkeypatch.context() as patch:
            for name, value in change.items():
                patch.setenv(name, value)
            assert here is None or place() != here, change
    monkeypatch.setattr(asking, "_threads", lambda: 64)
    assert here is None or place() != here
    monkeypatch.setattr(asking, "Path", lambda path: Path("/no") / path[1:])  # /proc is hidden
    assert place() is None


def test_wrong_numbers_are_no_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trials, "_run", lambda place, g, *_: 0 * trials.np.zeros((g.batch, *g.out_size, g.filters)))
    assert trials.block(G, Epilogue(), None) is None
    assert not trials.computes(G)
    products = [(1, 60, 8, 9, True), (3, 60, 8, 9, True), (3, 60, 8, 9, False)]
    for shape in products:
        assert trials.multiplies(*shape) is (onednn.why_not() is None)
    monkeypatch.setattr(trials, "_compiled", lambda *_: lambda a, b: trials.np.zeros((3, 8, 9), "float32"))
    assert not any(trials.multiplies(*shape) for shape in products)


@pytest.mark.skipif(onednn.why_not() is not None, reason="jaxlib has no oneDNN on this platform")
def test_a_dilated_depthwise_convolution_is_left_to_xla():
    """oneDNN computes it by `gemm`, which waits for workers that wait for it."""
    g = Geometry(16, (14, 14), 8, 8, (1, 7), (1, 1), (3, 1), (7, 2), groups=8)
    assert onednn.block(g, Epilogue()) is None
    assert not onednn.computes(g)
