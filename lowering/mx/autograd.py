"""`mx.autograd`: gradients of what was called, by MXGradient of each call on the tape.

Calls made under `record()` go onto a tape, each with the symbol that it ran; `backward` goes back over them and runs
the gradient graph of each symbol. With `create_graph` those graphs are calls on the tape again.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.messages.counts import paired
from lowering.mx.context import Context
from lowering.mx.ndarray.array import NDArray, NotAnArrayError, like_jax, mark, on_backward, require_arrays, run_symbol
from lowering.mx.symbol.bound import as_symbol
from lowering.mx.tape import recording
from lowering.mx.tape.backward import NOT_RECORDED, Place, Tape, calls_of, leaf_gradients
from lowering.mx.tape.expressions import Expression, shared_expression, variable_name
from lowering.mx.tape.programs import short_tape_gradients
from lowering.mx.tape.recording import Call, Leaf
from lowering.mx.tape.recording import is_recording as is_recording
from lowering.mx.tape.recording import is_training as is_training
from lowering.mx.tape.recording import set_recording as set_recording
from lowering.mx.tape.recording import set_training as set_training
from lowering.mx.tape.waiting import WaitingCall
from lowering.xla.platforms import current_platform, kind_of
from symjax_nnvm.errors import CallError, GradientError
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol import Group
from symjax_nnvm.symbol.symbol import Symbol

_ones_like, _zeros_like = jax.jit(jnp.ones_like), jax.jit(jnp.zeros_like)  # a tenth of the time of `jnp.ones_like`


class AssertedError(GradientError, AssertionError):
    """A gradient that was asked for, or a Function that was called, as it cannot be. MXNet asserts."""


class UndefinedMethodError(GradientError, NotImplementedError):
    """A Function without a method that is called. MXNet raises a NotImplementedError."""


class _Scope:
    """Records and trains so inside the block; None: as before."""

    __slots__ = ("_before", "_record", "_train")

    def __init__(self, record: bool | None, train: bool | None):
        self._record, self._train = record, train
        self._before: list[tuple[bool, bool]] = []  # a block may be entered again

    def __enter__(self) -> None:
        recorded, trained = is_recording(), is_training()
        self._before.append((recorded, trained))
        set_recording(recorded if self._record is None else self._record)
        set_training(trained if self._train is None else self._train)

    def __exit__(self, *_: object) -> None:
        recorded, trained = self._before.pop()
        set_recording(recorded)
        set_training(trained)


def record(train_mode: bool = True) -> Any:
    """A block whose calls are recorded. train_mode: whether Dropout drops, BatchNorm uses the batch's statistics, …"""
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> Any:
    """A block whose calls are not recorded."""
    return _Scope(False, train_mode)


def train_mode() -> Any:
    """A block that runs as in training, recorded or not."""
    return _Scope(None, True)


def predict_mode() -> Any:
    """A block that runs as in inference, recorded or not."""
    return _Scope(None, False)


def mark_variables(variables: Any, gradients: Any, grad_reqs: Any = "write") -> None:
    """Have gradients of the variables written to other arrays; grad_reqs: one for all, or a list."""
    variables, gradients = _listed(variables), _listed(gradients)
    requests = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else grad_reqs
    for variable, gradient in paired(variables, gradients, "gradients", "variables"):
        for array in (variable, gradient):
            _require_array(array)
    for (variable, gradient), request in paired(zip(variables, gradients, strict=True), requests, "grad_reqs", "pairs"):
        mark(variable, gradient, request)


def _require_array(array: object) -> None:
    """Raise NotAnArrayError for what is no NDArray."""
    if not isinstance(array, NDArray):
        problem = "Gradients are taken only with respect to NDArrays"
        raise NotAnArrayError(problem, got=type(array).__name__, fix="mx.nd.array(value) makes one.")


