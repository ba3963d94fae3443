"""NNVM's Python graph API: create a graph from a symbol, set attributes, apply passes, read results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError
from symjax_nnvm.io.symbol_json.attrs import attr_from_json, attr_to_json
from symjax_nnvm.io.symbol_json.graph_json import load_json as read_json
from symjax_nnvm.io.symbol_json.graph_json import save_json
from symjax_nnvm.ir.graph import Graph as BaseGraph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.pass_registry import apply_passes
from symjax_nnvm.passes.print_ir import print_ir
from symjax_nnvm.symbol.symbol import Symbol


class Graph(BaseGraph):
    """A graph with the interface of NNVM's Python package. `create` and `load_json` make it; passes keep the class."""

    __slots__ = ()

    def apply(self, passes: str | Sequence[str]) -> Self:
        """Return the graph after a pass, or after several in order; this graph is not changed.

        Args:
            passes: the name of a pass, or names of several.

        Raises:
            PassError: a pass is unknown, or needs a graph attribute that is missing.
        """
        return apply_passes(self, [passes] if isinstance(passes, str) else list(passes))

    def json_attr(self, key: str) -> Any:
        """Return a graph attribute in the form that JSON has for it.

        Args:
            key: the attribute's name.

        Returns:
            None when the attribute is not set. Shapes are lists of integers (`[]` for an unknown shape, 0 for an
            unknown dimension), dtypes are MXNet's codes.

        Raises:
            JSONFormatError: JSON cannot hold the attribute.
        """
        return attr_to_json(key, self.attrs[key])[1] if key in self.attrs else None

    def _set_json_attr(self, key: str, value: Any, type_name: str | None = None) -> None:
        """Set a graph attribute from a JSON value; a string needs no `type_name`.

        type_name: `str`, `list_str`, `list_int`, `list_shape`, `dict_str_int`, `size_t` or `int`. Raises
        SymbolValueError when it is missing, JSONFormatError when it is unknown or the value is of another type.
        """
        if isinstance(value, str):
            type_name = "str"
        elif type_name is None:
            raise SymbolValueError(f"Need to specify type_name for graph attribute {key!r}")
        self.attrs[key] = attr_from_json(key, type_name, value)

    def _set_symbol_list_attr(self, key: str, value: Symbol | Sequence[Symbol]) -> None:
        """Set a graph attribute to the output entries of a symbol, or of several symbols in order."""
        symbols = [value] if isinstance(value, Symbol) else value
        if not isinstance(symbols, (list, tuple)) or not all(isinstance(symbol, Symbol) for symbol in symbols):
            raise SymbolTypeError(f"value need to be grouped symbol or a list of symbols, got {type(value).__name__}")
        self.attrs[key] = [entry for symbol in symbols for entry in symbol.outputs]

    @property
    def symbol(self) -> Symbol:
        """Return the outputs as a symbol over the same nodes."""
        return Symbol(self.outputs)

    @property
    def index(self) -> IndexedGraph:
        """Return the graph as tables."""
        return self.indexed_graph()

    def json(self) -> str:
        """Return the graph and its attributes as JSON. Raises JSONFormatError."""
        return save_json(self)

    def ir(self, join_entry_attrs: Sequence[str] | None = None, join_node_attrs: Sequence[str] | None = None) -> str:
        """Return the graph as text.

        Args:
            join_entry_attrs: names of graph attributes to print beside each entry.
            join_node_attrs: names of graph attributes to print beside each node.

        Raises:
            PassError: the graph has no such attribute.
        """
        return print_ir(self, join_entry_attrs=join_entry_attrs or (), join_node_attrs=join_node_attrs or ())


def create(symbol: Symbol) -> Graph:
    """Return a graph of the symbol's outputs; it shares the symbol's nodes."""
    if not isinstance(symbol, Symbol):
        raise SymbolTypeError(f"A graph must be created from a Symbol, got {type(symbol).__name__}")
    return Graph(symbol.outputs)


def load_json(text: str) -> Graph:
    """Return the graph, with its attributes, that `Graph.json` wrote as text.

    Args:
        text: the JSON text.

    Raises:
        JSONFormatError: the text is not a graph.
    """
    loaded = read_json(text)
    return Graph(loaded.outputs, loaded.attrs)
