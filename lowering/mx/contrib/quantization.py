"""`mx.contrib.quantization`: its functions, which scripts import by `*`, refuse with words when they are called."""

from __future__ import annotations

from typing import Any, NoReturn

from lowering.messages.migration_hints import ATTRIBUTES, unknown_attribute
from symjax_nnvm.errors import CallError

_OWNER = "mx.contrib.quantization"


def _refusing(name: str, word: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise CallError(f"{_OWNER}.{name} cannot quantise a network", fix=word)

    refuse.__name__, refuse.__doc__ = name, f"Raises CallError. {word}"
    return refuse


globals().update({name: _refusing(name, word) for name, word in ATTRIBUTES[_OWNER].items()})


def __getattr__(name: str) -> object:
    unknown_attribute(_OWNER, name, [])
