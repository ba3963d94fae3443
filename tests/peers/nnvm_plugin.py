"""A plugin of pytest under which NNVM's own tests run on `symjax_nnvm`: `python -m tests.peers.nnvm` starts it.

The operators of NNVM's example (`example/src/operator.cc`) are registered by the project's own means, under names with
a prefix; `nnvm.symbol` has functions of their NNVM names.
"""

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import symjax_nnvm
from symjax_nnvm import graph
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.op import Op, OpGroup, register
from symjax_nnvm.symbol import Group, Symbol
from symjax_nnvm.symbol.operator_functions import operator_function

PREFIX = "_nnvm_"
Shapes = Sequence[Any]


def _same_shape(attrs: NodeAttrs, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
    return [ins[0]] * len(ins), [ins[0]] * len(outs)


def _target(attrs: NodeAttrs) -> None:
    attrs.parsed = tuple(int(size) for size in attrs.dict["target"].strip("()").split(",") if size.strip())


def _reshaped(attrs: NodeAttrs, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
    (data,) = ins
    if data is not None and _size(data) != _size(attrs.parsed):
        raise InferenceError("Reshape op: source target shape mismatch")
    return [data], [attrs.parsed]


def _size(shape: Sequence[int]) -> int:
    size = 1
    for axis in shape:
        size *= axis
    return size


def _dtype(attrs: NodeAttrs) -> None:
    attrs.parsed = ("float32", "float64", "float16", "uint8", "int32")[int(attrs.dict["dtype"])]


def _mul(name: str, a: NodeEntry, b: NodeEntry) -> NodeEntry:
    return apply(PREFIX + "mul", a, b, name=name)


def _named(name: str, inputs: int | None, **attributes: Any) -> Op:
    operator = register(PREFIX + name).set_num_inputs(inputs)
    for key, value in attributes.items():
        operator.set_attr(key, value)
    return operator


_GROUP = OpGroup.get("_nnvm_elementwise").set_attr("FInferShape", _same_shape)
_INPLACE: Callable[[NodeAttrs], list[tuple[int, int]]] = lambda attrs: [(0, 0)]  # noqa: E731
_named("reshape", 1, FInferShape=_reshaped, FInplaceOption=_INPLACE).set_attr_parser(_target)
_cast = _named("cast", 1, FInferType=lambda attrs, ins, outs: (ins, [attrs.parsed])).include(_GROUP.name)
_cast.set_attr_parser(_dtype)
_named("identity", 1, FGradient=lambda node, ograds: [ograds[0]]).include(_GROUP.name)
_named("add", 2, FInplaceOption=_INPLACE, FGradient=lambda node, ograds: [ograds[0]] * 2).include(_GROUP.name)
_named(
    "mul",
    2,
    FInplaceOption=_INPLACE,
    FGradient=lambda node, ograds: [_mul(f"{node.name}_grad_{i}", ograds[0], node.inputs[1 - i]) for i in range(2)],
).include(_GROUP.name)
_named("exp", 1, FGradient=lambda node, ograds: [_mul(f"{node.name}_grad", ograds[0], NodeEntry(node))]).include(
    _GROUP.name
)
_named("cross_device_copy", 1, FInferShape=_same_shape).add_alias("cross_device_copy")  # which a test names
_named("conv2d", 2, FListInputNames=lambda attrs: ["data", "weight"])
_named("assign", 2, FMutateInputs=lambda attrs: [0])


def _function(name: str) -> Callable[..., Symbol]:
    """An operator's function as NNVM's: any keyword that is no input is an attribute, of any name."""
    make = operator_function(Op.get(name), name)
    parameters = {"reshape": ("target",), "cast": ("dtype",)}.get(name.removeprefix(PREFIX), ())

    def call(*args: Any, name: str | None = None, attr: Any = None, **kwargs: Any) -> Symbol:
        symbols = {key: value for key, value in kwargs.items() if isinstance(value, Symbol)}
        texts = {key: str(value) for key, value in kwargs.items() if key not in symbols}
        given = {key: texts.pop(key) for key in parameters if key in texts}
        made = make(*args, name=name, **symbols, **given)
        made.outputs[0].node.attrs.dict.update({**texts, **(attr or {})})
        return made

    return call


def _variable(name: str, **attributes: Any) -> Symbol:
    made = symjax_nnvm.Variable(name)
    made.outputs[0].node.attrs.dict.update({key: str(value) for key, value in attributes.items()})
    return made


def pytest_configure() -> None:
    """Have `import nnvm` be a face of symjax_nnvm before any test file is read."""
    package, symbols = types.ModuleType("nnvm"), types.ModuleType("nnvm.symbol")
    operators = ("reshape", "cast", "identity", "add", "mul", "exp", "cross_device_copy", "conv2d", "assign")
    for name in operators:
        function = _function(PREFIX + name)
        symbols.__dict__.update({name: function, PREFIX + name: function})
    symbols.__dict__.update(Variable=_variable, Group=Group, Symbol=Symbol)
    package.__dict__.update(symbol=symbols, graph=graph, NNVMError=symjax_nnvm.NNVMError)
    sys.modules.update({"nnvm": package, "nnvm.symbol": symbols, "nnvm.graph": graph})
