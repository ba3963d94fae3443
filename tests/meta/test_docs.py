"""What the pages show is what happens: each block of code on them is run, or says here why it is not."""

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.cli import main
from tests.support.ladder import GOLDENS
from tests.support.pages import PAGES, ROOT, Block, blocks, blocks_of, commands, of_mxnet, text_of

Names = dict[str, Any]

# -- pages that run from top to bottom ---------------------------------------------------------------------------------


def check_migrating(names: Names, printed: str) -> None:
    assert "No problem" in printed
    assert names["history"]["accuracy"][-1] > 0.6, "Fine-tune learns the five grades"
    assert names["frozen_history"]["accuracy"][-1] > 0.6, "Freeze learns them with the features as they are"
    assert {"conv_weight", "conv_bias", "bn_gamma", "bn_beta"} == set(names["frozen"].state.frozen)
    np.testing.assert_allclose(
        np.exp(names["vectors"])[:, 1] / np.exp(names["vectors"]).sum(1), names["probabilities"][:, 1], 1e-4
    )
    assert 0 < names["loss"] < 5, "the loop of one's own takes its step"
    files = {path.name for path in Path.cwd().iterdir()}
    assert {f"model-000{epoch}.params" for epoch in range(1, 6)} <= files, "one pair of files for each epoch"
    assert {"model.stablehlo", "model.mlir"} <= files
    assert Path("model.mlir").read_text(encoding="utf-8").startswith("module @")


def check_training(names: Names, printed: str) -> None:
    assert Path("circle-0015.params").exists()
    assert "finite" in printed


def check_executor(names: Names, printed: str) -> None:
    assert names["accuracy"] > 0.9


def check_mirroring(names: Names, printed: str) -> None:
    stored, mirrored = (float(line.split()[1]) for line in printed.splitlines())
    assert mirrored < stored / 2


def check_data(names: Names, printed: str) -> None:
    assert names["history"]["accuracy"][-1] > 0.9, "images of two brightnesses are told apart"
    assert "[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [1.0, 2.0]]]" in printed
    assert "1.0 (40, 56, 3)" in printed


CHECKS: dict[str, Callable[[Names, str], None]] = {
    "docs/guide/data.md": check_data,
    "docs/guide/executor.md": check_executor,
    "docs/guide/migrating.md": check_migrating,
    "docs/guide/mirroring.md": check_mirroring,
    "docs/guide/training.md": check_training,
}
"""Page → what must hold of the names and the text that its blocks leave, beside what the page says is printed."""

RUN_BY_THEIR_TESTS = {
    "CONTRIBUTING.md": "tests/meta/test_contributing.py, in a copy of the repository",
    "docs/internals/extending.md": "tests/meta/test_extending.py, which takes out again what each example adds",
    "docs/guide/command.md": "tests/cli/test_docs.py, in a folder with the models of which it speaks",
    "docs/reference/versions.md": "tests/cli/test_env.py",
}


def runs_here(page: str) -> bool:
    return page not in RUN_BY_THEIR_TESTS and any(block.language == "python" for block in blocks_of(page))


def without_rounding(text: str) -> str:
    """Rounding errors differ between machines: 3.3e-17 and 0.0e+00 both read `#`; columns may shift with them."""
    return re.sub(r"[ \-]+", " ", re.sub(r"\d\.\de-\d\d|0\.0e\+00", "#", text)).strip()


def on_its_devices(page: str):
    """The page as a parameter; that about meshes runs where several devices are."""
    return pytest.param(page, marks=[pytest.mark.eight_devices] * (page == "docs/guide/scaling.md"))


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("page", [*map(on_its_devices, filter(runs_here, PAGES))])
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: Names = {}
    printed, everything = "", ""
    for block in blocks_of(page):
        if block.language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, page, "exec", dont_inherit=True), names)
            printed = out.getvalue()
            everything += printed
        elif block.language == "":
            assert without_rounding(printed) == without_rounding(block.text)
        elif block.language == "indented":
            for command in filter(is_ours, commands(block)):
                assert main(shlex.split(command)[1:]) == 0, command
    CHECKS.get(page, lambda names, printed: None)(names, everything)


