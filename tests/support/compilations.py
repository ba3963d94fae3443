"""What JAX traces and XLA compiles while a test runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def compilations(traces: bool = True) -> Iterator[list[str]]:
    """What XLA is asked to compile meanwhile, and what JAX traces unless that is left out."""
    events = ("backend_compile_duration", "jaxpr_trace_duration") if traces else "backend_compile_duration"
    seen: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.endswith(events):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
