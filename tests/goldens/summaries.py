"""What `mx.viz.print_summary` prints in MXNet 1.9.1: `summaries.json`, name → text.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.summaries
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

from tests.lowering.mx.summaries import TABLES, table

HERE = Path(__file__).parent


def main() -> None:
    """Print each table."""
    found = {name: table(mx, name) for name in TABLES}
    (HERE / "summaries.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
