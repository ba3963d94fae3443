"""The one exception family, and the one place that words an error.

Every error raised on purpose derives from `NNVMError`. A subclass names the part of the system that refused; where
Python users expect a built-in class (`TypeError`, `ValueError`, `KeyError`, …) the subclass derives from it too, so
that both `except NNVMError` and the idiomatic handler work. Errors are raised with a problem and facts (operator, node,
input, parameter, expected, got, fix), and `explain` makes one message of them, so that all errors of the library are
worded alike.

Names come from files of strangers, and errors end on terminals: `printable` is the one function that
makes a text safe there, and `NNVMError` applies it to every message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

MAX_PART = 2000
"""Characters of the problem, of what was expected, and of what came, in one message."""

MAX_MESSAGE = 16_000
"""Characters of a message: several parts, or a list of what is wrong. Texts of any length come from files."""

MAX_LISTED = 8
"""Names that a message lists before it only counts the rest."""

RENAMED = {
    **dict.fromkeys(("dtype", "precision", "target_dtype"), "compute_dtype"),
    **dict.fromkeys(("aux_states", "aux_params"), "aux"),
    "arg_params": "args",
    "data_axes": "data_axis",
}
"""Keyword of former versions, or of MXNet → the one name that the option has at every function of these packages."""

_NAME = 80  # characters of one name in a list
_COMPARED = 1 << 25  # pairs of characters, at most, that are compared to find a name: those of a second
_FACTS = ("op", "node", "input", "param", "expected", "got", "fix")  # what `explain` words beside the problem
_COMPARABLE = 128  # characters; a longer name was not mistyped


class NNVMError(RuntimeError):
    """The base class of every error this library raises on purpose: NNVM's and MXNet's single error class, which is
    a RuntimeError as MXNet's is.

    Its message is a text; or a problem and facts, which `explain` words. Every message is cut at `MAX_MESSAGE`
    characters.
    """

    def __init__(self, *args: Any, **named: Any):
        facts = {name: named.pop(name) for name in _FACTS if name in named}
        if facts:
            args = (explain(args[0], **facts), *args[1:])
        # After RuntimeError in the order of bases stands the built-in class of the subclass, if it has one: OSError
        # reads its errno, AttributeError its name=.
        super(RuntimeError, self).__init__(*(_shortened(arg) if isinstance(arg, str) else arg for arg in args), **named)

    def __str__(self) -> str:
        # Not super(): KeyError would print the message's repr, OSError look for an errno.
        return printable_lines(Exception.__str__(self))


class NarrowedDtypeWarning(UserWarning):
    """A graph requests 64-bit numbers and runs in 32 bits, because JAX's 64-bit mode is off."""

    def __str__(self) -> str:
        return printable_lines(super().__str__())


class CutNumberWarning(UserWarning):
    """A number loses its fraction, because an array of whole numbers of the NumPy dialect takes it."""


class NonFiniteWarning(UserWarning):
    """Outputs that are NaN or infinite, in a prediction or an evaluation."""


MXNetError = NNVMError
"""MXNet's name for the same class."""


class OpNotRegisteredError(NNVMError, KeyError):
    """An operator name that the registry does not have."""


class AttributeConflictError(NNVMError):
    """An operator attribute or alias that cannot be set: same priority, other type, name taken."""


class ParamError(NNVMError, ValueError):
    """An operator parameter that is missing, unknown, malformed or out of range."""


class ComposeError(NNVMError):
    """Inputs that do not fit the operator or the symbol they are given to."""


class UnusedInputError(ComposeError, AssertionError, ValueError):
    """An input of a loop that its body does not use: an AssertionError of MXNet's foreach, a ValueError of its
    while_loop."""


class SymbolTypeError(NNVMError, TypeError):
    """A Python value of a type that a symbol function does not take."""


