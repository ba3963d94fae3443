"""What lowering rules make on their way: within what `FWorkspace` says, and never more than an array may be."""

import dataclasses
import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, NNVMError, ParamError
from symjax_nnvm.inspect.footprint import check_workspaces
from symjax_nnvm.ir.attributes import FGradient, FWorkspace
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import MAX_SIZE
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.symbol import Symbol
from tests.cases import Case
from tests.support import ladder, warm
from tests.support.walk import Walk, first, rung

KEY = jax.random.key(0)

first_node = first(lambda case: case.graph is None)


def _intermediates(jaxpr: Any) -> Iterator[Any]:
    """What a traced function makes, functions inside included."""
    todo = [jaxpr]
    while todo:
        for equation in todo.pop().eqns:
            yield from (v.aval for v in equation.outvars if not str(v.aval.dtype).startswith("key<"))
            inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns"))
            todo += [getattr(x, "jaxpr", x) for x in inner if hasattr(getattr(x, "jaxpr", x), "eqns")]


def _traced(symbol: Symbol, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, Any], is_train: bool) -> Any:
    values = {
        name: jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtypes[name])) for name, shape in shapes.items()
    }
    states = set(symbol.list_auxiliary_states())
    given = [{n: v for n, v in values.items() if (n in states) == which} for which in (False, True)]
    return jax.make_jaxpr(lowering.to_jax(symbol, is_train=is_train, platform="cpu"))(*given, KEY)


def _elements(symbol: Symbol, shapes: dict[str, tuple[int, ...]]) -> tuple[int, int]:
    """(elements of all entries, the largest workspace) of a symbol."""
    graph = infer_shape(Graph(symbol.outputs), shapes=shapes)
    index, found = graph.indexed_graph(), graph.attrs["shape"]
    rptr, most = index.entry_rptr, 0
    for nid, inode in enumerate(index.nodes):
        if inode.source.op in FWorkspace:
            ins = [found[rptr[e.node_id] + e.index] for e in inode.inputs]
            most = max(most, FWorkspace[inode.source.op](inode.source.attrs, ins, found[rptr[nid] : rptr[nid + 1]]))
    return sum(math.prod(shape) for shape in found), most


def _largest(symbol: Symbol, case: Case, shapes: dict[str, tuple[int, ...]]) -> int:
    dtypes = {f"in{i}": tensor.dtype for i, tensor in enumerate(case.inputs)}
    traced = _traced(symbol, shapes, dtypes, case.is_train)
    return max((math.prod(x.shape) * x.dtype.itemsize for x in _intermediates(traced.jaxpr)), default=0)


@rung(first_node, one_in=3)
def intermediates_are_within_the_workspace(walk: Walk):
    op, symbols = Op.get(walk.case.op), [walk.symbol]
    if op in FWorkspace and op in FGradient and walk.names:
        symbols.append(walk.symbol.gradient(walk.names))
    for one in symbols:
        shapes = {name: walk.shapes[name] for name in one.list_inputs()}
        elements, workspace = _elements(one, shapes)
        largest = _largest(one, walk.case, shapes)
        assert largest <= 8 * 1.5 * (elements + workspace), f"{elements} in all entries, workspace {workspace}"


HUGE = [
    ("broadcast_to", {"shape": (2400000000000000000,)}, [(1,)]),
    ("tile", {"reps": (10**9, 10**9)}, [(2, 3)]),
    ("Convolution", {"kernel": (1, 1), "pad": (10**9, 10**9), "num_filter": 1, "no_bias": True}, [(1, 1, 2, 2)]),
    (
        "Convolution",
        {"kernel": (1,), "pad": (10**19,), "stride": (2 * 10**9,), "num_filter": 2, "num_group": 2, "no_bias": True},
        [(1, 2, 2)],
    ),
    (
        "Deconvolution",
        {"kernel": (2, 2), "stride": (2 * 10**9,) * 2, "pad": (10**9,) * 2, "num_filter": 1},
        [(1, 1, 2, 2)],
    ),
    ("im2col", {"kernel": (1, 1), "pad": (10**10,) * 2, "stride": (2 * 10**9,) * 2}, [(1, 1, 2, 2)]),
    ("Pooling", {"kernel": (10**10,) * 2, "pad": (10**10 - 1,) * 2, "stride": (10**10,) * 2}, [(1, 1, 2, 2)]),
    ("Pooling_v1", {"kernel": (10**10,) * 2, "pad": (10**10 - 1,) * 2, "stride": (10**10,) * 2}, [(1, 1, 2, 2)]),
    ("Correlation", {"pad_size": 10**10, "stride1": 10**10}, [(1, 1, 4, 4)] * 2),
    ("one_hot", {"depth": 10**18}, [(3,)]),
    ("Embedding", {"input_dim": 10**18, "output_dim": 3}, [(3,)]),
    ("repeat", {"repeats": 10**18}, [(3,)]),
    ("_zeros", {"shape": (10**9, 10**9)}, []),
    ("_random_uniform", {"shape": (10**18, 3)}, []),
    ("_eye", {"N": 10**9, "M": 10**9}, []),
]


def _huge(op: str, params: dict[str, Any], count: int) -> Symbol:
    return getattr(sym, op)(*(sym.Variable(f"in{i}") for i in range(count)), name="n", **params)


