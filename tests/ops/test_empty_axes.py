"""Every operator on arrays with an empty axis: a result, or one of our errors."""

import math
import warnings
from collections.abc import Iterator

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, NNVMError
from symjax_nnvm.inspect.footprint import estimate_graph
from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.op import Op
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.symbol import Symbol
from tests.cases import Case
from tests.fuzz.contract import RUN_MEMORY, contract
from tests.support.walk import Walk, first, rung

KEY = jax.random.key(0)


def _emptied(shapes: dict[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """The shapes with one axis of one input empty, or every axis of the same length."""
    for name, shape in shapes.items():
        for axis in range(len(shape)):
            yield shapes | {name: (*shape[:axis], 0, *shape[axis + 1 :])}
            length = shape[axis]
            yield {n: tuple(0 if dim == length else dim for dim in s) for n, s in shapes.items()}
    yield {name: (0,) * len(shape) for name, shape in shapes.items()}


def _run(symbol: Symbol, case: Case, shapes: dict[str, tuple[int, ...]]) -> None:
    """Infer, estimate, and trace; where no array is empty in the result, that is all that can be asked."""
    graph = infer_shape(Graph(symbol.outputs), shapes=shapes)
    dtypes = {f"in{i}": tensor.dtype for i, tensor in enumerate(case.inputs)}
    graph = infer_type(graph, dtypes={name: dtypes[name] for name in shapes})
    cost = estimate_graph(graph)
    assert cost.peak_bytes >= 0
    assert cost.flops >= 0
    values = {name: jax.ShapeDtypeStruct(shape, dtypes[name]) for name, shape in shapes.items()}
    states = set(symbol.list_auxiliary_states())
    given = [{n: v for n, v in values.items() if (n in states) == which} for which in (False, True)]
    outputs, _ = jax.eval_shape(lowering.to_jax(symbol, is_train=case.is_train, platform="cpu"), *given, KEY)
    index = graph.indexed_graph()
    inferred = [graph.attrs["shape"][index.entry_id(head)] for head in index.outputs]
    for output, shape in zip(outputs, inferred, strict=True):
        assert shape is not None
        assert math.prod(output.shape) == math.prod(dim for dim in shape if dim is not None) or None in shape


@rung(first(lambda case: case.graph is None and case.inputs), one_in=6)
def an_empty_axis_gives_a_result_or_one_of_our_errors(walk: Walk):
    symbols = [walk.symbol]
    if Op.get(walk.case.op) in FGradient and walk.names:
        symbols.append(walk.symbol.gradient(walk.names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shapes in _emptied(walk.shapes):
            for one in symbols:
                try:
                    _run(one, walk.case, {name: shapes[name] for name in one.list_inputs()})
                except NNVMError as error:
                    problem = str(error)
                    assert "division" not in problem, problem
                    assert "modulo by zero" not in problem, problem


def test_up_sampling_of_an_empty_axis():
    x, y = sym.Variable("x"), sym.Variable("y")
    up = sym.UpSampling(x, y, scale=2, sample_type="nearest", num_args=2)
    with pytest.raises(InferenceError):
        infer_shape(Graph(up.outputs), shapes={"x": (1, 2, 4, 4), "y": (1, 2, 0, 4)})


HOLLOW: dict[str, tuple[Symbol, tuple[int, ...], tuple[int, ...]]] = {
    "one by one": (-sym.Variable("x"), (1 << 16, 1 << 16, 0), (1 << 16, 1 << 16, 0)),
    "a table of places": (sym.linalg.maketrian(sym.Variable("x")), (0, 450_015_000), (0, 30_000, 30_000)),
}


@pytest.mark.parametrize(("net", "shape", "result"), HOLLOW.values(), ids=HOLLOW.keys())
def test_an_empty_result_costs_nothing_whatever_its_other_axes_are(
    net: Symbol, shape: tuple[int, ...], result: tuple[int, ...]
):
    """XLA took more than 8 GB to compile the first; the table of the second was one of a full array."""
    values = {"x": jax.ShapeDtypeStruct(shape, np.dtype("float32"))}
    with contract(0, RUN_MEMORY):
        program = jax.jit(lowering.to_jax(net)).lower(values).compile()
    (output,), _ = program.out_info
    assert (output.shape, output.dtype) == (result, np.float32)
