"""Run the MXNet half of docs/migrating.md, from top to bottom, in MXNet 1.9.1, and write down what ran.

Run by hand, in the environment of tests/goldens/make.py, from the project's root, after changing MXNet's code there:

    mxnet-env/bin/python -m tests.goldens.pages

It writes `tests/goldens/pages.json`: page → a digest of each block that ran. The suite fails while a page holds others.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

from tests.pages import of_mxnet

HERE = Path(__file__).parent
PAGES = ("docs/migrating.md",)


def main() -> None:
    """Run the blocks in a folder of their own; an error names the page and shows its line."""
    ran: dict[str, list[str]] = {}
    for page in PAGES:
        names: dict[str, Any] = {}
        blocks = of_mxnet(page)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for block in blocks:
                print(block.text)
                exec(compile(block.text, page, "exec", dont_inherit=True), names)
        ran[page] = [block.digest for block in blocks]
        print(f"{page}: {len(blocks)} blocks ran")
    (HERE / "pages.json").write_text(json.dumps(ran, indent=1) + "\n")


if __name__ == "__main__":
    main()
