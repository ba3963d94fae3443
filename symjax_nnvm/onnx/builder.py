"""Builder: what the forms of operators write ONNX nodes with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from symjax_nnvm.errors import OnnxError, explain
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, Subgraph
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.onnx.tensors import OnnxBody, OnnxNode, Sizes, Tensor, fixed, numpy_dtype, unique

Operand = Tensor | np.ndarray | Sequence[int] | float | None
"""An input: a number is a constant of the dtype of the first tensor; whole numbers in a list are one of int64."""

_RESULTS = {
    **dict.fromkeys(("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression"), "int64"),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not"), "bool"),
    **dict.fromkeys(("IsNaN", "IsInf"), "bool"),
}
"""Operators whose result has a dtype of its own; of others it is that of the first input that is named below, or 0."""

_TYPED_BY = {"Where": 1, "OneHot": 2}

_SMALL = 64  # bytes: constants up to this size are shared by all nodes with the same one


class OnnxNames:
    """The names of one file: each is given once. Constants that are equal are one. inputs: the inputs of the whole
    file. refused: None, or the nodes that could not be written, where all of them are looked for."""

    def __init__(self, opset: int):
        self.opset = opset
        self.inputs: Sequence[Tensor] = ()
        self.refused: list[tuple[Node, OnnxError]] | None = None
        self._taken: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._constants: dict[tuple[str, Shape, bytes], Tensor] = {}

    @property
    def count(self) -> int:
        """Return under how many assignments of numbers to names shapes are known."""
        return len(self.inputs[0].shapes or ()) if self.inputs else 1

    def unique(self, name: str) -> str:
        """Return the name for a tensor, or one like it that none has."""
        return unique(name, self._taken)

    def unique_node(self, name: str) -> str:
        """Return the name for a node, or one like it that none has."""
        return unique(name, self._nodes)

    def constant(self, value: np.ndarray, name: str) -> Tensor:
        """Return a constant; the same one for values that are equal, if they are small."""
        key = (value.dtype.name, value.shape, value.tobytes()) if value.nbytes <= _SMALL else None
        tensor = None if key is None else self._constants.get(key)
        if tensor is None:
            tensor = Tensor(self.unique(name), value.dtype.name, [value.shape] * self.count, value)
            if key is not None:
                self._constants[key] = tensor
        return tensor


class Builder:
    """The nodes written so far, and the node of the network that is being written.

    node, ins, outs: it, its inputs, and its outputs as inferred, without names. names: those of the file.
    """

    def __init__(self, names: OnnxNames, inline: Callable[[Builder, Graph, Sequence[Tensor]], list[Tensor]]):
        self.nodes: list[OnnxNode] = []
        self.node = Node()
        self.outs: Sequence[Tensor] = ()
        self.ins: Sequence[Tensor] = ()
        self.names, self._inline = names, inline

    @property
    def opset(self) -> int:
        """Return the version of ONNX' operators in the file."""
        return self.names.opset

    @property
    def count(self) -> int:
        """Return the number of assignments of numbers to names under which shapes are known."""
        return self.names.count

    # -- nodes -------------------------------------------------------------------------------------------------------

    def op(self, kind: str, *inputs: Operand, dtype: DType | None = None, **attrs: Any) -> Tensor:
        """Write a node of one output. dtype: the output's, where it is not that of the inputs. attrs: None leaves one
        out."""
        return self.ops(kind, *inputs, dtypes=[dtype], **attrs)[0]

    def ops(self, kind: str, *inputs: Operand, dtypes: Sequence[DType | None], **attrs: Any) -> list[Tensor]:
        """Write a node of as many outputs as there are dtypes; None: that of the inputs."""
        like = next((operand.dtype for operand in inputs if isinstance(operand, Tensor)), None)
        operands = [self._operand(operand, like) for operand in inputs]
        while operands and operands[-1] is None:
            operands.pop()
        typed = operands[_TYPED_BY.get(kind, 0)] if operands else None
        default = _RESULTS.get(kind) or (typed.dtype if typed else "float32")
        outputs = [Tensor(self.names.unique(f"{self.node.name}/{kind}"), dtype or default) for dtype in dtypes]
        set_attrs = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(OnnxNode(kind, operands, outputs, set_attrs))
        return outputs

    def constant(self, value: Any, dtype: DType | None = None) -> Tensor:
        """Write a constant of an array or a number. dtype: default the array's."""
        with np.errstate(all="ignore"):  # a number may be too large for half precision
            array = np.asarray(value) if dtype is None else np.asarray(value).astype(numpy_dtype(dtype))
        return self.names.constant(array, f"{self.node.name}/constant")

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

    def static(self, tensor: Tensor, axes: Iterable[int] | None = None) -> tuple[int, ...]:
        """Return the shape of a tensor in numbers: along some axes, default all; elsewhere what is not known counts as
        1.

        Raises OnnxError where such a dimension has a name, or follows from one.
        """
        needed_axes = range(tensor.ndim) if axes is None else {axis % tensor.ndim for axis in axes}
        open_axes = [axis for axis in needed_axes if tensor.shape[axis] is None]
        if open_axes:
            whose = repr(tensor.name) if tensor.name else "the output"
            self.refuse(
                f"the size of axis {open_axes[0]} of {whose} must be known when the file is written",
                "Give a number for it in shapes=.",
            )
        return tuple(1 if size is None else size for size in tensor.shape)

    def size(self, tensor: Tensor, axis: int) -> int | Tensor:
        """Return the size of an axis: a number, or an int64 tensor (1,)."""
        axis %= tensor.ndim
        number = tensor.shape[axis]
        return self.op("Shape", tensor, start=axis, end=axis + 1) if number is None else number

    def sizes(self, sizes: Sequence[Sizes], *others: Tensor) -> Tensor:
        """Return dimensions as an int64 tensor (n,): those that are not numbers are found among the node's inputs and
        others.

        Raises OnnxError where none of these has such a dimension.
        """
        return self.dims(*(self._size(size, others) for size in sizes))

    def _size(self, sizes: Sizes, others: Sequence[Tensor]) -> int | Tensor:
        number = fixed(sizes)
        size = self._size_from_inputs(sizes, others) if number is None else number
        if size is None:
            fix = "Give a number for the dimensions in shapes=."
            self.refuse("a dimension of its result follows from named ones by arithmetic", fix)
        return size

    def _size_from_inputs(self, sizes: Sizes, others: Sequence[Tensor]) -> Tensor | None:
        for tensor in (*self.ins, *others, *self.names.inputs):
            if tensor.shapes is not None and None not in sizes and sizes in tensor.sizes:
                axis = tensor.sizes.index(sizes)
                return self.op("Shape", tensor, start=axis, end=axis + 1)
        return None

    def shape(self, tensor: Tensor) -> Tensor:
        """Return the shape as an int64 tensor (n,)."""
        return self.constant(tensor.shape, "int64") if tensor.is_static else self.op("Shape", tensor)

    def dims(self, *parts: int | Tensor) -> Tensor:
        """Return an int64 tensor of whole numbers and of int64 tensors (1,), one after the other."""
        if all(isinstance(part, int) for part in parts):
            return self.constant(np.array(parts, np.int64))
        vectors = [part if isinstance(part, Tensor) else self.constant([part], "int64") for part in parts]
        return vectors[0] if len(vectors) == 1 else self.op("Concat", *vectors, axis=0)

    def fill(self, value: float, model: Tensor) -> Tensor:
        """Return a number everywhere, in a model's shape and dtype."""
        if model.is_static and prod(self.static(model)) <= _SMALL:
            return self.constant(np.full(self.static(model), value), model.dtype)
        return self.op("Expand", self.constant(value, model.dtype), self.sizes(model.sizes))

    # -- what is done at once where the data are constant ------------------------------------------------------------

    def cast(self, tensor: Tensor, dtype: DType) -> Tensor:
        """Return the tensor in a dtype."""
        if tensor.dtype == dtype:
            return tensor
        if tensor.value is not None:
            return self.constant(tensor.value, dtype)
        return self.op("Cast", tensor, to=dtype, dtype=dtype)

    def reshape(self, tensor: Tensor, *dims: int | Tensor, allow_zero: bool = False) -> Tensor:
        """Return the tensor in a shape of whole numbers (-1 for one that follows from the others, 0 for one that stays,
        or, with allow_zero, is empty) and int64 tensors (1,)."""
        numbers = [dim for dim in dims if isinstance(dim, int)]
        if tensor.value is not None and len(numbers) == len(dims) and 0 not in numbers:
            return self.constant(tensor.value.reshape(numbers))
        return self.op("Reshape", tensor, self.dims(*dims), allowzero=1 if allow_zero else None)

    def reshape_as(self, tensor: Tensor, model: Tensor) -> Tensor:
        """Return the tensor, of known shape or one, in the shape of a model, which has as many elements."""
        if tensor.shapes is not None and tensor.sizes == model.sizes:
            return tensor
        before = tensor.sizes if tensor.shapes is not None else ()
        dims: list[int | Tensor | None] = []
        for i, sizes in enumerate(model.sizes):
            is_same = 0 not in model.shape and None not in sizes and sizes == (before[i] if i < len(before) else None)
            dims.append(0 if is_same and fixed(sizes) is None else fixed(sizes))
        if dims.count(None) == 1 and 0 not in model.shape:
            dims[dims.index(None)] = -1
        # What is merged of several axes is not a size of any tensor: it follows from the others.
        target = [
            self._size_from_inputs(model.sizes[i], [tensor]) if dim is None else dim for i, dim in enumerate(dims)
        ]
        if target.count(None) == 1:
            target[target.index(None)] = -1
        return self.reshape(
            tensor,
            *(self._size(model.sizes[i], []) if d is None else d for i, d in enumerate(target)),
            allow_zero=0 in model.shape,
        )

    def transpose(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """Return the tensor with its axes in another order."""
        if list(order) == list(range(len(order))):
            return tensor
        if tensor.value is not None:
            return self.constant(tensor.value.transpose(order))
        transposed = self.op("Transpose", tensor, perm=list(order))
        if tensor.shapes is not None:
            transposed.shapes = [tuple(shape[i] for i in order) for shape in tensor.shapes]
        return transposed

    def slice(self, tensor: Tensor, axis: int, begin: int, end: int, step: int = 1) -> Tensor:
        """Slice from begin up to, and without, end along an axis, as ONNX does: numbers beyond either end mean
        the end."""
        size = tensor.shape[axis] if tensor.shapes is not None else None
        if size is not None and begin == 0 and size <= end and step == 1:
            return tensor
        if tensor.value is not None and begin >= 0 and end >= 0 and step > 0:
            cut = [slice(None)] * tensor.value.ndim
            cut[axis] = slice(begin, end, step)
            return self.constant(tensor.value[tuple(cut)])
        return self.op("Slice", tensor, [begin], [end], [axis], [step] if step != 1 else None)

    def reduce(self, kind: str, tensor: Tensor, axes: Sequence[int], *, keepdims: bool) -> Tensor:
        """A reduction over axes, none included: with no axis it is a function of each element."""
        more: dict[str, Any] = {} if axes else {"noop_with_empty_axes": 1}
        return self.op(kind, tensor, list(axes), keepdims=int(keepdims), **more)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Return tensors one after the other along an axis."""
        if len(tensors) == 1:
            return tensors[0]
        values = [tensor.value for tensor in tensors if tensor.value is not None]
        if len(values) == len(tensors):
            return self.constant(np.concatenate(values, axis))
        return self.op("Concat", *tensors, axis=axis)

    def unsqueeze(self, tensor: Tensor, *axes: int) -> Tensor:
        """Return the tensor with axes of size 1 at these places of the result."""
        if tensor.value is not None:
            return self.constant(np.expand_dims(tensor.value, axes))
        return self.op("Unsqueeze", tensor, list(axes)) if axes else tensor

    def pad(self, tensor: Tensor, before: Sequence[int], after: Sequence[int], value: float) -> Tensor:
        """Return the tensor, of known rank, with a value around it: `before` and `after` it on each axis."""
        if not any((*before, *after)):
            return tensor
        padded = self.op("Pad", tensor, [*before, *after], self.constant(value, tensor.dtype))
        widths = [low + high for low, high in zip(before, after, strict=True)]
        padded.shapes = [
            tuple(None if d is None else d + w for d, w in zip(shape, widths, strict=True))
            for shape in tensor.shapes or ()
        ]
        return padded

    def along(self, vector: Tensor, axis: int, ndim: int) -> Tensor:
        """Return a vector, shaped to be broadcast along an axis of a tensor with this number of axes."""
        return self.unsqueeze(vector, *(i for i in range(ndim) if i != axis % ndim)) if ndim > 1 else vector

    # -- graphs inside the node --------------------------------------------------------------------------------------

    def body(self) -> Builder:
        """Return a builder of a graph inside this node's ONNX node, which sees all tensors written before it."""
        inner = Builder(self.names, self._inline)
        inner.node, inner.ins, inner.outs = self.node, self.ins, self.outs
        return inner

    def body_input(self, dtype: DType, shapes: Sequence[Shape] | None) -> Tensor:
        """Return an input of a body."""
        return Tensor(self.names.unique(f"{self.node.name}/input"), dtype, shapes)

    def end_body(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> OnnxBody:
        """Return the body that was built, as an attribute's value. An output that is an input passes through a node."""
        inside = {id(tensor) for node in self.nodes for tensor in node.outputs}
        captured: list[Tensor] = []
        for tensor in outputs:  # each is the output of a node of the body, and of one place of its outputs alone
            fresh = id(tensor) in inside and not any(tensor is other for other in captured)
            captured.append(tensor if fresh else self.op("Identity", tensor))
            captured[-1].shapes = tensor.shapes
        return OnnxBody(self.names.unique(f"{self.node.name}/body"), self.nodes, list(inputs), captured)

    def inline(self, graph: Subgraph, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Write the nodes of a subgraph of the network's node, on tensors for its variables, in their order; return its
        outputs."""
        return self._inline(self, Graph(graph.outputs), inputs)
