"""A small model in files: a copy of one that MXNet 1.9.1 wrote, in a folder of its own."""

import shutil
from pathlib import Path

import pytest

FILES = Path(__file__).parents[1] / "goldens" / "files"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """The prefix of `net-symbol.json` and `net-0003.params`: convolution, batch norm, dense layer, softmax."""
    for name in ("net-symbol.json", "net-0003.params", "net_expected.npz"):
        shutil.copy(FILES / name, tmp_path / name)
    return tmp_path / "net"
