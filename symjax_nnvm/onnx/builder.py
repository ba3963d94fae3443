"""Builder: what the forms of operators write ONNX nodes with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from symjax_nnvm.errors import OnnxError, explain
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, Subgraph
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.onnx.tensors import Body, OnnxNode, Sizes, Tensor, fixed, numpy_dtype

Operand = Tensor | np.ndarray | Sequence[int] | float | None
"""An input: a number is a constant of the dtype of the first tensor; whole numbers in a list are one of int64."""

_RESULTS = {
    **dict.fromkeys(("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression"), "int64"),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not"), "bool"),
    **dict.fromkeys(("IsNaN", "IsInf"), "bool"),
}
"""Operators whose result has a dtype of its own; of others it is that of the first input that is named below, or 0."""

_TYPED_BY = {"Where": 1, "OneHot": 2}

_SMALL = 64  # bytes of a constant, so many are shared by all who need the same


class Names:
    """The names of one file: each is given once. Constants that are equal are one."""

    def __init__(self, opset: int):
        self.opset = opset
        self._taken: set[str] = set()
        self._constants: dict[tuple[str, Shape, bytes], Tensor] = {}

    def unique(self, name: str) -> str:
        """The name, or one like it that nobody has."""
        found, number = name, 0
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def constant(self, value: np.ndarray, name: str) -> Tensor:
        """A constant; the same one for values that are equal, if they are small."""
        key = (value.dtype.name, value.shape, value.tobytes()) if value.nbytes <= _SMALL else None
        found = None if key is None else self._constants.get(key)
        if found is None:
            found = Tensor(self.unique(name), value.dtype.name, [value.shape], value)
            if key is not None:
                self._constants[key] = found
        return found


class Builder:
    """The nodes written so far, and the node of the network that is being written.

    node: it; outs: its outputs, of which dtype and shape are known. opset: of the file.
    """

    def __init__(self, names: Names, inline: Callable[[Builder, Graph, Sequence[Tensor]], list[Tensor]]):
        self.nodes: list[OnnxNode] = []
        self.node = Node()
        self.outs: Sequence[Tensor] = ()
        self.ins: Sequence[Tensor] = ()
        self._names, self._inline = names, inline

    @property
    def opset(self) -> int:
        """The version of ONNX' operators that the file says."""
        return self._names.opset

    def unique(self, name: str) -> str:
        """The name, or one like it that nothing in the file has."""
        return self._names.unique(name)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: Operand, dtype: DType | None = None, **attrs: Any) -> Tensor:
        """A node of one output. dtype: of the output, where it is not that of the inputs. attrs: None leaves one out."""
        return self.ops(kind, *inputs, dtypes=[dtype], **attrs)[0]

    def ops(self, kind: str, *inputs: Operand, dtypes: Sequence[DType | None], **attrs: Any) -> list[Tensor]:
        """A node of as many outputs as there are dtypes; None: that of the inputs."""
        like = next((each.dtype for each in inputs if isinstance(each, Tensor)), None)
        given = [self._operand(each, like) for each in inputs]
        while given and given[-1] is None:
            given.pop()
        typed = given[_TYPED_BY.get(kind, 0)] if given else None
        default = _RESULTS.get(kind) or (typed.dtype if typed else "float32")
        outputs = [Tensor(self._names.unique(f"{self.node.name}/{kind}"), dtype or default) for dtype in dtypes]
        kept = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(OnnxNode(kind, given, outputs, kept))
        return outputs

    def constant(self, value: Any, dtype: DType | None = None) -> Tensor:
        """A constant of an array or a number. dtype: default the array's."""
        with np.errstate(all="ignore"):  # a number may be too large for half precision
            array = np.asarray(value) if dtype is None else np.asarray(value).astype(numpy_dtype(dtype))
        return self._names.constant(array, f"{self.node.name}/constant")

    def _operand(self, value: Operand, like: DType | None) -> Tensor | None:
        if value is None or isinstance(value, Tensor):
            return value
        if isinstance(value, np.ndarray):
            return self.constant(value)
        return self.constant(value, "int64" if isinstance(value, Sequence) else like or "float32")

    # -- what is not known before run time ---------------------------------------------------------------------------

    def refuse(self, reason: str, fix: str = "") -> NoReturn:
        """Raise OnnxError: the node, with its parameters, cannot be written."""
        raise OnnxError(explain(f"No ONNX form: {reason}", op=self.node.op, node=self.node, fix=fix or None))

    def static(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of a tensor, all of it numbers. Raises OnnxError where a dimension is named."""
        if not tensor.is_static:
            self.refuse(
                f"the shape of {tensor.name!r} must be known when the file is written",
                "Give a number for every dimension in shapes=.",
            )
        return tuple(size for size in tensor.shape if size is not None)

    def size(self, tensor: Tensor, axis: int) -> int | Tensor:
        """The size of an axis: a number, or an int64 tensor (1,)."""
        axis %= tensor.ndim
        known = tensor.shape[axis]
        return self.op("Shape", tensor, start=axis, end=axis + 1) if known is None else known

    def sizes(self, sizes: Sequence[Sizes], *others: Tensor) -> Tensor:
        """Dimensions as an int64 tensor (n,): those that are not numbers are found among the node's inputs and others.

        Raises OnnxError where none of these has such a dimension.
        """
        parts: list[int | Tensor] = []
        for each in sizes:
            number = fixed(each)
            found = number if number is not None else self._found(each, others)
            if found is None:
                self.refuse(
                    "a dimension of its result follows from named ones by arithmetic",
                    "Give a number for the dimensions in shapes=.",
                )
            parts.append(found)
        return self.dims(*parts)

    def _found(self, sizes: Sizes, others: Sequence[Tensor]) -> Tensor | None:
        for tensor in (*self.ins, *others):
            if tensor.shapes is not None and sizes in tensor.sizes:
                axis = tensor.sizes.index(sizes)
                return self.op("Shape", tensor, start=axis, end=axis + 1)
        return None

    def shape(self, tensor: Tensor) -> Tensor:
        """The shape as an int64 tensor (n,)."""
        return self.constant(tensor.shape, "int64") if tensor.is_static else self.op("Shape", tensor)

    def dims(self, *parts: int | Tensor) -> Tensor:
        """An int64 tensor of whole numbers and of int64 tensors (1,), one after the other."""
        if all(isinstance(part, int) for part in parts):
            return self.constant(np.array(parts, np.int64))
        vectors = [part if isinstance(part, Tensor) else self.constant([part], "int64") for part in parts]
        return vectors[0] if len(vectors) == 1 else self.op("Concat", *vectors, axis=0)

    # -- what is done at once where the data are constant ------------------------------------------------------------

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """The tensor in a dtype."""
        if tensor.dtype == dtype:
            return tensor
        if tensor.value is not None:
            return self.constant(tensor.value, dtype)
        return self.op("Cast", tensor, to=dtype, dtype=dtype)

    def reshape(self, tensor: Tensor, *dims: int | Tensor) -> Tensor:
        """The tensor in a shape of whole numbers (-1 for one that follows from the others) and int64 tensors (1,)."""
        numbers = [dim for dim in dims if isinstance(dim, int)]
        if tensor.value is not None and len(numbers) == len(dims):
            return self.constant(tensor.value.reshape(numbers))
        return self.op("Reshape", tensor, self.dims(*dims), allowzero=1 if 0 in numbers else None)

    def reshape_as(self, tensor: Tensor, model: Tensor) -> Tensor:
        """The tensor, of known shape or one, in the shape of a model, which has as many elements."""
        if tensor.shapes is not None and tensor.sizes == model.sizes:
            return tensor
        dims: list[int | Tensor] = []
        for sizes in model.sizes:
            number = fixed(sizes)
            if number is None and -1 not in dims and 0 not in model.shape:
                number = -1
            dims.append(self.sizes([sizes], tensor) if number is None else number)
        return self.reshape(tensor, *dims)

    def transpose(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """The tensor with its axes in another order."""
        if list(order) == list(range(len(order))):
            return tensor
        if tensor.value is not None:
            return self.constant(tensor.value.transpose(order))
        return self.op("Transpose", tensor, perm=list(order))

    def slice(self, tensor: Tensor, axis: int, begin: int, end: int, step: int = 1) -> Tensor:
        """From begin up to, and without, end along an axis, as ONNX has it: beyond either end is at the end."""
        if tensor.value is not None and begin >= 0 and end >= 0 and step > 0:
            cut = [slice(None)] * tensor.value.ndim
            cut[axis] = slice(begin, end, step)
            return self.constant(tensor.value[tuple(cut)])
        return self.op("Slice", tensor, [begin], [end], [axis], [step] if step != 1 else None)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Tensors one after the other along an axis."""
        if len(tensors) == 1:
            return tensors[0]
        values = [tensor.value for tensor in tensors if tensor.value is not None]
        if len(values) == len(tensors):
            return self.constant(np.concatenate(values, axis))
        return self.op("Concat", *tensors, axis=axis)

    def unsqueeze(self, tensor: Tensor, *axes: int) -> Tensor:
        """The tensor with axes of size 1 at these places of the result."""
        if tensor.value is not None:
            return self.constant(np.expand_dims(tensor.value, axes))
        return self.op("Unsqueeze", tensor, list(axes)) if axes else tensor

    def along(self, vector: Tensor, axis: int, ndim: int) -> Tensor:
        """A vector, shaped to be broadcast along an axis of a tensor of so many."""
        return self.unsqueeze(vector, *(i for i in range(ndim) if i != axis % ndim)) if ndim > 1 else vector

    # -- graphs inside the node --------------------------------------------------------------------------------------

    def body(self) -> Builder:
        """A builder of a graph inside this node's ONNX node, which sees all tensors written before it."""
        inner = Builder(self._names, self._inline)
        inner.node, inner.ins, inner.outs = self.node, self.ins, self.outs
        return inner

    def body_input(self, dtype: DType, shapes: Sequence[Shape] | None) -> Tensor:
        """An input of a body."""
        return Tensor(self._names.unique(f"{self.node.name}/input"), dtype, shapes)

    def end_body(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Body:
        """The body that was built, as an attribute's value. What it hands on as it came goes through a node."""
        made = {id(tensor) for node in self.nodes for tensor in node.outputs}
        own: list[Tensor] = []
        for tensor in outputs:  # each is the output of a node of the body, and of one place of its outputs alone
            fresh = id(tensor) in made and not any(tensor is other for other in own)
            own.append(tensor if fresh else self.op("Identity", tensor))
            own[-1].shapes = tensor.shapes
        return Body(self._names.unique(f"{self.node.name}/body"), self.nodes, list(inputs), own)

    def inline(self, graph: Subgraph, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The nodes of a subgraph of the network's node, on tensors for its variables, in their order; its outputs."""
        return self._inline(self, Graph(graph.outputs), inputs)
