"""`Block.summary`: a table of a network's layers, their output shapes and numbers of parameters."""

from __future__ import annotations

from typing import Any

from lowering.mx.gluon.gluon_errors import MismatchError
from lowering.mx.ndarray.array import NDArray

_ROW = "{:>20}  {:>42} {:>15}"


def print_summary(block: Any, *inputs: Any) -> None:
    """Run a network, and print a row for each layer that is not a container of others in a row.

    Raises MismatchError for a hybridised block.
    """
    rows: list[tuple[str, str, int]] = [("Input", _shape_text(list(inputs)), 0)]
    counts = {"all": 0, "trainable": 0, "shared": 0}
    counted: set[Any] = set()
    handles: list[Any] = []

    def watch(layer: Any) -> None:
        if getattr(layer, "_active", False):
            problem = f'"{layer.name}" must not be hybridized to print summary.'
            raise MismatchError(problem, fix="Call summary before hybridize, or hybridize(False).")
        if not getattr(layer, "_in_a_row", False):
            handles.append(layer.register_forward_hook(count))

    def count(layer: Any, _: Any, outputs: Any) -> None:
        sizes = {param: param.data().size for param in layer.params.values()}
        counts["all"] += sum(sizes.values())
        counts["trainable"] += sum(size for param, size in sizes.items() if param.grad_req != "null")
        counts["shared"] += sum(size for param, size in sizes.items() if param in counted)
        counted.update(sizes)
        rows.append((f"{type(layer).__name__}-{len(rows)}", _shape_text(outputs), sum(sizes.values())))

    try:
        block.apply(watch)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    lines = ["-" * 80, _ROW.format("Layer (type)", "Output Shape", "Param #"), "=" * 80]
    lines += [_ROW.format(*row) for row in rows]
    lines += [
        "=" * 80,
        "Parameters in forward computation graph, duplicate included",
        f"   Total params: {counts['all']}",
        f"   Trainable params: {counts['trainable']}",
        f"   Non-trainable params: {counts['all'] - counts['trainable']}",
        f"Shared params in forward computation graph: {counts['shared']}",
        f"Unique parameters in model: {counts['all'] - counts['shared']}",
        "-" * 80,
    ]
    print("\n".join(lines))


def _shape_text(value: Any) -> str:
    """Return the shapes of arrays as text, in brackets where they are in lists inside of a list."""
    shapes = _shapes(value)
    return str(shapes)[1:-1] if isinstance(shapes, list) else str(shapes)


def _shapes(value: Any) -> Any:
    """Return the shape of an array; of a list, a list of those of its items."""
    if isinstance(value, list | tuple):
        return [_shapes(item) for item in value]
    return value.shape if isinstance(value, NDArray) else value
