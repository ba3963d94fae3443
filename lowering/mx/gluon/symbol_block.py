"""`SymbolBlock`: a symbol, such as one that was loaded, as a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lowering.messages.counts import checked_dtype, checks_flags
from lowering.mx import symbol as sym
from lowering.mx.accepted_types import ContextsLike, DType
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.parameter_dict import ParameterDict
from lowering.mx.gluon.structure import _flatten, _regroup
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.ndarray.array import NDArray
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.symbol.symbol import Symbol

_STATISTICS = ("running_var", "moving_var")
_ROW_SPARSE = "1"


class SymbolBlock(HybridBlock):
    """A block that computes symbols; all variables that are not inputs are its parameters, under their own names.

    Args:
        outputs: a symbol, or a list of symbols.
        inputs: the variables that calls give, as symbols.
        params: a dict whose parameters of these names are used.

    Raises:
        MismatchError: an input is not a variable, or a parameter is of row-sparse storage.
    """

    @checks_flags
    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None):
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)
        if isinstance(inputs, Symbol) and len(inputs.list_outputs()) == 1:
            inputs = [inputs]
        if isinstance(outputs, list | tuple) and len(outputs) == 1:
            outputs = outputs[0]
        variables, self._in_format = _flatten(inputs, "input")
        flat, self._out_format = _flatten(outputs, "output")
        for variable in variables:
            if len(variable.get_internals().list_outputs()) != 1:
                raise MismatchError(f"Input symbols must be variable, but {variable} is an output of operators")
        out = flat[0] if len(flat) == 1 else sym.Group(flat)
        for name, attrs in out.attr_dict().items():
            if attrs.get("__storage_type__") == _ROW_SPARSE:
                problem = f"SymbolBlock doesn't support Parameter '{name}' because its storage type is 'row_sparse'."
                raise MismatchError(problem, fix="Remove __storage_type__: arrays are dense here.")
        input_names = {variable.name for variable in variables}
        dtypes = _dtypes(variables, out)
        for name in out.list_arguments():
            if name not in input_names:
                self.params.get(name, allow_deferred_init=True, dtype=dtypes.get(name, np.float32))
        for name in out.list_auxiliary_states():
            if name not in input_names:
                dtype = dtypes.get(name, np.float32)
                self.params.get(name, grad_req="null", allow_deferred_init=True, dtype=dtype)
        self._cached_graph = variables, out
        begins = len(_common_prefix(list(self._params.keys())))
        self._reg_params = {name[begins:]: param for name, param in self._params.items()}

    @staticmethod
    @checks_flags
    def imports(
        symbol_file: str,
        input_names: str | Sequence[str],
        param_file: str | None = None,
        ctx: ContextsLike = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """Return the block of a symbol's file, with the parameters of a file of arrays in their dtypes.

        Raises what loading a symbol raises.

        Args:
            symbol_file: the symbol's file.
            input_names: the names of the variables that calls give.
            param_file: the file of arrays; None to initialise the parameters later.
            ctx: a context or a list of them; None for the current one.
            allow_missing: accept parameters that the file does not have.
            ignore_extra: ignore arrays that the symbol does not have.

        Raises:
            MismatchError: parameters are missing or surplus.
        """
        symbol = sym.load(symbol_file)
        names = [input_names] if isinstance(input_names, str) else input_names
        inputs = [sym.var(name, dtype="float32" if param_file is None else None) for name in names]
        block = SymbolBlock(symbol, inputs)
        if param_file is not None:
            options = ctx, allow_missing, ignore_extra
            block.collect_params().load(param_file, *options, cast_dtype=True, dtype_source="saved")
        return block

    def __repr__(self) -> str:
        variables, out = self._cached_graph
        return f"{type(self).__name__}(\n{out} : {len(variables)} -> {len(out.list_outputs())}\n)"

    def forward(self, x: Any, *args: Any) -> Any:
        """Return the outputs for arrays, as one program, or for symbols."""
        if isinstance(x, NDArray):
            with x.context:
                return self._call_cached_op(x.context, x, *args)
        if not isinstance(x, Symbol):
            expected = "Symbol or NDArray"
            raise MismatchError("The first argument of a HybridBlock", expected=expected, got=type(x).__name__)
        flat, fmt = _flatten([x, *args], "input")
        if fmt != self._in_format:
            raise MismatchError("Invalid input format", expected=self._in_format, got=fmt)
        variables, out = self._cached_graph
        outputs = out(**{variable.name: value for variable, value in zip(variables, flat, strict=True)})
        return _regroup([outputs] if self._out_format == 0 else list(outputs), self._out_format)

    def _clear_cached_op(self) -> None:
        graph = self._cached_graph
        super()._clear_cached_op()
        self._cached_graph = graph

    def cast(self, dtype: DType) -> None:
        """Convert the parameters to another dtype; for float16, those of a BatchNorm (by their names) stay float32."""
        super().cast(dtype)
        if checked_dtype(dtype, self.name) != "float16":
            return
        names = set(self._cached_graph[1].list_inputs())
        for name in names:
            for ending in _STATISTICS:
                prefix = name.removesuffix(ending)
                siblings = [prefix + ending.replace("var", "mean"), prefix + "gamma", prefix + "beta"]
                if prefix != name and names.issuperset(siblings):
                    for param_name in (name, *siblings):
                        self.params[param_name].cast("float32")

    def reset_ctx(self, ctx: ContextsLike) -> None:
        """Move all parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)

    def hybrid_forward(self, F: Any, x: Tensor, *args: Any, **kwargs: Any) -> Self:
        """Refuse: the symbol defines the computation."""
        raise BlockValueError("A SymbolBlock has no hybrid_forward: call the block itself")


def _dtypes(inputs: Sequence[Symbol], out: Symbol) -> dict[str, Any]:
    """Return the dtypes of variables that follow from those that the inputs declare; none where they do not fit."""
    input_dtypes: dict[Any, Any] = {}
    for variable in inputs:
        dtype = variable.attr("__dtype__")
        if dtype is None:
            return {}
        input_dtypes[variable.name] = variable.infer_type()[0][0]
    used = set(out.list_inputs())
    try:
        arguments, _, states = out.infer_type(**{name: dtype for name, dtype in input_dtypes.items() if name in used})
    except NNVMError:
        return {}
    if arguments is None:
        return {}
    names = [*out.list_arguments(), *out.list_auxiliary_states()]
    return dict(zip(names, [*arguments, *states], strict=True))


def _common_prefix(names: Sequence[str]) -> str:
    """Return what all names begin with."""
    shortest, longest = min(names, default=""), max(names, default="")
    same = (i for i, (a, b) in enumerate(zip(shortest, longest, strict=False)) if a != b)
    return shortest[: next(same, len(shortest))]
