"""Make the goldens of Gluon: what MXNet 1.9.1's layers, losses, exports and trainings give.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.gluon.make

`values.npz` has arrays `{kind}|{name}|…`, `texts.json` each layer's repr and symbol, and for each network there is what
it exported.
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.goldens.gluon.cases import LAYERS, LOSSES, NETWORKS, TRAININGS, exported, run_layer, run_loss, trained
from tests.goldens.make import save

HERE = Path(__file__).parent


def main() -> None:
    """Write all of them."""
    stored: dict[str, np.ndarray] = {}
    texts: dict[str, dict[str, str]] = {}
    for name in LAYERS:
        values, texts[name] = run_layer(mx, name)
        stored.update({f"layer|{name}|{key}": value for key, value in values.items()})
    for name in LOSSES:
        stored.update({f"loss|{name}|{key}": value for key, value in run_loss(mx, name).items()})
    for name in NETWORKS:
        for i, value in enumerate(exported(mx, name, str(HERE / name))):
            stored[f"network|{name}|{i}"] = value
    for name in TRAININGS:
        stored.update({f"training|{name}|{key}": value for key, value in trained(mx, name, False).items()})
    save(HERE / "values.npz", stored)
    (HERE / "texts.json").write_text(json.dumps(texts, indent=1) + "\n")


if __name__ == "__main__":
    main()
