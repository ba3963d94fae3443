"""`HybridBlock`: a block that computes with arrays or with symbols, and so can run as one compiled program."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowering.host.staged import checked_effort
from lowering.messages.counts import checks_flags
from lowering.messages.doors import Door, door_of, refuse_unbound
from lowering.mx import ndarray as nd
from lowering.mx import symbol as sym
from lowering.mx.accepted_types import DType
from lowering.mx.compatibility.backends import ask_for_backend
from lowering.mx.context import Context
from lowering.mx.gluon.basic_block import Block, has_hooks
from lowering.mx.gluon.gluon_errors import (
    BlockTypeError,
    BlockValueError,
    DeferredInitializationError,
    MismatchError,
    NotInitializedError,
)
from lowering.mx.gluon.parameter_dict import ParameterDict
from lowering.mx.gluon.structure import _flatten, _regroup, converted, dialects_of, fits, kinds_in
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.gluon.weights import Parameter
from lowering.mx.mixed_precision import with_policy
from lowering.mx.ndarray import save
from lowering.mx.ndarray.array import CLASSIC, NUMPY, NDArray
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol.runnable import as_symbol
from lowering.mx.tape.blocks import CachedProgram, OpHook
from lowering.mx.tape.recording import is_recording, is_training
from lowering.mx.util import is_np_array, np_array
from symjax_nnvm.errors import NNVMError, SymbolTypeError, close_names, plain_list
from symjax_nnvm.io.files import path_text
from symjax_nnvm.surgery.dequantized import refuse_untrainable, untrainable
from symjax_nnvm.symbol.symbol import Symbol

_LIBRARY = __name__.partition(".gluon")[0]
"""The package of the layers that are written in the classic dialect."""


def _is_of_library(item: Any) -> bool:
    """Whether a class or function is one of that package."""
    return (item.__module__ or "").startswith(_LIBRARY)


def _in_classic_dialect(hybrid_forward: Callable[..., Any]) -> Callable[..., Any]:
    """A layer's `hybrid_forward` that computes in the classic dialect, though a subclass calls it in the NumPy one."""

    @functools.wraps(hybrid_forward)
    def call(self: HybridBlock, F: Any, *inputs: Any, **params: Any) -> Any:
        if not is_np_array() or self.takes_both_dialects:
            return hybrid_forward(self, F, *inputs, **params)
        params = {name: converted(param, CLASSIC) for name, param in params.items()}
        with np_array(False):
            outputs = hybrid_forward(self, F, *converted(inputs, CLASSIC), **params)
        return converted(outputs, NUMPY)

    return call


