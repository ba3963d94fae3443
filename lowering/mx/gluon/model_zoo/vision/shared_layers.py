"""What the networks share: sequences of layers, features before an output, and functions that are a row of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lowering.mx.accepted_types import ContextLike
from lowering.mx.context import cpu
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.model_zoo.model_store import load_pretrained
from lowering.mx.gluon.nn import HybridSequential
from lowering.mx.gluon.tensor import Tensor
from symjax_nnvm.io.files import StrPath


def sequence(*layers: Any) -> HybridSequential:
    """Layers one after the other, without a prefix."""
    block = HybridSequential(prefix="")
    block.add(*layers)
    return block


class Network(HybridBlock):
    """Images (n, c, h, w) → `features` → `output` (n, classes).

    Args:
        classes: the number of classes.
        kwargs: `prefix` and `params` of the block.
    """

    features: HybridSequential
    output: Any

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the classes' values, before a softmax."""
        return self.output(self.features(x))


def make_network(
    kind: Callable[..., Any],
    args: tuple[Any, ...],
    name: str,
    pretrained: bool,
    ctx: ContextLike,
    root: StrPath | None,
    kwargs: dict[str, Any],
) -> Any:
    """A network of a class.

    Args:
        kind: the class.
        args: its first arguments.
        name: the name of the file of trained parameters.
        pretrained: load trained parameters.
        ctx: the context of trained parameters; None for the CPU.
        root: the folder of the file of trained parameters.
        kwargs: arguments of the class.
    """
    return load_pretrained(kind(*args, **kwargs), name, pretrained, ctx or cpu(), root)


def variant(name: str, get: Callable[..., Any], *args: Any, **fixed: Any) -> Callable[..., Any]:
    """A function of a network of one size: `get` with its first arguments given."""

    def function(**kwargs: Any) -> Any:
        return get(*args, **{**kwargs, **fixed})

    function.__name__ = function.__qualname__ = name
    values = ", ".join((*map(repr, args), *(f"{key}={value!r}" for key, value in fixed.items())))
    function.__doc__ = f"`{get.__name__}({values}, …)`."
    return function
