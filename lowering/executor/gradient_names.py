"""The values of a program that a monitor receives, under MXNet's names.

Gradients are reported as MXNet's operators compute them: all of a node together, the last node first, of each input
`{node}_backward_output{i}`, whatever computes them here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lowering.core.gradient_program import GradientProgram
from symjax_nnvm.ir.attributes import FInputGraph, FListInputNames, FMutateInputs, TUnlistedInputs
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.symbol.symbol import Symbol

_GRADIENT = re.compile(r"(.+?)(?:_in(\d+))?_backward")
_ZEROS = re.compile(r"(.+)_zero_grad")


class Place(NamedTuple):
    """Where a value is: step `number`, input or output number `place`."""

    number: int
    of_input: bool
    place: int

    def in_(self, reported: Sequence[Sequence[Any]]) -> Any:
        """Return the value among what `ExecutorFunctions` reports of a monitored run."""
        return reported[2 * self.number + (not self.of_input)][self.place]


class MonitorCall(NamedTuple):
    """A value that a monitor receives, once under each name. value: where it is, or the argument whose shape
    and dtype zeros have."""

    names: tuple[str, ...]
    value: Place | str

    @property
    def of_input(self) -> bool:
        """Return whether it is an operator's input."""
        return isinstance(self.value, Place) and self.value.of_input


def forward_calls(program: GradientProgram) -> list[MonitorCall]:
    """Return what a monitor receives from the forward steps: inputs and outputs of each.

    A variable has two names: its own, and `{node}_{input}`, which other inputs have alone.
    """
    calls: list[MonitorCall] = []
    for number, step in enumerate(program.forward_steps):
        calls += _calls_of(program.program.index.nodes[step.nid].source, number)
    return calls


def _calls_of(node: Node, number: int) -> list[MonitorCall]:
    """Return inputs and outputs of a node, under its own names."""
    inputs = [
        MonitorCall(_with_variable(entry, f"{node.name}_{name}"), Place(number, True, i))
        for i, (entry, name) in enumerate(zip(node.inputs, _input_names(node), strict=True))
    ]
    return inputs + [MonitorCall((name,), Place(number, False, i)) for i, name in enumerate(_output_names(node))]


def _with_variable(entry: NodeEntry, name: str) -> tuple[str, ...]:
    return (entry.node.name, name) if entry.node.is_variable else (name,)


def _output_names(node: Node) -> list[str]:
    return Symbol(NodeEntry(node, i) for i in range(node.num_outputs())).list_outputs()


def _input_names(node: Node) -> list[str]:
    """Return a monitor's names of a node's inputs; subgraphs, which come among the names, are not arrays."""
    listed = FListInputNames.get(node.op)
    if listed is None or TUnlistedInputs.get(node.op):
        return [f"input{i}" for i in range(len(node.inputs))]
    graphs = FInputGraph.get(node.op)
    skipped = set(graphs(node.attrs) if graphs else ())
    return [name for i, name in enumerate(listed(node.attrs)) if i not in skipped]