FIRST_BLOCKS = """
import contextlib, importlib.abc, io, json, sys
from tests.support.pages import PAGES, blocks_of

class Nothing(importlib.abc.MetaPathFinder):
    "What README's first command does not install."
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
for page in PAGES[0], *PAGES[4:]:
    code = [block.text for block in blocks_of(page) if block.language == "python"][:1]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec("".join(code), {"__name__": "page"})
    except ImportError as error:
        print(json.dumps([page, code[0], str(error)]))
    except NameError:
        pass  # a page of pieces
"""
NOT_INSTALLED = "onnx,onnxruntime,cv2,PIL,grain,orbax,safetensors,flatbuffers,graphviz,starlette,uvicorn,httpx"


@pytest.mark.nightly("runs every page once more")
@pytest.mark.slow("starts processes")
def test_a_page_says_above_its_first_block_what_more_has_to_be_installed(tmp_path: Path):
    command = [sys.executable, "-W", "ignore", "-c", FIRST_BLOCKS, NOT_INSTALLED]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    lacking = {page: (code, why) for page, code, why in map(json.loads, done.stdout.splitlines())}
    assert lacking.keys() == {"docs/guide/data.md", "docs/guide/onnx.md"}
    for page, (code, why) in lacking.items():
        extra = re.search(r"symjax-nnvm\[(\w+)\]", why)
        assert extra is not None, why
        assert f"pip install '.[{extra[1]}]'" in text_of(page).partition(code)[0]


EXECUTORS_ROWS = re.findall(
    r"^\| .* \| (?:[^|`]*)`(ex\.[^`…]+|np\.[^`…]+)` \|$", text_of("docs/guide/executor.md"), re.MULTILINE
)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("code", EXECUTORS_ROWS)
def test_what_executor_says_to_write_instead_runs(code: str):
    ex = lowering.simple_bind(sym.tanh(sym.Variable("w")), grad_req="add", w=(5, 3))
    ex.forward(is_train=True)
    ex.backward([np.ones((5, 3), np.float32)])
    assert np.all(ex.grad_dict["w"])
    exec(code, {"ex": ex, "np": np, "x": 2.0})
    assert bool(np.any(ex.arg_dict["w"] == 2.0)) == code.startswith("ex.arg")
    assert bool(np.all(ex.grad_dict["w"])) != code.startswith("ex.grad")
    assert len(EXECUTORS_ROWS) >= 5


# -- MXNet's half ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "py")])
def test_mxnets_code_on_a_page_ran_in_mxnet(page: str):
    ran = json.loads((GOLDENS / "pages.json").read_text(encoding="utf-8"))
    found = [block.digest for block in of_mxnet(page)]
    assert ran[page] == found, "it has changed: run mxnet-env/bin/python -m tests.goldens.pages (CONTRIBUTING.md)"


# -- commands ----------------------------------------------------------------------------------------------------------

NOT_RUN = {
    r"python3(\.\d+)? -m venv \S+ && .*pip install .*": "it fetches packages; .ci/run does it with README's own lines",
    r"pip install '?\.(\[\w+\])?'?": "it fetches packages; tests/meta/test_install.py looks at what an install leaves",
    r"bash \.ci/run": "it runs this suite",
    r"git (tag|push) .*|pip (wheel|install) .*\bdist\b.*": "they make a version: docs/internals/releasing.md",
    r"export JAX_\w+=\S+( +#.*)?": "a setting of JAX's; tests/cli/test_compilation_cache.py runs the command under it",
    r"(\.venv/bin/)?python -m pytest .*": "it runs this suite",
}
"""Commands, as regular expressions → why no test runs them. Of scripts see `is_script`."""


def is_ours(command: str) -> bool:
    """Whether it is the command `symjax-nnvm`, which is run as the page has it."""
    return command.startswith("symjax-nnvm ")


def script_of(command: str) -> Path | None:
    """The file of a long measurement, a fuzzing or a maker of goldens, which is not run: its words are looked up."""
    found = re.match(r"(?:mxnet-env/bin/)?python (?:-m ([\w.]+)|(\S+\.py))", command)
    if found is None or found[1] == "pytest":
        return None
    module = ROOT / (found[2] or found[1].replace(".", "/"))
    return module / "__main__.py" if module.is_dir() else module.with_suffix(".py")


