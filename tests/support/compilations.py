"""What JAX traces and XLA compiles while a test runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def compilations(traces: bool = True) -> Iterator[list[str]]:
    """What this thread asks XLA to compile meanwhile, and what JAX traces unless that is left out, by function."""
    events = ("backend_compile_duration", "jaxpr_trace_duration") if traces else "backend_compile_duration"
    seen: list[str] = []
    thread = threading.get_ident()  # a thread that another test began may compile on

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.endswith(events) and threading.get_ident() == thread:
            seen.append(f"{event.rpartition('/')[2]} {kwargs.get('fun_name', '')}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
