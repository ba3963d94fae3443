"""`mx.operator`: operators written in Python, gradients too, which run between the compiled parts of a network.

A subclass of CustomOpProp describes an operator, a subclass of CustomOp computes it;
`register("name")` makes it `mx.sym.Custom(..., op_type="name")` and `mx.nd.Custom`. It becomes an operator like those
that `symjax_nnvm.register_custom` makes, and its gradient another one.
"""

from __future__ import annotations

import inspect
import itertools
import re
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from lowering.core.python_calls import PythonCall, noting, step_of_loops
from lowering.core.rules import lowers
from lowering.mx import symbol
from lowering.mx.compatibility.python_op import NDArrayOp as NDArrayOp
from lowering.mx.compatibility.python_op import NumpyOp as NumpyOp
from lowering.mx.compatibility.python_op import PythonOp as PythonOp
from lowering.mx.context import Context, current_context
from lowering.mx.ndarray.array import NDArray, like_jax
from lowering.mx.ndarray.cells import HostCell, host
from lowering.mx.tape import recording
from symjax_nnvm.errors import InferenceError, NNVMError, ParamError, explain
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.op import Op, list_all_names
from symjax_nnvm.ir.register import register_op
from symjax_nnvm.ir.types import is_known, shape_from_legacy
from symjax_nnvm.ops.custom import custom_name, register_custom
from symjax_nnvm.recent import Recent

R = TypeVar("R")

Shapes = Sequence[Any]

_BACKWARD = ":backward"
"""The end of the names of operators that are gradients of others."""

_KEPT = 64
"""Combinations of shapes and dtypes for which a node keeps what computes it."""

_NODE = "__custom_node__"
"""The attribute by which the gradient of a node finds its operator, which may have kept values."""


