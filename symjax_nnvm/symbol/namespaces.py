"""`sym.contrib`, `sym.linalg`, `sym.random` …: MXNet's groups of operator functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from symjax_nnvm.ir.op import Op, list_all_names, why_left_out
from symjax_nnvm.symbol.functions import OperatorFunction, operator_function

__all__ = ["Namespace"]


class Namespace:
    """Operator functions whose operators' names begin with a prefix: `contrib.box_nms` makes `_contrib_box_nms`.

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
            raise AttributeError(f"symbol.{self.__name__} has no function {name!r}{why_left_out(full)}")
        function = operator_function(Op.get(full), name)  # automatic names come from the short name, as in MXNet
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        names = [name.removeprefix(self.prefix) for name in list_all_names() if name.startswith(self.prefix)]
        return sorted({*self.__dict__, *names} - {"__name__", "functions", "prefix"})

    def __repr__(self) -> str:
        return f"<operator functions symbol.{self.__name__}>"