def commands_of_pages() -> list[tuple[str, str]]:
    drawn = "docs/internals/architecture.md", "docs/internals/tape.md"  # their indented blocks are pictures
    return [
        (page, command)
        for page in PAGES
        if page not in drawn
        for block in blocks_of(page)
        if block.language == "indented"
        for command in commands(block)
    ]


SHARED_OPTIONS = {
    "tests.peers.run import arguments": "tests/peers/run.py",
    "tests.peers.tutorials import": "tests/peers/tutorials.py",
}
"""What a script has that takes the options of another file."""


@pytest.mark.parametrize(("page", "command"), commands_of_pages())
def test_a_command_is_run_or_says_why_not(page: str, command: str):
    script = script_of(command)
    if is_ours(command):
        assert runs_here(page) or page in RUN_BY_THEIR_TESTS
    elif script is not None:
        options = re.findall(r"--[\w-]+", command)
        text = script.read_text(encoding="utf-8")
        for call, file in SHARED_OPTIONS.items():
            text += (ROOT / file).read_text(encoding="utf-8") if call in text else ""
        parameters = {option: rf"\b{option[2:].replace('-', '_')}: " for option in options}
        assert [o for o in options if f'"{o}"' not in text and not re.search(parameters[o], text)] == []
        subcommands = re.search(r"run\(__doc__, (\w+, .*)\)", text)
        assert subcommands is None or command.split()[2] in subcommands[1].split(", ")
    else:
        assert any(re.fullmatch(known, command) for known in NOT_RUN)


def test_options_of_pytest_that_pages_name_exist():
    named = " ".join(command.partition("-m pytest")[2] for _, command in commands_of_pages())
    conftest = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    assert all(f'"{option}"' in conftest for option in ("--whole-ladder", "--rung", "--seed", "--minutes"))
    assert set(re.findall(r"(?<!\S)--?\S+(?: [a-z]+)?", named)) == {
        "--whole-ladder",
        "--rung vmap",
        "--seed any",
        "--minutes",
        "-k sin",
        "-m nightly",
        "-m quick",
        "-n",
    }


INLINE = re.compile(r"`(symjax-nnvm [a-z][^`…]*)`")


@pytest.mark.parametrize("command", sorted({c for page in PAGES for c in INLINE.findall(text_of(page))}))
def test_commands_within_sentences_are_understood(command: str, monkeypatch: pytest.MonkeyPatch):
    """Their words are parsed and no more; a bare subcommand is asked for help."""
    words = shlex.split(command)[1:]
    understood: list[argparse.Namespace] = []
    ours = (f"symjax_nnvm.cli.{name}" for name in ("inspect", "check", "plot", "diff", "records"))
    for module in (*ours, *(f"lowering.cli.{name}" for name in ("run", "verify", "tune", "convert"))):
        monkeypatch.setattr(f"{module}.run", lambda options: understood.append(options) or 0)
    if len(words) == 1 or "--help" in words:
        with pytest.raises(SystemExit, match="0"):
            main([words[0], "--help"])
    else:
        assert main(words) == 0
        assert understood


# -- every block -------------------------------------------------------------------------------------------------------

KINDS = {
    "python": "run, in order",
    "py": "MXNet's, run in MXNet",
    "": "what the block before it prints, compared",
    "console": "a transcript of the command, compared",
    "text": "figures that a command printed on another day, which names itself before them",
    "indented": "commands, each of which is told about above, or the pictures of the architecture",
}


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_of_a_kind_that_is_seen_to(page: str):
    last: Block | None = None
    for block in blocks_of(page):
        assert block.language in KINDS
        if block.language == "console":
            assert page == "docs/guide/command.md"
        if block.language == "":
            assert last is not None
            assert last.language == "python", "output stands below what prints it"
        if block.language == "text":
            assert last is not None
            assert last.language in ("indented", "text"), "figures stand below the command that measures them"
        last = block
    whole = len(re.findall(r"^```", text_of(page), re.MULTILINE))
    assert whole == 2 * sum(block.language != "indented" for block in blocks_of(page)), "a fence is not closed"
