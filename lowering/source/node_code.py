"""Nodes as code: the expression of a node, or the lines of a function where one expression does not hold it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from lowering.source.blocks import RESERVED, PrintedCall
from lowering.source.equations import Atom, Body, flatten, is_zero, made
from lowering.source.expressions import Code, print_body
from lowering.source.idioms import with_idioms
from lowering.source.literals import tuple_text
from lowering.source.names import Names
from lowering.source.templates import CONST, DIM, INPUT, STRING, WORD, found, is_reserved, marker, replaced, with_return
from lowering.source.trace import TracedNode, refusal
from symjax_nnvm.errors import printable
from symjax_nnvm.ir.attributes import FListInputNames

_LITERALS = ("shape", "axis", "value", "strides", "padding", "window", "dims", "sizes", "places", "table", "size")
"""What literals are called where they become parameters: names that variables do not take."""


class NodeCode:
    """One node as code. inputs, outputs: slots of arrays. texts: of all inputs. strings: names of parameters and
    states. consts: literals.

    params: names of the variables that are parameters, by slot. read: slots that other nodes or callers read. scope:
    the names of the module.
    """

    def __init__(self, node: TracedNode, params: Mapping[int, str], read: set[int], scope: Names):
        self.node, self._params, self._scope = node, params, scope
        self.is_custom = bool(node.backward)
        self.name = node.node.name or str(node.node.op and node.node.op.name)
        self.strings: list[str] = []
        self.consts: list[tuple[str, str]] = []
        self.inputs = tuple(slot for slot in node.inputs if slot not in params)
        self.arrays = self._array_names()
        self._stored = {place for place in node.states if self.is_custom is False}
        read_places = [p for p, slot in enumerate(node.outputs) if p not in self._stored or slot in read]
        self.outputs, self._kept = tuple(node.outputs[p] for p in read_places), read_places
        places = iter(range(len(self.inputs)))
        self.texts = [self._param(params[s]) if s in params else marker(INPUT, next(places)) for s in node.inputs]
        self._codes = self._different(map(self._code, node.bodies()))
        self._leave_out_unread()
        first = self._codes[0]
        self.is_function = self.is_custom or len(self._codes) > 1 or bool(first.statements) or len(read_places) != 1

    def _leave_out_unread(self) -> None:
        """Leave out the inputs that the code does not read, such as those of which a rule needs the shape alone."""
        texts = [text for code in self._codes for text in (*code.statements, *code.results)]
        read = {int(i) for text in texts for i in found(text, INPUT)}
        if not self.is_custom and len(read) < len(self.inputs):
            places = {place: number for number, place in enumerate(sorted(read))}
            parts = {INPUT: lambda i: marker(INPUT, places[int(i)])}
            self.inputs = tuple(self.inputs[place] for place in places)
            self.arrays = [self.arrays[place] for place in places]
            for code in self._codes:
                code.statements = [replaced(text, parts) for text in code.statements]
                code.results = [replaced(text, parts) for text in code.results]

    def _param(self, name: str) -> str:
        return f"{marker(WORD, 'p')}[{self._string(name)}]"

    def _string(self, name: str) -> str:
        if is_reserved(name):
            raise refusal(self.node.node, f"the name {printable(name)} has one of the characters U+E000 to U+E003")
        if name not in self.strings:
            self.strings.append(name)
        return marker(STRING, self.strings.index(name))

    def _array_names(self) -> list[str]:
        """Return what the arrays of the function are called: as the operator calls its inputs."""
        op, node = self.node.node.op, self.node
        assert op is not None
        names = FListInputNames.get(op)
        self._listed = list(names(node.node.attrs)) if names and len(node.inputs) > 1 else []
        texts = [self._listed[i] if i < len(self._listed) else "x" for i in range(len(node.inputs))]
        return [t for t, slot in zip(texts, node.inputs, strict=True) if self.is_custom or slot not in self._params]

    # -- code --------------------------------------------------------------------------------------------------------

    def _code(self, body: Body, arrays: Sequence[str] | None = None) -> Code:
        """Return the code of a body of `key, *inputs`; states are stored by statements."""
        texts = self.texts if arrays is None else arrays
        if self.is_custom and arrays is None:
            texts = [marker(INPUT, i) for i in range(len(self.node.inputs))]
        key = "key" if self.is_custom else marker(WORD, "key")
        names = Names((*RESERVED, *_LITERALS, *self.arrays, "name", "each"), self._scope)
        body = with_idioms(body)
        listed = dict(zip((self._params.get(slot) for slot in self.node.inputs), self._listed, strict=False))
        states = self.node.states.items() if arrays is None else ()
        hints = {id(_source(body.results[place])): listed[name] for place, name in states if name in listed}
        code = print_body(body, [key, *texts], names, partial(refusal, self.node.node), self.consts, hints)
        for place, name in self.node.states.items():
            if place in self._stored and _source(body.results[place]) not in body.inputs:
                code.statements.append(f"{marker(WORD, 'states')}[{self._string(name)}] = {code.results[place]}")
        code.results = [code.results[place] for place in self._kept] if arrays is None else code.results
        return code

    def _text(self, code: Code) -> str:
        """Return the text of a code with its literals."""
        text = "\n".join((*code.statements, *code.results))
        return replaced(text, {CONST: lambda i: self.consts[int(i)][1]})

    @property
    def key(self) -> object:
        """Return a key that is equal for nodes that one function of the source can serve."""
        op, consts = self.node.node.op, tuple(self.consts) if self.is_custom else len(self.consts)
        return (
            op and op.name,
            tuple((tuple(c.statements), tuple(c.results)) for c in self._codes),
            consts,
            self.is_custom,
        )

    @property
    def shown(self) -> str:
        """Return the expression as it will be seen, about."""
        text = self._text(self._codes[0])
        text = replaced(text, {STRING: lambda i: f'"{self.strings[int(i)]}"'})
        return replaced(text, dict.fromkeys((INPUT, DIM, WORD), lambda _: "…" * 8))

    def call(self) -> PrintedCall:
        """Return the node's expression as a step."""
        (result,) = self._codes[0].results
        return PrintedCall(result, self.inputs, tuple(self.strings), tuple(self.consts), self.outputs, self.name)

    def lines(self) -> list[str]:
        """Return the body of the node's function."""
        return self._by_mode([_returned(code) for code in self._codes])

    def _different(self, codes: Iterable[Code]) -> list[Code]:
        """Return the codes at inference and in training: one where they are the same."""
        distinct: list[Code] = []
        before = len(self.consts)
        for code in codes:
            if distinct and self._text(code) == self._text(distinct[0]):
                del self.consts[before:]
            else:
                distinct.append(code)
            before = len(self.consts)
        return distinct

    def _by_mode(self, texts: Sequence[list[str]]) -> list[str]:
        """Return the statements of a function that may be another in training."""
        train = "train" if self.is_custom else marker(WORD, "train")
        *others, last = reversed(texts)
        return [line for lines in others for line in (f"if {train}:", *(f"    {line}" for line in lines))] + last

    def backward(self, arrays: Sequence[str], cotangents: Sequence[str]) -> list[str]:
        """Return the body of the function of the node's gradient, from its arrays and the cotangents of its outputs."""
        bodies = [flatten(jaxpr) for jaxpr in self.node.backward]
        codes = self._different(self._code(body, [*arrays, *cotangents]) for body in bodies)
        texts: list[list[str]] = []
        for code, body in zip(codes, bodies, strict=False):
            results: list[str] = ["None"] * len(self.node.inputs)
            for place, text, result in zip(self.node.wrt, code.results, body.results, strict=True):
                results[place] = "None" if is_zero(result) else text  # as JAX writes zeros
            texts.append([*code.statements, f"return {tuple_text(results)}"])
        return self._by_mode(texts)

    @property
    def heads(self) -> int:
        """Return how many of the outputs have a cotangent that the gradient gets."""
        return len(self.node.backward[0].jaxpr.invars) - 1 - len(self.node.inputs)


def _source(atom: Atom) -> Atom:
    """Return the array behind an atom that may only stop its gradient."""
    fixed = made(atom, "stop_gradient")
    return _source(fixed.inputs[0]) if fixed else atom


def _returned(code: Code) -> list[str]:
    """Return the statements of a function, with what it returns."""
    texts = code.results
    for several, count in code.lists.items():
        plain = [replaced(text, {CONST: lambda i: code.consts[int(i)][1]}) for text in texts]
        if plain == [plain[0].replace(f"{several}[0]", f"{several}[{i}]") for i in range(count)]:
            element = texts[0].replace(f"{several}[0]", "each")
            texts = [several if element == "each" else f"[{element} for each in {several}]"]
    return with_return(code.statements, ", ".join(texts))
