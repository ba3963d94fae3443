"""Every kind of save, killed and on a full disk: what is there is the old content or the new."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interrupted_saves import KINDS, CommandFailedError, contents, kill_many_times, server

of_jax = pytest.mark.slow("starts processes")
with_jax = [pytest.param(name, marks=of_jax) if kind.uses_jax else name for name, kind in KINDS.items()]


@pytest.fixture(scope="module")
def process() -> Iterator[subprocess.Popen[str]]:
    with server() as started:
        yield started


@pytest.mark.nightly("every case", but_one_in=6)
@pytest.mark.slow("has many cases")
@pytest.mark.xdist_group("interrupted saves")
@pytest.mark.parametrize("name", with_jax)
def test_a_killed_save_leaves_the_old_file_or_the_new(name: str, process: subprocess.Popen[str], tmp_path: Path):
    count = kill_many_times(process, name, 4, tmp_path)
    assert not count.broken
    assert count.writing >= 2  # every second kill waits for a write


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    place = tmp_path / "small"
    place.mkdir()
    try:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    except FileNotFoundError:
        pytest.skip("no mount here; test_files.py has the same with RLIMIT_FSIZE")
    if done.returncode:
        pytest.skip("this machine lets us mount nothing; test_files.py has the same with RLIMIT_FSIZE")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("name", with_jax)
def test_a_full_file_system_leaves_the_old_files(name: str, small_disk: Path):
    kind = KINDS[name]
    kind.save(small_disk, 0)
    before = contents(kind, small_disk)
    names = set(os.listdir(small_disk))
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while file.tell() < 8 << 20:  # to the last page
            try:
                file.write(bytes(4096))
            except OSError:
                break
    with pytest.raises(
        (OSError, CommandFailedError), match=r"No space left on device \((nothing was changed|a file is)"
    ):
        kind.save(small_disk, 1)
    assert contents(kind, small_disk) == before
    assert set(os.listdir(small_disk)) == names | {"filler"}
    filler.unlink()
    kind.save(small_disk, 1)
    assert contents(kind, small_disk) != before
    assert set(os.listdir(small_disk)) == names
