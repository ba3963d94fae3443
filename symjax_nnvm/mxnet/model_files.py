"""Find and read the files of a model.

A model is named by its symbol file, a file of its parameters, or the prefix that MXNet's names of both begin with. The
other file is found: the symbol of the parameters, or the parameters of the highest epoch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symjax_nnvm.errors import ModelNotFoundError, NNVMError
from symjax_nnvm.io.formats import array_suffixes
from symjax_nnvm.io.guess import similar_files
from symjax_nnvm.mxnet.array_names import bare_name
from symjax_nnvm.mxnet.find_files import SYMBOL_SUFFIX, epochs, params_path, prefix_of
from symjax_nnvm.mxnet.match import match_params
from symjax_nnvm.mxnet.model_loader import load_model
from symjax_nnvm.mxnet.params_files import named_arrays
from symjax_nnvm.symbol.symbol import Symbol, load

_OF_EPOCH = re.compile(r"(?P<prefix>.+)-(?P<epoch>[0-9]{4,})")  # a file of parameters whose suffix was left out


class OutputError(NNVMError, ValueError):
    """Reports a file that must not be written."""


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model. params_path: None when there is none."""

    symbol_path: Path
    params_path: Path | None

    @property
    def source(self) -> Path | Symbol:
        """Return the symbol's file for `check`, which finds more in a file than in the symbol read from it."""
        return self.symbol_path

    def symbol(self) -> Symbol:
        """Return the network. Raises JSONFormatError, OSError."""
        return load(self.symbol_path)

    def load(self) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
        """Return (symbol, arguments, auxiliary states); no arrays without a file. Raises and warns as `load_model`."""
        return (self.symbol(), {}, {}) if self.params_path is None else load_model(self.symbol_path, self.params_path)

    def keep(self, *targets: Path) -> None:
        """Refuse to write other output over this model's files. Raises OutputError."""
        for target in targets:
            for source in (self.symbol_path, self.params_path):
                if source is not None and target.exists() and target.samefile(source):
                    raise OutputError(f"{target} is part of the model that is read: write to another name.")

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by the file's own names; empty without a file. Raises ParamsFormatError, OSError."""
        return {} if self.params_path is None else named_arrays(self.params_path)

    def params(self, symbol: Symbol, *, complete: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (arguments, auxiliary states) by the network's names, not the file's; empty without a file.

        complete: raise when a parameter is missing or misshaped, and leave out what the network has no use for; else
        arrays that do not fit keep the names they have. Raises ParamsMismatchError, ParamsFormatError, OSError.
        """
        arrays = self.arrays()
        if not arrays:
            return {}, {}
        match = match_params(symbol, arrays)
        if complete:
            match.raise_if_incomplete()
            return match.args, match.aux
        matched = set(match.sources.values())
        others = {name: array for name, array in arrays.items() if name not in matched}
        bare = {bare_name(name): array for name, array in others.items()}
        return bare | match.args, match.aux


def find_model(model: str, params: Path | None = None, epoch: int | None = None) -> ModelFiles:
    """Return the files of a model. Raises ModelNotFoundError, which lists the files sought and those that exist."""
    path = Path(model)
    if path.is_file() and path.name.lower().endswith(array_suffixes(named=True)):
        prefix, _ = prefix_of(path)
        stem = path.stem if prefix == str(path) else Path(prefix).name
        return ModelFiles(_symbol_of(path.with_name(stem), model), params or path)
    if path.is_file():
        return ModelFiles(path, params or _params_of(_prefix_of_symbol(path), epoch))
    if not path.name or (path.is_dir() and not path.with_name(path.name + SYMBOL_SUFFIX).is_file()):
        raise ModelNotFoundError(
            f"{model!r} is a folder, not a model: give a symbol file, a file of parameters, or the prefix of both. "
            f"{similar_files(path / SYMBOL_SUFFIX, SYMBOL_SUFFIX)}"
        )
    named = _OF_EPOCH.fullmatch(path.name)
    if named and not path.with_name(path.name + SYMBOL_SUFFIX).is_file():
        path, epoch = path.with_name(named["prefix"]), int(named["epoch"]) if epoch is None else epoch
    symbol_path = _symbol_of(path, model)
    return ModelFiles(symbol_path, params or _params_of(_prefix_of_symbol(symbol_path), epoch))


def _symbol_of(prefix: Path, typed_path: str) -> Path:
    candidates = (prefix.with_name(prefix.name + SYMBOL_SUFFIX), prefix.with_name(prefix.name + ".json"))
    existing = next((path for path in candidates if path.is_file()), None)
    if existing is None:
        raise ModelNotFoundError(
            f"No model {typed_path!r}: looked for {' and '.join(str(path) for path in candidates)}. "
            f"{similar_files(candidates[0], SYMBOL_SUFFIX)}"
        )
    return existing


def _prefix_of_symbol(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".json").removesuffix("-symbol"))


def _params_of(prefix: Path, epoch: int | None) -> Path | None:
    """Return the parameters of an epoch, default the highest; files without a number come last."""
    if epoch is not None:
        return params_path(str(prefix), epoch)
    numbered = epochs(prefix)
    if numbered:
        return numbered[max(numbered)]
    plain = (prefix.with_name(prefix.name + suffix) for suffix in array_suffixes(named=True))
    return next((path for path in plain if path.is_file()), None)
