"""`run` and `verify` keep what XLA compiled where the user has asked JAX to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TWICE = """
import sys
from symjax_nnvm.cli import main
for command in (["run", sys.argv[1], "random"], ["verify", sys.argv[1]]):
    assert main([*command, "--shape", "data=2,1,8,8"]) == 0
"""


@pytest.mark.nightly("processes that compile")
@pytest.mark.slow("two processes that compile")
def test_the_second_time_nothing_is_compiled(net: Path, tmp_path: Path):
    folder = tmp_path / "compiled"
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PLATFORMS": "cpu",
    }
    kept = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", _TWICE, str(net)], env=environment, check=True, capture_output=True)
        kept.append({path.name for path in folder.iterdir() if path.name.endswith("-cache")})
    assert any(name.startswith("jit_softmax") for name in kept[0]), sorted(kept[0])  # what `run` runs
    assert len(kept[0]) > 5
    assert kept[1] == kept[0]
