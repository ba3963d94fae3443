"""`match_params`: which array of a file belongs to which argument or state of a symbol, for any names in the file.

Names are tried first: as they are, without `arg:` or `aux:`, then without the prefix of a Gluon block. The rest is
matched by roles, shapes and order (`structural`). Everything that does not fit is reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symjax_nnvm.errors import InferenceError, ParamsMismatchError, plain_list, printable, printable_lines
from symjax_nnvm.inspect.roles import label_variables, learned_variables
from symjax_nnvm.ir.attributes import FListInputNames
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters, way_out_of_mixing
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.mxnet.array_names import ARG, AUX, bare_name, kind_of
from symjax_nnvm.mxnet.sparse import SparseArray
from symjax_nnvm.mxnet.structural_names import Layers, compatible, file_layers, match_layers, symbol_layers
from symjax_nnvm.symbol.call_arguments import expect_arrays, expect_symbol
from symjax_nnvm.symbol.inference_calls import infer_shapes
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import lines_html

_LISTED = 8


@dataclass(frozen=True)
class Misshaped:
    """Reports an array that has a variable's name and not its shape."""

    name: str
    source: str
    expected: Shape | None
    got: tuple[int, ...]

    def __str__(self) -> str:
        origin = "" if self.source == self.name else f" ({self.source} in the file)"
        shapes = f"{format_shape(self.got)}, expected {format_shape(self.expected)}"
        return f"{printable(self.name + origin)}: {shapes}"


@dataclass(frozen=True)
class Ambiguous:
    """Holds blocks of a file that could belong to any of several layers of the symbol.

    roles: the roles of the arrays that each has, such as `weight` and `bias`. names, sources: the layers' variables,
    the blocks' arrays.
    """

    blocks: tuple[str, ...]
    layers: tuple[str, ...]
    roles: tuple[str, ...]
    names: tuple[str, ...]
    sources: tuple[str, ...]

    def __str__(self) -> str:
        return f"{plain_list(self.blocks)} ({plain_list(self.roles)}) could each be any of {plain_list(self.layers)}"


@dataclass(frozen=True)
class ParamsMatch:
    """The result of `match_params`.

    Attributes:
        args: arrays of the symbol's arguments, by name.
        aux: arrays of its auxiliary states, by name.
        sources: the name of each array in the file, by the variable's name.
        inputs: arguments that are not parameters: data and labels.
        missing: parameters and auxiliary states without an array.
        surplus: arrays of the file that the symbol does not use.
        misshaped: arrays of the wrong shape.
        ambiguous: blocks of arrays that fit several layers.
        conflict: the message of shape inference when the arrays' shapes contradict each other, else empty.
    """

    args: dict[str, Any]
    aux: dict[str, Any]
    sources: dict[str, str]
    inputs: tuple[str, ...]
    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()
    misshaped: tuple[Misshaped, ...] = ()
    ambiguous: tuple[Ambiguous, ...] = ()
    conflict: str = ""

    @property
    def ok(self) -> bool:
        """Return whether every parameter and auxiliary state has its array; surplus arrays do no harm."""
        return not (self.missing or self.misshaped or self.ambiguous or self.conflict)

    def raise_if_incomplete(self) -> None:
        """Raise ParamsMismatchError, which lists all faults, unless `ok`; GraphError for wrong 8-bit parameters."""
        refuse_wrong_parameters(self.args, self.args)
        if not self.ok:
            raise ParamsMismatchError(f"The arrays do not fit the symbol.\n{self}\n{self._way_out()}")

    def _way_out(self) -> str:
        if way_out := way_out_of_mixing(self.missing, {bare_name(name) for name in (*self.surplus, *self.args)}):
            return way_out
        if not self.sources:
            return "No name belongs to the symbol: the file is another model's, or its names must be changed first."
        if self.misshaped:
            return "They belong to another network or version. To make layers new use symjax_nnvm.replace_head."
        return "Read what is missing from another file, or draw it: lowering.init_params(symbol, shapes, key)."

    def __str__(self) -> str:
        parts = [
            f"matched: {len(self.args)} arguments, {len(self.aux)} auxiliary states",
            f"inputs: {plain_list(self.inputs)}",
        ]
        problems = (("missing", self.missing), ("surplus", self.surplus))
        parts += [f"{what} ({len(names)}): {plain_list(names)}" for what, names in problems if names]
        parts += [f"wrong shape: {wrong}" for wrong in self.misshaped[:_LISTED]]
        if len(self.misshaped) > _LISTED:
            parts.append(f"wrong shape: {len(self.misshaped) - _LISTED} more")
        parts += [f"ambiguous: {group}" for group in self.ambiguous[:_LISTED]]
        if self.ambiguous:
            parts.append("To decide, give the arrays the symbol's names: match_params(symbol, {name: array, ...}).")
        if self.conflict:
            parts.append(f"contradiction: {printable_lines(self.conflict)}")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return lines_html(str(self).splitlines())


