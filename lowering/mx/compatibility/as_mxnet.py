"""`import mxnet` returns this namespace: for scripts and libraries that import MXNet."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lowering.messages.migration_hints import hint_for
from lowering.mx.compatibility.mxnet_names import take_mxnets_names
from lowering.mx.compatibility.numpy1 import give_back
from lowering.mx.context import quiet_jax
from symjax_nnvm.errors import CallError

_NAME, _OURS = "mxnet", "lowering.mx"

_SUBMODULES = {
    "attribute": "attribute",
    "context": "context",
    "executor": "executor",
    "io.io": "io",
    "io.utils": "io",
    "kvstore.base": "kv",
    "kvstore.kvstore": "kv",
    "module.base_module": "mod",
    "module.bucketing_module": "mod",
    "module.executor_group": "module.executor_group",
    "module.module": "mod",
    "module.python_module": "mod",
    "module.sequential_module": "mod",
    "ndarray.ndarray": "nd",
    "ndarray.op": "nd",
    "ndarray.register": "nd",
    "ndarray.utils": "nd",
    "numpy": "np",
    "numpy_extension": "npx",
    "optimizer.contrib": "optimizer",
    "optimizer.optimizer": "optimizer",
    "rnn.rnn": "rnn",
    "rnn.rnn_cell": "rnn",
    "symbol.op": "sym",
    "symbol.register": "sym",
    "symbol.symbol": "sym",
}
"""MXNet's submodules that have another name here. The others have the same: `mxnet.ndarray.contrib` is
`mx.ndarray.contrib`."""


def install(*, numpy1: bool = False) -> None:
    """Make `import mxnet`, and imports of its submodules, return this namespace in this process; a second call does
    nothing.

    Args:
        numpy1: give NumPy the names back that its version 2 removed, such as np.float, which scripts of MXNet's time
            use.

    Raises:
        CallError: a real MXNet is installed or imported.
    """
    present = sys.modules.get(_NAME)
    if present is not sys.modules[_OURS]:
        if present is not None or importlib.util.find_spec(_NAME) is not None:
            raise CallError(
                "mx.install() would hide the MXNet that is " + ("imported" if present is not None else "installed"),
                expected="an environment without MXNet",
                fix="`from lowering import mx` works beside it.",
            )
        sys.meta_path.insert(0, _Finder())
        sys.modules[_NAME] = sys.modules[_OURS]
        take_mxnets_names()
        quiet_jax()
    if numpy1:
        give_back()


def name_submodules() -> None:
    """Give this namespace MXNet's submodules that have another name here as attributes: `mx.mod.base_module`."""
    for name in _SUBMODULES:
        package, _, attribute = name.rpartition(".")
        if package and not hasattr(owner := _submodule(package), attribute):
            setattr(owner, attribute, _submodule(name))


class _Finder(MetaPathFinder):
    """Finds MXNet's submodules in this namespace. Without it Python would read our files a second time, under MXNet's
    name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a submodule of MXNet comes from; None for modules of others. Raises ModuleNotFoundError."""
        package, _, submodule = fullname.partition(".")
        if package != _NAME or not submodule:
            return None
        return ModuleSpec(fullname, _SubmoduleLoader(_submodule(submodule)), is_package=True)


class _SubmoduleLoader(Loader):
    """Puts an object that exists in place of the module that Python is about to fill."""

    def __init__(self, module: Any):
        self.module = module

    def exec_module(self, module: ModuleType) -> None:
        """Load as `importlib.abc.Loader` does: the import ends with what `sys.modules` has.

        Submodules that have another name here are registered, too: Python looks for none below a module that is a file.
        So are those whose package has something else under their name, such as the function `alexnet`: Python would put
        the module in its place.
        """
        sys.modules[module.__name__] = self.module
        inside = module.__name__.removeprefix(f"{_NAME}.") + "."
        for name in _SUBMODULES:
            if name.startswith(inside):
                sys.modules[f"{_NAME}.{name}"] = _submodule(name)
        if isinstance(self.module, ModuleType) and self.module.__spec__ is not None:
            for name, value in vars(self.module).items():
                path = f"{self.module.__spec__.name}.{name}"
                if path in sys.modules and value is not sys.modules[path]:
                    sys.modules[f"{module.__name__}.{name}"] = sys.modules[path]


def _submodule(name: str) -> Any:
    """Return the object of this namespace that is MXNet's submodule. Raises ModuleNotFoundError."""
    submodule: Any = sys.modules[_OURS]
    parts = _SUBMODULES.get(name, name).split(".")
    for i, part in enumerate(parts):
        path = ".".join([_OURS, *parts[: i + 1]])
        try:  # a function may have its module's name: alexnet
            submodule = sys.modules[path] if path in sys.modules else getattr(submodule, part)
        except AttributeError:
            try:
                submodule = importlib.import_module(path)
            except ModuleNotFoundError:
                word = hint_for(".".join(["mx", *parts[:i]]), part)
                message = f"No module named '{_NAME}.{name}' in {_OURS}. {word}".rstrip()
                raise ModuleNotFoundError(message, name=f"{_NAME}.{name}") from None
    return submodule
