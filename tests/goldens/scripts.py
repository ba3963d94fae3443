"""What the scripts of `examples/mxnet_scripts` return in MXNet 1.9.1: `scripts.json`, script → its results.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.scripts
"""

import json
import runpy
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = HERE.parents[1] / "examples" / "mxnet_scripts"


def main() -> None:
    """Run each script as it stands."""
    found = {path.stem: runpy.run_path(str(path))["main"]() for path in sorted(SCRIPTS.glob("*.py"))}
    (HERE / "scripts.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
