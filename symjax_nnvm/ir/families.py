"""Find families of operators: import every module below a package, which registers the operators it declares."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable


def import_families(path: Iterable[str], package: str) -> None:
    """Import every module and package below `package`, whose `__path__` is given, in the order of their names."""
    for module in pkgutil.walk_packages(path, f"{package}."):
        importlib.import_module(module.name)
