"""Make the goldens of Gluon's zoo, cells, layers and transforms. Run by hand in MXNet's environment.

mxnet-env/bin/python -m tests.goldens.gluon_layers.make
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

from tests.goldens.gluon_layers import scenarios
from tests.goldens.make import save

HERE = Path(__file__).parent

if __name__ == "__main__":
    zoo = {name: scenarios.network(mx, name) for name in scenarios.NETWORKS}
    zoo["resnet18_v1 thumbnail"] = scenarios.network(mx, "resnet18_v1", thumbnail=True)
    zoo["densenet121 dropout"] = scenarios.network(mx, "densenet121", dropout=0.2)
    texts = {"zoo": zoo, "symbols": dict(scenarios.symbols(mx))}
    (HERE / "texts.json").write_text(json.dumps(texts, indent=1) + "\n")
    save(HERE / "values.npz", {k: v for kind in scenarios.KINDS for k, v in scenarios.values(mx, kind)})
