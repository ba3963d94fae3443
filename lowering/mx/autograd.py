"""`mx.autograd`: gradients of what was called, by MXGradient of each call on the tape.

Calls made under `record()` go onto a tape, each with the symbol that it ran; `backward` goes back over them and runs
the gradient graph of each symbol. With `create_graph` those graphs are calls on the tape again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from lowering.messages.counts import checks_flags, paired
from lowering.mx.ndarray.array import NDArray, in_dialect, like_jax, mark, on_backward, run_symbol
from lowering.mx.symbol.runnable import as_symbol
from lowering.mx.tape import recording
from lowering.mx.tape.backward import NOT_RECORDED, calls_of
from lowering.mx.tape.expressions import variable_name
from lowering.mx.tape.gradients import computed_gradients, listed_arrays, recorded_gradients, require_array
from lowering.mx.tape.recording import Call, Leaf, Scope, origin
from lowering.mx.tape.recording import is_recording as is_recording
from lowering.mx.tape.recording import is_training as is_training
from lowering.mx.tape.recording import set_recording as set_recording
from lowering.mx.tape.recording import set_training as set_training
from symjax_nnvm.errors import CallError, GradientError
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol


class AssertedError(GradientError, AssertionError):
    """Wrong arguments of `grad`, or a wrong call of a Function. MXNet asserts."""


class UndefinedMethodError(GradientError, NotImplementedError):
    """A Function without a method that is called. MXNet raises a NotImplementedError."""


@checks_flags
def record(train_mode: bool = True) -> Any:
    """A block whose calls are recorded. train_mode: whether Dropout drops, BatchNorm uses the batch's statistics, …"""
    return Scope(True, train_mode)


@checks_flags
def pause(train_mode: bool = False) -> Any:
    """A block whose calls are not recorded."""
    return Scope(False, train_mode)


def train_mode() -> Any:
    """A block that runs as in training, recorded or not."""
    return Scope(None, True)


def predict_mode() -> Any:
    """A block that runs as in inference, recorded or not."""
    return Scope(None, False)


def mark_variables(variables: Any, gradients: Any, grad_reqs: Any = "write") -> None:
    """Have gradients of the variables written to other arrays; grad_reqs: one for all, or a list."""
    variables, gradients = listed_arrays(variables), listed_arrays(gradients)
    requests = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else grad_reqs
    pairs = paired(variables, gradients, "gradients", "variables")
    for (variable, gradient), request in paired(pairs, requests, "grad_reqs", "pairs"):
        mark(variable, gradient, request)


