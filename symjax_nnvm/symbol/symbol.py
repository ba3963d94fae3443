"""Symbol: the class by which a user writes a graph — compose, list, attributes, internals, copy, print.

A symbol is a value that holds only its output entries; copying the object shares nodes, `copy()` does not. Behaviour
follows NNVM's `symbolic.h`, spelled in Python as both NNVM's and MXNet's front ends spell it. Methods that need a pass
(`infer_shape`, `tojson`, `gradient`) find it in the pass registry by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from symjax_nnvm.errors import (
    ComposeError,
    JSONFormatError,
    SymbolIndexError,
    SymbolTypeError,
    SymbolValueError,
    plain_list,
    printable,
)
from symjax_nnvm.io.files import path_text, read_bounded, write_file
from symjax_nnvm.io.guess import naming, require_file, symbol_text
from symjax_nnvm.ir.graph import MXNET_VERSION, Graph
from symjax_nnvm.ir.listing import InputOption, input_nodes, output_names
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.rules.entry_gradients import gradient_entries
from symjax_nnvm.ir.source_info import caller
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import is_known, numpy_type, shape_to_legacy, shape_to_numpy
from symjax_nnvm.symbol.compose import compose, compose_atomic, is_atomic
from symjax_nnvm.symbol.fluent import Fluent
from symjax_nnvm.symbol.gradient_call import ones_for_heads, wrt_entries
from symjax_nnvm.symbol.hidden_keys import HIDDEN_KEYS, hidden_key, with_hidden
from symjax_nnvm.symbol.inference_calls import infer_dtypes, infer_shapes, warn_undecided_dtypes, warn_undecided_shapes
from symjax_nnvm.symbol.python_operators import Arithmetic
from symjax_nnvm.symbol.scope import AttrScope, NameManager
from symjax_nnvm.tables import table_html

Lists = tuple[Any, Any, Any]
"""(arguments, outputs, auxiliary states): a list each, or None each when something stays undecided."""

_SHOWN, _DRAWN = 60, 5_000  # operators in a notebook's cell: in its table; of a network whose drawing is tried

MAX_FILE_BYTES = 1 << 30
"""The largest symbol file that is read; files of a million nodes are a tenth of it."""


class Symbol(Arithmetic, Fluent):
    """A symbolic expression: one or more outputs of nodes in a graph.

    Make symbols with `Variable`, the operator functions (`symbol.FullyConnected(...)`) and `Group`.
    """

    __slots__ = ("outputs",)

    numpy_shapes = False
    """Whether shapes are passed and returned in MXNet's convention under `np_shape`: None and -1 for unknowns."""

    __array_ufunc__ = None  # so that `np.float32(2) + x` calls the symbol instead of making an array of its outputs

    def __init__(self, outputs: Iterable[NodeEntry] = ()):
        self.outputs: list[NodeEntry] = list(outputs)

    # -- construction (NNVM's CreateFunctor, CreateVariable, CreateGroup) ------------------------------------------

    @staticmethod
    def create_functor(op: Op | NodeAttrs | str, attrs: Mapping[str, str] | None = None) -> Symbol:
        """Make an operator that has no inputs yet.

        Args:
            op: the operator or its name, whose parser reads `attrs`; or prepared `NodeAttrs`, which are taken as they
                are.
            attrs: the operator's parameters and attributes, as text.

        Raises:
            ParamError: an attribute is not a parameter of the operator, or its text cannot be read.
        """
        if isinstance(op, NodeAttrs):
            node = Node(op.copy())
        else:
            node = Node(NodeAttrs(Op.get(op) if isinstance(op, str) else op, "", dict(attrs or {})))
            node.attrs.parse()
        return _visible(node)

    @staticmethod
    def create_variable(name: str) -> Symbol:
        """Make a variable without attributes."""
        return Symbol([NodeEntry(create_variable_node(name), 0, 0)])

    @staticmethod
    def create_group(symbols: Iterable[Symbol]) -> Symbol:
        """Group all outputs of the symbols, in order, duplicates kept."""
        return Symbol([entry for symbol in symbols for entry in symbol.outputs])

    def copy(self) -> Symbol:
        """Return a deep copy: new nodes with copied attributes. Subgraphs stay shared; `info` is not copied."""
        return type(self)(rewrite(self.outputs, fresh=True).outputs)

    def shallow_copy(self) -> Symbol:
        """Return a new symbol over the same nodes."""
        return type(self)(self.outputs)

    def __copy__(self) -> Symbol:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Symbol:
        return self.copy()

    def __reduce__(self):
        return load_json, (self.tojson(),)

    # -- composing -------------------------------------------------------------------------------------------------

    def compose(self, *args: Symbol, name: str = "", **kwargs: Symbol) -> None:
        """Give inputs to an operator that has none yet, or replace variables by name; the symbol itself changes.

        Args:
            args: the inputs in the operator's order.
            name: the name of the operator's node.
            kwargs: the inputs by name.

        Raises:
            ComposeError: the inputs do not fit; the symbol is unchanged.
        """
        self.outputs = compose(self.outputs, _heads(args), _named_heads(kwargs), name)

    def __call__(self, *args: Symbol, name: str | None = None, **kwargs: Symbol) -> Symbol:
        """Compose a copy. The arguments are not copied: the result refers to their nodes."""
        if args and kwargs:
            raise SymbolTypeError(
                "compose only accept input Symbols either as positional or keyword arguments, not both"
            )
        for arg in (*args, *kwargs.values()):
            if not isinstance(arg, Symbol):
                raise SymbolTypeError(f"Compose expect `Symbol` as arguments, got {type(arg).__name__}")
        result = self.copy()
        result.compose(*args, name=name or "", **kwargs)
        return result

    def add_control_deps(self, source: Symbol | Sequence[Symbol]) -> None:
        """Make this symbol's node run after the nodes of other symbols.

        Args:
            source: the symbol, or several, whose nodes run first.

        Raises:
            ComposeError: this symbol is a group.
        """
        if len(self.outputs) != 1:
            raise ComposeError("AddControlDeps only works for nongrouped symbol", got=f"{len(self.outputs)} outputs")
        node = self.outputs[0].node
        sources = [source] if isinstance(source, Symbol) else source
        node.control_deps = [*node.control_deps, *(entry.node for symbol in sources for entry in symbol.outputs)]

    _add_control_deps = add_control_deps

    # -- listing ---------------------------------------------------------------------------------------------------

    def list_input_nodes(self, option: InputOption = "all") -> list[Node]:
        """Return the variable nodes of the graph in post-order (NNVM's ListInputs).

        Args:
            option: `"all"`, `"read_only"` (variables that no operator writes) or `"aux_state"` (those that an operator
                writes).

        Raises:
            SymbolValueError: `option` is another text.
        """
        if option not in ("all", "read_only", "aux_state"):
            raise SymbolValueError(f"option must be 'all', 'read_only' or 'aux_state', got {option!r}")
        return input_nodes(self.outputs, option)

    def list_input_names(self, option: InputOption = "all") -> list[str]:
        """Return the names of the variables in post-order; `option` is that of `list_input_nodes`."""
        return [node.name for node in self.list_input_nodes(option)]

    def list_input_variables(self, option: InputOption = "all") -> list[Symbol]:
        """Return the variables in post-order, as symbols; `option` is that of `list_input_nodes`."""
        return [type(self)([NodeEntry(node, 0, 0)]) for node in self.list_input_nodes(option)]

    def list_arguments(self) -> list[str]:
        """Return names of the variables that no operator writes."""
        return self.list_input_names("read_only")

    def list_auxiliary_states(self) -> list[str]:
        """Return names of the variables that some operator writes, such as moving averages."""
        return self.list_input_names("aux_state")

    def list_inputs(self) -> list[str]:
        """Return names of all variables, arguments and auxiliary states."""
        return self.list_input_names("all")

    def list_output_names(self) -> list[str]:
        """Return names of the outputs: a variable's name, else `{node}_{output}`."""
        return output_names(self.outputs)

    list_outputs = list_output_names

    def get_internals(self) -> Symbol:
        """Return a group of every visible output of every node, variables included, in post-order."""
        outputs: list[NodeEntry] = []
        for node in post_order(self.outputs):
            if node.is_variable:
                outputs.append(NodeEntry(node, 0, node.attrs.parsed.version))
            else:
                outputs.extend(NodeEntry(node, i, 0) for i in range(node.num_visible_outputs()))
        return type(self)(outputs)

    def get_children(self) -> Symbol | None:
        """Return the inputs of the head nodes, as a group; None when there are none."""
        heads = dict.fromkeys(entry.node for entry in self.outputs)
        children = [entry for node in heads for entry in node.inputs]
        return type(self)(children) if children else None

    # -- attributes ------------------------------------------------------------------------------------------------

    def _single_node(self) -> Node | None:
        nodes = {entry.node for entry in self.outputs}
        return self.outputs[0].node if len(nodes) == 1 else None

    @property
    def name(self) -> str | None:
        """Return the node's name; None for a group of several nodes."""
        node = self._single_node()
        return None if node is None else node.name

    def get_attr(self, key: str) -> str | None:
        """Return an attribute of the symbol's node (NNVM's GetAttr).

        Args:
            key: the exact key, or one of the computed ones: `name`, `op_name` (`"null"` for a variable),
                `_value_index`.

        Returns:
            The attribute's text; None when the node has no such attribute or the symbol groups several nodes.

        Raises:
            SymbolTypeError: the key is not text.
        """
        if not isinstance(key, str):
            raise SymbolTypeError("Wrong key of an attribute", param="key", expected="a text", got=f"{key!r:.80}")
        node = self._single_node()
        if node is None:
            return None
        match key:
            case "name":
                return node.name
            case "op_name":
                return "null" if node.op is None else node.op.name
            case "_value_index":
                return ", ".join(str(entry.index) for entry in self.outputs)
        return node.attrs.dict.get(key)

    def attr(self, key: str) -> str | None:
        """Return an attribute's value as `get_attr` does; a hidden key such as `lr_mult` also finds `__lr_mult__`."""
        value = self.get_attr(key)
        if value is None and key in HIDDEN_KEYS:
            value = self.get_attr(f"__{key}__")
        return value

    def set_attrs(self, attrs: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        """Set attributes of the symbol's node, which other symbols share.

        The operator's parser then reads all attributes again.

        Args:
            attrs: the attributes to set; the key `name` renames the node.

        Raises:
            ComposeError: the symbol groups several nodes.
            ParamError: a parameter is wrong; the node is unchanged.
        """
        node = self._single_node()
        if node is None:
            raise ComposeError("Symbol.SetAttrs only works for non-grouped symbol")
        if not isinstance(attrs, Iterable):
            raise SymbolTypeError("Wrong attributes", param="attrs", expected="a dict, or pairs", got=repr(attrs))
        changed = node.attrs.copy()
        for key, value in dict(attrs).items():
            if key == "name":
                changed.name = value
            else:
                changed.dict[key] = value
        changed.parse()
        node.attrs.name, node.attrs.dict, node.attrs.parsed = changed.name, changed.dict, changed.parsed

    def _set_attr(self, **attrs: str) -> None:
        """MXNet's spelling of `set_attrs`: hidden keys are stored as `__key__`; values must be strings."""
        for value in attrs.values():
            if not isinstance(value, str):
                raise SymbolValueError(f"Set Attr only accepts string values, got {value!r}")
        self.set_attrs({hidden_key(key, exact=True): value for key, value in attrs.items()})

    def list_attrs(self, option: Literal["recursive", "shallow"] = "shallow") -> dict[str, str]:
        """Return attributes as a dict (NNVM's ListAttrs).

        Args:
            option: `"shallow"` for the first output's node; `"recursive"` for all nodes, with keys `{node}${key}`.
        """
        if option == "shallow":
            return dict(self.outputs[0].node.attrs.dict) if self.outputs else {}
        return {f"{node}${key}": value for node, key, value in self.list_attrs_recursive()}

    def list_attrs_recursive(self) -> list[tuple[str, str, str]]:
        """Return (node name, key, value) of every attribute in the graph, in post-order."""
        return [(n.name, key, value) for n in post_order(self.outputs) for key, value in n.attrs.dict.items()]

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """Return the attributes of the first output's node, its hidden keys both as `__key__` and as `key`.

        Args:
            recursive: return those of all nodes instead, as `list_attrs("recursive")` does.
        """
        if recursive:
            return self.list_attrs("recursive")
        return with_hidden(self.list_attrs("shallow"))

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return attributes of every node that has any: node name → key → value; hidden keys in both spellings."""
        by_node: dict[str, dict[str, str]] = {}
        for name, key, value in self.list_attrs_recursive():
            by_node.setdefault(name, {})[key] = value
        return {name: with_hidden(attrs) for name, attrs in by_node.items()}

    # -- printing --------------------------------------------------------------------------------------------------

    def debug_str(self) -> str:
        """Return the graph as text, in NNVM's layout (`Symbol::Print`)."""
        if len(self.outputs) == 1 and is_atomic(self.outputs):
            node = self.outputs[0].node
            return printable(f"Variable:{node.name}" if node.op is None else f"AtomicFunctor  Op:{node.op.name}") + "\n"
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{i}]={e.node.name}({e.index})" for i, e in enumerate(self.outputs)]
        for node in post_order(self.outputs):
            if node.op is None:
                lines.append(f"Variable:{node.name}")
                continue
            lines += ["-" * 20, f"Op:{node.op.name}, Name={node.name}", "Inputs:"]
            for i, (source, index, version) in enumerate(node.inputs):
                suffix = f" version={version}" if source.is_variable else ""
                lines.append(f"\targ[{i}]={source.name}({index}){suffix}")
            if node.attrs.dict:
                lines += ["Attrs:", *(f"\t{key}={value}" for key, value in sorted(node.attrs.dict.items()))]
            if node.control_deps:
                lines += ["Control deps:", *(f"\tcdep[{i}]={dep.name}" for i, dep in enumerate(node.control_deps))]
        return "".join("\t" * (line[0] == "\t") + printable(line.removeprefix("\t")) + "\n" for line in lines)

    def __repr__(self) -> str:
        if self._single_node() is not None:
            return f"<{type(self).__name__} {printable(str(self.name))}>"
        return f"<{type(self).__name__} group [{plain_list(entry.node.name for entry in self.outputs)}]>"

    def _repr_html_(self) -> str:
        nodes = [node for node in post_order(self.outputs) if not node.is_variable]
        shown = nodes[:_SHOWN]
        rows = [(n.name, n.op.name if n.op else "", plain_list(entry.node.name for entry in n.inputs)) for n in shown]
        more = f"; the first {_SHOWN} are shown" if len(nodes) > _SHOWN else ""
        notes = [f"{self!r} {len(nodes):,} operators{more}", "symjax_nnvm.plot_network(symbol) draws it."]
        table = table_html(("node", "operator", "inputs"), rows, notes=notes)
        if len(nodes) > _DRAWN or is_atomic(self.outputs):
            return table
        return apply_pass(Graph(self.outputs), "PlotNetwork").attrs["plot"].above(table)

    # -- container -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[Symbol]:
        return (self[i] for i in range(len(self.outputs)))

    def __getitem__(self, index: int | str | slice) -> Symbol:
        """Return one output by number or by name, or a group of outputs by slice.

        Raises SymbolIndexError, SymbolValueError (no or several outputs of that name), SymbolTypeError.
        """
        match index:
            case str():
                return type(self)([self.outputs[self._output_number(index)]])
            case slice():
                chosen = self.outputs[index]
                if not chosen:
                    raise SymbolIndexError(f"{index} selects none of the {len(self.outputs)} outputs")
                return type(self)(chosen)
            case int():
                if index < 0:
                    raise SymbolIndexError(f"Symbol only accept nonnegative index, got {index}")
                if index >= len(self.outputs):
                    raise SymbolIndexError(f"output {index} of a symbol of {len(self.outputs)} outputs: {self!r}")
                return self if len(self.outputs) == 1 else type(self)([self.outputs[index]])
        raise SymbolTypeError(f"Symbol only support integer index to fetch i-th output, got {type(index).__name__}")

    def _output_number(self, name: str) -> int:
        numbers = [i for i, output in enumerate(self.list_outputs()) if output == name]
        if not numbers:
            raise SymbolValueError(
                f'Cannot find output that matches name "{name}"; outputs are {plain_list(self.list_outputs())}. '
                "For an output inside the network use symjax_nnvm.cut(symbol, name), or symbol.get_internals()[name]."
            )
        if len(numbers) > 1:
            raise SymbolValueError(f'There are multiple outputs with name "{name}": numbers {numbers}')
        return numbers[0]

    # -- inference -------------------------------------------------------------------------------------------------

    def infer_shape(self, *args: Sequence[int] | None, **kwargs: Sequence[int]) -> Lists:
        """Infer the shapes of all arguments, outputs and auxiliary states from some of them.

        Shapes that variables declare (`Variable(shape=…)`) count as well.

        Args:
            args: shapes in the order of `list_arguments()`; None where one is unknown.
            kwargs: shapes by the name of an argument or auxiliary state; 0 and -1 are unknown dimensions.

        Returns:
            The shapes of arguments, outputs and auxiliary states, as three lists of tuples. When a shape stays unknown,
            `(None, None, None)`, with a warning that names it.

        Raises:
            InferenceError: shapes contradict each other.
        """
        entries, arguments, outputs, aux = infer_shapes(self.outputs, args, kwargs, self.numpy_shapes)
        if all(is_known(shape) for shape in entries):
            return arguments, outputs, aux
        warn_undecided_shapes(self.outputs, arguments, outputs)
        return None, None, None

    def infer_shape_partial(self, *args: Sequence[int] | None, **kwargs: Sequence[int]) -> Lists:
        """Infer shapes as `infer_shape` does and return what could be inferred.

        Args:
            args: shapes in the order of `list_arguments()`; None where one is unknown.
            kwargs: shapes by name.

        Returns:
            The three lists of `infer_shape`, with `()` for an unknown shape and 0 for an unknown dimension; with None
            and -1 of a `NumpySymbol`.

        Raises:
            InferenceError: shapes contradict each other.
        """
        show = shape_to_numpy if self.numpy_shapes else shape_to_legacy
        _, *lists = infer_shapes(self.outputs, args, kwargs, self.numpy_shapes)
        arguments, outputs, aux = ([show(shape) for shape in shapes] for shapes in lists)
        return arguments, outputs, aux

    def infer_type(self, *args: Any, **kwargs: Any) -> Lists:
        """Infer the dtypes of all arguments, outputs and auxiliary states from some of them.

        Args:
            args: dtypes in the order of `list_arguments()`; None where one is unknown.
            kwargs: dtypes by the name of an argument or auxiliary state.

        Returns:
            The dtypes of arguments, outputs and auxiliary states, as three lists of NumPy types. When a dtype stays
            unknown, `(None, None, None)`, with a warning.

        Raises:
            InferenceError: dtypes contradict each other.
            SymbolTypeError: a value is not a dtype.
        """
        entries, *lists = infer_dtypes(self.outputs, args, kwargs)
        if None in entries:
            warn_undecided_dtypes(self.outputs, lists[0])
            return None, None, None
        arguments, outputs, aux = ([numpy_type(dtype) for dtype in dtypes] for dtypes in lists)
        return arguments, outputs, aux

    def infer_type_partial(self, *args: Any, **kwargs: Any) -> Lists:
        """Infer dtypes as `infer_type` does and return what could be inferred.

        Args:
            args: dtypes in the order of `list_arguments()`; None where one is unknown.
            kwargs: dtypes by name.

        Returns:
            The three lists of `infer_type`, with None for an unknown dtype.

        Raises:
            InferenceError: dtypes contradict each other.
            SymbolTypeError: a value is not a dtype.
        """
        _, *lists = infer_dtypes(self.outputs, args, kwargs)
        arguments, outputs, aux = ([numpy_type(dtype) for dtype in dtypes] for dtypes in lists)
        return arguments, outputs, aux

    # -- files -----------------------------------------------------------------------------------------------------

    def tojson(self) -> str:
        """Return the graph as JSON, byte for byte as MXNet 1.9.1 writes it. `load_json` reads it back."""
        mode = {"is_np_shape": 1} if self.numpy_shapes else {}
        return apply_pass(Graph(self.outputs, {**mode, "mxnet_version": MXNET_VERSION}), "SaveJSON").attrs["json"]

    def save(self, fname: str | Path) -> None:
        """Write `tojson()` to a file, which by convention is named `*-symbol.json`.

        Args:
            fname: the file's path; an existing file is replaced whole, or left as it was when writing fails.

        Raises:
            FileError: no file can be written to the path.
            OSError: the file cannot be written.
        """
        write_file(path_text(fname, "fname"), self.tojson())

    # -- gradient --------------------------------------------------------------------------------------------------

    def gradient(
        self,
        wrt: Sequence[str | Symbol] | str | Symbol | None = None,
        head_grads: Sequence[Symbol] | Symbol | None = None,
        *,
        zeros_if_unreachable: bool = False,
    ) -> Symbol:
        """Return the gradients of the outputs with respect to variables, as a symbol.

        MXGradient builds the backward graph from the operators' own gradient rules. The result is a symbol like any
        other and can be differentiated again.

        Args:
            wrt: argument names or symbols; None for every argument.
            head_grads: one symbol for each output, of the output's shape; None for ones. Loss heads ignore theirs.
            zeros_if_unreachable: return zeros where the outputs do not depend on an element of `wrt`, such as the
                second derivative of a linear function. A name that the graph does not have becomes a variable, and the
                zeros have its shape.

        Returns:
            A symbol with one output for each element of `wrt`.

        Raises:
            GradientError: an operator has no gradient rule, or the outputs do not depend on an element of `wrt`.
        """
        wrt = self.list_arguments() if wrt is None else wrt
        sources = [wrt] if isinstance(wrt, (str, Symbol)) else wrt
        by = [x if isinstance(x, str) else x.outputs for x in sources]
        xs = wrt_entries(self.outputs, by, zeros_if_unreachable)
        if head_grads is None:
            heads = ones_for_heads(self.outputs)
        else:
            head_list = [head_grads] if isinstance(head_grads, Symbol) else head_grads
            heads = [entry for head in head_list for entry in head.outputs]
        return type(self)(gradient_entries(self.outputs, xs, heads, zeros_if_unreachable))

    # -- how its operators are made ---------------------------------------------------------------------------------

    def _operator(self, op: str, symbols: tuple[Symbol, ...], params: dict[str, str], hint: str) -> Symbol:
        scope = AttrScope.current
        if not scope.is_empty:
            params |= {hidden_key(key): value for key, value in scope.get(None).items()}
        return create_operator(Op.get(op), symbols, {}, params, None, hint)


