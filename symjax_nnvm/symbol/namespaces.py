"""`sym.contrib`, `sym.linalg`, `sym.random` …: MXNet's groups of operator functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from symjax_nnvm.errors import closest
from symjax_nnvm.ir.op import Op, list_all_names, why_left_out
from symjax_nnvm.symbol.functions import OperatorFunction, operator_function

_PREFIXES = {"contrib": "_contrib_", "linalg": "_linalg_", "random": "_random_", "sparse": "_sparse_"}


FOREIGN_NAMES = {
    **dict.fromkeys(("dense", "linear", "innerproduct"), "FullyConnected"),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv"), "Convolution"),
    **dict.fromkeys(("conv1dtranspose", "conv2dtranspose", "convtranspose2d"), "Deconvolution"),
    **dict.fromkeys(("maxpool2d", "maxpool", "avgpool2d", "avgpool", "globalavgpool2d"), "Pooling"),
    **dict.fromkeys(("batchnorm1d", "batchnorm2d", "batchnormalization"), "BatchNorm"),
    **dict.fromkeys(("lstm", "gru"), "RNN"),
    **dict.fromkeys(("concatenate", "cat"), "concat"),
    **dict.fromkeys(("matmul",), "dot"),
    **dict.fromkeys(("crossentropyloss", "softmaxcrossentropyloss"), "softmax_cross_entropy"),
}
"""Name of a layer in Gluon, PyTorch or Keras, without underscores and in lower case → the operator's name here."""


def closest_functions(name: str, group: str | None) -> str:
    """Return `. Did you mean symbol.contrib.box_nms or …?` for a function that a group, None for `symbol` itself, has
    not: those of its name in other groups, else those of the names most like it. Empty when there is none."""
    spelled: dict[str, str] = {}
    for operator in list_all_names():
        home = next((key for key, prefix in _PREFIXES.items() if operator.startswith(prefix)), None)
        short = operator if home is None else operator.removeprefix(_PREFIXES[home])
        if home == "sparse" != group or (home is None and operator.startswith("_")):
            continue  # names of dense operators again, and what Python's operators call
        if short not in spelled or home == group:
            spelled[short] = f"symbol.{short}" if home is None else f"symbol.{home}.{short}"
    elsewhere = FOREIGN_NAMES.get(name.lower().replace("_", ""))
    close = [name] if name in spelled else [elsewhere] if elsewhere else closest(name, spelled)
    return f". Did you mean {' or '.join(spelled[short] for short in close)}?" if close else ""


class Namespace:
    """Offers the operator functions whose operators' names begin with a prefix: `contrib.box_nms` makes
    `_contrib_box_nms`.

    functions: further functions of the group, which are not operators of that prefix.
    """

    def __init__(self, name: str, prefix: str, functions: Mapping[str, Callable[..., Any]] | None = None):
        self.__name__ = name
        self.prefix = prefix
        self.functions = dict(functions or {})
        self.__dict__.update(self.functions)

    def __getattr__(self, name: str) -> OperatorFunction:
        full = self.prefix + name
        if name.startswith("__") or not Op.exists(full):
            where = "" if name.startswith("__") else why_left_out(full) or closest_functions(name, self.__name__)
            raise AttributeError(f"symbol.{self.__name__} has no function {name!r}{where}")
        function = operator_function(Op.get(full), name)  # automatic names come from the short name, as in MXNet
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        names = [name.removeprefix(self.prefix) for name in list_all_names() if name.startswith(self.prefix)]
        return sorted({*self.__dict__, *names} - {"__name__", "functions", "prefix"})

    def __repr__(self) -> str:
        return f"<operator functions symbol.{self.__name__}>"