class CustomOp:
    """The computation of a custom operator; a subclass must define `forward` and `backward`, which write by
    `assign`."""

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        """Write the outputs, `self.assign(out_data[0], req[0], value)`.

        Args:
            is_train: whether the network runs in training mode.
            req: "null", "write", "inplace" or "add" for each output.
            in_data: the inputs, NDArrays.
            out_data: the outputs to write.
            aux: the auxiliary states.
        """

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        """Write the gradients of the inputs, `self.assign(in_grad[0], req[0], value)`.

        Args:
            req: "null", "write", "inplace" or "add" for each gradient.
            out_grad: the gradients of the outputs, NDArrays.
            in_data: the inputs.
            out_data: the outputs.
            in_grad: the gradients to write.
            aux: the auxiliary states.
        """

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Write or add a value to an array.

        Args:
            dst: the array.
            req: "null", "write", "inplace" or "add".
            src: the value.
        """
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] = dst + src


class CustomOpProp:
    """The description of a custom operator: its inputs, outputs, states, shapes and dtypes.

    A subclass gets the operator's parameters as text.

    Args:
        need_top_grad: whether `backward` reads the gradients of the outputs; a loss does not.
    """

    def __init__(self, need_top_grad: bool = True):
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape: Any) -> Any:
        """Return the shapes of inputs, outputs and states from those of the inputs; the first input's is known."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type: Any) -> Any:
        """Return the dtypes of inputs, outputs and states from those of the inputs."""
        return in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states())

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Return the names of the inputs."""
        return ["data"]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of the auxiliary states."""
        return []

    def infer_storage_type(self, in_stype: Any) -> Any:
        """Return the storage types of inputs, outputs and states from those of the inputs.

        Arrays here are dense, so nothing calls it. A type other than "default" raises AssertionError.
        """
        _check_dense(in_stype, "in_stype")
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())

    def infer_storage_type_backward(
        self, ograd_stype: Any, in_stype: Any, out_stype: Any, igrad_stype: Any, aux_stype: Any
    ) -> Any:
        """Return the storage types of head gradients, inputs, outputs, gradients and states: all are "default".

        Another type of a gradient raises AssertionError.
        """
        _check_dense(ograd_stype, "ograd_stype")
        _check_dense([stype for stype in igrad_stype if stype != "undefined"], "igrad_stype")
        return tuple(["default"] * len(stypes) for stypes in (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype))

    def declare_backward_dependency(self, out_grad: list[int], in_data: list[int], out_data: list[int]) -> list[int]:
        """Return the numbers of arrays that `backward` reads in MXNet, which drops the others; here it has all of
        them."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx: Context, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        """Return the CustomOp that computes.

        Args:
            ctx: the context.
            in_shapes: the shapes of the inputs.
            in_dtypes: the dtypes of the inputs.
        """
        return CustomOp()


def _check_dense(stypes: Sequence[str], what: str) -> None:
    for i, stype in enumerate(stypes):
        assert stype == "default", f"{what}[{i}] is {stype!r}, but an operator in Python supports only dense arrays"


_numbers = itertools.count()
_known: weakref.WeakValueDictionary[int, _Operator] = weakref.WeakValueDictionary()


class _Operator:
    """A node's operator: what it is, and, once shapes are known, what computes it. number: the node's own."""

    def __init__(self, prop: CustomOpProp, key: Any):
        self.prop, self._key = prop, key
        self.arguments = self._result_of("list_arguments", lambda: list(prop.list_arguments()))
        self.states = self._result_of("list_auxiliary_states", lambda: list(prop.list_auxiliary_states() or ()))
        self.outputs = self._result_of("list_outputs", lambda: list(prop.list_outputs()))
        self.number = next(_numbers)
        _known[self.number] = self
        self._made: Recent[Any, dict[Any, CustomOp]] = Recent(_KEPT)  # by device, shapes and dtypes, then by step
        self._steps: dict[tuple[int, ...], tuple[list[np.ndarray], list[Any]]] = {}

    @classmethod
    def of_node(cls, attrs: NodeAttrs, prop_class: Callable[..., CustomOpProp]) -> _Operator:
        """Return the operator of a node's attributes: of the node that they name, or a new one. Raises ParamError."""
        existing = _known.get(int(attrs.dict.get(_NODE, -1)))
        if existing is not None:
            return existing
        parameters = {key: text for key, text in attrs.dict.items() if key != "op_type" and not key.startswith("__")}
        try:
            inspect.signature(prop_class).bind(**parameters)
        except TypeError as error:
            problem = f"The operator does not take these parameters: {error}"
            raise ParamError(problem, op=attrs.op, node=attrs.name, got=listed_parameters(parameters)) from error
        where = explain(f"{prop_class.__name__}'s __init__", op=attrs.op, node=attrs.name)
        prop = _by_user(where, lambda: prop_class(**parameters))
        return cls(prop, (prop_class, tuple(sorted(parameters.items()))))

    def _result_of(self, method: str, call: Callable[[], R]) -> R:
        return _by_user(f"{type(self.prop).__name__}'s {method}", call)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Operator) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def num_inputs(self) -> int:
        """Return arguments and states."""
        return len(self.arguments) + len(self.states)

    @property
    def states_of_gradient(self) -> tuple[int, ...]:
        """Return which inputs of its gradient are the states."""
        first = self.num_heads + len(self.arguments)
        return tuple(range(first, first + len(self.states)))

    @property
    def num_heads(self) -> int:
        """Return how many gradients of outputs its gradient reads."""
        return len(self.outputs) if self.prop.need_top_grad_ else 0

    def gradients_of(self, ins: Sequence[Any]) -> list[Any]:
        """Infer the gradient's outputs from its inputs: they are like the arguments."""
        return list(ins[self.num_heads : self.num_heads + len(self.arguments)])

    def shapes(self, ins: Shapes) -> tuple[list[Any], list[Any], list[Any]]:
        """Return shapes of inputs, outputs and states. Raises InferenceError."""
        in_shapes = [[] if shape is None else [size or 0 for size in shape] for shape in ins[: len(self.arguments)]]
        shapes = self._result_of("infer_shape", lambda: [list(part) for part in self.prop.infer_shape(in_shapes)])
        shapes += [[]] * (3 - len(shapes))
        for what, names, got in zip(("inputs", "outputs", "states"), self._names, shapes, strict=True):
            if len(names) != len(got):
                problem = f"{type(self.prop).__name__}.infer_shape must return one shape for each of the {what}"
                raise InferenceError(problem, expected=len(names), got=len(got))
        ins_, outs, aux = ([shape_from_legacy(tuple(int(size) for size in shape)) for shape in part] for part in shapes)
        return ins_, outs, aux

    @property
    def _names(self) -> tuple[list[str], list[str], list[str]]:
        return self.arguments, self.outputs, self.states

    def dtypes(self, ins: Sequence[str | None]) -> tuple[list[str], list[str], list[str]]:
        """Dtypes of inputs, outputs and states; inputs of unknown ones have the first's."""
        first = ins[0] if ins else None
        in_types = [np.dtype(dtype or first).type for dtype in ins[: len(self.arguments)]]
        dtypes = [*self._result_of("infer_type", lambda: self.prop.infer_type(in_types)), []][:3]
        ins_, outs, aux = ([np.dtype(dtype).name for dtype in part] for part in dtypes)
        return ins_, outs, aux

    def computes(self, arrays: Sequence[NDArray]) -> CustomOp:
        """Return the CustomOp for inputs of these shapes and dtypes on their device; made once, so that it may keep
        something, and for each step of a loop. Backward may be called under another context of the same device."""
        context = arrays[0].context if arrays else current_context()
        shapes = tuple(array.shape for array in arrays[: len(self.arguments)])
        dtypes = tuple(np.dtype(array.dtype).type for array in arrays[: len(self.arguments)])
        inputs = context.device, shapes, dtypes
        custom_op, (step, _) = self._made.get(inputs), step_of_loops()
        if custom_op is None:
            custom_op = self._made.setdefault(inputs, {})
        if step not in custom_op:
            new = self.prop.create_operator(context, [list(shape) for shape in shapes], list(dtypes))
            custom_op.setdefault(step, new)
        return custom_op[step]

    def keep_step(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Keep what this step of a loop computed, for the loop that computes its gradient."""
        at, _ = step_of_loops()
        if not any(at):
            self._steps.clear()
        self._steps[at] = [np.asarray(value) for value in inputs], list(results)

    def kept_step(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Return the outputs that this step of a loop computed from the same inputs, for its gradient."""
        at, again = step_of_loops()
        if not (again and at in self._steps):
            return None
        before, results = self._steps[at]
        same = all(np.array_equal(x, np.asarray(y), equal_nan=True) for x, y in zip(before, inputs, strict=True))
        return results if same else None


def listed_parameters(parameters: dict[str, str]) -> str:
    """Parameters as they are written in a call."""
    return ", ".join(f"{key}={text!r}" for key, text in parameters.items())


# -- what an operator means ------------------------------------------------------------------------------------------


def _infer_shape(p: _Operator, ins: Shapes, outs: Shapes) -> tuple[Any, Any]:
    if p.arguments and not is_known(ins[0]):
        return ins, outs
    arguments, outputs, states = p.shapes(ins)
    return [*arguments, *states], outputs


def _infer_type(p: _Operator, ins: Any, outs: Any) -> tuple[Any, Any]:
    if p.arguments and ins[0] is None:
        return ins, outs
    arguments, outputs, states = p.dtypes(ins)
    return [*arguments, *states], outputs


def _gradient(node: Node, ograds: Sequence[NodeEntry]) -> list[NodeEntry | None]:
    """The outputs of `backward`; the states are its outputs, too, after all that `forward` writes."""
    p: _Operator = node.attrs.parsed
    outputs, count = [NodeEntry(node, i, 0) for i in range(len(p.outputs))], len(p.arguments)
    states = [entry._replace(version=0) for entry in node.inputs[count:]]  # which `Schedule` takes for the latest
    heads = ograds if p.prop.need_top_grad_ else []
    parameters: dict[str, Any] = {key: text for key, text in node.attrs.dict.items() if key != "op_type"}
    parameters[_NODE] = str(p.number)
    assert node.op is not None
    gradient = apply(f"{node.op.name}{_BACKWARD}", *heads, *node.inputs[:count], *states, *outputs, **parameters)
    return [*(NodeEntry(gradient.node, i, 0) for i in range(count)), *([None] * len(p.states))]


# -- how it runs -----------------------------------------------------------------------------------------------------


class CustomOpError(NNVMError):
    """Python of an operator raised an error, which is the cause, or a CustomOp wrote an array that does not fit."""


def _forget_handled(error: BaseException, handled: BaseException | None) -> None:
    """Drop from an error's context the error that was handled before its Python was called."""
    while error.__context__ is not None:
        if error.__context__ is handled:
            error.__context__ = None
            return
        error = error.__context__


def _by_user(where: str, call: Callable[[], R]) -> R:
    """Return what a user's Python returns. Raises CustomOpError with the traceback of an error, as MXNet does; an
    MXNetError passes as it is."""
    handled = sys.exception()  # where the library calls this while it handles an error of its own
    with noting(where):
        try:
            return call()
        except NNVMError:
            raise
        except Exception as error:
            _forget_handled(error, handled)
            own = error.__traceback__ and error.__traceback__.tb_next
            lines = traceback.format_exception(type(error), error, own)
            raise CustomOpError(f"Error in {where}\n{''.join(lines)}") from error


def _arrays(values: Sequence[Any], called_back: bool) -> list[NDArray]:
    """Return values as arrays that may be written, apart from the values; in NumPy's memory where a program calls."""
    if called_back:
        return [NDArray(HostCell(np.array(value)), current_context()) for value in values]
    return [like_jax(value) for value in values]


def _blank(models: Sequence[Any], called_back: bool) -> list[NDArray]:
    zeros = [np.zeros(model.shape, model.dtype) for model in models]
    return _arrays(zeros if called_back else jax.device_put(zeros), called_back)


def _values(arrays: Sequence[NDArray], models: Sequence[Any], called_back: bool) -> list[Any]:
    """Return the arrays that were written. Raises CustomOpError where another array took a given one's place."""
    for array, model in zip(arrays, models, strict=True):
        if (array.shape, array.cell.dtype) != (model.shape, model.dtype):
            problem = "A CustomOp replaced an array in a list instead of writing to it"
            expected, got = (f"{either.dtype}{list(either.shape)}" for either in (model, array.cell))
            raise CustomOpError(explain(problem, expected=expected, got=got, fix="self.assign(array, req, value)"))
    return [host(array.cell) if called_back else array.value for array in arrays]


def _run(p: _Operator, method: str, attrs: NodeAttrs, is_train: bool, call: Callable[[], None]) -> None:
    """Run a method of a CustomOp. Nothing is recorded; an error names the node."""
    before = recording.set_recording(False), recording.set_training(is_train)
    try:
        _by_user(explain(f"{type(p.prop).__name__}'s CustomOp.{method}", op=attrs.op, node=attrs.name), call)
    finally:
        recording.set_recording(before[0])
        recording.set_training(before[1])


def _forward(p: _Operator, *inputs: jax.Array, is_train: bool, attrs: NodeAttrs) -> PythonCall:
    """Return the outputs, and the new states, by `CustomOp.forward`."""
    count = len(p.arguments)
    _, shapes, _ = p.shapes([x.shape for x in inputs])
    _, dtypes, _ = p.dtypes([x.dtype.name for x in inputs])
    kinds = zip(shapes, map(jax.dtypes.canonicalize_dtype, dtypes), strict=True)
    models = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in kinds]
    models += [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs[count:]]

    def run(values: Sequence[Any], called_back: bool) -> list[Any]:
        stored = p.kept_step(values[:count])
        if stored is not None:
            return stored
        arrays, out = _arrays(values, called_back), _blank(models[: len(shapes)], called_back)
        data, aux = arrays[:count], arrays[count:]

        def forward() -> None:
            custom = p.computes(arrays)
            custom.forward(is_train=is_train, req=["write"] * len(out), in_data=data, out_data=out, aux=aux)

        _run(p, "forward", attrs, is_train, forward)
        results = _values([*out, *aux], models, called_back)
        if is_train and step_of_loops()[0]:
            p.keep_step(values[:count], results)
        return results

    return PythonCall(run, tuple(models))


