"""Run the MXNet half of docs/guide/migrating.md in MXNet 1.9.1, and look up the names of MXNet on all pages.

Run by hand, in the environment of tests/goldens/make.py, from the project's root, after changing MXNet's code there:

    mxnet-env/bin/python -m tests.goldens.pages

It writes `tests/goldens/pages.json`: page → a digest of each block that ran, and the names that exist. The suite fails
while the pages hold others.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import mxnet  # type: ignore[import-not-found]
import mxnet.notebook.callback  # type: ignore[import-not-found]  # which `import mxnet` leaves out

from tests.support.pages import names_of_mxnet, of_mxnet

HERE = Path(__file__).parent
PAGES = ("docs/guide/migrating.md",)


def main() -> None:
    """Run the blocks in a folder of their own; an error names the page and shows its line."""
    ran: dict[str, list[str]] = {
        "names": sorted(filter(_exists, names_of_mxnet())),
        "optimizers": sorted(mxnet.optimizer.Optimizer.opt_registry),
        "schedulers": sorted(name for name in dir(mxnet.lr_scheduler) if name.endswith("Scheduler")),
        "initializers": sorted(name for name, value in vars(mxnet.init).items() if _is_initializer(value)),
    }
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


def _is_initializer(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, mxnet.init.Initializer)


def _exists(name: str) -> bool:
    found: Any = mxnet
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    if found is None:
        print(f"MXNet has no {name}")
    return found is not None


if __name__ == "__main__":
    main()
