"""Initialisers made of others: Load, Mixed."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.initializer.initializer_base import Shape, create
from lowering.messages.counts import checks_flags
from symjax_nnvm.errors import InitializerError, plain_list
from symjax_nnvm.io.files import path_text
from symjax_nnvm.mxnet.array_names import bare_name
from symjax_nnvm.mxnet.params_files import load_arrays
from symjax_nnvm.mxnet.sparse import SparseArray

_log = logging.getLogger(__name__)


def _nested(initializer: Any) -> Any:
    """Load and Mixed as they are; anything else through `create`."""
    return initializer if isinstance(initializer, Load | Mixed) else create(initializer)


class Load:
    """Takes the values of parameters from arrays, by name.

    The prefixes `arg:` and `aux:` are dropped.

    Args:
        param: a dict of arrays, or the path of a file of arrays (`.params`).
        default_init: the initialiser of parameters that the arrays do not have.
        verbose: log where each value comes from.

    Raises:
        InitializerError: the arrays have no names, or a parameter has neither an array nor an initialiser.
        ParamsFormatError: the file is malformed.
        OSError: the file cannot be read.
    """

    def __init__(
        self, param: Mapping[str, Any] | str | os.PathLike[str], default_init: Any = None, verbose: bool = False
    ):
        arrays = param if isinstance(param, Mapping) else load_arrays(path_text(param, "param"))
        if not isinstance(arrays, Mapping):
            raise InitializerError("Load needs arrays with names", got=f"{len(arrays)} arrays without")
        self.param = {bare_name(name): value for name, value in arrays.items()}
        self.default_init = None if default_init is None else _nested(default_init)
        self.verbose = verbose

    def __call__(
        self, desc: str, shape: Shape, dtype: Any = np.float32, key: jax.Array | int | None = None
    ) -> jax.Array:
        """Return the value of a parameter, as `Initializer.__call__` gives it."""
        if desc in self.param:
            array = self.param[desc]
            value = array.todense() if isinstance(array, SparseArray) else array
            if np.shape(value) != tuple(shape):
                raise InitializerError(
                    f"Parameter {desc} cannot be initialized from loading. Shape mismatch",
                    expected=tuple(shape),
                    got=np.shape(value),
                )
            self._log_initialized(desc, "loading")
            return jnp.asarray(value, dtype)
        if self.default_init is None:
            raise InitializerError(
                f"Cannot Initialize {desc}. Not found in loaded param and no default Initializer is provided. "
                f"The arrays are {plain_list(map(repr, self.param))}; pass default_init=."
            )
        self._log_initialized(desc, "default")
        return self.default_init(desc, shape, dtype, key)

    def _log_initialized(self, desc: str, how: str) -> None:
        if self.verbose:
            _log.info("Initialized %s by %s", desc, how)


class Mixed:
    """Chooses an initialiser by regular expressions: the first one that matches the beginning of a parameter's name.

    Args:
        patterns: the regular expressions.
        initializers: an initialiser for each of them.

    Raises:
        InitializerError: the lists have different lengths, or an expression is malformed.
    """

    @checks_flags
    def __init__(self, patterns: Sequence[str | re.Pattern[str]], initializers: Sequence[Any]):
        if len(patterns) != len(initializers):
            raise InitializerError(
                "Mixed needs one initialiser for each pattern", expected=len(patterns), got=len(initializers)
            )
        try:
            self.map = [(re.compile(p), _nested(i)) for p, i in zip(patterns, initializers, strict=True)]
        except re.error as error:
            raise InitializerError(f"{error.pattern!r} is not a regular expression: {error}.") from None

    def __call__(
        self, desc: str, shape: Shape, dtype: Any = np.float32, key: jax.Array | int | None = None
    ) -> jax.Array:
        """Return the value of a parameter, as `Initializer.__call__` gives it."""
        for pattern, initializer in self.map:
            if pattern.match(desc):
                return initializer(desc, shape, dtype, key)
        patterns = plain_list(repr(pattern.pattern) for pattern, _ in self.map)
        raise InitializerError(
            f"Parameter name {desc} did not match any pattern of {patterns}. Consider "
            'adding a ".*" pattern at the end with default Initializer.'
        )
