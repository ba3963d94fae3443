"""The text of a Python module that computes a network and imports nothing but JAX and NumPy."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence

import jax.numpy as jnp

from lowering.source.blocks import (
    END,
    FUNCTION,
    RESERVED,
    Call,
    Function,
    abstract,
    common_start,
    found_functions,
    rendered,
)
from lowering.source.expressions import DIM, INPUT, STRING, dtype_text, tuple_text
from lowering.source.layout import COLUMNS, laid_out, lines_of
from lowering.source.leaves import WORD, Leaf
from lowering.source.names import Names, identifier
from lowering.source.templates import found, marker, replaced, words_of
from lowering.source.trace import Traced

__all__ = ["module_text"]

_FIRST, _LAST = ("p", "states"), ("train", "key")
"""Words that functions hand on, before and after their other arguments."""

_FEW_TURNS = 2
"""Equal steps in a row from which on they are a loop."""


def module_text(network: Traced, data: Sequence[str], results: Mapping[str, int], title: Sequence[str]) -> str:
    """Return the module. data: the variables that `forward` takes one by one, the others are in `params`. results: the
    slots of what it returns, by name. title: lines of the docstring."""
    return _Module(network, data, results).text(title)


class _Module:
    def __init__(self, network: Traced, data: Sequence[str], results: Mapping[str, int]):
        self._network, self._results = network, results
        self._globals = Names(RESERVED)
        self._main_names = Names(RESERVED, self._globals)
        self._sizes: dict[str, str] = {}
        self._texts: dict[str, list[str]] = {}
        self._needs: dict[str, list[str]] = {}
        self._functions: dict[str, Function] = {}
        by_name = {name: slot for slot, name in network.variables.items()}
        self._data = {by_name[name]: name for name in data if name in by_name}
        self._arguments = {name: self._main_names.new(name) for name in data}
        self._params = {slot: name for slot, name in network.variables.items() if slot not in self._data}

    def text(self, title: Sequence[str]) -> str:
        calls, functions = found_functions(self._calls(), self._results.values(), self._block_name, self._globals)
        self._functions |= {function.name: function for function in functions}
        main = self._main(calls)
        parts = [*(self._texts[name] for name in self._texts), main, self._load(), self._run()]
        code = "\n\n\n".join("\n".join(part) for part in parts)
        imports = [
            *(["from functools import partial", ""] if "@partial(" in code else []),
            *(["import jax"] if "jax" in words_of(code) else []),
            "import jax.numpy as jnp",
            "import numpy as np",
            *(["from jax import lax"] if "lax" in words_of(code) else []),
        ]
        about = "\n".join(title) + ("\n" if len(title) > 1 else "")
        return "\n".join([f'"""{about}"""', "", *imports, "", "", code, ""])

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _calls(self) -> list[Call]:
        """Return the program as steps: expressions where they are short, else calls of functions."""
        read = {slot for node in self._network.nodes for slot in node.inputs} | set(self._results.values())
        leaves = [Leaf(node, self._params, read, self._globals) for node in self._network.nodes]
        grouped: dict[object, list[Leaf]] = defaultdict(list)
        for leaf in leaves:
            grouped[leaf.key].append(leaf)
        calls: dict[int, list[Call]] = {}
        for group in grouped.values():
            first = group[0]
            if first.is_custom:
                calls |= self._custom(group)
            elif first.is_function or (len(first.shown) > 60 and len(group) > 1) or len(first.shown) > 150:
                calls |= self._function(group)
            else:
                calls |= {id(leaf): [leaf.call()] for leaf in group}
        return [call for leaf in leaves for call in calls[id(leaf)]]

    def _function(self, group: Sequence[Leaf]) -> dict[int, list[Call]]:
        """Define the function of nodes that are alike; return their calls."""
        first, names = group[0], Names(RESERVED, self._globals)
        made = abstract([(leaf.strings, leaf.consts) for leaf in group], names)
        arrays = [names.new(text) for text in first.arrays]
        function = Function(self._node_name(first), made.names, made.literals, (), names, arrays=arrays)
        function.lines = [rendered(line, arrays, made.strings, made.consts) for line in first.lines()]
        self._functions[function.name] = function
        return {
            id(leaf): [function.call(leaf.inputs, given, leaf.outputs, leaf.name, "")]
            for leaf, given in zip(group, made.given, strict=True)
        }

    def _custom(self, group: Sequence[Leaf]) -> dict[int, list[Call]]:
        """Define the function of nodes whose gradient is no derivative, with this gradient; return their calls."""
        first, names = group[0], Names(RESERVED, self._globals)
        name, arrays = self._node_name(first), [names.new(text) for text in first.arrays]
        inner = [marker(INPUT, i) for i in range(len(arrays))]
        cotangents = [names.new(f"cotangent_{i}" if first.heads > 1 else "cotangent") for i in range(first.heads)]
        outputs = cotangents + ["_"] * (len(first.outputs) - first.heads)
        lines = [rendered(line, arrays, (), [text for _, text in first.consts]) for line in first.lines()]
        backward = first.backward(inner, cotangents)
        backward = [rendered(line, arrays, (), [text for _, text in first.consts]) for line in backward]
        drawn = ["key"] if any("key" in words_of(line) for line in (*lines, *backward)) else []
        modes = ["train"] if any(line.startswith("if train:") for line in lines) else []
        every, saved = ", ".join([*modes, *arrays, *drawn]), [*arrays, *drawn]
        decorator = "@partial(jax.custom_vjp, nondiff_argnums=(0,))" if modes else "@jax.custom_vjp"
        if drawn:
            backward[-1] = f"return (*{backward[-1].removeprefix('return ')}, None)"
        unpacked = [f"{', '.join(outputs)} = cotangents"] if len(outputs) > 1 else []
        taken = "cotangents" if unpacked or not outputs else outputs[0]
        handed = ", ".join([*modes, "saved", taken])
        dims = _dims([*lines, *backward])
        if dims:
            saved_sizes = {d: _size_of(d, first, self._network) for d in dims}
            bind = [f"{self._size(d)} = {arrays[place]}.shape[{axis}]" for d, (place, axis) in saved_sizes.items()]
            lines, backward = [*bind, *lines], [*bind, *backward]
        used = [text for text in saved if any(text in words_of(line) for line in backward)]
        kept = [text if text in used else "_" for text in saved]
        self._texts[name] = [
            *(f"{decorator}", f"def {name}({every}):"),
            *lines_of(map(self._plain, lines), "    "),
            *("", "", *laid_out(f"def {name}_forward({every}):")),
            *laid_out(f"return {name}({every}), {tuple_text(saved)}", "    "),
            *("", "", *laid_out(f"def {name}_backward({handed}):")),
            *lines_of([f"{', '.join(kept)}{',' if len(kept) == 1 else ''} = saved"] if used else [], "    "),
            *lines_of(unpacked, "    "),
            *lines_of(map(self._plain, backward), "    "),
            *("", "", *laid_out(f"{name}.defvjp({name}_forward, {name}_backward)")),
        ]
        self._needs[name] = []
        calls: dict[int, list[Call]] = {}
        for leaf in group:
            places = iter(range(len(leaf.inputs)))
            strings = [self._params[s] for s in leaf.node.inputs if s in self._params]
            words = iter(range(len(strings)))
            texts = [
                f"{marker(WORD, 'p')}[{marker(STRING, next(words))}]"
                if s in self._params
                else marker(INPUT, next(places))
                for s in leaf.node.inputs
            ]
            texts = [*(marker(WORD, word) for word in modes), *texts, *(marker(WORD, word) for word in drawn)]
            node = leaf.name
            called = [Call(f"{name}({', '.join(texts)})", leaf.inputs, tuple(strings), (), leaf.outputs, node)]
            for place, state in leaf.node.states.items():
                store = f"{marker(WORD, 'states')}[{marker(STRING, 0)}] = {marker(INPUT, 0)}"
                called.append(Call(store, (leaf.node.outputs[place],), (state,), (), (), node))
            calls[id(leaf)] = called
        return calls

    def _node_name(self, leaf: Leaf) -> str:
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

    def _block_name(self, window: Sequence[Call], common: str) -> str:
        letters = "".join(letter for letter in identifier(common, "") if not letter.isdigit())
        return self._globals.new("_".join(word for word in letters.split("_") if word) or "block")

    # -- functions ---------------------------------------------------------------------------------------------------

    def _define(self, function: Function) -> None:
        """Write the text of a function, and first those of the functions that it calls."""
        if function.name in self._needs:
            return
        if function.calls is None:
            arrays, lines = function.arrays, function.lines
        else:
            several = len(function.inputs) > 1
            arrays = [function.names.new(f"x{i + 1}" if several else "x") for i in range(len(function.inputs))]
            slots = dict(zip(function.inputs, arrays, strict=True))
            lines = self._statements(function.calls, slots, function.names, function.result, function.common)
        words = _words(lines)
        dims = _dims(lines)
        needs = self._needs[function.name] = [w for w in (*_FIRST, *_LAST) if w in words] + dims
        first = [word for word in needs if word in _FIRST]
        last = [self._size(word) if word in dims else word for word in needs if word not in _FIRST]
        parameters = [*first, *function.strings, *arrays, *function.literals, *last]
        self._texts[function.name] = [
            *laid_out(f"def {function.name}({', '.join(parameters)}):"),
            *lines_of(map(self._plain, lines), "    "),
        ]

    def _expanded(self, text: str) -> str:
        """Return the text with the whole arguments of the functions that it calls."""

        def name(called: str) -> str:
            if called not in self._needs:
                self._define(self._functions[called])
            first = [marker(WORD, word) for word in self._needs[called] if word in _FIRST]
            return called + "(" + "".join(f"{word}, " for word in first)

        def end(called: str) -> str:
            needs = self._needs[called]
            last = [marker(WORD if w in _LAST else DIM, w) for w in needs if w not in _FIRST]
            return "".join(f", {word}" for word in last)

        text = replaced(text, {FUNCTION: name, END: end})
        return text.replace("(, ", "(").replace(", )", ")")

    def _statements(
        self, calls: Sequence[Call], slots: dict[int, str], names: Names, result: int | None, common: str
    ) -> list[str]:
        """Return the statements of steps. slots: names of the arrays that are there. result: what is returned."""
        readers: dict[int, list[int]] = defaultdict(list)
        for place, call in enumerate(calls):
            for slot in call.inputs:
                readers[slot].append(place)
        lines: list[str] = []
        place = 0
        while place < len(calls):
            turns = _turns(calls, place, readers, result)
            call = calls[place + turns - 1]
            if turns > _FEW_TURNS:
                lines += self._loop(calls[place : place + turns], slots, names, common)
                place += turns
                continue
            call = calls[place]
            place += 1
            text = self._expanded(self._rendered(call, slots))
            if call.template == marker(INPUT, 0) and call.outputs:
                slots[call.outputs[0]] = text
            elif place == len(calls) and call.outputs == (result,):
                return [*lines, f"return {text}"]
            elif not call.outputs:
                lines.append(text)
            else:
                several = len(call.outputs) > 1
                for number, slot in enumerate(call.outputs):
                    slots[slot] = self._new_name(call, names, common, f"_{number}" if several else "")
                lines.append(f"{', '.join(slots[slot] for slot in call.outputs)} = {text}")
        return lines if result is None else [*lines, f"return {slots[result]}"]

    def _rendered(self, call: Call, slots: Mapping[int, str]) -> str:
        inputs = [slots[slot] for slot in call.inputs]
        return rendered(call.template, inputs, call.strings, [text for _, text in call.consts])

    def _new_name(self, call: Call, names: Names, common: str, end: str = "") -> str:
        short = call.name.removeprefix(common).removesuffix("_fwd").strip("_") or call.name
        return names.new(short + end if not short[:1].isdigit() else f"x{short}{end}")

    def _loop(self, calls: Sequence[Call], slots: dict[int, str], names: Names, common: str) -> list[str]:
        """Return a loop of equal steps, each on the result of the one before."""
        first, last = calls[0], calls[-1]
        before, after = slots[first.inputs[0]], self._new_name(last, names, common)
        made = abstract([(call.strings, call.consts) for call in calls], names, "i")
        variables = [*made.names, *made.literals]
        values = [[*given[0], *(text for _, text in given[1])] for given in made.given]
        several = [[_value(v, place < len(made.names)) for place, v in enumerate(row)] for row in values]
        rows = [tuple_text(row) if len(row) > 1 else row[0] for row in several if row]
        target = ", ".join(variables) or "_"
        numbers = [int(row[0]) if len(row) == 1 and row[0].isdigit() else None for row in several]
        if not rows:
            over = f"range({len(calls)})"
        elif None not in numbers and numbers == list(range(numbers[0] or 0, (numbers[0] or 0) + len(numbers))):
            over = f"range({numbers[0] or ''}{', ' if numbers[0] else ''}{(numbers[0] or 0) + len(numbers)})"
        else:
            over = f"({', '.join(rows)})"
        inner = {**slots, first.inputs[0]: after}
        strings, consts = made.strings, [(h, t) for (h, _), t in zip(first.consts, made.consts, strict=True)]
        step = Call(first.template, first.inputs, tuple(strings), tuple(consts), last.outputs, last.name)
        slots[last.outputs[0]] = after
        text = self._expanded(self._rendered(step, inner))
        return [f"{after} = {before}", f"for {target} in {over}:", f"    {after} = {text}"]

    # -- the module's own functions ----------------------------------------------------------------------------------

    def _main(self, calls: Sequence[Call]) -> list[str]:
        slots = {slot: self._arguments[name] for slot, name in self._data.items()}
        order = list(self._arguments.values())
        made = self._statements(list(calls), slots, self._main_names, None, common_start(calls))
        texts = [slots[slot] for slot in self._results.values()]
        result = texts[0] if len(texts) == 1 else tuple_text(texts)
        words = _words(made)
        has_states = "states" in words
        self.options = [word for word in _LAST if word in words or (word == "train" and has_states)]
        sizes = [
            f"{self._size(dim)} = {slots[slot]}.shape[{axis}]"
            for dim in _dims(made)
            for slot, axis in [_size_in(dim, self._data, self._network)]
        ]
        more = ", ".join({"train": "train=False", "key": "key=None"}[word] for word in self.options)
        returned = f"return ({result}, states) if train else {result}" if has_states else f"return {result}"
        shapes = ", ".join(f"{slots[s]} {self._shape(s)}" for s in self._data)
        outs = ", ".join(self._shape(slot) for slot in self._results.values())
        about = f"{shapes} -> {outs}" if shapes else f"Return the outputs {outs}"
        about = f'"""{about}{", and in training the states" if has_states else ""}."""'
        if len(about) > COLUMNS - 4:
            about = "\n    ".join([*textwrap.wrap(about.removesuffix('"""'), COLUMNS - 4), '"""'])
        lines = [*sizes, *(["states = {}"] if has_states else []), *made, returned]
        head = f"def forward({', '.join(['params', *order, *(['*', more] if more else [])])}):"
        return [
            *laid_out(head),
            f"    {about}",
            *lines_of(map(self._in_main, lines), "    "),
        ]

    def _shape(self, slot: int) -> str:
        return tuple_text(self._network.avals[slot].shape)

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
        shown = "print(outputs.shape)" if len(self._results) == 1 else "print([each.shape for each in outputs])"
        return [
            'if __name__ == "__main__":',
            *laid_out(f"outputs = forward({', '.join(['load()', *zeros])}{key})", "    "),
            f"    {shown}",
        ]


def _turns(calls: Sequence[Call], place: int, readers: Mapping[int, Sequence[int]], result: int | None) -> int:
    """Return how many steps from a place on are the same, each on the result of the one before alone."""
    first, count = calls[place], 1
    if len(first.outputs) != 1 or not first.inputs or first.template == marker(INPUT, 0):
        return 1
    while place + count < len(calls):
        before, call = calls[place + count - 1], calls[place + count]
        alone = readers[before.outputs[0]] == [place + count] and before.outputs[0] != result
        if call.template != first.template or not alone or call.inputs[0] != before.outputs[0]:
            break
        if call.inputs[1:] != first.inputs[1:]:
            break
        count += 1
    return count


def _value(text: str, is_string: bool) -> str:
    return rendered(marker(STRING, 0), (), [text], ()) if is_string else text


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


def _size_of(dim: str, leaf: Leaf, network: Traced) -> tuple[int, int]:
    for place, slot in enumerate(leaf.node.inputs):
        for axis, size in enumerate(network.avals[slot].shape):
            if str(size) == dim:
                return place, axis
    raise AssertionError(f"no input of the node has the size {dim}")