class NotASymbolError(SymbolTypeError):
    """A value in place of a symbol.

    Attributes:
        argument: the place, in words.
        value: the value.
    """

    argument: str = ""
    value: object = None


class SymbolValueError(NNVMError, ValueError):
    """A Python value that a symbol function does not take."""


class SymbolIndexError(NNVMError, IndexError):
    """An output number that a symbol does not have."""


class NotImplementedForSymbol(NNVMError, TypeError, NotImplementedError):
    """A Python operation that makes no sense on a symbol, which holds no values."""


class GraphError(NNVMError):
    """A graph whose structure is broken: a cycle, a missing node, an attribute that is not there."""


class PassError(NNVMError):
    """A pass that is unknown or whose required graph attributes are missing."""


class InferenceError(NNVMError):
    """Shapes or dtypes that contradict each other.

    Attributes:
        node: the name of the node where they do; None where it is unknown.
    """

    def __init__(self, message: str, at: str | None = None, /, **facts: Any):
        super().__init__(message, **facts)
        self.node = at


class FileError(NNVMError, OSError):
    """A path that cannot be read or written: it is not a regular file, or too large for its kind."""


class MissingFolderError(FileError, FileNotFoundError):
    """A file that cannot be written because its folder does not exist."""


class ParamsFormatError(NNVMError, ValueError):
    """An array file (`.params`) that is malformed, or no array file."""


class RecordFormatError(NNVMError, ValueError):
    """A record file, its index or a list of images that is malformed, or an image that cannot be decoded."""


class ParamsMismatchError(NNVMError, ValueError):
    """Arrays that do not fit the symbol they are for: missing, wrongly shaped, or impossible to tell apart."""


class JSONFormatError(NNVMError, ValueError):
    """A graph file that is malformed, or that describes an impossible graph."""


class GradientError(NNVMError):
    """A gradient that cannot be built."""


class InitializerError(NNVMError, ValueError, AssertionError):
    """An initialiser that is unknown, malformed, or does not fit the parameter. MXNet asserts."""


class ModelNotFoundError(NNVMError, FileNotFoundError):
    """A missing file of a model; the message lists the files that exist."""


class CheckpointError(NNVMError):
    """A training checkpoint that cannot be written, read, or does not belong to the model."""


class LoweringError(NNVMError):
    """A graph that cannot be translated to JAX, or fails while it is being traced."""


class OutOfMemoryError(LoweringError, MemoryError):
    """Arrays that memory does not hold."""


class OpenSizeError(LoweringError):
    """An operator that takes only some of the sizes that were left open.

    Attributes:
        condition: the sizes that it takes, such as `N >= 3`.
    """

    def __init__(self, message: str, condition: str = "", /, **facts: Any):
        super().__init__(message, **facts)
        self.condition = condition


class OnnxError(NNVMError):
    """A graph, or a node of it, that an ONNX file cannot hold, or an ONNX file that no symbol can."""


class BindError(NNVMError):
    """Arrays, shapes or dtypes that do not fit the graph they are to be bound to."""


class ExecutorTypeError(NNVMError, TypeError):
    """A Python value of a type that an executor does not take."""


class ExecutorValueError(NNVMError, ValueError):
    """A Python value that an executor does not take: a wrong shape, name or request."""


class UnknownArrayError(NNVMError, KeyError):
    """A name that no array of an executor has."""


class UnknownAttributeError(NNVMError, AttributeError):
    """An attribute that an object or a module does not have; the message names what to use here."""


class UnknownFunctionError(AttributeError):
    """A function that a module or a group of them does not have. Its message is made when it is read: `hasattr` reads
    none, and looking for names that are close takes 10 ms."""

    def __init__(self, message: Callable[[], str]):
        super().__init__(message)

    def __str__(self) -> str:
        return self.args[0]()

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


class CallError(NNVMError, TypeError):
    """A function called with arguments that it does not take, or without one that it needs."""


