"""`mx.log`: loggers with MXNet's format on a terminal."""

from __future__ import annotations

import logging
import warnings
from logging import CRITICAL as CRITICAL
from logging import DEBUG as DEBUG
from logging import ERROR as ERROR
from logging import INFO as INFO
from logging import NOTSET as NOTSET
from logging import WARNING as WARNING

from symjax_nnvm.io.files import path_text

_LETTERS = {CRITICAL: "C", ERROR: "E", WARNING: "W", INFO: "I", DEBUG: "D"}
_RED, _GREEN, _BLUE, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[34m", "\x1b[0m"


class _Formatter(logging.Formatter):
    """Writes a coloured letter for the level, the time, the process and the place, before the message."""

    def __init__(self):
        super().__init__(datefmt="%m%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        level = record.levelno
        color = _RED if level >= WARNING else _GREEN if level >= INFO else _BLUE
        time = self.formatTime(record, self.datefmt)
        place = f"{record.process} {record.pathname}:{record.funcName}:{record.lineno}"
        return f"{color}{_LETTERS.get(level, 'U')}{time} {place}]{_PLAIN} {record.getMessage()}"

    def usesTime(self) -> bool:
        """Return that it does."""
        return True


def get_logger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """Return a logger. A logger with a name gets a handler and the level when it is first returned: for the terminal,
    or for a file, which is appended to unless filemode is another. Raises OSError."""
    logger = logging.getLogger(name)
    if name is not None and not getattr(logger, "_init_done", None):
        logger._init_done = True  # pyright: ignore[reportAttributeAccessIssue]
        if filename:
            handler: logging.Handler = logging.FileHandler(path_text(filename, "filename"), filemode or "a")
        else:
            handler = logging.StreamHandler()
            handler.setFormatter(_Formatter())
        logger.addHandler(handler)
        logger.setLevel(level)
    return logger


def getLogger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """`get_logger`, with a DeprecationWarning."""
    warnings.warn("getLogger is deprecated, Use get_logger instead.", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)