@explained_by(Block)
class HybridBlock(Block):
    """A block that `hybridize()` traces once and runs as one program.

    A subclass defines `hybrid_forward(self, F, x, ...)`, which computes with the functions of `F`, `mx.nd` or `mx.sym`,
    and gets its parameters as keywords. Its children must be hybrid, too. A subclass may define `forward` instead, and
    then does not become a program.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if _is_of_library(cls) and "hybrid_forward" in vars(cls):
            cls.hybrid_forward = _in_classic_dialect(cls.hybrid_forward)

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None):
        super().__init__(prefix=prefix, params=params)
        self._cached_graph: tuple[Any, ...] = ()
        self._cached_op: CachedProgram | None = None
        self._cached_op_args: list[tuple[bool, Any]] = []
        self._untrainable: frozenset[str] = frozenset()
        self._out_format: Any = None
        self._in_format: Any = None
        self._active = False
        self._op_hook: OpHook | None = None
        self._effort: str | None = None
        self._flags: list[tuple[str, Any]] = []

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._clear_cached_op()

    @explained_by(Block.register_child)
    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a hybrid block as a child.

        Raises:
            BlockValueError: the child is not hybrid.
        """
        if not isinstance(block, HybridBlock):
            raise BlockValueError(
                f"Children of HybridBlock must also be HybridBlock, but {block} has type {type(block)}.",
                fix="If you are using Sequential, please try HybridSequential instead.",
            )
        super().register_child(block, name)
        self._clear_cached_op()

    @checks_flags
    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        effort: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Run as one program from the next call on, or operator by operator again.

        Args:
            active: False runs operator by operator.
            backend: accepted and ignored with a warning; XLA is the only backend.
            clear: drop what was traced before.
            static_alloc: accepted and ignored: XLA plans memory by itself.
            static_shape: accepted and ignored.
            inline_limit: accepted and ignored.
            forward_bulk_size: accepted and ignored.
            backward_bulk_size: accepted and ignored.
            effort: how the program is made: "auto", "quick" or "full", as in `lowering.effort`; None for the effort of
                the block around a call.
            kwargs: options of a backend, ignored.
        """
        if backend is not None:
            ask_for_backend(backend)
        self._active, self._effort = active, checked_effort(effort)
        flags = {"static_alloc": static_alloc, "static_shape": static_shape, "inline_limit": inline_limit}
        bulk = {"forward_bulk_size": forward_bulk_size, "backward_bulk_size": backward_bulk_size}
        self._flags = [*flags.items(), *((name, size) for name, size in bulk.items() if size is not None)]
        if clear:
            self._clear_cached_op()
        if active and has_hooks(self):
            warnings.warn(
                f'"{self}" is being hybridized while still having forward hook/pre-hook. If "{self}" is a child of '
                "HybridBlock, the hooks will not take effect.",
                stacklevel=2,
            )
        super().hybridize(active, **flags, **bulk, **({} if effort is None else {"effort": effort}))

    def optimize_for(self, x: Any, *args: Any, backend: str | None = None, clear: bool = False, **kwargs: Any) -> None:
        """Hybridise, trace for these inputs and compile, so that `export` may follow.

        Args:
            x: the first input.
            args: further inputs.
            backend: a backend's name, which MXNet requires.
            clear: drop what was traced before.
            kwargs: as in `hybridize`.

        Raises:
            BlockValueError: there is no backend, or no input.
        """
        if not backend:
            raise BlockValueError('Must specify "backend" to optimize_for', fix="hybridize() needs none.")
        self.hybridize(True, backend, clear, **kwargs)
        symbols, arrays, contexts = kinds_in((x, *args))
        if not symbols and not arrays:
            raise BlockValueError("In HybridBlock, there must be one NDArray or one Symbol in the input.")
        if len(contexts) > 1:
            raise BlockValueError("All inputs of a hybridised block must be on one context", got=contexts)
        self._build_cache(x, *args)

    def cast(self, dtype: DType) -> None:
        """Convert the parameters to another dtype; the block is traced again."""
        self._clear_cached_op()
        super().cast(dtype)

    def _clear_cached_op(self) -> None:
        self._cached_graph = ()
        self._cached_op = None
        self._cached_op_args = []

    # -- the graph ---------------------------------------------------------------------------------------------------

    def __explained__(self) -> tuple[Any, list[str]]:
        """Return the traced network, and how its passes run, for `lowering.explain`. Raises NotInitializedError before
        the first call."""
        _, symbol = self.traced_symbol("explain")
        return symbol, [] if self._cached_op is None else self._cached_op.ways()

    def _get_graph(self, *args: Any) -> tuple[Any, ...]:
        """Return (input variables, symbol) of the block, traced once: `data`, of several inputs `data0`, `data1` …."""
        if self._cached_graph:
            return self._cached_graph
        flat, self._in_format = _flatten(args, "input")
        count = sum(item is not None for item in flat)
        if count == 0:
            raise BlockValueError("All args are None and we do not support such a case.", got=args)
        names = iter([f"data{i}" for i in range(count)] if count > 1 else ["data"])
        variables = [None if item is None else sym.var(next(names)) for item in flat]
        params = {name: param.var() for name, param in self._reg_params.items()}
        with self.name_scope():
            out = self._computed(sym, _regroup(variables, self._in_format), params)
        outputs, self._out_format = _flatten(out, "output")
        if not all(isinstance(output, Symbol) for output in outputs):
            problem = f"hybrid_forward of {type(self).__name__} must return symbols when F is mx.sym"
            raise BlockTypeError(problem, got=repr(out)[:80])
        inputs = [variable for variable in variables if variable is not None]
        arrays = (item for item in flat if item is not None)
        dtypes = {str(variable.name): array.dtype for variable, array in zip(inputs, arrays, strict=True)}
        traced = outputs[0] if len(outputs) == 1 else sym.Group(outputs)
        self._cached_graph = inputs, as_symbol(with_policy(traced, dtypes))
        return self._cached_graph

    def traced_symbol(self, wanted_by: str) -> tuple[list[Any], Any]:
        """Return the input variables and the symbol of a hybridised block that was called.

        Args:
            wanted_by: the name of the function that needs them, for the message.

        Raises:
            NotInitializedError: the block was not hybridised and called; the error is a RuntimeError, too.
        """
        if not self._cached_graph:
            raise NotInitializedError(
                f"There is no graph to {wanted_by} yet",
                fix="Please first call block.hybridize() and then run forward with this block at least once before "
                f"calling {wanted_by}.",
            )
        inputs, symbol = self._cached_graph
        return inputs, symbol

    def _build_cache(self, *args: Any) -> None:
        """Trace the block, finish the initialisation of its parameters, and make its program."""
        data, out = self._get_graph(*args)
        positions = {variable.name: i for i, variable in enumerate(data)}
        names = out.list_inputs()
        params: Mapping[str, Parameter] = dict(self.collect_params().items())
        unknown = [name for name in names if name not in params and name not in positions]
        if unknown:
            close = close_names(unknown, [*params, *positions])
            raise MismatchError(f"Unknown input to HybridBlock: {unknown[0]}", fix=close or None)
        used = set(names)
        unused = ", ".join(f"{i}-th" for name, i in positions.items() if name not in used)
        if unused:
            message = f"The {unused} input to HybridBlock is not used by any computation. Is this intended?"
            warnings.warn(message, stacklevel=5)
        unused = ", ".join(name for name in params if name not in used)
        if unused:
            message = f"Parameter {unused} is not used by any computation. Is this intended?"
            warnings.warn(message, stacklevel=5)
        own = [params[name] for name in names if name in params]
        try:
            for param in own:
                param.list_data()
        except DeferredInitializationError:
            self._deferred_infer_shape(*args)
            for param in own:
                param._finish_deferred_init()
        self._cached_op_args = [
            (True, positions[name]) if name in positions else (False, params[name]) for name in names
        ]
        self._cached_op = CachedProgram(out, positions, self._effort)
        self._untrainable = untrainable(out)

    def _deferred_infer_shape(self, *args: Any) -> None:
        """Infer the parameters' shapes. Raises BlockValueError with the reason."""
        try:
            self.infer_shape(*args)
        except (NNVMError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
            raise BlockValueError(
                f"Deferred initialization failed because shape cannot be inferred. {error}"
            ) from error

    def _infer_attrs(self, infer: Callable[..., Any], attr: str, *args: Any) -> None:
        data, out = self._get_graph(*args)
        flat = [item for item in _flatten(args, "input")[0] if item is not None]
        input_values = {variable.name: getattr(array, attr) for variable, array in zip(data, flat, strict=True)}
        used = set(out.list_inputs())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            inferred, _, states = infer(out, **{name: value for name, value in input_values.items() if name in used})
        if inferred is None:
            raise BlockValueError(" ".join(str(warning.message) for warning in caught))
        by_name = dict(zip(out.list_arguments(), inferred, strict=True))
        by_name |= dict(zip(out.list_auxiliary_states(), states, strict=True))
        for param in self.collect_params().values():
            if param.name in by_name:
                setattr(param, attr, by_name[param.name])

    def infer_shape(self, *args: Any) -> None:
        """Set the shapes of the parameters from inputs; it raises what inference raises."""
        self._infer_attrs(lambda out, **inputs: out.infer_shape(**inputs), "shape", *args)

    def infer_type(self, *args: Any) -> None:
        """Set the dtypes of the parameters from inputs; it raises what inference raises."""
        self._infer_attrs(lambda out, **inputs: out.infer_type(**inputs), "dtype", *args)

    # -- running -----------------------------------------------------------------------------------------------------

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool = False) -> None:
        """Call `callback(name, operator, array)` for every operator's outputs when the block runs hybridised.

        Calls come after the forward pass, in its order, without gradients. Every value stays in memory until then.

        Args:
            callback: the function.
            monitor_all: report an operator's inputs as well, before its outputs.
        """
        super().register_op_hook(callback, monitor_all)
        self._op_hook = callback, monitor_all

    def _call_cached_op(self, ctx: Context, *args: Any) -> Any:
        if self._cached_op is None:
            self._build_cache(*args)
        assert self._cached_op is not None
        flat, fmt = _flatten(args, "input")
        if not fits(fmt, self._in_format):
            raise BlockValueError(
                "The argument structure of HybridBlock does not match the cached version",
                expected=self._in_format,
                got=fmt,
                fix="Call hybridize() again before you pass arguments of another structure.",
            )
        if self._untrainable and is_recording() and is_training():
            trained = [
                source.name for is_data, source in self._cached_op_args if not is_data and source.grad_req != "null"
            ]
            way = "Set grad_req='null' of these parameters to train only the others."
            refuse_untrainable(self._cached_graph[1], trained, way, self._untrainable)
        inputs = [item for item in flat if item is not None]
        self._cached_op.op_hook = self._op_hook
        arrays = [inputs[source] if is_data else source.data(ctx) for is_data, source in self._cached_op_args]
        outputs = self._cached_op(arrays, ctx)
        return _regroup(converted(outputs, NUMPY) if is_np_array() else outputs, self._out_format)

    def forward(self, x: Any, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the outputs for arrays or for symbols.

        Args:
            x: the first input: an array, a symbol, or a list of them.
            args: further inputs; None for one that is left out.

        Raises:
            BlockValueError: inputs are arrays and symbols, or neither; or they are on several contexts after
                `hybridize`.
        """
        symbols, arrays, contexts = kinds_in((x, *args))
        if symbols == arrays:
            problem = "we do not support mixed NDArrays and Symbols" if symbols else "there must be one NDArray or one"
            problem += " types for the input." if symbols else " Symbol in the input."
            got = plain_list([type(arg).__name__ for arg in (x, *args)])
            fix = "Check the type of the args: mx.nd.array(x) makes an NDArray."
            raise BlockValueError(f"In HybridBlock, {problem}", got=got, fix=fix)
        if symbols:
            params = {name: param.var() for name, param in self._reg_params.items()}
            with self.name_scope():
                return self._computed(sym, (x, *args), params)
        ctx = contexts[0]
        if self._active:
            if len(contexts) > 1:
                raise BlockValueError(
                    "Find multiple contexts in the input, After hybridized, the HybridBlock only supports one input "
                    "context.",
                    got=contexts,
                    fix="Print the ele.ctx of the arguments.",
                )
            with ctx:
                return self._call_cached_op(ctx, x, *args)
        with ctx:
            try:
                params = {name: param.data(ctx) for name, param in self._reg_params.items()}
            except DeferredInitializationError:
                self._deferred_infer_shape(x, *args)
                for param in self.params.values():
                    param._finish_deferred_init()
                params = {name: param.data(ctx) for name, param in self._reg_params.items()}
            return self._computed(nd, (x, *args), params)

    def _computed(self, F: Any, inputs: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Return what `hybrid_forward` gives. In the NumPy dialect a layer of this library's computes in the classic
        one, a block of a caller's in his."""
        numpy = is_np_array()
        function = self.hybrid_forward
        own = _is_of_library(function)
        plain = getattr(function, "__wrapped__", None) if own else None  # here is what `_in_classic_dialect` does
        own = numpy and own and not self.takes_both_dialects
        dialect = NUMPY if numpy and not own else CLASSIC
        params = {name: converted(param, dialect) for name, param in params.items()}
        if numpy:
            inputs = converted(tuple(inputs), dialect)
        with np_array(numpy and not own):  # blocks inside of one that computes in the classic dialect do so, too
            try:
                outputs = function(F, *inputs, **params) if plain is None else plain(self, F, *inputs, **params)
            except TypeError as error:
                refuse_unbound(error, self._door(), inputs, {})
        if numpy and not own and len({*dialects_of(outputs)}) > 1:
            problem = "Cannot mix arrays of mx.nd with arrays of mx.np in the outputs of a block"
            raise SymbolTypeError(problem, fix="x.as_np_ndarray() shows one of mx.nd in the dialect.")
        return converted(outputs, NUMPY) if numpy else outputs

    takes_both_dialects = False
    """Whether `hybrid_forward` takes arrays of either dialect: it only gives them on."""

    def _door(self) -> Door:
        """Return how messages have a call of the block: `hybrid_forward` has its inputs."""
        if inspect.unwrap(type(self).forward) is not HybridBlock.forward:  # which `use_np` wraps
            return super()._door()
        return door_of(type(self).__name__, self.hybrid_forward, ("F", *self._reg_params))

    def hybrid_forward(self, F: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs, computed with functions of `F`; a subclass must define it."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward(self, F, x)")

    # -- files -------------------------------------------------------------------------------------------------------

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write `path-symbol.json` and `path-0000.params`, which all loaders of checkpoints read.

        A single input is named `data`; several are named `data0`, `data1`, ….

        Args:
            path: the part of the path before `-symbol.json`.
            epoch: the number in the name of the second file.
            remove_amp_cast: leave out the casts of AMP.

        Raises:
            NotInitializedError: the block was not hybridised and called.
        """
        prefix = path_text(path)
        _, symbol = self.traced_symbol("export")
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast)
        args, states = set(symbol.list_arguments()), set(symbol.list_auxiliary_states())
        arrays: dict[str, NDArray] = {}
        for param in (source for is_data, source in self._cached_op_args if not is_data):
            if param.name in args or param.name in states:
                kind = "arg" if param.name in args else "aux"
                arrays[f"{kind}:{param.name}"] = param._to_save()
        save(f"{prefix}-{epoch:04d}.params", arrays)


def most_inputs(block: HybridBlock) -> int | None:
    """Return how many arrays a block takes; None: any number."""
    return block._door().most
