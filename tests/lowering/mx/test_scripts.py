"""MXNet's scripts with one line changed: the numbers after 20 steps are those of MXNet 1.9.1."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = {path.stem: path for path in sorted((ROOT / "examples" / "mxnet_scripts").glob("*.py"))}
THEIRS: dict[str, Any] = json.loads((ROOT / "tests" / "goldens" / "scripts.json").read_text(encoding="utf-8"))

THEIR_LINE, OUR_LINE = "import mxnet as mx\n", "from lowering import mx\n"


def numbers(result: Any, place: str = "") -> dict[str, float]:
    """All numbers of a result, by where they stand."""
    if isinstance(result, dict | list):
        pairs = result.items() if isinstance(result, dict) else enumerate(result)
        return {key: n for name, part in pairs for key, n in numbers(part, f"{place}/{name}").items()}
    return {place: float(result)}


def test_there_is_a_golden_for_each():
    assert SCRIPTS.keys() == THEIRS.keys()


@pytest.mark.nightly("every script", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_with_one_line_changed(name: str):
    text = SCRIPTS[name].read_text(encoding="utf-8")
    assert text.count(THEIR_LINE) == 1
    script: dict[str, Any] = {"__name__": name}
    exec(compile(text.replace(THEIR_LINE, OUR_LINE), str(SCRIPTS[name]), "exec"), script)
    ours, theirs = numbers(script["main"]()), numbers(THEIRS[name])
    assert ours.keys() == theirs.keys()
    scale = {key: max(abs(value), 0.1) for key, value in theirs.items()}
    far = {key: (ours[key], theirs[key]) for key in theirs if abs(ours[key] - theirs[key]) > 1e-4 * scale[key]}
    assert far == {}
    assert np.isfinite(list(theirs.values())).all()
