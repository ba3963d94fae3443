"""Make what MXNet's `mx.image` gives of the scenarios. Run by hand in MXNet's environment.

mxnet-env/bin/python -m tests.goldens.image.make
"""

import json
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

from tests.goldens.image import scenarios
from tests.goldens.make import save

HERE = Path(__file__).parent

if __name__ == "__main__":
    save(HERE / "values.npz", dict(scenarios.arrays(mx)))
    (HERE / "texts.json").write_text(json.dumps(scenarios.texts(mx), indent=1) + "\n")