def match_params(
    symbol: Symbol, params: Mapping[str, Any], shapes: Mapping[str, Sequence[int]] | None = None
) -> ParamsMatch:
    """Match arrays to a symbol's arguments and auxiliary states; the graph decides which are which.

    Arrays that do not fit raise nothing: see `ParamsMatch.raise_if_incomplete`. Sparse arrays are made dense.

    Args:
        symbol: the network.
        params: arrays by name, as `load_arrays` returns them. Names may be `arg:conv_weight`, `conv_weight`, without a
            Gluon block's prefix (`save_params`), or structural (`0.weight`, `save_parameters`).
        shapes: shapes of the model's inputs, such as `{"data": (1, 3, 224, 224)}`. With them every array's shape is
            checked, and any other argument that is not a label is a parameter. Without them, `roles.py` decides by name
            and use which arguments are parameters.

    Raises:
        InferenceError: the shapes contradict the graph.
        SymbolValueError: `shapes` names an input that the graph does not have.
    """
    expect_symbol(symbol, "match_params")
    expect_arrays(params, "The parameters")
    search = _Search(symbol, params, dict(shapes or {}))
    search.by_name()
    search.without_prefix()
    search.by_structure()
    return search.result()


@dataclass
class _Search:
    """One search. pairs: name in the symbol → name in the file. left: names of the file that have no place yet."""

    symbol: Symbol
    params: Mapping[str, Any]
    given: dict[str, Sequence[int]]
    pairs: dict[str, str] = field(default_factory=dict)
    ambiguous: list[Ambiguous] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.arguments = list(dict.fromkeys(self.symbol.list_arguments()))
        self.states = list(dict.fromkeys(self.symbol.list_auxiliary_states()))
        in_order = dict.fromkeys(self.symbol.list_inputs())
        _, arguments, _, states = infer_shapes(self.symbol.outputs, (), self.given)
        shapes = dict(zip(self.symbol.list_arguments(), arguments, strict=True))
        shapes |= dict(zip(self.symbol.list_auxiliary_states(), states, strict=True))
        self.expected: dict[str, Shape | None] = {name: shapes[name] for name in in_order if name not in self.given}
        self.uses = _uses(self.symbol)
        self.left = _bare_names(self.params, set(self.states))
        self.lost = [source for source in self.params if source not in set(self.left.values())]

    def take(self, name: str, bare: str) -> None:
        """Record that an array of the file belongs to a variable. bare: the array's name in the file."""
        self.pairs[name] = self.left.pop(bare)

    def missing(self) -> dict[str, Shape | None]:
        """Return variables that have no array yet, with what is known of their shapes, in the order of the graph."""
        return {name: shape for name, shape in self.expected.items() if name not in self.pairs}

    def by_name(self) -> None:
        """Match the arrays that have the symbol's names."""
        for name in self.expected:
            if name in self.left:
                self.take(name, name)

    def without_prefix(self) -> None:
        """Names that lack a prefix which all of the symbol's have, or have one instead of it: `net0_`."""
        missing = self.missing()
        names = list(self.left)
        for skip in dict.fromkeys((0, _common_prefix(names))):
            endings = [name[skip:] for name in names]
            best: list[tuple[str, str]] = []
            for candidate in missing:
                if endings and candidate.endswith(endings[0]):
                    prefix = candidate[: len(candidate) - len(endings[0])]
                    pairs = [(prefix + ending, name) for ending, name in zip(endings, names, strict=True)]
                    best = max(best, [pair for pair in pairs if pair[0] in missing], key=len)
            if 2 * len(best) > len(names):
                for name, bare in best:
                    self.take(name, bare)
                return

    def by_structure(self) -> None:
        """Match structural names, by roles, shapes and order."""
        stored = file_layers({bare: np.shape(self.params[source]) for bare, source in self.left.items()})
        roles = frozenset(role for layer in stored for role in layer.members)
        pairs, groups = match_layers(symbol_layers(self.missing(), self.uses, roles), stored)
        for theirs, ours in pairs:
            for role, name in theirs.members.items():
                self.take(name, ours.members[role])
        for candidates, layers in groups:
            sources = tuple(self.left.pop(bare) for bare in _members(layers))
            blocks, names = (tuple(layer.name for layer in some) for some in (layers, candidates))
            self.ambiguous.append(Ambiguous(blocks, names, tuple(layers[0].members), _members(candidates), sources))

    def result(self) -> ParamsMatch:
        """Return the matches and all problems found."""
        args: dict[str, Any] = {}
        aux: dict[str, Any] = {}
        misshaped: list[Misshaped] = []
        states = set(self.states)
        for name in self.expected:
            if name not in self.pairs:
                continue
            array, expected = self.params[self.pairs[name]], self.expected[name]
            got = tuple(np.shape(array))
            if not compatible(expected, got):
                misshaped.append(Misshaped(name, self.pairs[name], expected, got))
                continue
            (aux if name in states else args)[name] = array.todense() if isinstance(array, SparseArray) else array
        unclear = {name for group in self.ambiguous for name in group.names}
        without = [name for name in self.missing() if name not in unclear]
        parameters = self._parameters()
        missing = tuple(name for name in without if name in states or name in parameters)
        return ParamsMatch(
            args,
            aux,
            self.pairs,
            inputs=tuple(n for n in self.arguments if n in self.given or (n in without and n not in missing)),
            missing=missing,
            surplus=(*self.left.values(), *self.lost),
            misshaped=tuple(misshaped),
            ambiguous=tuple(self.ambiguous),
            conflict="" if misshaped or self.ambiguous else self._conflict(args | aux),
        )

    def _parameters(self) -> set[str]:
        """Return the arguments that should have an array."""
        if self.given:
            return set(self.arguments) - {node.name for node in label_variables(self.symbol)}
        return {node.name for node in learned_variables(self.symbol)}

    def _conflict(self, arrays: Mapping[str, Any]) -> str:
        """Return the message of inference over all shapes together; empty without a contradiction."""
        shapes = {name: np.shape(array) for name, array in arrays.items()}
        # A scalar's shape means an unknown one to inference.
        try:
            infer_shapes(self.symbol.outputs, (), {name: shape for name, shape in shapes.items() if shape} | self.given)
        except InferenceError as error:
            return str(error)
        return ""


