"""MXNet's attribute by which a node is computed again in the backward pass."""

from __future__ import annotations

from symjax_nnvm.errors import GradientError
from symjax_nnvm.ir.node import Node

FORCED = "__force_mirroring__"


def is_forced(node: Node) -> bool:
    """Return whether the attribute forces a copy. Raises GradientError for a text that is not a boolean."""
    text = node.attrs.dict.get(FORCED)
    if text is None:
        return False
    if text.lower() not in ("true", "1", "false", "0"):
        raise GradientError(
            f"Attribute {FORCED!r} must be a boolean", op=node.op, node=node, expected="True or False", got=repr(text)
        )
    return text.lower() in ("true", "1")
