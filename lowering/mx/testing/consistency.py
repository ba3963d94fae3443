"""Whether networks and optimisers agree with others, and how fast a network is."""

from __future__ import annotations

import copy
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from lowering.mx import autograd
from lowering.mx import ndarray as nd
from lowering.mx.accepted_types import ContextLike, DType, ShapeLike
from lowering.mx.io.desc import DataBatch, DataIter
from lowering.mx.ndarray import NDArray
from lowering.mx.symbol import Symbol
from lowering.mx.testing.comparisons import Tolerance, assert_almost_equal, get_tols
from symjax_nnvm.errors import SymbolValueError


def check_speed(
    sym: Symbol,
    location: Mapping[str, Any] | None = None,
    ctx: ContextLike = None,
    N: int = 20,
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """Seconds of one run, the mean of N after one that compiles.

    typ: "whole" for forward and backward, or "forward". location: values of the arguments; without it, normal
    numbers in the shapes of kwargs. Raises SymbolValueError for another typ.
    """
    if typ not in ("whole", "forward"):
        raise SymbolValueError('typ can only be "whole" or "forward"', got=repr(typ))
    shapes: dict[str, Any] = kwargs if location is None else {name: np.shape(value) for name, value in location.items()}
    executor = sym.simple_bind(ctx, grad_req or "write", **shapes)
    for name, array in executor.arg_dict.items():
        array[:] = (location or {}).get(name, np.random.normal(size=array.shape))

    def run() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)

    run()
    nd.waitall()
    began = time.time()
    for _ in range(N):
        run()
    nd.waitall()
    return (time.time() - began) / N


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., Any],
    data_l: Sequence[NDArray],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Check that a HybridBlock has the same outputs, and gradients of its inputs, hybridised and not, in and outside of
    `record`, and the outputs of numpy_func.

    net_builder: called with `prefix`. data_l: the inputs, of `mx.nd` (MXNet: of `mx.np`). Raises AssertionError.
    """
    values: dict[str, np.ndarray] = {}
    outputs: list[np.ndarray] = []
    slopes: list[np.ndarray] = []
    for hybridized in (False, True):
        for recorded in (False, True) if test_grad else (False,):
            net = net_builder(prefix="net_")
            net.initialize()
            if hybridized:
                net.hybridize()
            inputs = [value.copy() for value in data_l]
            for value in inputs:
                value.attach_grad()
            if values:
                net(*inputs)  # parameters have shapes now
                for name, parameter in net.collect_params().items():
                    parameter.set_data(nd.array(values[name]))
            with autograd.record() if recorded else nullcontext():
                output = net(*inputs)
            values = values or {name: param.data().asnumpy() for name, param in net.collect_params().items()}
            outputs.append(output.asnumpy())
            assert_almost_equal(output, outputs[0], rtol, atol)
            if recorded:
                output.backward(output)
                slopes = slopes or [np.asarray(value.grad) for value in inputs]
                for value, slope in zip(inputs, slopes, strict=True):
                    assert_almost_equal(value.grad, slope, rtol, atol)
    if numpy_func is not None:
        assert_almost_equal(outputs[0], numpy_func(*(value.asnumpy() for value in data_l)), rtol, atol)


def check_consistency(
    sym: Any,
    ctx_list: Sequence[Mapping[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: dict[str, Any] | None = None,
    aux_params: dict[str, Any] | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    raise_on_err: bool = True,
    ground_truth: Mapping[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Check that a network has the same outputs and gradients wherever it is bound, and return those of the most
    precise one.

    sym: a symbol, or one for each of ctx_list. ctx_list: arguments of `simple_bind`. scale: the scale of the normal
    numbers, or with use_uniform the uniform ones, that arguments get which are not in arg_params. ground_truth: what to
    compare with in place of the most precise one. raise_on_err: else differences are logged. Raises AssertionError.
    """
    assert len(ctx_list) > 1
    symbols = [sym] * len(ctx_list) if isinstance(sym, Symbol) else list(sym)
    names = symbols[0].list_outputs(), symbols[0].list_arguments()
    assert all((symbol.list_outputs(), symbol.list_arguments()) == names for symbol in symbols)
    bound = [symbol.simple_bind(grad_req=grad_req, **ctx) for symbol, ctx in zip(symbols, ctx_list, strict=True)]
    args = dict(arg_params or {})
    for name, array in sorted(bound[0].arg_dict.items()):
        draw = np.random.uniform(-0.92, 0.92, array.shape) if use_uniform else np.random.normal(size=array.shape)
        args.setdefault(name, (scale * draw).astype(rand_type))
    for executor in bound:
        _set_arrays(executor, args, aux_params or {}, grad_req)
    best = int(np.argmax([np.dtype(executor.outputs[0].dtype).itemsize for executor in bound]))

    def check(what: str, i: int, actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        for name, value in actual.items():
            reference = expected[name]
            if value is None or reference is None:
                assert value is reference, f"{what}: only one of executors {i} and {best} has {name}"
                continue
            # An output of half precision has its tolerance hold of gradients in single precision, too.
            coarse = [
                compared.astype(executor.outputs[0].dtype) if _size(executor.outputs[0]) < _size(compared) else compared
                for compared, executor in ((value, bound[i]), (reference, bound[best]))
            ]
            tolerances = get_tols(coarse[0], coarse[1], rtol, atol)
            try:
                assert_almost_equal(value, reference, *tolerances, equal_nan=equal_nan)
            except AssertionError:
                if raise_on_err:
                    raise
                logging.exception("%s: %s of %d and of %d", what, name, i, best)

    for executor in bound:
        executor.forward(is_train=False)
    truth = dict(ground_truth or bound[best].output_dict)
    for i, executor in enumerate(bound):
        if i != best:
            check("Predict", i, executor.output_dict, truth)
    if grad_req == "null":
        return truth
    for executor in bound:
        executor.forward(is_train=True)
    heads = [
        np.asarray(out, min((other.outputs[j].dtype for other in bound), key=lambda dtype: np.dtype(dtype).itemsize))
        for j, out in enumerate(bound[0].outputs)
    ]
    for executor in bound:
        executor.backward([nd.array(head, dtype=out.dtype) for head, out in zip(heads, executor.outputs, strict=True)])
    truth = dict(ground_truth or {**bound[best].output_dict, **bound[best].grad_dict})
    for i, executor in enumerate(bound):
        if i != best:
            check("Train", i, {**executor.output_dict, **executor.grad_dict}, truth)
    return truth


def _set_arrays(executor: Any, args: Mapping[str, Any], states: Mapping[str, Any], grad_req: Any) -> None:
    """Write arguments and states, 0 for states without a value, and 0 to gradients that are added up."""
    for name, array in executor.arg_dict.items():
        array[:] = args[name]
    for name, array in executor.aux_dict.items():
        array[:] = states.get(name, 0)
    for gradient in executor.grad_dict.values():
        if gradient is not None and grad_req == "add":
            gradient[:] = 0


def _size(array: NDArray) -> int:
    return np.dtype(array.dtype).itemsize


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """Raise AssertionError where two arrays, or tuples of them, differ; None agrees with all."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for first, second in zip(t1, t2, strict=False):
            compare_ndarray_tuple(first, second, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol, atol)


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: ShapeLike,
    dtype: DType,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Raise AssertionError where two optimisers update a weight of a shape otherwise by the same gradient.

    shape: the shape of one weight; or a list of ntensors shapes, whose weights the first optimiser updates one by one
    and the second together. w_stype, g_stype: MXNet's; arrays are dense. compare_states: compare what they keep, too.
    """
    several = isinstance(shape, list)
    shapes = shape if several else [shape]
    assert len(shapes) == ntensors
    weights = [nd.random.uniform(shape=one_shape, dtype=dtype) for one_shape in shapes]
    grads = [nd.random.uniform(shape=one_shape, dtype=dtype) for one_shape in shapes]
    # A reference may write the gradient that it is given.
    others, other_grads, indices = copy.deepcopy(weights), copy.deepcopy(grads), list(range(ntensors))
    states2 = [opt2.create_state_multi_precision(i, others[i]) for i in indices]
    if several:
        opt2.update_multi_precision(indices, others, other_grads, states2)
    for i in indices:
        state1 = opt1.create_state_multi_precision(i, weights[i])
        if compare_states and not several:
            compare_ndarray_tuple(state1, states2[i])
        opt1.update_multi_precision(i, weights[i], grads[i], state1)
        if not several:
            opt2.update_multi_precision(i, others[i], other_grads[i], states2[i])
        if compare_states:
            compare_ndarray_tuple(state1, states2[i], rtol, atol)
        assert_almost_equal(weights[i], others[i], rtol, atol)


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Whether the nodes of two symbols, in their order, are of the same operators."""
    return all(
        first["op"] == second["op"]
        for first, second in zip(*(json.loads(symbol.tojson())["nodes"] for symbol in (sym1, sym2)), strict=False)
    )


class DummyIter(DataIter):
    """The first batch of an iterator, again and again: for measuring."""

    def __init__(self, real_iter: DataIter):
        super().__init__(real_iter.batch_size)
        self.real_iter = real_iter
        self.provide_data, self.provide_label = real_iter.provide_data, real_iter.provide_label
        self.the_batch = next(real_iter)

    def next(self) -> DataBatch:
        """Return the batch."""
        return self.the_batch
