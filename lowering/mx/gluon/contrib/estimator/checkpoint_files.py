"""Files of an Estimator's checkpoints in a folder: written, found, loaded, and the older ones removed."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from symjax_nnvm.io.files import StrPath

_ENDINGS = (".params", ".states")
_NUMBERED = re.compile(r"epoch([0-9]+)batch([0-9]+)\.params")


class CheckpointFiles:
    """The checkpoints of a prefix. most: how many are kept of those that it writes: the best one, and what was in the
    folder before, count for none."""

    def __init__(self, folder: StrPath, prefix: str, most: int):
        os.makedirs(folder, exist_ok=True)
        self._folder, self._prefix, self._most = Path(folder), prefix, most
        self.names: list[str] = []

    def path(self, ending: str) -> str:
        """Return the path of a file of the prefix."""
        return str(self._folder / f"{self._prefix}-{ending}")

    def _name(self, epoch: int, batch: int) -> str:
        return f"{self._prefix}-epoch{epoch}batch{batch}"

    def _save(self, estimator: Any, name: str) -> None:
        estimator.net.save_parameters(str(self._folder / f"{name}.params"))
        estimator.trainer.save_states(str(self._folder / f"{name}.states"))

    def save_best(self, estimator: Any) -> None:
        """Write the best checkpoint."""
        self._save(estimator, f"{self._prefix}-best")

    def save(self, estimator: Any, epoch: int, batch: int) -> str:
        """Write a checkpoint, and remove the oldest if there are too many; its name."""
        name = self._name(epoch, batch)
        self._save(estimator, name)
        self.names = [*(other for other in self.names if other != name), name]
        while len(self.names) > self._most:
            oldest = self.names.pop(0)
            for ending in _ENDINGS:
                with suppress(FileNotFoundError):
                    (self._folder / f"{oldest}{ending}").unlink()
        return name

    def latest(self) -> tuple[int, int] | None:
        """Epoch and batch of the latest checkpoint that has both files; None where there is none."""
        head = f"{self._prefix}-"
        names = [path.name.removeprefix(head) for path in self._folder.iterdir() if path.name.startswith(head)]
        matches = [match for name in names if (match := _NUMBERED.fullmatch(name))]
        numbers = sorted((int(match[1]), int(match[2])) for match in matches)
        whole = [pair for pair in numbers if (self._folder / f"{self._name(*pair)}.states").exists()]
        return whole[-1] if whole else None

    def load(self, estimator: Any, epoch: int, batch: int) -> None:
        """Take a checkpoint's parameters and states."""
        name = self._name(epoch, batch)
        estimator.net.load_parameters(str(self._folder / f"{name}.params"), ctx=estimator.context)
        estimator.trainer.load_states(str(self._folder / f"{name}.states"))
