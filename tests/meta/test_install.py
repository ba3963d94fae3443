"""An editable install, the README's, is one that static analysers can follow: a path, and no import hook."""

import importlib.metadata
import json
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_packages_folder_is_said():
    """Without it setuptools takes the checkout for a flat layout and installs a hook."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert settings["package-dir"] == {"": "."}


def editable_installs() -> list[importlib.metadata.Distribution]:
    """This checkout's; what else answers to the name, such as an .egg-info beside the packages, says no origin."""
    found = importlib.metadata.distributions(name="symjax-nnvm")
    origins = [(one, json.loads(one.read_text("direct_url.json") or "{}")) for one in found]
    return [one for one, o in origins if o.get("dir_info", {}).get("editable") and o["url"] == ROOT.as_uri()]


def test_this_install_is_a_path():
    installs = editable_installs()
    if not installs:
        pytest.skip("the environment has no editable install of this checkout")
    files = [str(installs[0].locate_file(file)) for file in installs[0].files or () if file.suffix == ".pth"]
    (line,) = [Path(file).read_text(encoding="utf-8").strip() for file in files]
    hint = "installed by an import hook, from an older checkout: run the README's pip install -e again"
    assert Path(line) == ROOT, hint
