"""The text of a Python module that computes a network and imports nothing but JAX and NumPy."""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import jax.numpy as jnp

from lowering.source.blocks import (
    RESERVED,
    PrintedCall,
    PrintedFunction,
    Steps,
    abstract,
    common_start,
    find_functions,
    literal_text,
    rendered,
    string_text,
)
from lowering.source.expressions import MANY
from lowering.source.line_breaks import COLUMNS, laid_out, lines_of
from lowering.source.literals import dtype_text, size_text, tuple_text
from lowering.source.loops import Loop, layer_by_layer, with_loops
from lowering.source.names import Names, identifier, quoted
from lowering.source.node_code import NodeCode
from lowering.source.templates import (
    CONST,
    DIM,
    INPUT,
    STRING,
    WORD,
    found,
    marker,
    replaced,
    with_return,
    words_of,
)
from lowering.source.trace import Traced

_FIRST, _LAST = ("p", "states"), ("train", "key")
"""Words that functions pass on, before and after their other arguments."""

_LONG = 90
"""Letters of a shape that no comment has."""

_RETURN = re.compile(r"^( *return )(.*)")
_IN_SHAPE = re.compile(r"(?<=\w,) (?=\w+[,)])")
_RUN = re.compile(r"(\[?)\b(\w+)\[0\]((?:, \2\[[0-9]+\])+)(\]?)")


def module_text(network: Traced, data: Sequence[str], title: str) -> str:
    """Return the module. data: the variables that `forward` takes one by one, the others are in `params`. title: the
    docstring."""
    return _Module(network, data).text(title)


