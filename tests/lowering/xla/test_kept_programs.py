"""What is compiled and kept for the next start."""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

import lowering
from lowering.xla import kept_programs
from symjax_nnvm.io.files import cache_folder
from tests.support import warm

SCRIPT = """
import mxnet as mx, lowering
from jax import monitoring
hits = []
monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
with lowering.effort("full"):
    net = mx.gluon.nn.HybridSequential()
    for _ in range(4):
        net.add(mx.gluon.nn.Dense(8), mx.gluon.nn.LayerNorm())
    net.initialize()
    net.hybridize()
    with mx.autograd.record():
        loss = net(mx.nd.ones((5, 4))).sum()
    loss.backward()
    loss.wait_to_read()
print(len(hits))
"""


@pytest.fixture
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")  # so that it is put back if it was not there
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.usefixtures("as_before")
def test_programs_are_kept_in_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = lowering.keep_programs()
    assert folder.is_dir()
    assert folder == cache_folder() / "programs" == tmp_path / "symjax-nnvm" / "programs"
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(folder) == jax.config.jax_compilation_cache_dir  # pyright: ignore
    assert lowering.keep_programs() == folder
    assert lowering.keep_programs(tmp_path / "own") == tmp_path / "own"


@pytest.mark.usefixtures("as_before")
def test_programs_read_longest_ago_are_forgotten_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_programs, "_MOST", 250)
    for i, name in enumerate(["thesis.tex", "0-cache", "1-cache", "2-cache", "3-cache"]):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1000 + i, 1000 + i))
    lowering.keep_programs(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2-cache", "3-cache", "thesis.tex"]


@pytest.mark.usefixtures("as_before")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # root may write to all
    before = jax.config.jax_compilation_cache_dir  # pyright: ignore
    with pytest.raises(PermissionError, match="Nothing can be written") as caught:
        lowering.keep_programs(tmp_path)
    assert caught.value.filename == str(tmp_path)
    assert jax.config.jax_compilation_cache_dir == before  # pyright: ignore


@pytest.mark.slow("starts processes")
def test_a_second_run_of_a_script_compiles_nothing(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    here = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    here |= dict.fromkeys(("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"), str(tmp_path)) | {"JAX_PLATFORMS": "cpu"}

    def hits(*words: str) -> int:
        return int(warm.run(["-m", "lowering.mx", *words, str(script)], env=here).stdout)

    assert hits() == 0
    assert hits() > 0
    assert hits("--no-cache") == 0
