"""MXNet's names of arrays in files: `arg:weight` is an argument's, `aux:moving_mean` an auxiliary state's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ARG, AUX = "arg:", "aux:"


def kind_of(name: str) -> str:
    """Return the prefix of a name; empty where it has none."""
    return next((kind for kind in (ARG, AUX) if name.startswith(kind)), "")


def bare_name(name: str) -> str:
    """Return the name without its prefix."""
    return name.removeprefix(kind_of(name))


def split_kinds(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (arguments, auxiliary states) by bare names; what has no prefix is an argument."""
    args = {bare_name(name): array for name, array in arrays.items() if not name.startswith(AUX)}
    return args, {bare_name(name): array for name, array in arrays.items() if name.startswith(AUX)}


def with_kinds(args: Mapping[str, Any], aux: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments and auxiliary states under the names that files give them."""
    return {f"{ARG}{name}": array for name, array in args.items()} | {f"{AUX}{n}": a for n, a in aux.items()}
