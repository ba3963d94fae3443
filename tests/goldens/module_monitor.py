"""What MXNet 1.9.1's `mx.mon.Monitor` calls the arrays of modules: `module_monitor.json`, case → names of each batch.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.module_monitor
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

from tests.lowering.mx.monitors import MONITORS, told

HERE = Path(__file__).parent


def main() -> None:
    """Run each case."""
    found = {name: told(mx, name) for name in MONITORS}
    (HERE / "module_monitor.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