class PathError(SymbolTypeError, CallError):
    """A value in place of a path: None, a number, a list, bytes."""


class TrainingError(NNVMError, ValueError):
    """Training that cannot go on: batches that do not fit, a run that was not initialised, numbers that
    overflowed."""


class LabelError(TrainingError, IndexError):
    """Labels that are not classes of the output. MXNet raises an IndexError."""


class MissingExtraError(NNVMError, ImportError):
    """An optional dependency that is not installed; the message names the package."""


def explain(
    problem: str,
    *,
    op: object = None,
    node: object = None,
    input: object = None,
    param: object = None,
    expected: object = None,
    got: object = None,
    fix: str | None = None,
) -> str:
    """Return the words of an error: the problem, then where it is, what was expected, what came, and what to do.

    `op` and `node` may be names or objects with a `name`; a node that has the line of code that made it adds that line.
    Parts that are None or have no name are left out. A list of names as `expected` or `got` is worded by `listed`. No
    part is longer than `MAX_PART`: what comes from a file may be of any length.
    """
    where = [
        cut(f"{label} {_name(value)!r}")
        for label, value in (("operator", op), ("node", node), ("input", input), ("parameter", param))
        if value is not None and _name(value) != ""
    ]
    parts = [cut(problem.rstrip("."))]
    source = getattr(getattr(node, "attrs", None), "source", None)
    if source is not None:
        where.append(f"made at {cut(printable(source))}")
    if where:
        parts.append("in " + ", ".join(where))
    if expected is not None:
        parts.append(f"expected {cut(_value_text(expected))}")
    if got is not None:
        parts.append(f"got {cut(_value_text(got))}")
    message = "; ".join(parts) + "."
    return message + (f" {cut(fix)}" if fix else "")


def missing_extra(what: str, extra: str) -> MissingExtraError:
    """Return the error for what needs an extra of this library that is not installed: what, and how to install it."""
    return MissingExtraError(f"{what}. Install it with: pip install 'symjax-nnvm[{extra}]'")


def cut(text: str, length: int = MAX_PART) -> str:
    """Return a text for an error message, cut off at `length` characters."""
    return text if len(text) <= length else f"{text[:length]}…"


def _value_text(value: object) -> str:
    names = isinstance(value, list | tuple) and bool(value) and all(isinstance(name, str) for name in value)
    return listed(value) if names else str(value)  # type: ignore[arg-type]


def _shortened(message: str) -> str:
    """Return a message, without its middle if it is too long: the problem comes first, what to do last."""
    if len(message) <= MAX_MESSAGE:
        return message
    half = MAX_MESSAGE // 2 - 50  # room for the note: a message that was cut is not cut again
    return f"{message[:half]} … ({len(message) - 2 * half} characters left out) … {message[-half:]}"


# -- names in messages -----------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Return the text on one line, its control and formatting characters (ESC, U+202E, …) as escapes: what a terminal
    would take for a command, or show in another order, is spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> str:
    """Return `printable` of each line of a text; its line ends and tabs stay."""
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def plain_list(names: Iterable[object], most: int = MAX_LISTED) -> str:
    """Return `a, b, c`; of many names the first `most` and the count, `a, b, … (40 in all)`; `none` of none."""
    names = list(names)
    shown = [printable(cut(str(name), _NAME)) for name in names[:most]]
    return ", ".join(shown) + (f", … ({len(names)} in all)" if len(names) > most else "") or "none"


def listed(names: Iterable[object], limit: int = MAX_LISTED) -> str:
    """Names for an error message: `['a', 'b' and 31 more]`, as Python prints a list as long as it is short."""
    every = list(names)
    shown = ", ".join(cut(repr(name), 100) for name in every[:limit])
    return f"[{shown} and {len(every) - limit} more]" if len(every) > limit else f"[{shown}]"