@on_backward
@checks_flags
def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of heads and keep them in the `grad` of the arrays that have one.

    head_grads: a gradient for each head, ones where one is None. retain_graph: keep what was recorded, so that it can
    be differentiated again. Raises GradientError for heads that were not recorded, or whose record is used up.
    """
    summed: set[Leaf] = set()
    request = lambda leaf: leaf.grad_req  # noqa: E731
    heads = listed_arrays(heads)
    gradients = computed_gradients(heads, head_grads, request, retain=retain_graph, summed=summed)
    if not gradients:
        problem = "There are no inputs in computation graph that require gradients"
        raise GradientError(problem, fix="Call x.attach_grad() on an input, with a grad_req other than 'null'.")
    for leaf, gradient in gradients.items():
        if gradient is not None:
            leaf.keep(gradient, "write" if leaf in summed else leaf.grad_req)
        leaf.fresh = True


@checks_flags
def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> Any:
    """A list of the gradients of heads with respect to variables, as new arrays; their `grad` stays as it is.

    variables: an array, whose gradient is a list of one, or arrays. create_graph: record the gradients, so that they
    have gradients in turn. retain_graph: as in `backward`, by default as create_graph. Raises GradientError;
    AssertedError, an AssertionError, for no variables.
    """
    arrays, heads = listed_arrays(variables), listed_arrays(heads)
    retain = create_graph if retain_graph is None else retain_graph
    if not arrays:
        raise AssertedError("variables cannot be an empty list.", fix="mx.autograd.grad(heads, [x])")
    leaves = {variable.entry for variable in arrays}
    requests = lambda leaf: "write" if leaf in leaves else "null"  # noqa: E731
    if create_graph:
        by_leaf = recorded_gradients(heads, head_grads, requests, retain=retain)
    else:
        computed = computed_gradients(heads, head_grads, requests, retain=retain)
        by_leaf = {leaf: like_jax(computed[leaf], heads[0].context) for leaf in computed}
    missing = [i for i, variable in enumerate(arrays) if variable.entry not in by_leaf]
    if missing:
        problem = f"The heads were not computed from the variables {missing}"
        raise GradientError(problem, fix=NOT_RECORDED)
    gradients = [by_leaf[variable.entry] for variable in arrays]  # pyright: ignore[reportArgumentType]
    if create_graph:
        with Scope(True, None):
            gradients = [_dependent(gradient, variable) for gradient, variable in zip(gradients, arrays, strict=True)]
    return [in_dialect(gradient, variable.dialect) for gradient, variable in zip(gradients, arrays, strict=True)]


def _dependent(gradient: NDArray, variable: NDArray) -> NDArray:
    """Return a gradient that is on the tape, if only as one that depends on nothing: its own gradient is zero."""
    if gradient.entry is not None:
        return gradient
    a, b = (Symbol.create_variable(variable_name(i)) for i in range(2))
    return run_symbol(a + b.zeros_like(), [gradient, variable], gradient.context)[0]


def get_symbol(x: NDArray) -> Symbol:
    """What an array was computed by while recording, as a symbol.

    Its variables are var0, var1, … for arrays with `attach_grad`, null0, null1, … for others; its nodes are node_0,
    node_1, …. Raises GradientError for an array that was not recorded, and for a call of a `Function`.
    """
    require_array(x)
    if x.entry is None:
        raise GradientError("The array was not computed while recording", fix=NOT_RECORDED)
    entries: dict[Any, NodeEntry] = {}
    numbers = {kind: itertools.count() for kind in ("var", "null", "node_")}

    def variable(kind: str) -> NodeEntry:
        return Symbol.create_variable(f"{kind}{next(numbers[kind])}").outputs[0]

    for call in calls_of([x.entry]):
        if isinstance(call.function, Function):
            name = type(call.function).__name__
            raise GradientError(f"The Function {name} cannot be turned into a symbol", fix="Use mx.operator.CustomOp.")
        symbol = call.function.symbol if call.shown is None else call.shown
        values: dict[str, NodeEntry] = {}
        origins = dict(zip(call.function.names, call.entries, strict=True))
        for name, entry in ((name, origins[name]) for name in symbol.list_inputs()):
            if isinstance(entry, Leaf) and entry not in entries:
                entries[entry] = variable("var")
            values[name] = variable("null") if entry is None else entries[entry]
        copies: dict[Node, Node] = {}
        for node in post_order(symbol.outputs):
            if not node.is_variable:
                inputs = [_moved(source, values, copies) for source in node.inputs]
                copies[node] = Node(node.attrs.copy(), inputs)
                copies[node].attrs.name = f"node_{next(numbers['node_'])}"
        for i, output in enumerate(symbol.outputs):
            entries[call, i] = _moved(output, values, copies)
    return as_symbol(Symbol([variable("var") if isinstance(x.entry, Leaf) else entries[x.entry]]))


def _moved(entry: NodeEntry, values: Mapping[str, NodeEntry], copies: Mapping[Node, Node]) -> NodeEntry:
    """Return an entry of a call's own graph in the graph of all calls."""
    if entry.node.is_variable:
        return values[entry.node.name]
    return NodeEntry(copies[entry.node], entry.index, entry.version)


def _undefined(name: str) -> Callable[..., Any]:
    """Return what is called where a subclass does not define a method."""

    def method(self: object, *arrays: NDArray) -> None:
        raise UndefinedMethodError(f"{type(self).__name__} must define {name}(self, *arrays)")

    return method


class Function(recording.ByPython):
    """A user's function on the tape: a subclass defines `forward(self, *arrays)` and `backward(self, *heads)`.

    Called like a function, once; `save_for_backward` keeps arrays as `saved_tensors`.
    """

    saved_tensors: tuple[NDArray, ...] = ()
    _used = False

    def save_for_backward(self, *arrays: NDArray) -> None:
        """Keep arrays for `backward`."""
        self.saved_tensors = arrays

    forward: Callable[..., Any] = _undefined("forward")
    backward: Callable[..., Any] = _undefined("backward")

    def __call__(self, *inputs: NDArray) -> Any:
        """Return what `forward` returns, recorded with `backward` as its gradient.

        Raises AssertedError, an AssertionError, at a second call, which would keep other arrays for both gradients.
        """
        if self._used:
            fix = f"Create a new instance for each call: {type(self).__name__}(...)."
            raise AssertedError("Each Function instance can only be called once", fix=fix)
        self._used = True
        with pause(is_training()):
            results = self.forward(*inputs)
        outputs = [results] if isinstance(results, NDArray) else list(results)
        if any(not isinstance(output, NDArray) for output in outputs):
            raise CallError("forward of a Function must return NDArrays", got=type(results).__name__)
        if recording.is_recording():
            self._dialect = outputs[0].dialect
            outputs = [output.detach() for output in outputs]
            values = [array.value for array in inputs]
            Call(self, values, [*map(origin, inputs)], None, [out.value for out in outputs]).made(outputs)
        return outputs[0] if isinstance(results, NDArray) else outputs