class _Module:
    def __init__(self, network: Traced, data: Sequence[str]):
        self._network, self._results = network, network.results
        self._globals = Names(RESERVED)
        self._main_names = Names(RESERVED, self._globals)
        self._sizes: dict[str, str] = {}
        self._last_shape = ""
        self._texts: dict[str, list[str]] = {}
        variables = network.variables.items()  # two may have one name
        self._data = {slot: name for name in data for slot, its_name in variables if its_name == name}
        self._arguments = {name: self._main_names.new(name) for name in data}
        self._params = {slot: name for slot, name in network.variables.items() if slot not in self._data}

    def text(self, title: str) -> str:
        calls = with_loops(self._calls(), self._results, self._main_names, several=True)
        bodies = [
            Steps(c.body, {after for _, _, after in c.carried} | {*c.collected}, 2)
            for c in calls
            if isinstance(c, Loop)
        ]
        bodies = [Steps(calls, set(self._results)), *bodies]
        find_functions(bodies, self._block_name, self._globals)
        called: dict[PrintedFunction, list[tuple[int, int, PrintedCall]]] = defaultdict(list)
        for b, body in enumerate(bodies):
            for i, call in enumerate(body.calls):
                if call.function is not None:
                    called[call.function].append((b, i, call))
        for function, places in called.items():
            (first_body, first, _), (last_body, last, _) = places[0], places[-1]
            is_loop = first_body == last_body and last - first + 1 == len(places)  # what differs is a variable of it
            function.set_defaults([call for _, _, call in places[: 1 if is_loop else None]])
        main = self._main(calls)
        tables = [
            [f'{name} = """', *textwrap.wrap(text, COLUMNS), '"""'] for text, name in self._globals.tables.items()
        ]
        parts = [*self._texts.values(), main, self._load(), self._run()]
        code = "\n\n\n".join("\n".join(part) for part in parts)
        read = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        imports = [
            *(["from functools import partial", ""] if "partial" in read else []),
            "import jax",
            "import jax.numpy as jnp",
            "import numpy as np",
            *(["from jax import lax"] if "lax" in read else []),
        ]
        numbers = [line for table in tables for line in (*table, "")]
        return "\n".join([*_docstring(title), "", *imports, "", *numbers, "", code, ""])

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _calls(self) -> list[PrintedCall]:
        """Return the program as steps: expressions where they are short, else calls of functions."""
        read = {slot for node in self._network.nodes for slot in node.inputs} | set(self._results)
        leaves = [NodeCode(node, self._params, read, self._globals) for node in self._network.nodes]
        needed = set(self._results)
        for leaf in reversed(leaves):
            if leaf.node.states or needed.intersection(leaf.outputs):
                needed.update(leaf.inputs)
        leaves = [leaf for leaf in leaves if leaf.node.states or needed.intersection(leaf.outputs)]
        grouped: dict[object, list[NodeCode]] = defaultdict(list)
        for leaf in leaves:
            grouped[leaf.key].append(leaf)
        calls: dict[int, list[PrintedCall]] = {}
        for group in grouped.values():
            first = group[0]
            if first.is_custom:
                calls |= self._custom(group)
            elif first.is_function or (
                len(first.shown) > (60 if len(group) > 1 else 150) and len(first.inputs) <= MANY
            ):
                calls |= self._function(group)
            else:
                calls |= {id(leaf): [leaf.call()] for leaf in group}
        steps = layer_by_layer(self._once(call for leaf in leaves for call in calls[id(leaf)]))
        return sorted(steps, key=lambda call: bool(call.inputs or call.strings or not call.outputs))  # constants first

    def _once(self, calls: Iterable[PrintedCall]) -> list[PrintedCall]:
        """Return the steps, those that are equal once."""
        first: dict[object, PrintedCall] = {}
        same: dict[int, int] = {}
        for call in calls:
            call.inputs = tuple(same.get(slot, slot) for slot in call.inputs)
            other = first.setdefault((call.template, call.inputs, call.strings, call.consts), call)
            same |= {slot: twin for slot, twin in zip(call.outputs, other.outputs, strict=True) if slot != twin}
        self._results = [same.get(slot, slot) for slot in self._results]
        return [*first.values()]

    def _function(self, group: Sequence[NodeCode]) -> dict[int, list[PrintedCall]]:
        """Define the function of nodes that are alike; return their calls."""
        first, names = group[0], Names(RESERVED, self._globals)
        abstraction = abstract([(leaf.strings, leaf.consts) for leaf in group], names)
        arrays = [names.new(text) for text in first.arrays]
        function = PrintedFunction(self._node_name(first), abstraction, names, arrays=arrays)
        function.lines = [rendered(line, arrays, abstraction.strings, abstraction.consts) for line in first.lines()]
        return {
            id(leaf): [function.call(leaf.inputs, arguments, leaf.outputs, leaf.name)]
            for leaf, arguments in zip(group, abstraction.given, strict=True)
        }

    def _custom(self, group: Sequence[NodeCode]) -> dict[int, list[PrintedCall]]:
        """Define the function of nodes whose gradient is not a derivative, with this gradient; return their calls."""
        first, names = group[0], Names(RESERVED, self._globals)
        name, arrays = self._node_name(first), [names.new(text) for text in first.arrays]
        inner = [marker(INPUT, i) for i in range(len(arrays))]
        cotangents = [names.new(f"cotangent_{i}" if first.heads > 1 else "cotangent") for i in range(first.heads)]
        outputs = cotangents + ["_"] * (len(first.outputs) - first.heads)
        bodies = first.lines(), first.backward(inner, cotangents)
        consts = [text for _, text in first.consts]
        lines, backward = ([rendered(line, arrays, (), consts) for line in body] for body in bodies)
        drawn = ["key"] if any("key" in words_of(line) for line in (*lines, *backward)) else []
        modes = ["train"] if any(line.startswith("if train:") for line in (*lines, *backward)) else []
        dims = _dims([*lines, *backward])
        still = [*modes, *map(self._size, dims)]
        every, saved = ", ".join([*still, *arrays, *drawn]), [*arrays, *drawn]
        places = tuple_text(range(len(still)))
        decorator = f"@partial(jax.custom_vjp, nondiff_argnums={places})" if still else "@jax.custom_vjp"
        if drawn:
            backward = [_RETURN.sub(r"\1(*\2, None)", line) for line in backward]
        unpacked = [f"{', '.join(outputs)} = cotangents"] if len(outputs) > 1 else []
        taken = "cotangents" if unpacked or not outputs else outputs[0]
        used = [text for text in saved if any(text in words_of(line) for line in backward)]
        taken_out = [text if text in used else "_" for text in saved]
        unpacked += [f"{tuple_text(taken_out) if len(saved) == 1 else ', '.join(taken_out)} = saved"] if used else []
        self._texts[name] = [
            *(decorator, *laid_out(f"def {name}({every}):")),
            *lines_of(map(self._plain, lines), "    "),
            *("", "", *laid_out(f"def {name}_forward({every}):")),
            *laid_out(f"return {name}({every}), {tuple_text(saved)}", "    "),
            *("", "", *laid_out(f"def {name}_backward({', '.join([*still, 'saved', taken])}):")),
            *lines_of(map(self._plain, [*unpacked, *backward]), "    "),
            *("", "", *laid_out(f"{name}.defvjp({name}_forward, {name}_backward)")),
        ]
        first_texts = [*(marker(WORD, word) for word in modes), *(marker(DIM, dim) for dim in dims)]
        calls: dict[int, list[PrintedCall]] = {}
        for leaf in group:
            texts = ", ".join([*first_texts, *leaf.texts, *(marker(WORD, word) for word in drawn)])
            called = [PrintedCall(f"{name}({texts})", leaf.inputs, tuple(leaf.strings), (), leaf.outputs, leaf.name)]
            for place, state in leaf.node.states.items():
                store = f"{marker(WORD, 'states')}[{marker(STRING, 0)}] = {marker(INPUT, 0)}"
                called.append(PrintedCall(store, (leaf.node.outputs[place],), (state,), (), (), leaf.name))
            calls[id(leaf)] = called
        return calls

    def _node_name(self, leaf: NodeCode) -> str:
        op = leaf.node.node.op
        assert op is not None
        return self._globals.new(op.name, "node")

    def _size(self, dim: str) -> str:
        """Return the name of an open size, the same in all functions."""
        if dim not in self._sizes:
            self._sizes[dim] = self._globals.new(dim, "size")
        return self._sizes[dim]

    def _plain(self, line: str) -> str:
        """Return a line without markers."""
        return replaced(line, {DIM: self._size, WORD: lambda word: word})

    def _in_main(self, line: str) -> str:
        return self._plain(line.replace(marker(WORD, "p"), "params"))

    def _block_name(self, window: Sequence[PrintedCall], common: str) -> str:
        letters = "".join(letter for letter in identifier(common, "") if not letter.isdigit())
        return self._globals.new("_".join(word for word in letters.split("_") if word) or "block")

    # -- functions ---------------------------------------------------------------------------------------------------

    def _define(self, function: PrintedFunction) -> list[str]:
        """Return what calls of a function hand on; write its text first, and those of the functions that it calls."""
        if function.needs is not None:
            return function.needs
        if function.calls is None:
            arrays, lines = function.arrays, function.lines
        else:
            several = len(function.inputs) > 1
            arrays = [function.names.new(f"x{i + 1}" if several else "x") for i in range(len(function.inputs))]
            slots = dict(zip(function.inputs, arrays, strict=True))
            lines = self._statements(function.calls, slots, function.names, function.results, function.common)
            returned = _joined([slots[slot] for slot in function.results], slots)
            lines = with_return(lines, returned[1:] if returned[1:].isidentifier() and returned[0] == "*" else returned)
        words, abstraction = _words(lines), function.abstraction
        function.needs = [word for word in (*_FIRST, *_LAST) if word in words] + _dims(lines)
        literals = [*zip(abstraction.literals, function.defaults, strict=True)]
        positional = [name for name, default in literals if default is None]
        options = [f"{name}={literal_text(default)}" for name, default in literals if default is not None]
        parameters = self._parameters(function.needs, [*abstraction.names, *arrays, *positional])
        self._texts[function.name] = [
            *laid_out(self._plain(f"def {function.name}({', '.join([*parameters, *options])}):")),
            *lines_of(map(self._plain, lines), "    "),
        ]
        return function.needs

    def _parameters(self, needs: Sequence[str], others: Sequence[str]) -> list[str]:
        """Return what a function takes, its other parameters in between."""
        first = [marker(WORD, word) for word in needs if word in _FIRST]
        return [*first, *others, *(marker(WORD if w in _LAST else DIM, w) for w in needs if w not in _FIRST)]

    def _called(self, function: PrintedFunction, call: PrintedCall, inputs: Sequence[str]) -> str:
        """Return a call of a function."""
        needs, abstraction = self._define(function), function.abstraction
        positional, optional, options = list[str](), list[str](), list[tuple[str, str]]()
        for name, default, (_, text) in zip(abstraction.literals, function.defaults, call.consts, strict=True):
            if default is None:
                positional.append(literal_text(text))
            else:
                optional.append(name)
                options += [(name, literal_text(text))] if text != default else []
        by_place = 1 < len(options) == len(optional)
        arguments = self._parameters(needs, [*map(string_text, call.strings), *inputs, *positional])
        arguments += [text if by_place else f"{name}={text}" for name, text in options]
        return f"{function.name}({', '.join(arguments)})"

    def _statements(
        self,
        calls: list[PrintedCall],
        slots: dict[int, str],
        names: Names,
        results: Sequence[int],
        common: str,
        targets: Mapping[int, tuple[int, str]] | None = None,
    ) -> list[str]:
        """Return the statements of steps. slots: names of the arrays that are there. results: what is read afterwards.
        targets: names that results take if the value that has the name is read no more, by slot."""
        calls = with_loops(calls, results, names)
        last_read = {slot: place for place, call in enumerate(calls) for slot in call.inputs}
        rows: dict[int, list[Sequence[int]]] = defaultdict(list)
        for row in (*(call.inputs for call in calls), results):
            for place, slot in enumerate(row):
                rows[slot].append(row[place:])
        lines: list[str] = []
        for place, call in enumerate(calls):
            if names is self._main_names and targets is None:
                lines += self._shape_before(calls[place - 1]) if place else []
            if isinstance(call, Loop):
                lines += self._loop(call, slots, names, common)
                continue
            text = self._rendered(call, slots)
            if call.template == marker(INPUT, 0) and call.outputs:
                slots[call.outputs[0]] = text
            elif len(call.outputs) > MANY or (
                len(call.outputs) > 1
                and not {*call.outputs}.intersection(targets or ())
                and any(tuple(row[: len(call.outputs)]) == call.outputs for row in rows[call.outputs[0]])
            ):
                several = self._new_name(call, names, common)
                slots |= _elements(several, call.outputs)
                lines.append(f"{several} = {text}")
            elif call.outputs:
                for number, slot in enumerate(call.outputs):
                    before, name = (targets or {}).get(slot, (slot, ""))
                    free = name and last_read.get(before, 0) <= place
                    end = f"_{number}" if len(call.outputs) > 1 else ""
                    slots[slot] = name if free else self._new_name(call, names, common, end)
                lines.append(f"{', '.join(slots[slot] for slot in call.outputs)} = {text}")
            else:
                lines.append(text)
        return lines

    def _shape_before(self, block: PrintedCall) -> list[str]:
        """Return a comment with the shape of what a block or a loop has made, if it is another one than before."""
        is_block = isinstance(block, Loop) or (block.function is not None and block.function.calls is not None)
        if not is_block or len(block.outputs) != 1 or block.outputs[0] not in self._network.avals:
            return []
        before, self._last_shape = self._last_shape, self._shape(block.outputs[0])
        return [f"# {self._last_shape}"] if self._last_shape != before and len(self._last_shape) < _LONG else []

    def _rendered(self, call: PrintedCall, slots: Mapping[int, str]) -> str:
        inputs = [slots[slot] for slot in call.inputs]
        if call.function is not None:
            return self._called(call.function, call, [text] if (text := _joined(inputs, slots)) else [])
        text = replaced(call.template, {INPUT: lambda i: inputs[int(i)]})
        text = _with_lists(text, slots) if len(inputs) > MANY else text
        return rendered(text, (), call.strings, [text for _, text in call.consts])

    def _new_name(self, call: PrintedCall, names: Names, common: str, end: str = "") -> str:
        short = call.name.removeprefix(common).removesuffix("_fwd").strip("_") or ("y" if common else call.name)
        return names.new(short + end if not short[:1].isdigit() else f"x{short}{end}")

    def _loop(self, loop: Loop, slots: dict[int, str], names: Names, common: str) -> list[str]:
        """Return the statements of a loop."""
        inner = dict(slots)
        carried = [self._new_name(self._maker(loop, after), names, common) for _, _, after in loop.carried]
        targets = {after: (before, name) for name, (_, before, after) in zip(carried, loop.carried, strict=True)}
        first = [slots[initial] for initial, _, _ in loop.carried]
        inner |= {before: name for name, (_, before, _) in zip(carried, loop.carried, strict=True)}
        inner |= {
            slot: f"{slots[row[0]].rpartition('[')[0]}[{literal_text(index)}]"
            for (slot, row), index in zip(loop.items, loop.indices, strict=True)
        }
        lists = {slot: names.new(f"all_{self._maker(loop, slot).name}") for slot in loop.collected}
        rows = [[_value(*value) for value in row] for row in loop.rows]
        over = _over(rows)
        head = f"for {', '.join(loop.variables) or '_'} in {over}:"
        read = [*(after for _, _, after in loop.carried), *lists]
        body = self._statements(loop.body, inner, loop.names, read, common, targets)
        if len(body) == 1 and len(lists) == 1 and not carried:
            (slot, several), value = *lists.items(), body[0].partition(" = ")[2]
            slots |= _elements(several, loop.collected[slot])
            return [f"{several} = [{value} {head[:-1]}]"]
        body += [f"{several}.append({inner[slot]})" for slot, several in lists.items()]
        late = [(name, inner[after]) for name, (_, _, after) in zip(carried, loop.carried, strict=True)]
        late = [(name, text) for name, text in late if name != text]
        if late:
            body.append(f"{', '.join(name for name, _ in late)} = {', '.join(text for _, text in late)}")
        for slot, several in lists.items():
            slots |= _elements(several, loop.collected[slot])
        slots |= {final: targets[after][1] for after, final in loop.last.items()}
        start = [f"{', '.join(carried)} = {', '.join(first)}"] if carried else []
        return [*start, *(f"{several} = []" for several in lists.values()), head, *(f"    {line}" for line in body)]

    def _maker(self, loop: Loop, slot: int) -> PrintedCall:
        return next(call for call in loop.body if slot in call.outputs)

    # -- the module's own functions ----------------------------------------------------------------------------------

    def _main(self, calls: list[PrintedCall]) -> list[str]:
        slots = {slot: f"params[{quoted(name)}]" for slot, name in self._params.items()}
        slots |= {slot: self._arguments[name] for slot, name in self._data.items()}
        order = list(self._arguments.values())
        statements = self._statements(calls, slots, self._main_names, self._results, common_start(calls))
        texts = [slots[slot] for slot in self._results]
        every = _joined(texts, slots)
        result = (
            every if len(texts) == 1 else f"({every},)" if every.startswith("*") and ", " not in every else f"({every})"
        )
        words = _words(statements)
        has_states = "states" in words
        self.options = [word for word in _LAST if word in words or (word == "train" and has_states)]
        sizes = [
            f"{self._size(dim)} = {slots[slot]}.shape[{axis}]"
            for dim in _dims(statements)
            for slot, axis in [_size_in(dim, self._data, self._network)]
        ]
        more = ", ".join({"train": "train=False", "key": "key=None"}[word] for word in self.options)
        returned = f"return ({result}, states) if train else {result}" if has_states else f"return {result}"
        shapes = ", ".join(dict.fromkeys(f"{slots[s]} {self._shape(s)}" for s in self._data))
        outs = ", ".join(self._shape(slot) for slot in self._results)
        about = f"{shapes} -> {outs}" if shapes else f"Return the outputs {outs}"
        about = f"{about}{', and in training the states' if has_states else ''}."
        lines = [*sizes, *(["states = {}"] if has_states else []), *statements, returned]
        head = f"def forward({', '.join(['params', *order, *(['*', more] if more else [])])}):"
        return [
            *laid_out(head),
            *_docstring(about, "    "),
            *lines_of(map(self._in_main, lines), "    "),
        ]

    def _shape(self, slot: int) -> str:
        return tuple_text([*map(size_text, self._network.avals[slot].shape)])

    def _load(self) -> list[str]:
        narrow = any(self._network.avals[slot].dtype == jnp.bfloat16 for slot in self._params)
        array = 'arrays[name].view(jnp.bfloat16) if arrays[name].dtype == "V2" else arrays[name]'
        return [
            'def load(path="weights.npz"):',
            '    """Return the parameters and states, by their names in MXNet."""',
            "    with np.load(path) as arrays:",
            *laid_out(
                f"return {{name: jnp.asarray({array if narrow else 'arrays[name]'}) for name in arrays}}", " " * 8
            ),
        ]

    def _run(self) -> list[str]:
        zeros: list[str] = []
        slots = {name: slot for slot, name in self._data.items()}
        for name in self._arguments:
            aval = self._network.avals[slots[name]] if name in slots else None
            sizes = [size if isinstance(size, int) else 1 for size in aval.shape] if aval is not None else []
            shape = tuple_text(sizes) if sizes else "()"
            zeros.append(f"jnp.zeros({shape}, {dtype_text(aval.dtype)})" if aval is not None else "None")
        key = ", key=jax.random.key(0)" if "key" in self.options else ""
        return [
            'if __name__ == "__main__":',
            *laid_out(f"outputs = forward({', '.join(['load()', *zeros])}{key})", "    "),
            "    print(jax.tree.map(jnp.shape, outputs))",
        ]