def closest(name: str, names: Iterable[str], most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return the names most like an unknown one, closest first; case and outer underscores are ignored.

    cutoff: how alike they have to be, 1 the same. Bounded in time for any names in a file.
    """
    target = _folded(name)
    if not target or len(target) > _COMPARABLE:
        return []
    candidates: dict[str, list[str]] = {}
    budget = _COMPARED
    for candidate in dict.fromkeys(names):
        folded = _folded(candidate)
        if 2 * min(len(folded), len(target)) >= cutoff * (len(folded) + len(target)):
            budget -= len(folded) * len(target)
            if budget < 0:
                break
            candidates.setdefault(folded, []).append(candidate)
    matches = difflib.get_close_matches(target, candidates, n=most, cutoff=cutoff)
    in_order = [difflib.get_close_matches(name, candidates[folded], n=most, cutoff=0.0) for folded in matches]
    return [candidate for group in in_order for candidate in group][:most]


def did_you_mean(name: str, names: Iterable[str], most: int = 3, cutoff: float = 0.6) -> str:
    """Return `Did you mean 'a' or 'b'?`, or nothing when no name is close."""
    close = closest(name, names, most, cutoff)
    return f"Did you mean {' or '.join(map(repr, close))}?" if close else ""


def close_names(wrong: Collection[str], known_names: Collection[str]) -> str:
    """Return `Did you mean …?` for the first few of the names that nothing has."""
    near = [(name, did_you_mean(str(name), known_names, cutoff=0.6)) for name in list(wrong)[:3]]
    several = len(wrong) > 1
    return " ".join(f"{name!r}: {text[0].lower()}{text[1:]}" if several else text for name, text in near if text)


def refuse_unknown(
    error: type[NNVMError], problem: str, names: Iterable[str], known_names: Collection[str], what: str, fix: str = ""
) -> None:
    """Raise an error if some names are not among the known names: the problem with those names, the known names, and
    names that are close, else the fix."""
    unknown = [name for name in names if name not in known_names]
    if unknown:
        expected = f"{what} among {listed(known_names)}"
        raise error(f"{problem} {listed(unknown)}", expected=expected, fix=close_names(unknown, known_names) or fix)


def tells_new_names(function: F) -> F:
    """A decorator of a function, or of a class for its making: a keyword of `RENAMED` that it lacks is refused with the
    option's name. Raises CallError."""
    if isinstance(function, type):
        function.__init__ = tells_new_names(function.__init__)
        return cast(F, function)

    former = RENAMED.keys() - signature(function).parameters.keys()

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name in former:
                called = function.__qualname__.removesuffix(".__init__")
                raise CallError(f"{called} does not take {name!r}. {name}=: {RENAMED[name]}={name}.")
        return function(*args, **kwargs)

    return cast(F, checked)


def close_or_all(name: str, names: Iterable[str], all_are: str, shown: Iterable[str] | None = None) -> str:
    """Return `Did you mean 'a'?`, or all that there are when no name is close: `Its inputs are a, b.` shown: those of
    them that are listed, default all."""
    names = list(names)
    return did_you_mean(name, names) or f"{all_are} {plain_list(names if shown is None else shown)}."


def unknown_keyword(what: str, key: str, candidates: Iterable[str], where: str = "") -> str:
    """Return NNVM's KeywordArgumentMismatch, with a few of the closest candidates."""
    candidates = list(candidates)
    shown = "".join(f"\t[{i}]{printable(name)}\n" for i, name in enumerate(candidates[:MAX_LISTED]))
    more = f"\t… ({len(candidates)} in all)\n" if len(candidates) > MAX_LISTED else ""
    fix = did_you_mean(key, candidates)
    return (
        f"{what}Keyword argument name {printable(key)} not found.{where}{fix and ' '}{fix}\n"
        f"Candidate arguments:\n{shown}{more}"
    )


def _folded(name: str) -> str:
    return name.lower().strip("_")


def _name(value: object) -> object:
    return getattr(value, "name", value)