class NumpySymbol(Symbol):
    """A symbol of a file that MXNet wrote under `np_shape`: shapes in its convention, `()` a number's and 0 a size."""

    __slots__ = ()
    numpy_shapes = True


def of_mode(symbol: Symbol, outputs: Iterable[NodeEntry]) -> Symbol:
    """Return a symbol of other outputs, whose shapes are in the convention of a symbol's."""
    return (NumpySymbol if symbol.numpy_shapes else Symbol)(outputs)


def _visible(node: Node) -> Symbol:
    """Return a symbol of the node's visible outputs."""
    symbol = Symbol.__new__(Symbol)
    count = node.num_visible_outputs()
    symbol.outputs = [NodeEntry(node, i, 0) for i in range(count)] if count != 1 else [NodeEntry(node, 0, 0)]
    return symbol


def _heads(symbols: Sequence[Symbol]) -> list[list[NodeEntry]]:
    return [symbol.outputs for symbol in symbols]


def _named_heads(symbols: Mapping[str, Symbol]) -> dict[str, list[NodeEntry]]:
    return {name: symbol.outputs for name, symbol in symbols.items()}


def create_operator(
    op: Op,
    args: Sequence[Symbol],
    kwargs: Mapping[str, Symbol],
    attrs: dict[str, str],
    name: str | None,
    hint: str,
) -> Symbol:
    """Create an operator node, name it, and compose it: the last step of every operator function.

    attrs: parameters and attributes as text; the current AttrScope is applied by the caller.
    Raises ParamError, ComposeError.
    """
    node_attrs = NodeAttrs(op, name or "", attrs, source=caller())
    parser = op.attr_parser
    if parser is not None:
        parser(node_attrs)
    node = Node(node_attrs)
    compose_atomic(node, _heads(args), _named_heads(kwargs), NameManager.current.get(name, hint))
    return _visible(node)