@on_backward
def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of heads and keep them in the `grad` of the arrays that have one.

    head_grads: a gradient for each head, ones where one is None. retain_graph: keep what was recorded, so that it can
    be differentiated again. Raises GradientError for heads that were not recorded, or whose record is used up.
    """
    summed: set[Leaf] = set()
    request = lambda leaf: leaf.grad_req  # noqa: E731
    gradients = _gradients(_listed(heads), head_grads, request, retain=retain_graph, summed=summed, may_wait=True)
    if not gradients:
        problem = "There are no inputs in computation graph that require gradients"
        raise GradientError(problem, fix="Call x.attach_grad() on an input, with a grad_req other than 'null'.")
    for leaf, gradient in gradients.items():
        if gradient is not None:
            leaf.keep(gradient, "write" if leaf in summed else leaf.grad_req)
        leaf.fresh = True


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
    asked, heads = _listed(variables), _listed(heads)
    retain = create_graph if retain_graph is None else retain_graph
    if not asked:
        raise AssertedError("variables cannot be an empty list.", fix="mx.autograd.grad(heads, [x])")
    leaves = {variable.entry for variable in asked}
    requests = lambda leaf: "write" if leaf in leaves else "null"  # noqa: E731
    if create_graph:
        by_leaf = _recorded(heads, head_grads, requests, retain=retain)
    else:
        computed = _gradients(heads, head_grads, requests, retain=retain)
        by_leaf = {leaf: like_jax(computed[leaf], heads[0].context) for leaf in computed}
    missing = [i for i, variable in enumerate(asked) if variable.entry not in by_leaf]
    if missing:
        problem = f"The heads were not computed from the variables {missing}"
        raise GradientError(problem, fix=NOT_RECORDED)
    gradients = [by_leaf[variable.entry] for variable in asked]  # pyright: ignore[reportArgumentType]
    if not create_graph:
        return gradients
    with _Scope(True, None):
        return [_dependent(gradient, variable) for gradient, variable in zip(gradients, asked, strict=True)]


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
    _require_array(x)
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
        values: dict[str, NodeEntry] = {}
        for name, entry in zip(call.function.names, call.entries, strict=True):
            if isinstance(entry, Leaf) and entry not in entries:
                entries[entry] = variable("var")
            values[name] = variable("null") if entry is None else entries[entry]
        copies: dict[Node, Node] = {}
        for node in post_order(call.function.symbol.outputs):
            if not node.is_variable:
                inputs = [_moved(each, values, copies) for each in node.inputs]
                copies[node] = Node(node.attrs.copy(), inputs)
                copies[node].attrs.name = f"node_{next(numbers['node_'])}"
        for i, output in enumerate(call.function.symbol.outputs):
            entries[call, i] = _moved(output, values, copies)
    return as_symbol(Symbol([variable("var") if isinstance(x.entry, Leaf) else entries[x.entry]]))


def _moved(entry: NodeEntry, values: Mapping[str, NodeEntry], copies: Mapping[Node, Node]) -> NodeEntry:
    """Return an entry of a call's own graph in the graph of all calls."""
    if entry.node.is_variable:
        return values[entry.node.name]
    return NodeEntry(copies[entry.node], entry.index, entry.version)


def _listed(arrays: Any) -> list[NDArray]:
    if not isinstance(arrays, Iterable):
        _require_array(arrays)
    return [arrays] if isinstance(arrays, NDArray) else list(arrays)


# -- through the tape ------------------------------------------------------------------------------------------------


