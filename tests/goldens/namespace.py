"""What `mx.metric`, `mx.io`, `mx.lr_scheduler`, `mx.optimizer` and `mx.rnn` do in MXNet 1.9.1: `namespace.json`.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.namespace
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

from tests.lowering.mx.scenarios import SCENARIOS

HERE = Path(__file__).parent


def main() -> None:
    """Run each scenario."""
    found = {name: scenario(mx) for name, scenario in SCENARIOS.items()}
    (HERE / "namespace.json").write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