def load_json(text: str) -> Symbol:
    """Return the symbol in a JSON text.

    Args:
        text: the JSON text of any version of MXNet, or of `Symbol.tojson()`.

    Raises:
        JSONFormatError: the text is not a graph.
        SymbolTypeError: `text` is not a string.
    """
    if not isinstance(text, str):
        fix = (
            "A file's symbol is symbol.load(path)."
            if isinstance(text, os.PathLike)
            else "json.dumps makes text of a dict."
        )
        raise SymbolTypeError("fname need to be string, the JSON text", got=type(text).__name__, fix=fix)
    return read_symbol(apply_pass(Graph(attrs={"json": text}), "LoadLegacyJSON"))


def read_symbol(graph: Graph) -> Symbol:
    """Return the symbol of a file's graph, whose shapes are in the convention that the file has."""
    return (NumpySymbol if graph.attrs.get("is_np_shape") else Symbol)(graph.outputs)


def load(fname: str | Path) -> Symbol:
    """Return the symbol in a file that `Symbol.save` or MXNet wrote.

    Args:
        fname: the path of the JSON file.

    Raises:
        JSONFormatError: the file's text is not a graph.
        ModelNotFoundError: there is no such file.
        FileError: the path is not a regular file.
        OSError: the file cannot be read.
    """
    if path_text(fname, "fname").lstrip().startswith("{"):
        raise SymbolTypeError("load needs the path of a symbol file, and got JSON text. Give that to symbol.load_json.")
    text = read_text(fname)
    with naming(fname):
        return load_json(text)


def read_text(fname: str | os.PathLike[str]) -> str:
    """Return the text of a symbol file. Raises JSONFormatError for one that is too large or no text, with the file's
    real kind; ModelNotFoundError, FileError, OSError."""
    require_file(fname)
    return symbol_text(read_bounded(fname, MAX_FILE_BYTES, "a symbol file", JSONFormatError), fname)