def _members(layers: Layers) -> tuple[str, ...]:
    return tuple(name for layer in layers for name in layer.members.values())


def _uses(symbol: Symbol) -> dict[str, tuple[str, str]]:
    """Map variable → (operator node, input) of its first reader."""
    uses: dict[str, tuple[str, str]] = {}
    for node in post_order(symbol.outputs):
        if node.op is not None and any(entry.node.is_variable for entry in node.inputs):
            names = list(FListInputNames[node.op](node.attrs)) if node.op in FListInputNames else ["data"]
            for name, entry in zip(names, node.inputs, strict=False):
                if entry.node.is_variable:
                    uses.setdefault(entry.node.name, (node.name, name))
    return uses


def _bare_names(params: Mapping[str, Any], states: set[str]) -> dict[str, str]:
    """Names without `arg:` and `aux:` → names in the file. Of two that become one, that of the right kind counts."""
    bare: dict[str, str] = {}
    for source in params:
        name = bare_name(source)
        if name not in bare or kind_of(source) == (AUX if name in states else ARG):
            bare[name] = source
    return bare


def _common_prefix(names: Sequence[str]) -> int:
    """Return the length of what all names begin with, up to a full word."""
    if not names:
        return 0
    low, high = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return max(low[:same].rfind("_"), low[:same].rfind(".")) + 1
