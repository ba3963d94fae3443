"""What a refusal must say."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(kind: type[BaseException], *words: str) -> Iterator[None]:
    """A block that raises such an error, whose message has all of the words."""
    with pytest.raises(kind) as error:
        yield
    message = str(error.value)
    assert not [word for word in words if word not in message], message
