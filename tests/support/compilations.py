"""What JAX traces and XLA compiles while a test runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def compilations() -> Iterator[list[str]]:
    """What XLA is asked to compile meanwhile."""
    seen: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.endswith(("backend_compile_duration", "jaxpr_trace_duration")):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
