"""Operators that are compositions of others, computed at once: their gradients are those of the composition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.rules.entry_gradients import gradient_entries, is_zeros


@dataclass(frozen=True)
class Composition:
    """The composition that an operator equals: (parameters, inputs) → outputs, made of other operators."""

    compose: Callable[[Any, list[NodeEntry]], list[NodeEntry]]

    def gradient(self, node: Node, ograds: Sequence[NodeEntry]) -> list[NodeEntry | None]:
        """FGradient of the operator: MXGradient's of the composition, which stands apart, over stand-ins."""
        inputs = [NodeEntry(create_variable_node("")) for _ in node.inputs]
        heads = [NodeEntry(create_variable_node("")) for _ in ograds]
        outputs = self.compose(node.attrs.parsed, inputs)
        grads = gradient_entries(outputs, inputs, heads, zeros_if_unreachable=True)
        actual = dict(zip([e.node for e in (*inputs, *heads)], [*node.inputs, *ograds], strict=True))
        gradients = rewrite(grads, lambda old, draft: actual.get(old)).outputs
        return [None if is_zeros(grad) else grad for grad in gradients]
