"""A child process for printed modules, one for all tests of this folder in a worker."""

from collections.abc import Iterator

import pytest

from tests.support.printed import Child


@pytest.fixture(scope="session")
def child() -> Iterator[Child]:
    process = Child()
    yield process
    process.close()
