"""Build the site: `python docs/tools/build_site.py` writes it to build/site; open build/site/index.html.

Needs the extra `docs`, and no network. A warning of Sphinx's (a dead link, a page in no navigation, a docstring that
cannot be read) is an error.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[0] = str(ROOT)

from sphinx.cmd.build import main as sphinx  # noqa: E402

from docs.web.staging import stage  # noqa: E402


def build(target: Path) -> int:
    """Write the site to a folder, in place of what is there; the exit code of Sphinx."""
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        stage(source)
        options = [
            "-q",
            "-W",
            "--keep-going",
            "-n",
            "-c",
            str(ROOT / "docs" / "web"),
            "-d",
            str(Path(folder) / "doctrees"),
        ]
        return sphinx([*options, str(source), str(target)])


if __name__ == "__main__":
    sys.exit(build(ROOT / "build" / "site"))
