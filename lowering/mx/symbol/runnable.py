"""Symbols that can run: `net.bind`, `net.simple_bind`, `net.eval`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lowering.executor import Executor as HeldExecutor
from lowering.executor import bind, simple_bind
from lowering.messages.counts import checks_flags
from lowering.mx.accepted_types import ContextLike
from lowering.mx.compatibility.backends import ask_for_backend
from lowering.mx.context import Context, MixedContextsError, as_context
from lowering.mx.executor import Executor
from lowering.mx.mixed_precision import dtypes_of, storage_of, with_policy
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.storage_types import STORAGE, check_storage
from lowering.mx.symbol.partial_shapes import shapes_mxnet_reports
from lowering.mx.util import is_np_shape
from symjax_nnvm.errors import BindError, CallError, close_names, listed
from symjax_nnvm.io.files import path_text, write_file
from symjax_nnvm.ir.types import shape_from_legacy, shape_from_numpy, shape_to_legacy, shape_to_numpy
from symjax_nnvm.passes.infer.infer_storage import sparse_gradients
from symjax_nnvm.quantization.quantize_model import fused_symbol
from symjax_nnvm.surgery.amp_casts import without_amp_casts
from symjax_nnvm.symbol.inference_calls import infer_shapes
from symjax_nnvm.symbol.symbol import Symbol as GraphSymbol
from symjax_nnvm.symbol.symbol import load_json

Given = Sequence[Any] | Mapping[str, Any] | None

_OPTIONS = tuple(inspect.signature(simple_bind).parameters)[1:-1]


class Symbol(GraphSymbol):
    """A symbol of `symjax_nnvm`, with the methods of MXNet's that run it."""

    __slots__ = ()

    @property
    def numpy_shapes(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether shapes are in MXNet's convention under `np_shape`: whether that is on."""
        return is_np_shape()

    def _operator(self, op: str, symbols: tuple[Any, ...], params: dict[str, str], hint: str) -> Symbol:
        if any(isinstance(other, NDArray) for other in symbols):
            raise CallError(
                "A symbol and an NDArray cannot be combined",
                fix="Use mx.sym.Variable(name) in its place, and pass the array when you bind the graph.",
            )
        return as_symbol(super()._operator(op, symbols, params, hint))

    def __reduce__(self) -> Any:
        return _unpickled, (GraphSymbol.tojson(self),)

    @checks_flags
    def simple_bind(
        self,
        ctx: ContextLike = None,
        grad_req: Any = "write",
        type_dict: Mapping[str, Any] | None = None,
        stype_dict: Mapping[str, str] | None = None,
        group2ctx: Mapping[str, Context] | None = None,
        shared_arg_names: Sequence[str] | None = None,
        shared_exec: Executor | None = None,
        shared_buffer: dict[str, NDArray] | None = None,
        **kwargs: Any,
    ) -> Executor:
        """An executor with new arrays of the shapes that follow from those given by name; see `lowering.simple_bind`.

        stype_dict: the storage types that the arrays show, by default those of their variables; all are dense.
        shared_buffer: nothing to do here: XLA plans the memory. kwargs: shapes, and names that the graph does not have,
        which nothing reads. Raises BindError, which names those.
        """
        context = as_context(ctx)
        _check_kind(shared_exec, Executor, "shared_exec", "an executor")
        _check_kind(shared_arg_names, list | tuple, "shared_arg_names", "a list of names")
        executor = self._simply_bound(
            kwargs,
            ctx=context.device,
            grad_req=self._requests(grad_req),
            type_dict=type_dict,
            group2ctx=_devices(group2ctx),
            shared_exec=None if shared_exec is None else shared_exec.held,
            shared_arg_names=shared_arg_names,
        )
        storage = {**self._declared_storage(), **self._checked_storage(stype_dict)}
        gradients = {**storage, **dict.fromkeys(sparse_gradients(self.outputs, storage), "row_sparse")}
        return Executor(executor, self, context, storage, gradients)

    @checks_flags
    def bind(
        self,
        ctx: ContextLike,
        args: Given,
        args_grad: Given = None,
        grad_req: Any = "write",
        aux_states: Given = None,
        group2ctx: Mapping[str, Context] | None = None,
        shared_exec: Executor | None = None,
        effort: str | None = None,
    ) -> Executor:
        """An executor over NDArrays, which both sides then write: `args`, gradients and states by name, or as lists in
        the graph's order; effort: as in `lowering.bind`. Raises BindError, ExecutorValueError, ExecutorTypeError."""
        context = as_context(ctx)
        _check_kind(shared_exec, Executor, "shared_exec", "an executor")
        for what, arrays in (("args", args), ("args_grad", args_grad), ("aux_states", aux_states)):
            expected = "a dict of NDArrays by name, or a list of them in the graph's order"
            _check_kind(arrays, Mapping | list | tuple, what, expected)
        cells = {"args": _cells(args), "args_grad": _cells(args_grad), "aux": _cells(aux_states)}
        groups = _devices(group2ctx)
        if not group2ctx:
            _check_contexts(context, args, args_grad, aux_states)
        names, states = self.list_arguments(), self.list_auxiliary_states()
        network = as_symbol(with_policy(self, dtypes_of(names, args) | dtypes_of(states, aux_states)))
        requests = self._requests(grad_req)
        executor = bind(network, context.device, grad_req=requests, group2ctx=groups, effort=effort, **cells)
        storage = storage_of(names, args) | storage_of(states, aux_states)
        return Executor(executor, self, context, storage, storage_of(names, args_grad))

    def as_np_ndarray(self) -> Symbol:
        """Return the symbol in the NumPy dialect: its operators are those of mx.np."""
        return OF_DIALECT["numpy"](self.outputs)

    def as_nd_ndarray(self) -> Symbol:
        """Return the symbol in the classic dialect: itself."""
        return self

    def get_backend_symbol(self, backend: str) -> Symbol:
        """Return the symbol with layers fused for oneDNN where `backend` is "MKLDNN_QUANTIZE", which what quantises a
        network asks for; else the symbol itself, with a warning that the backend is not here."""
        if backend == "MKLDNN_QUANTIZE":
            return as_symbol(fused_symbol(self))
        ask_for_backend(backend)
        return self

    def optimize_for(
        self,
        backend: str,
        args: Mapping[str, NDArray] | None = None,
        aux: Mapping[str, NDArray] | None = None,
        ctx: Context | None = None,
        shape_dict: Mapping[str, Sequence[int]] | None = None,
        type_dict: Mapping[str, Any] | None = None,
        stype_dict: Mapping[str, str] | None = None,
        skip_infer: bool = False,
        **kwargs: Any,
    ) -> Symbol:
        """The symbol itself; warns that the backend is not here. The other arguments describe arrays."""
        ask_for_backend(backend)
        return self

    def _simply_bound(self, shapes: Mapping[str, Any], **options: Any) -> HeldExecutor:
        """Return an executor bound by these shapes; names that the graph does not have are dropped if it works without
        them."""
        network = as_symbol(with_policy(self, options["type_dict"] or {}))
        try:
            return simple_bind(network, **options, **shapes)
        except BindError:
            inputs = self.list_inputs()
            read = {name: shape for name, shape in shapes.items() if name in inputs or name in _OPTIONS}
            if len(read) < len(shapes):
                with suppress(BindError):
                    return simple_bind(network, **options, **read)
            raise

    def _declared_storage(self) -> dict[str, str]:
        """Return the declared storage types of variables, by name."""
        codes = {name: attrs.get("__storage_type__") for name, attrs in self.attr_dict().items()}
        return {name: STORAGE[int(code)] for name, code in codes.items() if code in ("1", "2")}

    def _checked_storage(self, stype_dict: Any) -> Mapping[str, str]:
        """Return storage types by name. Raises CallError for a name of no input."""
        for name, stype in (stype_dict or {}).items():
            if name not in (inputs := self.list_inputs()):
                fix = close_names([name], inputs) or None
                raise CallError(f"The graph has no {name!r}", param="stype_dict", expected=listed(inputs), fix=fix)
            check_storage(stype)
        return stype_dict or {}

    def _requests(self, grad_req: Any) -> Any:
        """Return the request for each argument; names that the graph does not have are left out, as MXNet does."""
        if not isinstance(grad_req, Mapping) or not grad_req:
            return grad_req
        return {name: grad_req[name] for name in self.list_arguments() if name in grad_req} or None

    def infer_shape_partial(self, *args: Sequence[int] | None, **kwargs: Sequence[int]) -> Any:
        """Shapes as `infer_shape` infers them, `()` where nothing is known, and 0 for an unknown size; under `np_shape`
        None and -1.

        Where MXNet's operators infer nothing before their data are known, nothing is known, too. Raises InferenceError.
        """
        numpy = is_np_shape()
        entries, *_ = infer_shapes(self.outputs, args, kwargs, numpy)
        named = dict(zip(self.list_arguments(), args, strict=False)) | kwargs
        read, show = (shape_from_numpy, shape_to_numpy) if numpy else (shape_from_legacy, shape_to_legacy)
        shapes = {name: read(tuple(shape)) for name, shape in named.items() if shape or (numpy and shape is not None)}
        return tuple([show(shape) for shape in part] for part in shapes_mxnet_reports(self.outputs, entries, shapes))

    def save(self, fname: str | Path, remove_amp_cast: bool = True) -> None:
        """Write the network to a file. remove_amp_cast: without the casts of AMP. Raises FileError, OSError."""
        write_file(path_text(fname, "fname"), self.tojson(remove_amp_cast))

    def tojson(self, remove_amp_cast: bool = True) -> str:
        """Return the network as MXNet's JSON. remove_amp_cast: without the casts of AMP."""
        return GraphSymbol.tojson(without_amp_casts(self) if remove_amp_cast else self)

    def eval(self, ctx: ContextLike = None, **kwargs: NDArray) -> list[NDArray]:
        """Return the outputs for arrays by name."""
        return self.bind(ctx, kwargs, grad_req="null").forward()

    @checks_flags
    def grad(self, wrt: Sequence[str]) -> Symbol:
        """Return the gradients with respect to arguments, as a symbol."""
        return as_symbol(self.gradient(list(wrt)))


OF_DIALECT: dict[str, type[Symbol]] = {"classic": Symbol}
"""The class of symbols of each dialect; `mx.sym.np` adds its own."""


def _unpickled(text: str) -> Symbol:
    return as_symbol(load_json(text))


def as_symbol(symbol: Any) -> Any:
    """A symbol, or symbols in lists, as symbols that can be bound; anything else as it is."""
    if isinstance(symbol, GraphSymbol):
        return symbol if isinstance(symbol, Symbol) else Symbol(symbol.outputs)
    if isinstance(symbol, list | tuple):
        return type(symbol)(as_symbol(item) for item in symbol)
    return symbol


def _check_kind(value: object, kind: Any, param: str, expected: str) -> None:
    """Raise CallError for what is neither None nor of a kind."""
    if value is not None and not isinstance(value, kind):
        raise CallError("Wrong argument", param=param, expected=expected, got=f"{value!r:.80}")


def _check_contexts(context: Context, *groups: Given) -> None:
    """Raise MixedContextsError for arrays on another context than that of an executor."""
    for arrays in groups:
        for array in arrays.values() if isinstance(arrays, Mapping) else arrays or ():
            if isinstance(array, NDArray) and array.context != context:
                raise MixedContextsError(
                    f"Input array is in {array.context} while binding with ctx={context}. All arguments must be in "
                    f"global context ({context}) unless group2ctx is specified for cross-device graph.",
                    fix=f"x.as_in_context(mx.{context}) copies an array there.",
                )


def _cells(arrays: Given) -> Any:
    """Return arrays as what an executor shares: the cells of NDArrays."""
    if isinstance(arrays, Mapping):
        return {name: _cell(array) for name, array in arrays.items()}
    return [_cell(array) for array in arrays] if isinstance(arrays, list | tuple) else arrays


def _cell(array: Any) -> Any:
    return array.cell if isinstance(array, NDArray) else array


def _devices(groups: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The JAX device of each group; contexts of the CPU are one."""
    return None if groups is None else {name: _first(ctx).device for name, ctx in groups.items()}


def _first(ctx: ContextLike) -> Context:
    return as_context(ctx[0] if isinstance(ctx, list | tuple) else ctx)
