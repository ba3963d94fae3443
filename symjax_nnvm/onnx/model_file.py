"""An ONNX file in place of a model's files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from symjax_nnvm.mxnet.model_files import ModelFiles, find_model
from symjax_nnvm.onnx.imports import from_onnx
from symjax_nnvm.symbol.symbol import Symbol

SUFFIX = ".onnx"


@dataclass(frozen=True)
class OnnxFile(ModelFiles):
    """A model in one file, which is read once. params_path: the file itself, unless other parameters are given."""

    @cached_property
    def _network(self) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
        return from_onnx(self.symbol_path)

    @property
    def source(self) -> Symbol:
        """Return the graph that a check examines. Raises as `from_onnx`."""
        return self.symbol()

    def symbol(self) -> Symbol:
        """Return the network. Raises as `from_onnx`."""
        return self._network[0]

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by the network's names. Raises as `from_onnx`; of another file, as of MXNet's files."""
        return super().arrays() if self.params_path != self.symbol_path else self._network[1] | self._network[2]

    def load(self) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
        """Return (symbol, arguments, auxiliary states). Raises as `from_onnx`, ParamsMismatchError."""
        return self.symbol(), *self.params(self.symbol(), complete=True)


def find_any_model(model: str, params: Path | None = None, epoch: int | None = None) -> ModelFiles:
    """Return the files that are meant: an ONNX file, or as `find_model` finds them, whose errors it raises."""
    path = Path(model)
    if path.name.lower().endswith(SUFFIX) and path.is_file():
        return OnnxFile(path, params or path)
    return find_model(model, params, epoch)
