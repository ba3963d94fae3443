"""Networks with casts to half precision, and the switch of `mx.contrib.amp.init`: from then on, blocks are traced and
symbols are bound with such casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lowering.mx.ndarray.array import NDArray
from symjax_nnvm.ir.attributes import Precision
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import dtype_code, dtype_name
from symjax_nnvm.passes.reduce_precision import reduce_precision
from symjax_nnvm.symbol.symbol import Symbol

_CASTS = Op.get("amp_cast"), Op.get("amp_multicast")


class Policy(NamedTuple):
    """How networks run: products in `dtype`, a half-precision one; precision: how the operator of a node runs."""

    dtype: str
    precision: Callable[[Node], Precision]


_switched_on: Policy | None = None


def switch_on(policy: Policy | None) -> None:
    """Trace and bind by a policy from now on; None: as networks are."""
    global _switched_on
    _switched_on = policy


def with_policy(symbol: Symbol, dtypes: Mapping[str, Any]) -> Symbol:
    """The network with casts, if a policy is switched on and the network has none. dtypes: the dtypes of its inputs by
    name."""
    if _switched_on is None or any(node.op in _CASTS for node in post_order(symbol.outputs)):
        return symbol
    return with_casts(symbol, _switched_on, dtypes)


def with_casts(symbol: Symbol, policy: Policy, dtypes: Mapping[str, Any] | None = None) -> Symbol:
    """The network with `amp_cast` nodes around what runs in half precision; variables and outputs stay as they are.

    dtypes: the dtypes of its inputs by name; float32 by default. Raises PassError, InferenceError.
    """
    kinds = {name: dtype_name(dtype) for name, dtype in (dtypes or {}).items()}
    graph = reduce_precision(Graph(symbol.outputs), policy.dtype, kinds, policy.precision)
    converted = Symbol(graph.outputs).copy()
    for node in post_order(converted.outputs):  # what a cast reads has no dtype that follows from what it gives
        for leaf in (entry.node for entry in node.inputs if node.op is _CASTS[0] and entry.node.is_variable):
            if "__dtype__" not in leaf.attrs.dict:
                Symbol([NodeEntry(leaf)]).set_attrs({"__dtype__": str(dtype_code(kinds.get(leaf.name, "float32")))})
    return converted


def dtypes_of(names: list[str], arrays: Any) -> dict[str, Any]:
    """The dtypes of arrays that are given by name, or in the order of the names."""
    pairs = arrays.items() if isinstance(arrays, Mapping) else zip(names, arrays or (), strict=False)
    return {name: array.dtype for name, array in pairs if isinstance(array, NDArray)}


def storage_of(names: list[str], arrays: Any) -> dict[str, str]:
    """The storage types of arrays likewise."""
    pairs = arrays.items() if isinstance(arrays, Mapping) else zip(names, arrays or (), strict=False)
    return {name: array.stype for name, array in pairs if isinstance(array, NDArray)}
