"""CONTRIBUTING.md to the letter: its files, written into a copy of the repository, make an operator that passes what
the suite asks of one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT, blocks, text_of

PAGE = "CONTRIBUTING.md"
PLACES = [
    path.replace("<family>", "elementwise").replace("<name>", "scaled_shift")
    for path in re.findall(r"^\*\*\d\. .*?`([\w/<>.]+\.py)`", text_of(PAGE), re.MULTILINE)
]

ASKED_OF_AN_OPERATOR = [
    *("tests/meta/test_architecture.py", "tests/meta/test_coverage.py", "tests/meta/test_generated.py"),
    *("tests/meta/test_operator_names.py", "tests/ops/test_ladder.py", "-m", "nightly or slow or not slow"),
    *("-k", "meta or scaled_shift"),
]

pytestmark = pytest.mark.slow("takes half a minute as a whole")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, what Python has compiled of it included, with the files of the page."""
    copied = tmp_path_factory.mktemp("contributing") / "copy"
    shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".*", "build", "mxnet-env", "*.egg-info"))
    shutil.copytree(ROOT / ".ci", copied / ".ci")
    for place, code in zip(PLACES, blocks(PAGE, "python"), strict=True):
        assert not (copied / place).exists()
        (copied / place).write_text(code, encoding="utf-8")
    return copied


def run(folder: Path, *arguments: str) -> str:
    """What Python prints in a folder, of which the packages are."""
    surroundings = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    ran = subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False, timeout=540
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    return ran.stdout


def test_each_step_names_its_file():
    family = "elementwise/scaled_shift.py"
    assert [
        *(f"{tree}/{family}" for tree in ("symjax_nnvm/ops", "lowering/ops", "symjax_nnvm/onnx/ops", "tests/cases"))
    ] == PLACES


@pytest.mark.nightly("runs other tests in a copy of the project")
def test_the_operator_of_the_page_passes_the_meta_tests_and_climbs_the_ladder(copy: Path):
    run(copy, "docs/tools/generate.py")
    told = run(copy, "-m", "pytest", "-vv", "-n0", "-p", "no:cacheprovider", *ASKED_OF_AN_OPERATOR)
    assert re.search(r"test_ladder.py::test_operator\[scaled_shift\] PASSED", told)
    assert told.count(" PASSED") > 20


def test_an_operator_that_mxnet_lacks_is_told_to_say_so(copy: Path):
    card = copy / PLACES[0]
    text = card.read_text(encoding="utf-8")
    card.write_text(text.replace("    own=True,\n", ""), encoding="utf-8")
    try:
        with pytest.raises(AssertionError, match=r"MXNet 1.9.1 has no \['scaled_shift'\]: say own=True on the card"):
            run(
                copy,
                "-c",
                "from tests.meta import test_generated as t; t.test_pages_count_the_operators_that_mxnet_has()",
            )
    finally:
        card.write_text(text, encoding="utf-8")
