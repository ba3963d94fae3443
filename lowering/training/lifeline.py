"""A connection from every process to process 0, which is JAX's coordinator: who was lost is known when it breaks.

JAX's own client ends a process within milliseconds of its coordinator's death, with a message that names nobody. The
system closes a dead process's connections in the same instant: a thread that waits for that says who was lost, and ends
the process first, where the application asked for it (`fit(..., exit_when_lost=True)`). Where no connection can be made
(a firewall that lets only JAX's port through), JAX's way stays.
"""

from __future__ import annotations

import atexit
import hmac
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax

from lowering.native.unpromised import distributed_state

_KEY = "symjax_nnvm/lifeline"
_GOOD_BYE = b"."
_SECONDS = 5.0
"""Patience with a connection that is being made."""

_MINUTES_MS = 600_000
"""Milliseconds in which process 0 begins its first run after this one has."""

_begun = False


def coordinator() -> Any:
    """JAX's client of the store that all processes share, or None."""
    return getattr(distributed_state(), "client", None)


def connect_to_coordinator(me: int, size: int, last_words: Callable[[str], str]) -> None:
    """Hold the line to process 0 from now on; once in a process.

    last_words: what to print before this process ends, of who process 0 was.
    """
    global _begun
    if _begun:
        return
    _begun = True
    if me == 0:
        _hold_the_ends(size)
    else:
        threading.Thread(target=_wait_for_the_end, args=(last_words,), name="lifeline", daemon=True).start()


def about_me() -> str:
    """What the other processes call this one."""
    return f"pid {os.getpid()} on {socket.gethostname()}"


# -- process 0 ---------------------------------------------------------------------------------------------------------


def _hold_the_ends(size: int) -> None:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        server = socket.create_server(("", 0), family=family, backlog=size, dualstack_ipv6=both)
    except OSError:
        return  # the others wait for a port in vain, and go on without
    token, ends = secrets.token_hex(16), list[socket.socket]()
    threading.Thread(target=_accept, args=(server, token, ends), name="lifeline", daemon=True).start()
    atexit.register(_say_good_bye, ends)
    with suppress(jax.errors.JaxRuntimeError):
        coordinator().key_value_set(_KEY, f"{server.getsockname()[1]} {token} {about_me()}")


def _accept(server: socket.socket, token: str, ends: list[socket.socket]) -> None:
    """Keep the connections of who knows the token."""
    while True:
        with suppress(OSError):
            connection, _ = server.accept()
            connection.settimeout(_SECONDS)
            if hmac.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token.encode()):
                ends.append(connection)


def _say_good_bye(ends: list[socket.socket]) -> None:
    for connection in ends:
        with suppress(OSError):
            connection.sendall(_GOOD_BYE)


# -- the others --------------------------------------------------------------------------------------------------------


def _wait_for_the_end(last_words: Callable[[str], str]) -> None:
    try:
        port, token, who = coordinator().blocking_key_value_get(_KEY, _MINUTES_MS).split(" ", 2)
        host = distributed_state().coordinator_address.rpartition(":")[0].strip("[]")
        message = f"{last_words(who)}\n".encode()
        connection = _connection(host, int(port), token)
        host = connection.getpeername()[0]  # no name to look up when time is short
    except (jax.errors.JaxRuntimeError, OSError, AttributeError):
        return  # nobody listens, or there is no way there, or JAX has ended
    while _broke(connection) and coordinator() is not None:
        try:  # a router may have cut a line that was quiet for long: then process 0 is still there
            connection = _connection(host, int(port), token)
        except OSError:
            os.write(2, message)  # at once: JAX's message comes within milliseconds
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(1)


def _connection(host: str, port: int, token: str) -> socket.socket:
    connection = socket.create_connection((host, port), _SECONDS)
    connection.sendall(token.encode())
    connection.settimeout(None)
    return connection


def _broke(connection: socket.socket) -> bool:
    """Wait. Whether the line broke before a good-bye."""
    with connection:
        try:
            return connection.recv(1) != _GOOD_BYE
        except OSError:
            return True