def _backward(
    p: _Operator, *inputs: jax.Array, is_train: bool, attrs: NodeAttrs, requests: Sequence[tuple[str, Any]]
) -> PythonCall:
    """Return the gradients of the inputs, and the new states, by `CustomOp.backward`."""
    outputs, arguments = len(p.outputs), len(p.arguments)
    heads = p.num_heads
    data = inputs[heads : heads + arguments]
    states = inputs[heads + arguments : len(inputs) - outputs]
    models = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*data, *states)]
    reqs, sums = [request for request, _ in requests], [old for _, old in requests]

    def run(values: Sequence[Any], called_back: bool) -> list[Any]:
        arrays, grads = _arrays(values, called_back), _blank(models[:arguments], called_back)
        grads = [grad if old is None else like_jax(old) for grad, old in zip(grads, sums, strict=True)]
        tail = arrays[heads + arguments :]
        aux, out = tail[: len(tail) - outputs], tail[len(tail) - outputs :]
        top = arrays[:heads] if heads else _blank([array.cell for array in out], called_back)
        in_data = arrays[heads : heads + arguments]

        def backward() -> None:
            custom = p.computes(in_data)
            custom.backward(req=[*reqs], out_grad=top, in_data=in_data, out_data=out, in_grad=grads, aux=aux)

        _run(p, "backward", attrs, is_train, backward)
        return _values([*grads, *aux], models, called_back)

    return PythonCall(run, tuple(models))