def _docstring(text: str, indent: str = "") -> list[str]:
    """Return the lines of a docstring, one of which has room for the quotes at its end."""
    options = {"subsequent_indent": indent, "break_long_words": False, "break_on_hyphens": False}
    whole = _IN_SHAPE.sub("\xa0", text)  # shapes are not broken
    lines = [line.replace("\xa0", " ") for line in textwrap.wrap(f'{indent}"""{whole}', COLUMNS - 3, **options)]
    return [f'{lines[0]}"""'] if len(lines) == 1 else [*lines, f'{indent}"""']


def _elements(several: str, slots: Sequence[int]) -> dict[int, str]:
    """Return the texts of the elements of a list of arrays."""
    return {slot: f"{several}[{i}]" for i, slot in enumerate(slots)}


def _joined(texts: Sequence[str], slots: Mapping[int, str]) -> str:
    """Return arrays between commas, all elements of a list as the list with a star."""
    return _with_lists(", ".join(texts), slots)


def _with_lists(text: str, slots: Mapping[int, str]) -> str:
    """Return a text in which elements of a list that stand in a row are the list, where they are all of them."""

    def run_of(run: re.Match[str]) -> str:
        before, several, others, after = run.groups()
        count = next(i for i in itertools.count() if f"{several}[{i}]" not in texts)
        every = "".join(f", {several}[{i}]" for i in range(1, count))
        if count < 2 or not others.startswith(every):
            return run[0]
        return several if before and after and others == every else f"{before}*{several}{others[len(every) :]}{after}"

    texts = set(slots.values()) if _RUN.search(text) else set[str]()
    return _RUN.sub(run_of, text)


