"""Outputs in a `.npz` file: every array under a name that is a safe file name, wherever the archive is unpacked."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import IO

import numpy as np

_UNSAFE = re.compile(r"[^\w.+-]|\.{2,}|^\.")
_MAX_NAME = 120  # characters; most systems take 255 bytes


def member_names(names: Iterable[str]) -> dict[str, str]:
    """Name → the name of the archive's member, without `.npy`: the name itself where it is one file's everywhere.

    Separators, control characters, and what systems read in other ways become `_`; two that come to be alike, capitals
    apart or not, are numbered.
    """
    stems = {name: _UNSAFE.sub("_", name)[:_MAX_NAME] or "output" for name in names}
    taken: set[str] = set()
    members = dict(stems)
    for name in sorted(stems, key=lambda name: stems[name] != name):  # names that are safe keep themselves
        number = 1
        while members[name].lower() in taken:
            number += 1
            members[name] = f"{stems[name]}_{number}"
        taken.add(members[name].lower())
    return members


def write_npz(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name as `numpy.savez` does, which has arguments of its own that a name may not have: `file`."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, member in member_names(arrays).items():
            with archive.open(f"{member}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(arrays[name]), allow_pickle=False)
