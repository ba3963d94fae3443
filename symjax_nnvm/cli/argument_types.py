"""Types of the command's arguments: numbers in bounds, paths that can be paths. What they refuse is one line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from symjax_nnvm.errors import printable


class Parser(argparse.ArgumentParser):
    """Parses a command line; its errors are one line, safe on a terminal, and exit with 2. What an argument of any
    number takes may stand before, between and behind options."""

    _open: argparse.Action | None = None

    def add_argument(self, *names: Any, **how: Any) -> argparse.Action:
        """Add an argument as argparse does, and remember the last optional argument without a dash."""
        action = super().add_argument(*names, **how)
        if not action.option_strings and action.nargs in ("*", "?"):
            self._open = action
        return action

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # the stub has overloads
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """Parse as argparse does, but add words after an option to the positional argument before it, too."""
        options, unparsed = super().parse_known_args(args, namespace)
        if self._open is None:
            return options, unparsed
        behind = list(takewhile(lambda text: not text.startswith("-"), unparsed))
        if self._open.nargs == "?":
            behind = behind[: getattr(options, self._open.dest) is None]
        convert = self._open.type if callable(self._open.type) else str
        try:
            values = list(map(convert, behind))
        except argparse.ArgumentTypeError as error:
            self.error(f"argument {self._open.metavar}: {error}")
        if values:
            value = getattr(options, self._open.dest)
            setattr(options, self._open.dest, values[0] if self._open.nargs == "?" else [*value, *values])
        return options, unparsed[len(behind) :]

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and where the usage stands."""
        lines = " ".join(message.split("\n"))
        self.exit(2, f"{self.prog}: error: {printable(lines)} (usage: {self.prog} --help)\n")


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return the type of whole numbers from `least` to `most`."""

    def number(text: str) -> int:
        digits = text.strip()
        value = int(digits) if len(digits) <= 20 and digits.removeprefix("-").isdecimal() else None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {most}, got {text[:40]!r}")
        return value

    return number


EPOCH = whole(0, 10**9 - 1)
SEED = whole(0, 2**32 - 1)
"""JAX has keys of 32 bits unless its 64-bit mode is on: larger seeds would silently be smaller ones."""
COUNT = whole(1, 1_000_000)


def finite(text: str) -> float:
    """Return a number that is neither infinite nor NaN."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a number, got {text[:40]!r}")
    return value


def tolerance(text: str) -> float:
    """Return a finite number from 0."""
    value = finite(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a number from 0, got {text[:40]!r}")
    return value


def text_of(what: str) -> Callable[[str], str]:
    """Return the type of texts that name a file: not empty, without NUL characters."""

    def checked(text: str) -> str:
        if not text or "\0" in text:
            raise argparse.ArgumentTypeError(f"expected the name of a {what}, got {text[:40]!r}")
        return text

    return checked


def file_path(text: str) -> Path:
    """Return the path of a file."""
    return Path(text_of("file")(text))
