"""`mx.registry`: registers of classes by name, for the families of a script's own."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

_classes: dict[type, dict[str, type]] = {}


def get_registry(base_class: type) -> dict[str, type]:
    """A copy of the register of a family: name → class."""
    return dict(_classes.setdefault(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A function (class, name=None) that puts a class into the register of a family, under its own name or another, in
    lower case. It warns where the name is taken, and raises AssertionError for a class of another family.

    nickname: what the family is called in messages.
    """
    registry = _classes.setdefault(base_class, {})

    def register(klass: Any, name: str | None = None) -> Any:
        assert issubclass(klass, base_class), f"Can only register subclass of {base_class.__name__}"
        key = (name or klass.__name__).lower()
        if key in registry:
            before, new = (f"{cls.__module__}.{cls.__name__}" for cls in (registry[key], klass))
            message = f"New {nickname} {new} registered with name {key} is overriding existing {nickname} {before}"
            warnings.warn(message, UserWarning, stacklevel=2)
        registry[key] = klass
        return klass

    register.__doc__ = f"Register {nickname} to the {nickname} factory"
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A decorator with further names of a class."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[Any], Any]:
        def registered(klass: Any) -> Any:
            for name in aliases:
                register(klass, name)
            return klass

        return registered

    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """A function that makes an instance of a family: from a name and arguments, a dict or a JSON text of both, or from
    an instance, which it returns. It raises AssertionError for a name that is not registered."""
    registry = _classes.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        name, *arguments = args or (kwargs.pop(nickname),)
        if isinstance(name, base_class):
            assert not [*arguments, *kwargs], f"{nickname} is already an instance. Additional arguments are invalid"
            return name
        if isinstance(name, dict):
            return create(**name)
        assert isinstance(name, str), f"{nickname} must be of string type"
        if name[:1] in ("[", "{"):
            assert not [*arguments, *kwargs], f"{nickname} given as JSON cannot have further arguments"
            read = json.loads(name)
            return create(**read) if isinstance(read, dict) else create(read[0], **read[1])
        problem = f"{name} is not registered. Please register with {nickname}.register first"
        assert name.lower() in registry, problem
        return registry[name.lower()](*arguments, **kwargs)

    create.__doc__ = f"Create a {nickname} instance from config."
    return create
