"""`ParameterDict`: parameters by name, made when they are first used, or taken from another dict."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx import init as initializers
from lowering.mx.accepted_types import ContextsLike
from lowering.mx.gluon.gluon_errors import BlockValueError, MismatchError, MissingConstantError
from lowering.mx.gluon.utils import _brief_print_list, _indent
from lowering.mx.gluon.weights import Constant, Parameter
from lowering.mx.ndarray import save
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.saved_arrays import load_named
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.ir.rules.quantized_parameters import refuse_wrong_parameters, way_out_of_mixing

_NAMING = "Source and target networks must have the same prefix: prefix= of the block, or with name_scope()."


class ParameterDict:
    """Parameters by their whole names.

    Args:
        prefix: the text before each name that `get` gets.
        shared: a dict whose parameters are used instead of new ones of the same names.
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None):
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        rows = "\n".join(_indent(f"  {param}", 2) for param in self.values())
        return f"{self._prefix + ' ' if self._prefix else ''}(\n{rows}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def items(self) -> ItemsView[str, Parameter]:
        """Return (name, parameter) pairs in the order in which they were made."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Return the parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """Return the text before each name that `get` gets."""
        return self._prefix

    def _get_impl(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    @checks_flags
    def get(self, name: str, **kwargs: Any) -> Parameter:
        """Return the parameter of a name; it is made if there is none.

        Args:
            name: the name without the prefix.
            kwargs: as in `Parameter`.

        Raises:
            MismatchError: there is a parameter of that name with other properties.
        """
        name = self.prefix + name
        param = self._get_impl(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, desired in kwargs.items():
            existing = getattr(param, key, None)
            if existing is None:
                setattr(param, key, desired)
            elif key == "shape" and desired is not None and (merged := _merged(desired, existing)) is not None:
                param._shape = merged
            elif key == "dtype" and desired is not None and np.dtype(desired) == np.dtype(existing):
                continue
            elif desired is not None and desired != existing:
                raise MismatchError(
                    f"Cannot retrieve Parameter '{name}' because desired attribute does not match with stored for "
                    f"attribute '{key}': desired '{desired}' vs stored '{existing}'."
                )
        return param

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """Return the constant of a name; it is made if there is none.

        Args:
            name: the name without the prefix.
            value: the value.

        Raises:
            MissingConstantError: there is no constant of that name and no value; the error is a KeyError, too.
            MismatchError: there is a parameter of that name, or a constant of another value.
        """
        name = self.prefix + name
        param = self._get_impl(name)
        if param is None:
            if value is None:
                fix = "Specify value to create a new constant."
                raise MissingConstantError(f"No constant named '{name}'", fix=fix)
            param = self._params[name] = Constant(name, value)
        elif not isinstance(param, Constant):
            if value is not None:
                raise MismatchError(f"Parameter '{name}' already exists but it is not a constant.")
        elif value is not None:
            value = value.asnumpy() if isinstance(value, NDArray) else value
            if param.shape != value.shape or not (param.value.asnumpy() == value).all():
                raise MismatchError(f"Constant '{name}' already exists but it's value doesn't match new value")
        return param  # pyright: ignore[reportReturnType]

    @checks_flags
    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Add all parameters of another dict; a different parameter of the same name raises MismatchError."""
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise MismatchError(
                    f"Cannot update self with other because they have different Parameters with the same name '{name}'"
                )
        self._params.update(other.items())

    @checks_flags
    def initialize(
        self, init: Any = None, ctx: ContextsLike = None, verbose: bool = False, force_reinit: bool = False
    ) -> None:
        """Initialise all parameters.

        Args:
            init: the initialiser of parameters that have none of their own; None for Uniform.
            ctx: a context or a list of them; None for the current one.
            verbose: log what is initialised.
            force_reinit: initialise parameters again that have values.
        """
        init = initializers.create("uniform") if init is None else init
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: ContextsLike) -> None:
        """Move all parameters to other contexts."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Any]:
        """Return the contexts of all parameters, each once."""
        return list({ctx: None for param in self.values() for ctx in param.list_ctx()})

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters: `net.collect_params().setattr("grad_req", "null")`."""
        for param in self.values():
            setattr(param, name, value)

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write the parameters to a file of arrays.

        Args:
            filename: the file's path.
            strip_prefix: a text to remove from the beginning of all names.

        Raises:
            BlockValueError: a name does not begin with `strip_prefix`.
        """
        arrays: dict[str, NDArray] = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise BlockValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name '{param.name}' does "
                    f"not start with '{strip_prefix}'.",
                    fix="Make child blocks under name_scope(), or use save_parameters, where blocks share parameters.",
                )
            arrays[param.name.removeprefix(strip_prefix)] = param._to_save()
        save(filename, arrays)

    @checks_flags
    def load(
        self,
        filename: str,
        ctx: ContextsLike = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load the values of the parameters from a file of arrays.

        Args:
            filename: the file's path.
            ctx: the context of parameters that were not initialised.
            allow_missing: leave parameters as they are that the file does not have.
            ignore_extra: ignore names that the dict does not have.
            restore_prefix: a text to put before the names in the file.
            cast_dtype: convert where dtypes differ.
            dtype_source: what is converted: "current" for the file's arrays, "saved" for the parameters.

        Raises:
            MismatchError: the file does not have a parameter, or has other names.
        """
        other = [name for name in self.keys() if not name.startswith(restore_prefix)]
        if other:
            problem = f"restore_prefix is '{restore_prefix}' but Parameters name '{other[0]}' does not start with it"
            raise MismatchError(problem, fix=_NAMING)
        arrays = load_named(filename, "a network")
        self.load_dict(arrays, ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

    @explained_by(load)
    def load_dict(
        self,
        param_dict: Any,
        ctx: ContextsLike = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Take the values of the parameters from arrays.

        Args:
            param_dict: arrays by name, with or without `arg:` and `aux:`.
            filename: the arrays' origin in messages.
        """
        pairs = param_dict.items() if isinstance(param_dict, Mapping) else param_dict
        arrays = {restore_prefix + name.removeprefix("arg:").removeprefix("aux:"): value for name, value in pairs}
        source = f"file: {filename}" if filename else "param_dict"
        refuse_wrong_parameters(self.keys(), arrays)
        for name in [] if allow_missing else self.keys():
            if name not in arrays:
                raise MismatchError(
                    f"Parameter '{name[len(restore_prefix) :]}' is missing in {source}, which contains parameters: "
                    f"{_brief_print_list(arrays)}",
                    fix=way_out_of_mixing([name], arrays) or _NAMING,
                )
        for name, value in arrays.items():
            if name in self._params:
                self[name]._load_init(value, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise MismatchError(
                    f"Parameter '{name[len(restore_prefix) :]}' loaded from {source} is not present in ParameterDict, "
                    f"choices are: {_brief_print_list(self._params)}",
                    fix=f"Set ignore_extra to True to ignore. {_NAMING}",
                )


def _merged(desired: Any, existing: Any) -> tuple[int, ...] | None:
    """Merge two shapes in which 0 and -1 are unknown sizes; None where they contradict each other."""
    desired = (desired,) if isinstance(desired, int) else desired
    if len(desired) != len(existing) or any(a != b and a > 0 and b > 0 for a, b in zip(desired, existing, strict=True)):
        return None
    return tuple(b if a in (0, -1) else a for a, b in zip(desired, existing, strict=True))
