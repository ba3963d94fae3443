"""`Parameter` and `Constant`: the weights of blocks, a copy on each context, with their gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lowering.jax_casts import is_narrowed
from lowering.messages.counts import KindError, checked_dtype, checks_flags
from lowering.mx import autograd
from lowering.mx import init as initializers
from lowering.mx import symbol as sym
from lowering.mx.accepted_types import ContextsLike, DType, ShapeLike
from lowering.mx.context import Context, cpu, current_context
from lowering.mx.gluon.gluon_errors import (
    BlockValueError,
    DeferredInitializationError,
    MismatchError,
    NotInitializedError,
)
from lowering.mx.gluon.utils import shape_is_known
from lowering.mx.ndarray import add_n, array, zeros
from lowering.mx.ndarray.array import (
    CLASSIC,
    NUMPY,
    NDArray,
    current_dialect,
    in_dialect,
    stored_as,
    zero_gradient,
)
from lowering.mx.ndarray.cells import StoredCell, stored_of
from lowering.mx.ndarray.creation import stored_array
from lowering.mx.numpy.new_arrays import array as numpy_array
from lowering.mx.util import is_np_array, is_np_shape
from symjax_nnvm.ir.casts import cast
from symjax_nnvm.ir.types import dtype_name

_REQUESTS = ("write", "add", "null")
_STORAGE = ("default", "row_sparse", "csr")


class Parameter:
    """A weight: its name, shape and initialiser, and once it is initialised an array on each of its contexts.

    `row_sparse_data` is only for stype="row_sparse", as in MXNet.

    Args:
        name: the parameter's name.
        grad_req: what a backward pass does with the gradient: "write", "add" or "null".
        shape: the shape; 0 for sizes that the first forward pass decides, with `allow_deferred_init`.
        dtype: the dtype.
        lr_mult: the multiplier of the learning rate, which a trainer reads at every step.
        wd_mult: the multiplier of the weight decay, likewise.
        init: the initialiser; it comes before the network's.
        allow_deferred_init: let the first forward pass decide unknown sizes.
        differentiable: False for a parameter without a gradient.
        stype: the storage type that the array shows; it is dense.
        grad_stype: the storage type that the gradient shows; it is dense.

    Raises:
        MismatchError: an argument has a wrong value.
    """

    @checks_flags
    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: ShapeLike | None = None,
        dtype: DType = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ):
        for what, storage in (("grad_stype", grad_stype), ("stype", stype)):
            if storage not in _STORAGE:
                raise MismatchError(f"{what} of Parameter '{name}'", expected=f"one of {_STORAGE}", got=repr(storage))
        self._var: Any = None
        self._data: list[NDArray] | None = None
        self._dialect = CLASSIC
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] | None = None
        self._ctx_map = _places(())
        self._trainer: Any = None
        self._deferred_init: tuple[Any, ...] = ()
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req: str | None = None
        self._shape = (shape,) if isinstance(shape, int) else shape
        self._stype, self._grad_stype = stype, grad_stype
        self.name = name
        if dtype is not None:
            checked_dtype(dtype, name)
        self._dtype = dtype
        self.lr_mult, self.wd_mult = lr_mult, wd_mult
        self.grad_req = grad_req
        self.init = init

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={self.dtype})"

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def grad_req(self) -> Any:
        """What a backward pass does with the gradient; "null" drops its array, the others make one."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in _REQUESTS:
            problem = f"grad_req must be one of 'write', 'add', or 'null', but got {req!r}"
            raise MismatchError(problem, param=self.name)
        req = req if self._differentiable else "null"
        if self._grad_req == req:
            return
        self._grad_req = req
        if req == "null" and self._grad is not None:
            assert self._data is not None
            self._grad = None
            self._data = [value.detach() for value in self._data]
        elif self._data is not None:
            self._init_grad()

    @property
    def dtype(self) -> Any:
        """Return the dtype; setting it converts the arrays."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: DType) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> Any:
        """Return the shape; None while nothing is known. Only unknown sizes can be set.

        An unknown size is 0, or -1 under `np_shape`.
        """
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple(size or -1 for size in self._shape)

    @shape.setter
    def shape(self, new_shape: Sequence[int]) -> None:
        if self._shape is not None:
            same_rank = len(self._shape) == len(new_shape)
            if not same_rank or any(old not in (-1, 0, new) for new, old in zip(new_shape, self._shape, strict=True)):
                problem = f"Expected shape {new_shape} is incompatible with given shape {self._shape}."
                raise MismatchError(problem, param=self.name)
        self._shape = new_shape

    def var(self) -> Any:
        """Return the variable of this name, always the same one, for composing symbols."""
        if self._var is None:
            self._var = sym.var(
                self.name, shape=self.shape, dtype=self.dtype, lr_mult=self.lr_mult, wd_mult=self.wd_mult,
                init=self.init, stype=self._stype,
            )  # fmt: skip
        return self._var

    def _set_trainer(self, trainer: Any) -> None:
        if self._stype != "default" and trainer is not None and self._trainer not in (None, trainer):
            problem = f"Parameter '{self.name}' of stype '{self._stype}' has a trainer already, and can have only one"
            raise NotInitializedError(problem, fix="Make the parameter without stype.")
        self._trainer = trainer

    # -- first values ------------------------------------------------------------------------------------------------

    @checks_flags
    def initialize(
        self, init: Any = None, ctx: ContextsLike = None, default_init: Any = None, force_reinit: bool = False
    ) -> None:
        """Make the arrays now or, where sizes are unknown, at the first forward pass.

        A second call only warns.

        Args:
            init: the initialiser; it comes before the parameter's own.
            ctx: a context or a list of them; None for the current one.
            default_init: the initialiser of a parameter without one of its own; None for Uniform.
            force_reinit: initialise again.

        Raises:
            BlockValueError: sizes are unknown and the first forward pass may not decide them.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True to re-initialize.",
                stacklevel=2,
            )
            return
        self._data = self._grad = None
        contexts = _contexts(ctx)
        default_init = initializers.create("uniform") if default_init is None else default_init
        if init is None:
            init = default_init if self.init is None else self.init
        if not shape_is_known(self.shape) and not self._allow_deferred_init:
            raise BlockValueError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self.shape}.",
                fix="Give it a shape without unknown sizes.",
            )
        self._deferred_init = (init, contexts, default_init, None)
        if shape_is_known(self.shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self) -> None:
        """Make the arrays that `initialize` was called for."""
        if not self._deferred_init:
            return
        init, contexts, default_init, data = self._deferred_init
        self._deferred_init = ()
        if not shape_is_known(self.shape):
            raise MismatchError(
                f"Cannot initialize Parameter '{self.name}' because it has invalid shape: {self.shape}.",
                fix="Specify in_units, in_channels, etc. for blocks.",
            )
        with autograd.pause():
            if data is None:
                data = zeros(self.shape, cpu(), self.dtype)
                described = initializers.InitDesc(self.name, {"__init__": init})
                initializers.create(default_init)(described, in_dialect(data, current_dialect()))
            self._init_impl(data, contexts)

    def _init_impl(self, data: NDArray, contexts: Sequence[Context]) -> None:
        """Hold copies of an array on contexts."""
        self._dialect = current_dialect()
        self._ctx_list = list(contexts)
        self._ctx_map = _places(self._ctx_list)
        if self.dtype and is_narrowed(np.dtype(self.dtype)):  # as files have it, until it is computed with
            data = stored_array(data.asnumpy().astype(self.dtype, copy=False), cpu())
        self._data = [stored_as(data.copyto(ctx), self._stype) for ctx in self._ctx_list]
        self._init_grad()

    def _init_grad(self) -> None:
        if self.grad_req == "null":
            self._grad = None
            return
        assert self._data is not None
        zeros = (zero_gradient(value.shape, value.dtype, value.context) for value in self._data)
        self._grad = [stored_as(gradient, self._grad_stype) for gradient in zeros]
        autograd.mark_variables(self._data, self._grad, self.grad_req)

    def _load_init(self, data: Any, ctx: ContextsLike, cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Hold the values of an array that comes from a file. cast_dtype: convert it, or with dtype_source "saved" the
        parameter, where the dtypes differ. Raises MismatchError."""
        data = _as_ndarray(data)
        if cast_dtype and dtype_source not in ("current", "saved"):
            raise MismatchError("dtype_source", expected="'current' or 'saved'", got=repr(dtype_source))
        failed = f"Failed loading Parameter '{self.name}' from saved params: "
        if self.shape:
            if any(own not in (-1, 0, saved) for own, saved in zip(self.shape, data.shape, strict=False)):
                raise MismatchError(f"{failed}shape incompatible expected {self.shape} vs saved {data.shape}")
            self.shape = tuple(
                saved if own in (-1, 0) else own for own, saved in zip(self.shape, data.shape, strict=False)
            )
        if self.dtype and np.dtype(self.dtype).type != data.dtype:
            if not cast_dtype:
                raise MismatchError(
                    f"{failed}dtype incompatible expected {self.dtype} vs saved {data.dtype}",
                    fix="Set cast_dtype=True to cast the dtype of saved params.",
                )
            if dtype_source == "current":
                data = data.astype(self.dtype, copy=False)
            else:
                self.dtype = data.dtype
        contexts = None if ctx is None else _contexts(ctx)
        before = self._deferred_init[1] if self._deferred_init else self._ctx_list
        if before is not None and contexts is not None and set(contexts) != set(before):
            problem = f"Failed to load Parameter '{self.name}' on {contexts}"
            raise MismatchError(f"{problem} because it was previous initialized on {before}.", fix="Use reset_ctx.")
        if self._data is None:
            self._init_impl(data, before or contexts or [cpu()])
        else:
            self.set_data(data)
        self._deferred_init = ()

    def set_data(self, data: Any) -> None:
        """Set the value on all contexts; before the first forward pass it is stored until then.

        Args:
            data: the value.

        Raises:
            MismatchError: the shape is wrong.
        """
        data = _as_ndarray(data)
        self.shape = data.shape
        if self._data is None:
            if not self._deferred_init:
                raise MismatchError(f"Parameter '{self.name}' has not been initialized", fix="Call initialize() first.")
            self._deferred_init = (*self._deferred_init[:3], data)
            return
        if self._trainer is not None:
            self._trainer._forget_copy_of(self)
        stored = stored_of(data.cell)
        for value in self._data:
            if stored is not None and isinstance(value.cell, StoredCell):
                value.cell.store(stored)
            else:
                value[:] = data

    def reset_ctx(self, ctx: ContextsLike) -> None:
        """Move the arrays to other contexts; before `initialize` it raises BlockValueError."""
        contexts = _contexts(ctx)
        if self._data:
            data = self._reduce()
            with autograd.pause():
                self._init_impl(data, contexts)
        elif self._deferred_init:
            init, _, default_init, data = self._deferred_init
            self._deferred_init = (init, contexts, default_init, data)
        else:
            problem = f"Cannot reset context for Parameter '{self.name}' because it has not been initialized."
            raise BlockValueError(problem, fix="Call initialize(ctx=...).")

    def cast(self, dtype: DType) -> None:
        """Convert the arrays, and those made later, to another dtype. Raises KindError for anything else."""
        checked_dtype(dtype, self.name)
        self._dtype = dtype
        if self._data is None:
            return
        with autograd.pause():
            self._data = [_in_dtype(value, dtype) for value in self._data]
            if self._grad is not None:
                self._grad = [gradient.astype(dtype) for gradient in self._grad]
                autograd.mark_variables(self._data, self._grad, self.grad_req)

    # -- arrays ------------------------------------------------------------------------------------------------------

    def _check_and_get(self, arrays: list[NDArray] | None, ctx: Any) -> Any:
        """Return the array of a context, or with `list` all. Raises DeferredInitializationError,
        NotInitializedError."""
        if arrays is None:
            raise self._not_yet()
        if ctx is list:
            return arrays
        if ctx is None:
            if len(arrays) == 1:
                return arrays[0]
            ctx = current_context()
        places = self._ctx_map[ctx.device_typeid & 1]
        place = places[ctx.device_id] if ctx.device_id < len(places) else None
        if place is None:
            problem = f"Parameter '{self.name}' was not initialized on context {ctx}."
            raise NotInitializedError(f"{problem} It was only initialized on {self._ctx_list}.")
        return arrays[place]

    def _not_yet(self) -> Exception:
        if self._deferred_init:
            return DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was deferred. Actual "
                "initialization happens during the first forward pass",
                fix="Pass one batch of data through the network before accessing Parameters, or specify in_units, "
                "in_channels, num_features, etc., for network layers.",
            )
        return NotInitializedError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize parameters and create "
            "Trainer with Block.collect_params() instead of Block.params because the later does not include Parameters "
            "of nested child Blocks"
        )

    def data(self, ctx: Context | None = None) -> NDArray:
        """Return the array on a context.

        Args:
            ctx: the context; None where there is only one.

        Raises:
            DeferredInitializationError: the first forward pass, which decides sizes, has not run.
            NotInitializedError: `initialize` was not called.
        """
        return self._shown(self._check_and_get(self._data, ctx))

    def list_data(self) -> list[NDArray]:
        """Return the arrays on all contexts."""
        return [self._shown(value) for value in self._check_and_get(self._data, list)]

    def grad(self, ctx: Context | None = None) -> NDArray:
        """Return the gradient on a context.

        Args:
            ctx: the context; None where there is only one.

        Raises:
            NotInitializedError: there is no gradient, because `grad_req` is "null" or `initialize` was not called.
        """
        return self._shown(self._check_and_get(self._gradients(), ctx))

    def list_grad(self) -> list[NDArray]:
        """Return the gradients on all contexts."""
        return [self._shown(gradient) for gradient in self._check_and_get(self._gradients(), list)]

    def _shown(self, array: NDArray) -> Any:
        """Return an array in the NumPy dialect where that is set, or was when it was made."""
        return in_dialect(array, NUMPY if self._dialect == NUMPY else current_dialect())

    def _gradients(self) -> list[NDArray] | None:
        if self._data is not None and self._grad is None:
            problem = f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'"
            raise NotInitializedError(problem, fix="param.grad_req = 'write'")
        return self._grad

    def list_ctx(self) -> list[Context]:
        """Return the contexts; before `initialize` it raises NotInitializedError."""
        if self._data is None:
            if self._deferred_init:
                return self._deferred_init[1]
            raise NotInitializedError(f"Parameter '{self.name}' has not been initialized", fix="Call initialize().")
        assert self._ctx_list is not None
        return self._ctx_list

    def zero_grad(self) -> None:
        """Set the gradients to 0."""
        for gradient in self._grad or ():
            gradient[:] = 0

    def _reduce(self) -> NDArray:
        """Return the mean over the contexts, on the CPU."""
        copies = [value.copyto(cpu()).as_nd_ndarray() for value in self.list_data()]
        return copies[0] if len(copies) == 1 else add_n(*copies) / len(copies)

    def _to_save(self) -> NDArray:
        """Return the mean over the contexts in the parameter's own dtype, which JAX may hold in 32 bits of 64."""
        mean = self._reduce()
        if not self.dtype or mean.dtype == np.dtype(self.dtype) or not is_narrowed(np.dtype(self.dtype)):
            return mean
        return stored_array(mean.asnumpy().astype(self.dtype), cpu())

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Return the array on the context of `row_id`, with all rows, not only those that `row_id` names.

        Args:
            row_id: numbers of rows.

        Raises:
            NotInitializedError: the parameter was not made with stype="row_sparse".
        """
        self._refuse_rows_of_dense()
        return self.data(row_id.context)

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """Return the arrays on all contexts, as `row_sparse_data` returns one."""
        self._refuse_rows_of_dense()
        return self.list_data()

    def _refuse_rows_of_dense(self) -> None:
        if self._stype != "row_sparse":
            problem = f"Parameter '{self.name}' has no sparse rows, because its stype is '{self._stype}'"
            raise NotInitializedError(problem, fix="Use data().")


class Constant(Parameter):
    """A parameter with a value and no gradient; trainers do not change it, `set_data` does.

    Args:
        name: the parameter's name.
        value: the value.
    """

    def __init__(self, name: str, value: Any):
        if not isinstance(value, NDArray):
            value = numpy_array(value) if is_np_array() else array(value)
        self.value = value

        class Init(initializers.Initializer):
            """Fills an array with the value of the constant."""

            def _init_weight(self, _: str, arr: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
                arr[:] = value.value

        init_name = f"Constant_{name}_{id(self)}"
        initializers.alias(init_name)(Init)
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, init=init_name)

    @property
    def grad_req(self) -> Any:
        """Always "null"; setting another value only warns."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", and new value "{req}" '
                "is ignored.",
                stacklevel=2,
            )