@pytest.mark.parametrize(("op", "params", "shapes"), HUGE, ids=lambda value: value if isinstance(value, str) else "")
def test_what_no_array_can_hold_is_refused(op, params, shapes):
    graph = Graph(_huge(op, params, len(shapes)).outputs)
    with pytest.raises(InferenceError) as caught:
        check_workspaces(infer_shape(graph, shapes={f"in{i}": s for i, s in enumerate(shapes)}))
    assert caught.value.node == "n"
    assert f"operator '{op}', node 'n'" in str(caught.value)


PROGRAM = """
import sys, jax, numpy as np, lowering
from symjax_nnvm import errors
from tests.lowering.core.test_workspaces import HUGE, _huge
for number in map(int, sys.argv[1:]):
    op, params, shapes = HUGE[number]
    try:
        symbol = _huge(op, params, len(shapes))
        args = {f"in{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)}
        if op == "Convolution":
            args["n_weight"] = np.ones((params["num_filter"], 1, *params["kernel"]), np.float32)
        lowering.compile(symbol)(args)
    except errors.NNVMError as error:
        print(type(error).__name__)
"""


@pytest.mark.slow("starts processes")
def test_the_process_survives_what_xla_would_end_it_for():
    numbers = [str(i) for i, (op, *_) in enumerate(HUGE) if op in ("broadcast_to", "tile", "Convolution", "im2col")]
    done = warm.run(["-c", PROGRAM, *numbers])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["InferenceError"] * len(numbers)


def _sized(case: Case) -> Iterator[Case]:
    """The case with each size among its parameters 10¹⁸."""
    params = Op.get(case.op).params
    for field in params.fields.values() if params is not None else ():
        given = case.params.get(field.name, field.default)
        if field.type.startswith("tuple of int"):
            values = given if isinstance(given, tuple) and given else (1, 1)
            yield dataclasses.replace(case, params=case.params | {field.name: (10**18, *values[1:])})
        elif field.type.startswith("int"):
            yield dataclasses.replace(case, params=case.params | {field.name: 10**18})


@rung(first_node, one_in=3)
def no_parameter_makes_an_array_too_large_for_xla(walk: Walk):
    for case in _sized(walk.case):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert _largest(ladder.build(case), case, walk.shapes) <= MAX_SIZE, case.params
            except NNVMError:
                continue  # refused


TOO_LARGE = [
    ("Convolution", {"kernel": (1, 1), "pad": (2**20,) * 2, "num_filter": 1, "no_bias": True}, [(1, 1, 4, 4)]),
    ("Deconvolution", {"kernel": (2, 2), "stride": (2**20,) * 2, "num_filter": 1, "no_bias": True}, [(1, 1, 4, 4)]),
    ("tile", {"reps": (2**20,) * 2}, [(4, 4)]),
    ("one_hot", {"depth": 2**40}, [(4,)]),
    ("_zeros", {"shape": (2**21, 2**21)}, []),
    ("_eye", {"N": 2**21, "M": 2**21}, []),
    ("im2col", {"kernel": (1, 1), "pad": (2**20,) * 2}, [(1, 1, 4, 4)]),
]

READ = """
import sys, jax, numpy as np, lowering
from symjax_nnvm import errors
from tests.lowering.core.test_workspaces import TOO_LARGE, _huge
for op, params, shapes in TOO_LARGE:
    net = _huge(op, params, len(shapes))
    given = {f"in{i}": shape for i, shape in enumerate(shapes)}
    args = {n: np.ones(s, np.float32) for n, s in zip(net.list_arguments(), net.infer_shape(**given)[0])}
    weights = {name: array for name, array in args.items() if name not in given}
    predict = lowering.Predictor(net, weights)
    run, ex = lowering.compile(net), lowering.bind(net, None, args, grad_req="null")
    for call in (lambda: run(args)[0], lambda: predict(**{n: args[n] for n in given}), lambda: ex.forward()):
        for _ in range(2):
            try:
                np.asarray(call()[0])
            except errors.LoweringError as error:
                assert "more memory than there is" in str(error), error
                print(op)
"""


@pytest.mark.slow("starts processes")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems may promise such memory")
def test_memory_that_cannot_be_had_is_told_and_ends_no_process():
    """NumPy, reading a result that was never allocated, ended it: "Check failed: buffer_.IsConcrete()"."""
    done = warm.run(["-c", READ])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [op for op, *_ in TOO_LARGE for _ in range(6)]


@pytest.mark.parametrize("op", ["Convolution", "Deconvolution", "im2col"])
@pytest.mark.parametrize("name", ["stride", "dilate"])
def test_steps_that_xla_counts_in_32_bits_have_no_more(op: str, name: str):
    """XLA divided by 0 where 32 bits hold nothing of a stride."""
    more = {} if op == "im2col" else {"num_filter": 8}
    getattr(sym, op)(sym.Variable("x"), kernel=(1, 1), **{name: (2**31 - 1, 1)}, **more)
    with pytest.raises(ParamError, match=name):
        getattr(sym, op)(sym.Variable("x"), kernel=(1, 1), **{name: (2**31, 1)}, **more)