def _gradients(
    heads: Sequence[NDArray],
    head_grads: Any,
    request: Callable[[Leaf], str],
    *,
    retain: bool,
    summed: set[Leaf] | None = None,
    may_wait: bool = False,
) -> Mapping[Leaf, Any]:
    """Return the gradient of each leaf that the heads were computed of, unless it is requested as "null".

    retain: whether the calls can be differentiated again. summed: receives those leaves of "add" whose old gradient is
    in the new one: Python has added it. may_wait: gradients may be None, and computed when the leaf's array is read.
    """
    given, tape = _given(heads, head_grads), Tape([head.entry for head in heads], request)
    gradients = None
    if not (retain and any(isinstance(call, WaitingCall) for call in tape.calls)):
        values = [None if gradient is None else gradient.value for gradient in given]
        gradients = short_tape_gradients(tape, values, may_wait and not retain)
    if gradients is None:
        arrays = _by_calls(tape, heads, given, summed)
        gradients = {leaf: gradient.value for leaf, gradient in arrays.items()}
    if not retain:
        _forget(tape.calls)
    return gradients


def _recorded(
    heads: Sequence[NDArray], head_grads: Any, request: Callable[[Leaf], str], *, retain: bool
) -> dict[Leaf, NDArray]:
    """Return the same as arrays that are on the tape."""
    given, tape = _given(heads, head_grads), Tape([head.entry for head in heads], request)
    gradients = _by_calls(tape, heads, given, None, create_graph=True)
    if not retain:
        _forget(tape.calls)
    return gradients


def _given(heads: Sequence[NDArray], head_grads: Any) -> list[NDArray | None]:
    """Return a head gradient, or None, for each head."""
    given = [None] * len(heads) if head_grads is None else _listed(head_grads)
    if len(given) != len(heads):
        problem = "heads and head_grads must be lists of the same length"
        raise GradientError(problem, expected=len(heads), got=len(given))
    require_arrays([gradient for gradient in given if gradient is not None], "A head gradient")
    for head, gradient in zip(heads, given, strict=True):
        if gradient is not None and gradient.dtype != head.dtype:
            dtypes = {"expected": np.dtype(head.dtype).name, "got": np.dtype(gradient.dtype).name}
            raise GradientError("A head gradient must have the dtype of its head", **dtypes)
    return [*given]


def _forget(calls: Sequence[Call]) -> None:
    for call in calls:
        call.forget()


def _by_calls(
    tape: Tape,
    heads: Sequence[NDArray],
    given: Sequence[NDArray | None],
    summed: set[Leaf] | None,
    *,
    create_graph: bool = False,
) -> dict[Leaf, NDArray]:
    """Return the gradients, computed call by call. create_graph: they are on the tape."""
    for call in tape.calls:
        if isinstance(call, WaitingCall):
            call.run()
    adding = {} if summed is None else _adding(tape)

    def differentiate(number: int, partial: list[NDArray | None], wrt: tuple[int, ...]) -> Sequence[NDArray]:
        call = tape.calls[number]
        context = next(gradient.context for gradient in partial if gradient is not None)
        filled = [
            like_jax(_zeros_like(output), context) if gradient is None else gradient
            for output, gradient in zip(call.outputs, partial, strict=True)
        ]
        if isinstance(call.function, recording.ByPython):
            return _by_python(call, filled, wrt)
        names = tuple(call.function.names[position] for position in wrt)
        if create_graph:
            return _recorded_gradients(call, names, filled)
        onto: dict[str, jax.Array] = {}
        if adding and (by_python := call.function.summed_by_python(names)):
            for name, place in zip(names, tape.rows[number].places, strict=True):
                if place in adding and name in by_python:
                    onto[name] = adding[place].cell.show()
                    summed.add(adding[place])  # pyright: ignore[reportOptionalMemberAccess]
        return _plain_gradients(call, names, filled, onto)

    with _Scope(create_graph, None):
        starts = [
            like_jax(_ones_like(head.value), head.context) if gradient is None else gradient
            for head, gradient in zip(heads, given, strict=True)
        ]
        added = operator.add if create_graph else _sum
        gradients = leaf_gradients(tape.rows, [*zip(tape.heads, starts, strict=True)], differentiate, added)
    return {tape.leaves[number]: gradient for number, gradient in gradients.items()}


