"""Which errors are of memory, and who tells them in the library's words."""

from collections.abc import Callable
from typing import Any

import jax
import pytest

from lowering import mx
from lowering.training.inputs import Inputs
from lowering.training.tracking import Tracker
from lowering.xla.out_of_memory import is_of_memory, read
from symjax_nnvm.errors import OutOfMemoryError

EXHAUSTED = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("Unable to allocate 99 bytes"), True),
        (EXHAUSTED, True),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: CUDA_ERROR"), True),
        (jax.errors.JaxRuntimeError("INTERNAL: Out of memory while trying to allocate"), True),
        (jax.errors.JaxRuntimeError("INTERNAL: YNNPACK operation failed"), True),
        (jax.errors.JaxRuntimeError("INTERNAL: no such file"), False),
        (ValueError("RESOURCE_EXHAUSTED: quota"), False),
        (OutOfMemoryError("told before: RESOURCE_EXHAUSTED"), False),
    ],
)
def test_errors_of_memory_are_told_from_others(error: Exception, expected: bool):
    assert is_of_memory(error) is expected


class Unallocated:
    """A result that has no memory, as JAX tells whoever waits for it or reads it."""

    def block_until_ready(self) -> Any:
        raise jax.errors.JaxRuntimeError(str(EXHAUSTED))

    __array__ = __float__ = lambda self, *_, **__: self.block_until_ready()


def tracker(**fields: Any) -> Tracker:
    made = Tracker("accuracy", Inputs(("data",), ("label",), {}), ["out"])
    vars(made).update(fields)
    return made


def metric() -> Any:
    made: Any = mx.metric.Accuracy()
    made._state = dict.fromkeys(made._state, Unallocated())
    return made


READS: dict[str, Callable[[], Any]] = {
    "an array": lambda: read(Unallocated()),  # pyright: ignore[reportArgumentType]
    "results": lambda: tracker(_states=[Unallocated()]).results(),
    "whether they are finite": lambda: tracker(_first_bad=Unallocated()).check_finite(0, 0),
    "numbers of classes": lambda: tracker(_outside=Unallocated()).check_numbers(0, 0),
    "get": lambda: metric().get(),
    "get_global": lambda: metric().get_global(),
    "reset_local": lambda: metric().reset_local(),
}


@pytest.mark.parametrize("what", READS)
def test_who_reads_what_has_no_memory_is_told_so(what: str):
    with pytest.raises(OutOfMemoryError, match="more memory than there is.*99 bytes"):
        READS[what]()