# -- registering -----------------------------------------------------------------------------------------------------


def register(reg_name: str) -> Callable[[Any], Any]:
    """Register a CustomOpProp as the operator `mx.sym.Custom(..., op_type=reg_name)`; a decorator.

    Args:
        reg_name: the operator's name; a later class of the same name replaces the earlier one.
    """

    def do_register(prop_cls: Any) -> Any:
        name = custom_name(reg_name)
        if not Op.exists(name):
            _declare(reg_name, name)
        for op_name in (name, f"{name}{_BACKWARD}"):
            Op.get(op_name).set_attr_parser(lambda attrs: setattr(attrs, "parsed", _Operator.of_node(attrs, prop_cls)))
        return prop_cls

    return do_register


def _declare(reg_name: str, name: str) -> None:
    """Register the operator and its gradient, and their rules."""
    op = register_custom(
        reg_name,
        inputs=(),
        inputs_used=lambda p: (*p.arguments, *p.states),
        num_outputs=lambda p: len(p.outputs),
        infer_shape=_infer_shape,
        infer_type=_infer_type,
        gradient=_gradient,
        FListOutputNames=lambda attrs: attrs.parsed.outputs,
        FMutateInputs=lambda attrs: tuple(range(len(attrs.parsed.arguments), attrs.parsed.num_inputs)),
        TWritesInForward=True,
        flops="Python code",
        doc=f"An operator in Python, `mx.operator.register({reg_name!r})`.",
    )
    lowers(op.name, needs=("is_train", "attrs"), python=True)(_forward)
    register_op(
        f"{name}{_BACKWARD}",
        inputs=(),
        inputs_used=lambda p: ["ograd"] * (p.num_heads + p.num_inputs + len(p.outputs)),
        num_outputs=lambda p: len(p.arguments),
        infer_shape=lambda p, ins, outs: (ins, p.gradients_of(ins)),
        infer_type=lambda p, ins, outs: (ins, p.gradients_of(ins)),
        flops="Python code",
        THasDeterministicOutput=False,
        recompute="never",
        TIsBackward=True,
        FMutateInputs=lambda attrs: attrs.parsed.states_of_gradient,
    )
    lowers(f"{name}{_BACKWARD}", needs=("is_train", "attrs", "requests"), python=True)(_backward)


