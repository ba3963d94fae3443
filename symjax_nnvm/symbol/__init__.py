"""This package is the symbolic front end: `Variable`, `Group`, scopes, and one function per registered operator.

Operator functions are made from the registry when they are first used, so they include operators that a user
registers later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symjax_nnvm.errors import UnknownFunctionError
from symjax_nnvm.ir.op import Op, list_all_names
from symjax_nnvm.symbol import control_flow, random_functions, wrappers
from symjax_nnvm.symbol.namespaces import Namespace, where_instead
from symjax_nnvm.symbol.operator_functions import SCALAR_FUNCTIONS, OperatorFunction, function_named, scalar_function
from symjax_nnvm.symbol.scope import AttrScope as AttrScope
from symjax_nnvm.symbol.scope import NameManager as NameManager
from symjax_nnvm.symbol.scope import Prefix as Prefix
from symjax_nnvm.symbol.symbol import Symbol as Symbol
from symjax_nnvm.symbol.symbol import load as load
from symjax_nnvm.symbol.symbol import load_json as load_json
from symjax_nnvm.symbol.variable import Group as Group
from symjax_nnvm.symbol.variable import Variable as Variable
from symjax_nnvm.symbol.variable import var as var
from symjax_nnvm.symbol.wrappers import histogram as histogram
from symjax_nnvm.symbol.wrappers import split_v2 as split_v2

contrib = Namespace(
    "contrib",
    "_contrib_",
    {
        "foreach": control_flow.foreach,
        "while_loop": control_flow.while_loop,
        "cond": control_flow.cond,
        "adamw_update": wrappers.adamw_update,
        "mp_adamw_update": wrappers.mp_adamw_update,
        "rand_zipfian": wrappers.rand_zipfian,
    },
)
linalg = Namespace("linalg", "_linalg_")
random = Namespace("random", "_random_", random_functions.FUNCTIONS)
sparse = Namespace("sparse", "_sparse_")  # MXNet's names of operators that also take sparse arrays; here all are dense
image = Namespace("image", "_image_")


def __getattr__(name: str) -> OperatorFunction:
    if name in SCALAR_FUNCTIONS:
        function = scalar_function(name, __getattr__)
    elif Op.exists(name):
        function = function_named(name)
    else:
        problem = f"no symbol function and no registered operator is named {name!r}"
        raise UnknownFunctionError(lambda: problem + where_instead(name, name, None))
    globals()[name] = function
    return function


def _function(name: str) -> Callable[..., Any]:
    return globals().get(name) or __getattr__(name)


Symbol._operator_function = staticmethod(_function)


def __dir__() -> list[str]:
    return sorted({*globals(), *list_all_names(), *SCALAR_FUNCTIONS})