def _as_ndarray(value: Any) -> NDArray:
    """Return an NDArray of an array of any library, in its dtype."""
    if not hasattr(value, "dtype"):
        raise KindError("Wrong value of a parameter", expected="an array", got=f"{value!r:.80}")
    return value.as_nd_ndarray() if isinstance(value, NDArray) else array(value, dtype=value.dtype)


def _in_dtype(array: NDArray, dtype: DType) -> NDArray:
    """Return an array in a dtype; one of 64 bits that JAX narrows holds its own 64, as one of a file does."""
    wide = np.dtype(dtype_name(dtype))
    if is_narrowed(wide):
        return stored_array(cast(array.asnumpy(), wide), array.context)
    return array.astype(dtype)


def _contexts(ctx: Any) -> list[Context]:
    """Return contexts from what people give: one, a list, or None for the current one."""
    if ctx is None:
        return [current_context()]
    contexts = [ctx] if isinstance(ctx, Context) else list(ctx) if isinstance(ctx, Iterable) else [ctx]
    if not all(isinstance(context, Context) for context in contexts):
        raise KindError("Wrong contexts", param="ctx", expected="a context, or a list of contexts", got=f"{ctx!r:.80}")
    return contexts


def _places(contexts: Sequence[Context]) -> tuple[list[int | None], list[int | None]]:
    """Return where the array of each context is, by the last bit of its type and by its number: pinned memory is the
    CPU's. Libraries that put arrays of their own in place of a parameter's read it so."""
    places: tuple[list[int | None], list[int | None]] = [], []
    for i, ctx in enumerate(contexts):
        row = places[ctx.device_typeid & 1]
        row += [None] * (ctx.device_id + 1 - len(row))
        row[ctx.device_id] = i
    return places
