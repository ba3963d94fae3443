"""`ParameterDict`: parameters by name, made when they are first asked for, or taken from another dict."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx import init as initializers
from lowering.mx.gluon.errors import BlockValueError, MismatchError, MissingConstantError
from lowering.mx.gluon.utils import _brief_print_list, _indent
from lowering.mx.gluon.weights import Constant, Parameter
from lowering.mx.ndarray import save
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.files import load_named

_NAMING = "Source and target networks must have the same prefix: prefix= of the block, or with name_scope()."


class ParameterDict:
    """Parameters by their whole names. prefix: comes before each name that `get` is asked for. shared: a dict whose
    parameters of the same names are taken instead of new ones."""

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None):
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        rows = "\n".join(_indent(f"  {each}", 2) for each in self.values())
        return f"{self._prefix + ' ' if self._prefix else ''}(\n{rows}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def items(self) -> ItemsView[str, Parameter]:
        """(name, parameter) pairs in the order in which they were made."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """The parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """What comes before each name that `get` is asked for."""
        return self._prefix

    def _get_impl(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter of a name, after the prefix; a new one where there is none. kwargs: as of `Parameter`.

        Raises MismatchError where an existing one is something else.
        """
        name = self.prefix + name
        param = self._get_impl(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, wanted in kwargs.items():
            existing = getattr(param, key, None)
            if existing is None:
                setattr(param, key, wanted)
            elif key == "shape" and wanted is not None and (merged := _merged(wanted, existing)) is not None:
                param._shape = merged
            elif key == "dtype" and wanted is not None and np.dtype(wanted) == np.dtype(existing):
                continue
            elif wanted is not None and wanted != existing:
                raise MismatchError(
                    f"Cannot retrieve Parameter '{name}' because desired attribute does not match with stored for "
                    f"attribute '{key}': desired '{wanted}' vs stored '{existing}'."
                )
        return param

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """The constant of a name; a new one where there is none. Raises MissingConstantError, a KeyError, where there
        is no value either, MismatchError where an existing one is another."""
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

    def update(self, other: Any) -> None:
        """Take all parameters of another dict. Raises MismatchError for another parameter of the same name."""
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise MismatchError(
                    f"Cannot update self with other because they have different Parameters with the same name '{name}'"
                )
        self._params.update(other.items())

    @checks_flags
    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialise all parameters; init (Uniform) serves those without an initialiser of their own."""
        init = initializers.create("uniform") if init is None else init
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other contexts."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Any]:
        """The contexts of all parameters, each once."""
        return list({ctx: None for param in self.values() for ctx in param.list_ctx()})

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters: `net.collect_params().setattr("grad_req", "null")`."""
        for param in self.values():
            setattr(param, name, value)

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write an array file. strip_prefix: taken off the names. Raises BlockValueError for a name without it."""
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
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Take the values of an array file. restore_prefix: put before the names of the file. ctx: of parameters that
        were not initialised. cast_dtype, dtype_source: as of `Block.load_parameters`. Raises MismatchError for names
        that are missing, unless allow_missing, and for others, unless ignore_extra."""
        other = [name for name in self.keys() if not name.startswith(restore_prefix)]
        if other:
            problem = f"restore_prefix is '{restore_prefix}' but Parameters name '{other[0]}' does not start with it"
            raise MismatchError(problem, fix=_NAMING)
        arrays = load_named(filename, "a network")
        self.load_dict(arrays, ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

    def load_dict(
        self,
        param_dict: Any,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Take the values of arrays by name, with or without `arg:` and `aux:`; see `load`."""
        pairs = param_dict.items() if isinstance(param_dict, Mapping) else param_dict
        given = {restore_prefix + name.removeprefix("arg:").removeprefix("aux:"): value for name, value in pairs}
        source = f"file: {filename}" if filename else "param_dict"
        for name in [] if allow_missing else self.keys():
            if name not in given:
                raise MismatchError(
                    f"Parameter '{name[len(restore_prefix) :]}' is missing in {source}, which contains parameters: "
                    f"{_brief_print_list(given)}",
                    fix=_NAMING,
                )
        for name, value in given.items():
            if name in self._params:
                self[name]._load_init(value, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise MismatchError(
                    f"Parameter '{name[len(restore_prefix) :]}' loaded from {source} is not present in ParameterDict, "
                    f"choices are: {_brief_print_list(self._params)}",
                    fix=f"Set ignore_extra to True to ignore. {_NAMING}",
                )


def _merged(wanted: Any, existing: Any) -> tuple[int, ...] | None:
    """Return a shape that says what two say, in which 0 and -1 are unknown; None where they contradict each other."""
    wanted = (wanted,) if isinstance(wanted, int) else wanted
    if len(wanted) != len(existing) or any(a != b and a > 0 and b > 0 for a, b in zip(wanted, existing, strict=True)):
        return None
    return tuple(b if a in (0, -1) else a for a, b in zip(wanted, existing, strict=True))
