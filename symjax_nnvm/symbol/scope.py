"""NameManager, Prefix and AttrScope: automatic names and attributes for the symbols made inside a `with` block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Generic, Self, TypeVar

from symjax_nnvm.errors import SymbolTypeError, SymbolValueError

T = TypeVar("T")


class _Current(Generic[T]):
    """`Class.current`: the innermost object entered in this thread; a fresh one where none was."""

    def __init__(self, outermost: Callable[[], T]):
        self._outermost = outermost
        self._local = threading.local()

    def __get__(self, instance: object, owner: type[object]) -> T:
        try:
            return self._local.stack[-1]
        except AttributeError:  # the first use in this thread
            return self.stack[-1]

    @property
    def stack(self) -> list[T]:
        """Return the objects entered in this thread, the innermost last."""
        stack: list[T] | None = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = [self._outermost()]
        return stack

    def push(self, scope: T) -> None:
        """Enter a scope in this thread."""
        self.stack.append(scope)

    def pop(self) -> None:
        """Leave the innermost scope of this thread."""
        self.stack.pop()


_names: _Current[NameManager] = _Current(lambda: NameManager())
_attrs: _Current[AttrScope] = _Current(lambda: AttrScope())


_numbering = threading.Lock()


def next_number(counter: dict[str, int], hint: str) -> int:
    """Return the number of earlier calls for a hint; no two threads get the same number."""
    with _numbering:
        number = counter.get(hint, 0)
        counter[hint] = number + 1
    return number


class NameManager:
    """A counter that names operators which were made without a name: `fullyconnected0`, `fullyconnected1`, ….

    `NameManager.current` is the manager of this thread. Entering a manager in a `with` block makes it the current one;
    it counts from 0.
    """

    current = _names

    def __init__(self):
        self._counter: dict[str, int] = {}

    def get(self, name: str | None, hint: str) -> str:
        """Return the name of a node.

        Args:
            name: the name that the user gave, which is returned; None for an automatic one.
            hint: the word before the number of an automatic name.
        """
        if name:
            return name
        return f"{hint}{next_number(self._counter, hint)}"

    def __enter__(self) -> Self:
        _names.push(self)
        return self

    def __exit__(self, *_: object) -> None:
        _names.pop()


class Prefix(NameManager):
    """A name manager that puts a prefix before every operator's name, whether the user gave it or not.

    Variables made with `Variable(name)` keep their names; automatic ones (`fc1_weight`) begin with the operator's name.

    Args:
        prefix: the text before each name.
    """

    def __init__(self, prefix: str):
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """Return the name that `NameManager.get` returns, with the prefix before it."""
        return self._prefix + super().get(name, hint)


def subgraph_name(hint: str) -> str:
    """Return the name of a subgraph: `hint` and the next number. Prefixes neither name nor count them, as in MXNet."""
    manager = next(scope for scope in reversed(_names.stack) if not isinstance(scope, Prefix))
    return NameManager.get(manager, None, hint)


class AttrScope:
    """Attributes for every symbol that is made inside a `with` block; an inner scope's values win over an outer's.

    A scope never changes. It may be entered again, and in several threads.

    Args:
        attrs: the attributes, as text.

    Raises:
        SymbolValueError: a value is not a string.
    """

    current = _attrs

    def __init__(self, **attrs: str):
        for key, value in attrs.items():
            if not isinstance(value, str):
                raise SymbolValueError(f"Attributes need to be string, but {key} is {value!r}")
        self._attrs = attrs

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """Return the scope's attributes together with those in `attr`, which win.

        Raises SymbolTypeError for anything that is not a dict.
        """
        if attr and not isinstance(attr, Mapping):
            raise SymbolTypeError("Wrong attributes", param="attr", expected="a dict", got=f"{attr!r:.80}")
        return {**self._attrs, **attr} if attr else dict(self._attrs)

    @property
    def is_empty(self) -> bool:
        """Return whether the scope adds no attribute."""
        return not self._attrs

    def __enter__(self) -> AttrScope:
        scope = AttrScope(**{**AttrScope.current._attrs, **self._attrs})
        _attrs.push(scope)
        return scope

    def __exit__(self, *_: object) -> None:
        _attrs.pop()