class GradientNames:
    """Gives the names of the backward part of a program."""

    def __init__(self, program: GradientProgram):
        nodes = program.program.index.nodes
        self._steps = program.backward_steps
        self._nodes = [nodes[step.nid].source for step in self._steps]
        self._maker = {slot: number for number, step in enumerate(self._steps) for slot in step.outputs}
        self._forward_steps = {nodes[step.nid].source: step for step in program.forward_steps}
        self._position = {node: i for i, node in enumerate(self._forward_steps)}
        self._forward = {node.name: node for node in self._forward_steps}
        gradients = program.program.index.outputs[program.num_outputs :]
        self._variable = {nodes[nid].source: name for (nid, *_), name in zip(gradients, program.wrt, strict=True)}

    def calls(self) -> list[MonitorCall]:
        """Return what a monitor receives from the backward steps."""
        groups: dict[Node, list[int]] = {}
        order: dict[Node, tuple[int, bool]] = {}
        first = len(self._position)  # of the forward nodes whose gradients came until now
        for number, node in enumerate(self._nodes):
            source = self._source(node)[0] if node.name else node
            if not node.name:
                continue
            first = min(first, self._position.get(source, first)) if source is not None else first
            owner = node if source is None else source
            groups.setdefault(owner, []).append(number)
            order.setdefault(owner, (-first if source is None else -self._position[source], source is None))
        calls: list[MonitorCall] = []
        for node in sorted(groups, key=order.__getitem__):  # stable: else in the order of execution
            sourced = node in self._forward_steps
            calls += self._calls_of(node, groups[node]) if sourced else _calls_of(node, groups[node][0])
        return calls

    def _calls_of(self, source: Node, numbers: Sequence[int]) -> list[MonitorCall]:
        """Return what a monitor receives from the gradient of a node, which these steps compute."""
        forward = self._forward_steps[source]
        read: dict[int, tuple[NodeEntry, Place]] = {}
        outputs: dict[str, Place | str] = {}
        name = f"{source.name}_backward"
        for number in numbers:
            read.update(item for item in self._read(number, set(numbers)) if item[0] not in read)
            for place, output_name in enumerate(self._outputs(self._nodes[number])):
                outputs[output_name] = Place(
                    number, False, place
                )  # what comes last is the gradient, as of a gamma that is fixed

        def rank(slot: int) -> tuple[int, int]:
            """Put gradients first, then the node's inputs, and then its outputs."""
            parts = (forward.inputs, forward.outputs)
            return next(((kind, part.index(slot)) for kind, part in enumerate(parts, 1) if slot in part), (0, 0))

        ordered = [read[slot] for slot in sorted(read, key=rank)]
        inputs = [
            MonitorCall(_with_variable(entry, f"{name}_input{i}"), place) for i, (entry, place) in enumerate(ordered)
        ]
        for i, argument in self._unasked(source):
            outputs.setdefault(f"{name}_output{i}", argument)
        return inputs + [MonitorCall((output,), outputs[output]) for output in sorted(outputs, key=_number)]

    def _read(self, number: int, own: set[int]) -> Iterator[tuple[int, tuple[NodeEntry, Place]]]:
        """Yield slot → the values that a step reads; in place of one that is computed within the gradient of its
        node, those that this one is computed from."""
        waiting, visited = [number], {number}
        while waiting:
            at = waiting.pop(0)
            for place, (slot, entry) in enumerate(zip(self._steps[at].inputs, self._nodes[at].inputs, strict=True)):
                maker = self._maker.get(slot)
                if maker is None or (self._nodes[maker].name and maker not in own):
                    yield slot, (entry, Place(at, True, place))
                elif maker not in visited:
                    visited.add(maker)
                    waiting.append(maker)

    def _outputs(self, node: Node) -> list[str]:
        """Return the names of the gradients that a node computes."""
        source, at = self._source(node)
        assert source is not None
        name, count = f"{source.name}_backward", node.num_outputs()
        if count > 1:
            return [f"{name}_output{i}" for i in range(count)]
        return [f"{name}_output" if len(source.inputs) == 1 else f"{name}_output{at}"]

    def _unasked(self, source: Node) -> Iterator[tuple[int, str]]:
        """Yield the arguments among a node's inputs, with their numbers, whose gradients are not computed: MXNet's
        operators have outputs for them, too. Here they are zeros."""
        mutates = FMutateInputs.get(source.op)
        states = set(mutates(source.attrs)) if mutates else set()
        for i, entry in enumerate(source.inputs):
            if entry.node.is_variable and i not in states and entry.node.name not in self._variable.values():
                yield i, entry.node.name

    def _source(self, node: Node) -> tuple[Node | None, int]:
        """Return the node whose gradient a node computes, and the input by which."""
        zeros = _ZEROS.fullmatch(node.name)
        if zeros is not None:
            for user in self._forward.values():
                for i, entry in enumerate(user.inputs):
                    if entry.node.name == zeros[1]:
                        return user, i
        match = _GRADIENT.fullmatch(node.name)
        source = None if match is None else self._forward.get(match[1])
        if match is None or source is None:
            return None, 0
        if match[2] is not None:
            return source, int(match[2])
        variable = self._variable.get(node)
        for i, entry in enumerate(source.inputs):
            if entry.node.name == variable if variable is not None else not entry.node.is_variable:
                return source, i
        return source, 0


def _number(output: str) -> int:
    """Return the number at the end of an output's name."""
    return int(output.rpartition("_output")[2] or 0)
