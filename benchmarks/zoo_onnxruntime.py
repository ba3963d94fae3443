"""onnxruntime's side of `zoo.py`, run by its environment: a session of the file that MXNet exported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnxruntime  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import Loaded, cores, serve
from benchmarks.zoo_models import Row, files, inputs, row_of


def load(row: Row, folder: str) -> Loaded:
    """A session with its own defaults, all optimisations; a thread for each core that the process may use."""
    path, options = f"{files(folder, row)}-b{row.batch}.onnx", onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = inputs(row, ())
    outputs: Any = session.run(None, feed)
    return Loaded(lambda: session.run(None, feed), outputs)


if __name__ == "__main__":
    serve(row_of(load))