def _over(rows: Sequence[Sequence[str]]) -> str:
    """Return what a loop is over: a range, or a tuple with what differs in each turn."""
    if not rows[0]:
        return f"range({len(rows)})"
    if all(len(row) == 1 and row[0].isdigit() for row in rows):
        numbers = [int(row[0]) for row in rows]
        step = numbers[1] - numbers[0]
        span = range(numbers[0], numbers[-1] + step, step or 1)
        if numbers == list(span):
            return f"range({len(rows)})" if span == range(len(rows)) else str(span)
    return f"({', '.join(tuple_text(row) if len(row) > 1 else row[0] for row in rows)})"


def _value(text: str, is_string: bool) -> str:
    return rendered(marker(STRING if is_string else CONST, 0), (), [text], [text])


def _words(lines: Sequence[str]) -> set[str]:
    return {word for line in lines for word in found(line, WORD)}


def _dims(lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(d for line in lines for d in found(line, DIM)))


def _size_in(dim: str, data: Mapping[int, str], network: Traced) -> tuple[int, int]:
    """Return the variable and the axis that have an open size."""
    for slot in data:
        for axis, size in enumerate(network.avals[slot].shape):
            if str(size) == dim:
                return slot, axis
    raise AssertionError(f"no input has the size {dim}")