def _adding(tape: Tape) -> Mapping[Place, Leaf]:
    """Return the leaves whose gradients are added to old ones, and come from one call alone: it may do so itself."""
    places = Counter(place for row in tape.rows for place in row.places)
    leaves = {(-1, i): leaf for i, leaf in enumerate(tape.leaves) if leaf.grad_req == "add"}
    return {place: leaf for place, leaf in leaves.items() if places[place] == 1 and place not in tape.heads}


def _sum(a: NDArray, b: NDArray) -> NDArray:
    """Return the sum of two gradients of the same array."""
    device = a.context.device
    expression = _sum_on(current_platform() if device is None else kind_of(device))
    (total,), _ = expression.forward([a.value, b.value], None)
    return like_jax(total, a.context)


@lru_cache
def _sum_on(platform: str) -> Expression:
    a, b = (Symbol.create_variable(variable_name(i)) for i in range(2))
    return shared_expression(a + b, 2, False, platform)


def _by_python(call: Call, heads: Sequence[NDArray], wrt: tuple[int, ...]) -> list[NDArray]:
    """Return the gradients that a call's own `backward` computes, of the inputs with these numbers."""
    gradients = _listed(call.function.backward(*heads))
    if len(gradients) != len(call.entries):
        problem = f"{type(call.function).__name__}.backward must return one gradient for each input"
        raise GradientError(problem, expected=f"{len(call.entries)} arrays", got=len(gradients))
    return [gradients[position] for position in wrt]


def _plain_gradients(
    call: Call, wrt: tuple[str, ...], heads: Sequence[NDArray], onto: Mapping[str, jax.Array]
) -> list[NDArray]:
    """Return the gradients; states that computing them writes are written. onto: old gradients that Python adds to."""
    states = {name: array.value for name, array in call.states.items()}
    computed = call.values, call.drawn, [head.value for head in heads], call.outputs, call.residuals
    gradients, written = call.function.gradients(wrt, *computed, states, onto)
    for name, value in written.items():
        call.states[name].cell.assign(value)
    return [like_jax(gradients[name], heads[0].context) for name in wrt]


def _recorded_gradients(call: Call, wrt: tuple[str, ...], heads: Sequence[NDArray]) -> list[NDArray]:
    """Return the same as a call on the tape: the gradient of a symbol is a symbol."""
    if call.drawn is not None:
        problem = "create_graph=True cannot differentiate a random operator: its random numbers are not kept"
        raise GradientError(problem, fix="Take it through a symbol: net.gradient(...).gradient(...).")
    names: list[str] = call.function.names
    context = heads[0].context
    inputs = [_again(value, entry, context) for value, entry in zip(call.values, call.entries, strict=True)]
    head_variables = [Symbol.create_variable(f"a{len(names) + i}") for i in range(len(heads))]
    renamed = {name: Symbol.create_variable(f"a{i}") for i, name in enumerate(names)}
    symbol = call.function.symbol(**renamed)
    gradient = symbol.gradient([f"a{names.index(name)}" for name in wrt], head_grads=head_variables)
    return run_symbol(Group(list(gradient)), [*inputs, *heads], heads[0].context)


def _again(value: jax.Array, entry: Any, context: Context) -> NDArray:
    array = like_jax(value, context)
    array.entry = entry
    return array


def _undefined(name: str) -> Callable[..., Any]:
    """Return what is called where a subclass does not define a method."""

    def method(self: object, *arrays: NDArray) -> None:
        raise UndefinedMethodError(f"{type(self).__name__} must define {name}(self, *arrays)")

    return method


class Function(recording.ByPython):
    """A function of one's own for the tape: a subclass says `forward(self, *arrays)` and `backward(self, *heads)`.

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
            outputs = [output.detach() for output in outputs]
            values = [array.value for array in inputs]
            call = Call(self, values, [*map(recording.origin, inputs)], None, [out.value for out in outputs])
            for i, output in enumerate(outputs):
                output.entry = (call, i)
        return outputs[0] if isinstance(results, NDArray) else outputs
