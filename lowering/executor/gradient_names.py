"""MXNet's names of gradients, for a monitor: of each input, `{node}_backward_output{i}`, whatever computes it here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lowering.core.gradient_program import GradientProgram
from symjax_nnvm.ir.attributes import FLossEquivalent
from symjax_nnvm.ir.node import Node

_GRADIENT = re.compile(r"(.+?)(?:_in(\d+))?_backward")
_ZEROS = re.compile(r"(.+)_zero_grad")


class GradientNames:
    """The names of the backward part of a program."""

    def __init__(self, program: GradientProgram):
        nodes = program.program.index.nodes
        self._forward = {nodes[step.nid].source.name: nodes[step.nid].source for step in program.forward_steps}
        gradients = program.program.index.outputs[program.num_outputs :]
        self._variable = {nodes[nid].source: name for (nid, *_), name in zip(gradients, program.wrt, strict=True)}

    def of(self, node: Node, outputs: Sequence[str]) -> tuple[str, list[str | None]]:
        """The name under which a node's inputs are numbered, empty for a node without a name, and the names of its
        outputs. outputs: their own names."""
        if not node.name:
            return "", [None] * len(outputs)
        source, at = self._source(node)
        if source is None:
            return node.name, [*outputs]
        name = f"{source.name}_backward"
        if len(outputs) > 1:
            return name, [f"{name}_output{i}" for i in range(len(outputs))]
        return name, [f"{name}_output" if len(source.inputs) == 1 else f"{name}_output{at}"]

    def zeros(self) -> list[tuple[str, str]]:
        """Return (name, argument) of the zeros that MXNet's loss heads give, unasked, as gradients of labels."""
        return [
            (f"{node.name}_backward_output{i}", entry.node.name)
            for node in self._forward.values()
            if node.op in FLossEquivalent
            for i, entry in enumerate(node.inputs)
            if i and entry.node.is_variable and entry.node.name not in self._variable.values()
        ]

    def _source(self, node: Node) -> tuple[Node | None, int]:
        """The node whose gradient a node computes, and the input by which."""
        zeros = _ZEROS.fullmatch(node.name)
        if zeros is not None:
            for user in self._forward.values():
                for i, entry in enumerate(user.inputs):
                    if entry.node.name == zeros[1]:
                        return user, i
        found = _GRADIENT.fullmatch(node.name)
        source = None if found is None else self._forward.get(found[1])
        if found is None or source is None:
            return None, 0
        if found[2] is not None:
            return source, int(found[2])
        variable = self._variable.get(node)
        for i, entry in enumerate(source.inputs):
            if entry.node.name == variable if variable is not None else not entry.node.is_variable:
                return source, i
        return source, 0