# -- operators as objects, and what operators there are ----------------------------------------------------------------

_python_ops = itertools.count()


class _AsCustom(CustomOp):
    """A PythonOp as a CustomOp. own: a function that copies an NDArray to the kind of array that the PythonOp
    writes."""

    def __init__(self, operator: PythonOp, own: Callable[[NDArray], Any]):
        self._operator, self._own = operator, own

    def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        """Run its forward."""
        outputs = self._listed(out_data)
        self._operator.forward(in_data=self._listed(in_data), out_data=outputs)
        self._give(out_data, req, outputs)

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        """Run its backward."""
        gradients = self._listed(in_grad)
        heads = self._listed(out_grad) if self._operator.need_top_grad() else []
        self._operator.backward(
            out_grad=heads, in_data=self._listed(in_data), out_data=self._listed(out_data), in_grad=gradients
        )
        self._give(in_grad, req, gradients)

    def _listed(self, arrays: Sequence[NDArray]) -> list[Any]:
        return [self._own(array) for array in arrays]

    def _give(self, targets: Sequence[NDArray], req: Sequence[str], values: Sequence[Any]) -> None:
        for target, request, value in zip(targets, req, values, strict=True):
            self.assign(target, request, value)


class _AsCustomProp(CustomOpProp):
    """The properties of a PythonOp."""

    def __init__(self, operator: PythonOp, own: Callable[[NDArray], Any]):
        super().__init__(operator.need_top_grad())
        self._operator, self._own = operator, own
        self.list_arguments, self.list_outputs = operator.list_arguments, operator.list_outputs

    def infer_shape(self, in_shape: Any) -> Any:
        """Return its shapes, and no states."""
        return *self._operator.infer_shape(in_shape), []

    def create_operator(self, ctx: Context, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        """Return what computes."""
        return _AsCustom(self._operator, self._own)


def _python_op(operator: PythonOp, args: Any, kwargs: Any, own: Callable[[NDArray], Any]) -> Any:
    """Return the symbol of a PythonOp; each PythonOp is an operator of its own."""
    name = f"_python_op_{next(_python_ops)}"
    register(name)(lambda **_: _AsCustomProp(operator, own))
    return symbol.Custom(*args, op_type=name, **kwargs)


PythonOp.as_symbol = staticmethod(_python_op)


class OperatorArguments(NamedTuple):
    """The inputs and parameters of an operator: their number, names and types."""

    narg: int
    names: list[str]
    types: list[str]


def get_all_registered_operators() -> list[str]:
    """Return the names of all operators."""
    return list_all_names()


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Return the inputs and parameters of an operator, in MXNet's words.

    Args:
        op_name: the operator's name.

    Raises:
        OpNotRegisteredError: there is no such operator.
    """
    arguments = Op.get(op_name).arguments
    names, types = [argument.name for argument in arguments], [_words(argument.type) for argument in arguments]
    return OperatorArguments(len(arguments), names, types)


def _words(kind: str) -> str:
    """A type in MXNet's words: choices in braces, no bounds."""
    choices = re.match(r"one of ('[^']*'(?:, '[^']*')*)", kind)
    words = kind if choices is None else f"{{{choices[1]}}}{kind[choices.end() :]}"
    return re.sub(r" [≥≤<>] [^,]*", "", words)
