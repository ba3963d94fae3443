"""Shapes of a graph whose inputs have named dimensions: inferred for several numbers in the names' places.

Inference works with numbers only. So it runs several times with other numbers for each name: a dimension that always
equals a name's number gets the name; another one that changes with it is decided at run time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from symjax_nnvm.errors import InferenceError, OnnxError, SymbolTypeError, explain, plain_list
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.onnx.tensors import Sizes, Tensor, fixed
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.surgery.batch_size import hard_coded_batch
from symjax_nnvm.symbol.call_arguments import known_shapes
from symjax_nnvm.symbol.symbol import Symbol

NamedShape = Sequence[int | str]
"""A shape in which names stand for sizes that run time decides."""

TRIED = (((2, 3), (224, 256)), ((2, 3), (64, 96)), ((2, 3), (7, 11)), ((6, 10), (12, 20)), ((1, 2), (1, 2)))
"""Numbers for the names of batches, and for others: the first that the graph takes."""

_ONE_BY_ONE = 16
"""Names of open dimensions up to which each is varied alone."""


@dataclass(frozen=True)
class Dimensions:
    """Open dimensions of the inputs. assignments: the shapes of the inputs, each time with other numbers for names.
    names: the numbers of each."""

    assignments: tuple[Mapping[str, Shape | None], ...]
    names: Mapping[Sizes, str]

    def shown(self, tensor: Tensor) -> list[int | str | None] | None:
        """Return a shape for a file: numbers, names, None for a size without a name; None for an unknown shape."""
        if tensor.shapes is None:
            return None
        numbers = [fixed(sizes) for sizes in tensor.sizes]
        return [
            self.names.get(sizes) if number is None else number
            for sizes, number in zip(tensor.sizes, numbers, strict=True)
        ]


def named_dimensions(symbol: Symbol, shapes: Mapping[str, NamedShape], param_shapes: Mapping[str, Shape]) -> Dimensions:
    """Return the inputs' shapes for several numbers in place of each name.

    shapes: the shapes of the inputs. param_shapes: the shapes of the parameters. Raises OnnxError where a graph takes
    one number alone in place of a name, InferenceError where it takes none, SymbolTypeError for anything that is
    not a shape.
    """
    batch: dict[str, bool] = {}
    for input_name, shape in shapes.items():
        if isinstance(shape, str) or not isinstance(shape, Sequence):
            fix = "For example shapes={'data': ('batch', 3, 224, 224)}."
            raise SymbolTypeError(
                f"{input_name!r} has no valid shape", expected="numbers and names", got=shape, fix=fix
            )
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                batch[size] = batch.get(size, False) or axis == 0
    errors: list[InferenceError] = []
    for of_batches, of_others in TRIED if batch else TRIED[:1]:
        pairs = {name: of_batches if is_batch else of_others for name, is_batch in batch.items()}
        assignments = _assignments(shapes, param_shapes, pairs)
        try:
            for assignment in assignments.assignments:
                infer_shape(Graph(symbol.outputs), shapes=assignment)
        except InferenceError as error:
            errors.append(error)
        else:
            return assignments
    if not batch:
        raise errors[0]
    raise _refused(symbol, _sizes_that_fit(symbol, shapes, param_shapes), errors[0])


def _assignments(
    shapes: Mapping[str, NamedShape], param_shapes: Mapping[str, Shape], pairs: Mapping[str, tuple[int, int]]
) -> Dimensions:
    """Return the first number of each name, then the second of some of them in each assignment."""
    places = dict(zip(pairs, second_numbers(len(pairs)), strict=True))
    count = max((max(rows) for rows in places.values()), default=-1) + 2
    columns = {
        name: tuple(high if row - 1 in places[name] else low for row in range(count))
        for name, (low, high) in pairs.items()
    }
    assignments = []
    for row in range(count):
        numbers = {
            name: [columns[size][row] if isinstance(size, str) else size for size in shape]
            for name, shape in shapes.items()
        }
        assignments.append({**param_shapes, **known_shapes(numbers)})
    return Dimensions(tuple(assignments), {numbers: name for name, numbers in columns.items()})


def second_numbers(count: int) -> list[tuple[int, ...]]:
    """Return the assignments, after a first one in which none has, in which each of several names has its second
    number: one for each of a few names. Of many, as many for each and the same for no two: the assignments grow with
    the logarithm of the names, and what follows from two names never looks like a third."""
    if count <= _ONE_BY_ONE:
        return [(i,) for i in range(count)]
    rows = next(n for n in itertools.count(1) if math.comb(n, n // 2) >= count)
    return list(itertools.islice(itertools.combinations(range(rows), rows // 2), count))


def _sizes_that_fit(
    symbol: Symbol, shapes: Mapping[str, NamedShape], param_shapes: Mapping[str, Shape]
) -> dict[str, int | None]:
    """Return the number that the graph leaves in place of each name, where it leaves one. Raises InferenceError
    where it leaves none, as shapes do that fit for no value of the names."""
    open_sizes = {n: tuple(None if isinstance(size, str) else size for size in shape) for n, shape in shapes.items()}
    graph = infer_shape(Graph(symbol.outputs), shapes={**param_shapes, **open_sizes})
    index = graph.indexed_graph()
    sizes: dict[str, int | None] = {}
    for nid in index.input_nodes:
        inferred = graph.attrs["shape"][index.entry_rptr[nid]] or ()
        for size, number in zip(shapes.get(index.nodes[nid].source.name, ()), inferred, strict=False):
            if isinstance(size, str):
                sizes[size] = sizes.get(size) or number
    return sizes


def _refused(symbol: Symbol, fitting: Mapping[str, int | None], error: InferenceError) -> OnnxError:
    """Return the error that lists the nodes with a fixed size in place of a name."""
    taken = plain_list([f"{name!r} is {number}" for name, number in fitting.items() if number is not None])
    places = [place for place in hard_coded_batch(symbol) if place.op is not None]
    written = f", which stands in {plain_list(places)}" if places else ""
    another = "symjax_nnvm.set_batch_size(net, n) gives the network for batches of n: export that. " if places else ""
    return OnnxError(
        explain(
            f"The graph works with only one size where a name was given: {taken}{written}",
            got=f"for another size: {error}".rstrip("."),
            fix=f"Give the number in shapes=. {another}".rstrip(),
        )
    )
